"""Words that stand alone, and forms that many messages share."""

#: Single words, translated only where a pattern asks for it: elsewhere they may be names.
WORDS: dict[str, str] = {
    "before": "前面", "behind": "后面", "in front of": "前面", "input": "输入", "output": "输出", "node": "节点",
    "operator": "算子", "tensor": "张量", "key": "键", "bytes": "字节", "values": "值", "value": "值",
    "configuration": "配置", "reached": "已达到", "not reached": "未达到", "stopped before": "中途停止",
    "prepare": "准备模型", "optimize": "图优化", "place": "算子放置", "calibrate": "校准", "search": "搜索校准方法",
    "confirm": "确认", "rank": "排序", "convert": "转换为整数模型", "compare": "与浮点模型比较", "compile": "编译",
    "estimate": "性能预估", "check": "模型检查", "simulate": "仿真", "what-if": "假设分析", "tune": "调优",
    "sensitivity": "敏感度", "export": "导出", "debug": "精度调试", "doctor": "诊断", "text": "文本",
    # causes of ptqlab/debug/causes.py
    "zero or constant": "全零或恒定", "wrong calibration data": "校准数据不符", "mask value": "掩码值",
    "constant row": "近似恒定的行", "clipped": "截断", "unbalanced concat": "Concat 各分支幅值悬殊",
    "unbalanced add": "Add 两个操作数幅值悬殊", "outlier channel": "离群通道", "dead range": "量化范围浪费",
    "bias overflow": "偏置溢出", "weight spread": "权重幅值悬殊", "too few bits": "位宽不足",
    "integer index": "整数索引", "mean shift": "均值偏移",
    # columns of pages; those of the vendor's tables stay
    "step": "步骤", "what": "内容", "kept": "保留", "gain (dB)": "提升 (dB)", "latency (us)": "延时 (us)",
    "added (us)": "增加 (us)", "int16 tensors": "int16 张量", "memory": "内存",
    # what decides on the time of a layer
    "vector": "向量单元", "commands": "指令下发",
    # the operator table
    "active": "主动量化", "passive": "被动量化", "float": "浮点", "documented": "有文档", "log": "日志",
    "our definition": "ptqlab 自行定义",
}

PAIRS: tuple[tuple[str, str], ...] = (
    # ptqlab/errors.py
    ("found", "实际"), ("expected", "允许"), ("do", "建议"),
    ("1 problem", "1 个问题"), ("{n} problems", "{n} 个问题"),
    ("{title}: 1 problem", "{title|word}：1 个问题"), ("{title}: {n} problems", "{title|word}：{n} 个问题"),
    ("{n} of {total}", "{n}/{total}"),
    # lists and counts
    ("{items} and {n} more", "{items} 等另外 {n} 个"), ("{items}, and {n} more", "{items} 等另外 {n} 个"),
    ("{items} and more", "{items} 等"),
    ("{n} inputs", "{n} 个输入"), ("{n} input", "{n} 个输入"), ("{n} outputs", "{n} 个输出"),
    ("{n} output", "{n} 个输出"), ("{n} attributes", "{n} 个属性"), ("{n} entries", "{n} 项"), ("1 entry", "1 项"),
    ("{n} tensors", "{n} 个张量"), ("{n} tensor", "{n} 个张量"), ("{n} nodes", "{n} 个节点"),
    ("{n} samples", "{n} 个样本"), ("{n} products", "{n} 个乘积"),
    ("{n} bytes", "{n} 字节"), ("{n} values", "{n} 个值"),
    ("{n} cells", "{n} 个单元格"), ("{n} inputs for {op_type}", "{op_type} 有 {n} 个输入"),
    ("{n} outputs for {op_type}", "{op_type} 有 {n} 个输出"), ("{n} input for {op_type}", "{op_type} 有 {n} 个输入"),
    ("{n} output for {op_type}", "{op_type} 有 {n} 个输出"), ("{n} entries for {inputs}", "{inputs}写了 {n} 项"),
    ("1 entry for {inputs}", "{inputs}写了 1 项"), ("at least {n} inputs", "至少 {n} 个输入"),
    ("at least {n} input", "至少 {n} 个输入"), ("at least {n} outputs", "至少 {n} 个输出"),
    # values and kinds
    ("nothing", "空"), ("text", "文本"), ("a path", "路径"), ("a folder", "目录"), ("a mapping", "映射"),
    ("a number{span}", "数{span}"), ("a mapping{x}", "映射{x}"), ("a value", "值"), ("a file", "文件"),
    ("once", "一次"), ("both", "两者"), ("JSON", "JSON"),
    ("a list", "列表"), ("one of {names}", "{names} 之一"), ("known: {some}", "已知的名称：{some}"),
    ("(absent)", "（缺失）"), ("the list {items}", "列表 {items}"),
    # ptqlab/config/fields.py and loading.py, put together there
    ("{key} is deprecated and has no effect", "{key} 已弃用，不起作用"),
    ("{key} is deprecated and only tells the type of raw .bin samples; npy files know their own",
     "{key} 已弃用，只用来说明裸 .bin 样本的类型；npy 文件自带类型"),
    ("{key} has no effect in ptqlab: custom operators are not run", "{key} 在 ptqlab 中不起作用：不运行自定义算子"),
    ("{key} is kept for the vendor's tool; neither the numbers nor the estimate of ptqlab depend on it",
     "{key} 为厂商工具保留；ptqlab 的数值和性能预估都与它无关"),
    # put together of two in ptqlab/quantize/options.py and ptqlab/pipeline
    ("tensor {slot} (node {nodes})", "张量 {slot}（节点 {nodes}）"),
    ("{first} and {n} more got {granted} ({reason})", "{first} 等另外 {n} 个得到 {granted}（{reason}）"),
    ("{first} and {n} more run in {granted} ({reason})", "{first} 等另外 {n} 个以 {granted} 运行（{reason}）"),
    ("{first} got {granted} ({reason})", "{first} 得到 {granted}（{reason}）"),
    ("{first} run in {granted} ({reason})", "{first} 以 {granted} 运行（{reason}）"),
    ("S100 is nash-e, S100P is nash-m, S600 is nash-p", "S100 即 nash-e，S100P 即 nash-m，S600 即 nash-p"),
    ("Steps", "步骤"), ("warning", "警告"), ("note", "说明"),
    ("{given} is {path} (from the current directory)", "{given} 即 {path}（相对于当前目录）"),
    ("{given} is {path} (from the folder of the YAML)", "{given} 即 {path}（相对于 YAML 所在目录）"),
    ("{names}, or any key of the YAML", "{names}，或 YAML 的任意键"), ("holds {values}", "含有 {values}"),
    ("write input_shape: {example} with a number for each N", "写 input_shape: {example}，每个 N 换成数字"),
    ("{verb}, or {again} -o FILE.html writes a page", "{verb}，或用 {again} -o FILE.html 写成网页"),
    # what the operating system says
    ("No such file or directory", "没有这个文件或目录"), ("Permission denied", "没有权限"),
    ("Not a directory", "不是目录"),
    ("Is a directory", "是目录"), ("No space left on device", "磁盘空间不足"), ("File name too long", "文件名过长"),
    ("Read-only file system", "文件系统只读"),
    # what the YAML parser says
    ('{problem} in "{line}"', '{problem}，在 "{line|any}" 中'),
    ("mapping values are not allowed here", "此处不能是映射（多了冒号，或缩进不对）"),
    ("found character {c} that cannot start any token", "{c} 不能用作开头"),
    ("found undefined alias {name}", "没有定义的别名 {name}"),
    ("found unexpected end of stream", "文本没有结束就到了文件末尾"),
    ("could not find expected ':'", "缺少 ':'"), ("but found another document", "文件中有多个文档"),
    ("expected <block end>, but found {what}", "此处应结束，却有 {what}"),
    ("samples that did not set the steps came out no better with them", "在未参与确定步长的样本上并没有更好"),
    # places
    ("keyword  {path}", "关键字  {path}"), ("keyword", "关键字"),
    # argparse
    ("positional arguments", "位置参数"), ("options", "选项"), ("show this help message and exit", "显示帮助并退出"),
    ("show program's version number and exit", "显示版本并退出"),
    ("{prog}: the following arguments are required: {names}", "{prog}：缺少参数：{names}"),
    ("{prog}: unrecognized arguments: {names}", "{prog}：无法识别的参数：{names}"),
    ("{prog}: argument {name}: invalid choice: {value} (choose from {names})",
     "{prog}：参数 {name} 不能取 {value}（可选：{names}）"),
    ("{prog}: argument {name}: expected one argument", "{prog}：参数 {name} 需要一个值"),
    ("{prog}: argument {name}: expected at least one argument", "{prog}：参数 {name} 至少需要一个值"),
    ("{prog}: argument {name}: expected {n} arguments", "{prog}：参数 {name} 需要 {n} 个值"),
    ("{prog}: argument {name}: invalid {_kind} value: {value}", "{prog}：参数 {name} 的值不对：{value}"),
    ("{prog}: argument {name}: not allowed with argument {other}", "{prog}：参数 {name} 不能与 {other} 同时使用"),
    ("{prog}: one of the arguments {names} is required", "{prog}：参数 {names} 至少给出一个"),
    ("{prog}: argument {name}: {problem}", "{prog}：参数 {name}：{problem}"),
)

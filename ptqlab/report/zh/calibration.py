"""Thresholds and integers (ptqlab/quantize)."""

PAIRS: tuple[tuple[str, str], ...] = (
    # ptqlab/quantize/balance.py
    ("{tensor} reaches {largest}, {largest2} codes, {largest3} at best",
     "{tensor} 达到 {largest}，占 {largest2} 个整数值，最多可占 {largest3} 个"),
    ("{op_type} {name}: its operands share the threshold {threshold}, which leaves the small ones almost "
     "nothing: {branches}",
     "{op_type} {name}：所有操作数共用阈值 {threshold}，数值小的分支几乎没有分辨率：{branches}"),
    ("int16 on this node, or let the branches leave the model without it: the cosine of the joined tensor "
     "hides the small branch",
     "该节点用 int16，或让各分支不经过它直接输出：拼接后张量的余弦会掩盖数值小的分支"),
    # ptqlab/quantize/channels.py
    ("operators that only move data share it", "只搬运数据的算子与它共用阈值"),
    ("no operator on the BPU writes it", "没有 BPU 算子写出它"),
    ("{op_type} writes it, which has one step for all channels", "由 {op_type} 写出，所有通道共用一个步长"),
    ("a residual is added to it", "有残差加到它上面"),
    ("it is an output of the model", "它是模型的输出"),
    ("{name} ({op_type}) reads it with one step for all channels", "{name}（{op_type}）以所有通道共用一个步长读取它"),
    # ptqlab/quantize/confirm.py
    ("one step for all channels:", "所有通道共用一个步长："),
    ("a reader takes one step for all channels", "有读取者只接受所有通道共用一个步长"),
    ("one step for all channels: samples that did not set the steps came out no better with them",
     "所有通道共用一个步长：在未参与确定步长的样本上，逐通道并没有更好"),
    # ptqlab/quantize/correction.py
    ("correct biases", "校正偏置"),
    # ptqlab/quantize/diagnosis.py
    ("{search} search on {samples} samples: below {few_for_search} near ties are decided by the noise of the "
     "samples",
     "{search} 搜索只用了 {samples} 个样本：少于 {few_for_search} 个时，相近的候选由样本噪声决定"),
    ("use more samples, or name the method", "使用更多样本，或直接指定校准方法"),
    ("channel {worst} reaches {ratio} times as far as the middle one", "通道 {worst} 的幅值是中间通道的 {ratio} 倍"),
    ("{count} reach differently far in the two halves of the samples: {named}",
     "{count}在前后两半样本中的幅值不同：{named}"),
    ("use more and more varied samples; a method that ignores outliers (max_percentile, mse, kl) is steadier",
     "使用更多、更多样的样本；忽略离群值的方法（max_percentile、mse、kl）更稳定"),
    ("more than a percent of the values lie outside of the range of {count}: {named}",
     "{count}有超过 1% 的值超出范围：{named}"),
    ("a larger max_percentile, or mse, cuts less", "更大的 max_percentile 或 mse 截断得更少"),
    ("all but a thousandth of the values of {count} lie within {few_codes} codes of zero: {named}",
     "{count}除千分之一以外的值都落在零附近的 {few_codes} 个整数值以内：{named}"),
    ("int16 for the readers, or a method that cuts the few large values (max_percentile, kl)",
     "读取者用 int16，或使用截断少数大值的方法（max_percentile、kl）"),
    ("one channel takes the codes from the others in {count}: {named}",
     "{count}被一个通道占去了其他通道的整数值：{named}"),
    ("int16 for the readers of the tensor", "该张量的读取者用 int16"),
    ("{count} never change sign, so a symmetric threshold leaves half of their codes unused: {named}",
     "{count}从不变号，对称阈值使一半的整数值用不到：{named}"),
    ("where accuracy is too low, asymmetric: true is the first thing to try", "若精度不足，首先尝试 asymmetric: true"),
    # ptqlab/quantize/encode.py
    ("weights or bias of {named} hold NaN or Inf; those numbers count as 0",
     "{named} 的权重或偏置中有 NaN 或 Inf；这些数按 0 处理"),
    ("look at the float model: it was exported broken, or its training diverged",
     "检查浮点模型：导出有误，或训练已发散"),
    ("and {n_wide} more operators", "等另外 {n_wide} 个算子"),
    ("{values} channels have a bias that does not fit 32 bits beside weights this small; their weight scale "
     "was widened, so that their weights use fewer codes: {named}{more}",
     "{values} 个通道的权重过小，其偏置放不进 32 位；已加大它们的权重 scale，因此权重使用的整数值变少：{named}"
     "{more}"),
    ("channels with almost no weights (pruned, or left over from folding a BatchNormalization) lose nothing "
     "by it",
     "权重几乎为零的通道（被剪枝，或折叠 BatchNormalization 后剩下的）不会因此损失精度"),
    # ptqlab/quantize/load.py
    ("The thresholds cannot be loaded", "无法加载阈值"),
    ("there is no such file", "没有这个文件"),
    ("a .json or .onnx file with thresholds", "含阈值的 .json 或 .onnx 文件"),
    ("a file that ends in {suffix}", "以 {suffix} 结尾的文件"),
    (".json or .onnx", ".json 或 .onnx"),
    ("no thresholds in it", "其中没有阈值"),
    ("tensors with thresholds", "带阈值的张量"),
    ("thresholds, a few bytes per tensor", "阈值（每个张量只占几个字节）"),
    ("not JSON: {error}", "不是 JSON：{error|any}"),
    ("an object of tensors", "由张量组成的 JSON 对象"),
    ("a positive number T, or [low, high] with low <= 0 <= high", "正数 T，或 [low, high] 且 low <= 0 <= high"),
    ("no ONNX model: {error}", "不是 ONNX 模型：{error|any}"),
    ("an ONNX model", "ONNX 模型"),
    ("{path}: node {node}", "{path}：节点 {node}"),
    ("one scale per tensor", "每个张量一个 scale"),
    ("its scale is computed", "它的 scale 不是常量"),
    ("scale {step}", "scale 为 {step}"),
    ("{where}: {n_strange} thresholds are of no tensor that is quantized here: {named}",
     "{where}：{n_strange} 个阈值对应的张量在这里不量化：{named}"),
    ("nearest to the first: {near}", "与第一个最接近的名称：{near}"),
    ("{where}: thresholds of {n_by_slot} tensors loaded, {rest} calibrated",
     "{where}：加载了 {n_by_slot} 个张量的阈值，其余 {rest} 个由校准得到"),
    # ptqlab/quantize/options.py
    ("tensor {slot}", "张量 {slot}"),
    ("(node {nodes})", "（节点 {nodes}）"),
    ("the threshold lies beyond the bound {limit} of the Clip computed inside", "阈值超过内部 Clip 的边界 {limit}"),
    ("one step for all channels: {why}", "所有通道共用一个步长：{why}"),
    ("by {node}", "（{node}）"),
    ("{where}: {not_finite} of {count} values are NaN or Inf in the float model; they do not count for the "
     "threshold",
     "{where}：浮点模型的 {count} 个值中有 {not_finite} 个是 NaN 或 Inf；它们不参与阈值计算"),
    ("look at the float model with these samples", "用这些样本检查浮点模型"),
    ("{where} is all zero over all samples; a threshold of {safe_threshold} stands in for the 0 that was seen",
     "{where}在所有样本上全为零；阈值以 {safe_threshold} 代替看到的 0"),
    ("use samples that reach this part of the model, or see whether it is dead",
     "使用能让模型这一部分有输出的样本，或检查这部分是否已失效"),
    ("{where} has a threshold of {value}: int8 steps are {value2} wide",
     "{where}的阈值为 {value}：int8 的步长为 {value2}"),
    ("thresholds this large point at the model (missing normalisation or weight decay); int16 may help",
     "这么大的阈值多半是模型的问题（缺少归一化或权重衰减）；int16 可能有帮助"),
    ("kl is unsteady below {smallest_kl_count} values, and has fewer of {n_counts} tensors: {named}{more}",
     "kl 在少于 {smallest_kl_count} 个值时不稳定，{n_counts} 个张量的值不够：{named}{more}"),
    ("use more samples, or mse or max for these tensors", "使用更多样本，或对这些张量使用 mse 或 max"),
    # ptqlab/quantize/parallel.py
    ("the model's file is not there for this worker", "该工作进程看不到模型文件"),
    ("a folder all workers see", "所有工作进程都能看到的目录"),
    ("let TMPDIR point at a shared folder, or use workers of this machine",
     "让 TMPDIR 指向共享目录，或只使用本机的工作进程"),
    # ptqlab/quantize/recipe.py
    ("{other}: its activation settings do not take effect on tensor {slot}, which {node} reads too: one "
     "tensor has one threshold, and {node2} decides",
     "{other}：它的激活设置对张量 {slot} 不起作用，因为 {node} 也读取该张量：一个张量只有一个阈值，由 {node2} "
     "决定"),
    ("give both nodes the same settings", "两个节点给出相同的设置"),
    # ptqlab/quantize/removal.py
    ("{op_type} {self} at the {side}: {before} -> {after}", "{side|word}的 {op_type} {self}：{before} -> {after}"),
    ("{wish}: no such {x} in the quantized model", "{wish}：量化模型中没有这个{x|word}"),
    ("{wish}: it does not stand alone at an input or output of the graph (other nodes must go first, or share "
     "its tensor)",
     "{wish}：它不是单独位于图的输入或输出处（须先删除其他节点，或它的张量另有用处）"),
    # ptqlab/quantize/sequential.py
    ("correct biases in order", "按顺序校正偏置"),
    # ptqlab/quantize/thresholds.py
    ("{qtype} has more codes than the histogram has bins: nothing is cut off",
     "{qtype} 的整数值比直方图的 bin 还多：没有截断"),
    ("held at percentile {kl_floor}", "以百分位 {kl_floor} 为下限"),
    # ptqlab/quantize/confirm.py
    ("{recipe} was asked for {n_asked} tensors; {n_kept} keep one step for all channels ({named})",
     "对 {n_asked} 个张量要求了 {recipe}；其中 {n_kept} 个仍是所有通道共用一个步长（{named}）"),
)

"""Results, views, widgets and the performance estimate (ptqlab/result, report, widgets, perf)."""

PAIRS: tuple[tuple[str, str], ...] = (
    # ptqlab/result/compiled.py
    ("a file inside the folder of the run", "运行目录中的文件"),
    ("a file name prefix without a folder", "不带目录的文件名前缀"),
    ("{path} is missing", "缺少 {path}"),
    ("the file the run left there", "该次运行留下的文件"),
    ("not compared", "未比较"),
    ("no such folder", "没有这个目录"),
    ("the folder of a compile run", "compile 运行的目录"),
    ("run.save(folder) makes one; a compile run leaves one in its working_dir",
     "run.save(folder) 可生成；compile 运行会在 working_dir 中留下一个"),
    ("no file {pattern}", "没有 {pattern} 文件"),
    ("records of {n_found} models: {names}", "有 {n_found} 个模型的记录：{names}"),
    ("load the file, such as {found}", "指定要加载的文件，例如 {found}"),
    ("cannot be read: {kind}", "无法读取：{kind|any}"),
    ("a number or null", "一个数或 null"),
    ("a list of texts", "文本列表"),
    # ptqlab/result/debugging.py
    ("stopped: {n_values} nodes were measured, not all on every sample",
     "已停止：测量了 {n_values} 个节点，且并非都用了全部样本"),
    # ptqlab/result/doctor.py
    ("samples to look at", "要检查的样本"),
    ("give cal_data_dir, or calibration_data", "给出 cal_data_dir 或 calibration_data"),
    # ptqlab/result/inspecting.py
    ("names of nodes or HzCalibration nodes", "节点或 HzCalibration 节点的名称"),
    # ptqlab/result/looks.py
    ("{held}, the one model in {path}", "{held}，即 {path} 中唯一的模型"),
    ("leave it out", "不必给出"),
    # ptqlab/result/progress.py
    # ptqlab/result/sensitivity.py
    ("Sensitivity of {n_x} nodes", "{n_x} 个节点的敏感度"),
    # ptqlab/result/tuning.py
    ("stopped before", "中止，目标为"),
    ("not reached", "未达到"),
    ("tune: target {metric} {target} {done}", "tune：目标 {metric} {target}，{done|word}"),
    ("best: step {number}, cosine {cosine}, {sqnr} dB, {latency_us} us, {int16} tensors more in int16",
     "最佳：第 {number} 步，余弦 {cosine}，{sqnr} dB，{latency_us} us，int16 张量多 {int16} 个"),
    ("integer model of the best step: cosine {simulated}, {simulated2} dB",
     "最佳步骤的整数模型：余弦 {simulated}，{simulated2} dB"),
    ("written: {folder}/quant_config.json, final_quant_config.json, tuning_report.md",
     "已写入：{folder}/quant_config.json、final_quant_config.json、tuning_report.md"),
    ("latency (us)", "延时 (us)"),
    ("a finite number", "有限的数值"),
    ("samples to calibrate with", "用于校准的样本"),
    ("as configured", "与配置一致"),
    ("bias correction", "偏置校正"),
    ("asymmetric, bias correction", "非对称，偏置校正"),
    ("give another save_dir", "指定其他 save_dir"),
    # ptqlab/result/views.py
    ("last sensitivity", "上一次敏感度"),
    ("last tune", "上一次调优"),
    # ptqlab/perf/layer.py
    ("no layer", "没有层"),
    ("at least one layer", "至少一层"),
    ("two layers named {layer}", "有两层都叫 {layer}"),
    ("one name for each layer", "每层一个名称"),
    ("{n_sources} sources for {n_inputs} inputs", "{n_inputs} 个输入有 {n_sources} 个来源"),
    ("one source for each input", "每个输入一个来源"),
    ("it reads layer {late}, which comes later", "它读取的层 {late} 排在它后面"),
    ("layers in order of execution", "按执行顺序排列的层"),
    ("consumers do not follow from the sources", "消费者与来源不符"),
    ("layers from `linked`", "由 `linked` 得到的层"),
    ("performance estimate", "性能预估"),
    # ptqlab/perf/basis.py
    ("Fitted to {rows} published rows of {rows2} networks on {board}: mean error of the latency {rows3} %, "
     "{rows4} % on families of networks that the fit had not seen (PERFORMANCE.md).",
     "由 {board} 上 {rows2} 个网络的 {rows} 条公开数据拟合：延时平均误差 {rows3} %，对拟合时未见过的网络族为 "
     "{rows4} %（见 PERFORMANCE.md）。"),
    ("No published board row backs {march}: the rates of {base_march} times {target} (TOPS of one core, "
     "documented), DDR times {ratio} ({source}). Compare models and types with it; do not promise it.",
     "{march} 没有公开的板端数据：速率按 {base_march} 乘以 {target}（单核 TOPS，有公开文档），DDR 乘以 {ratio}"
     "（{source}）。可用来比较模型和类型，不要据此作出承诺。"),
    ("{march} is taken for {family} (our definition).", "{march} 按 {family} 处理（ptqlab 自行定义）。"),
    ("int16 features cost twice, dual-int16 four times the MACs of int8; bytes and vector work follow the "
     "bits (our definition: all published rows are int8).",
     "int16 特征的 MAC 开销是 int8 的两倍，dual-int16 是四倍；字节数和向量计算量随位宽变化（ptqlab 自行定义："
     "公开数据都是 int8）。"),
    ("Each core after the first adds {core_gain} % of its speed (guess).",
     "第一个核之后，每个核增加其速度的 {core_gain} %（推测）。"),
    ("Times of operators on the CPU, of conversions and of switches between segments are guesses.",
     "CPU 算子、量化/反量化以及分段切换的耗时均为推测。"),
    # ptqlab/perf/table.py
    ('a header line with "model", then one JSON object for each layer',
     '第一行为含 "model" 的表头，其后每层一个 JSON 对象'),
    ("layer table", "层表"),
    ("at most {most_layers}", "最多 {most_layers} 层"),
    ('no "model" in the first line', '第一行没有 "model"'),
    ("more than {most_bytes} MiB", "超过 {most_bytes} MiB"),
    ("not readable as text: {error}", "无法作为文本读取：{error}"),
    ("a JSON object", "JSON 对象"),
    ("a short text", "短文本"),
    ("a whole number from {least} to 2^50", "{least} 到 2^50 的整数"),
    ("a list of positive whole numbers", "正整数列表"),
    ("a list of shapes", "形状列表"),
    ("a list of whole numbers from {least}", "不小于 {least} 的整数列表"),
    ("the operator's ONNX type", "算子的 ONNX 类型"),
    ("batch, channels and at least one spatial axis", "batch、通道和至少一个空间轴"),
    ("at least one shape", "至少一个形状"),
    # ptqlab/perf/what_if.py
    ("no layer {name}", "没有层 {name}"),
    ("a node or layer of the model", "模型中的节点或层"),
    ("what-if: {name}", "假设分析：{name}"),
    # ptqlab/widgets/assets.py
    ("not found", "未找到"),
    ("a file of an installed wheel", "已安装 wheel 中的文件"),
    ("install ptqlab again: pip install --force-reinstall ptqlab",
     "重新安装 ptqlab：pip install --force-reinstall ptqlab"),
    # ptqlab/widgets/graph.py
    ("no node {name} in this stage", "该阶段没有节点 {name}"),
    ("failed: {x}", "失败：{x}"),
    # ptqlab/report/netron.py
    ("the run left no {stage} model", "该次运行没有留下 {stage} 模型"),
    ("compile without `skip`", "编译时不用 `skip`"),
    # ptqlab/report/netron_assets.py
    ("it is not installed", "没有安装"),
    ("nothing like {pattern}", "没有与 {pattern} 相符的内容"),
    # ptqlab/report/explain.py
    ("a name of the column Node", "Node 列中的名称"),
    ("see run.nodes for the names", "名称见 run.nodes"),
    ("nan: {record}", "nan：{record}"),
    # ptqlab/result/sensitivity.py
    (", quick: fewer samples for nodes that hurt little", "，quick：影响小的节点使用较少的样本"),
    # ptqlab/result/tuner.py
    ("without {x}", "不含 {x}"),
    ("{word} for {nodes}", "{nodes} 用 {word}"),
    # ptqlab/result/tuning.py
    ("tune: no target, the best within the limits", "tune：没有目标，取限制之内的最好结果"),
    ("{dual} operators more with weights in int16, {float16} nodes more in float16",
     "权重为 int16 的算子多 {dual} 个，float16 的节点多 {float16} 个"),
    ("{metrics} or a function", "{metrics} 或一个函数"),
    ("a finite number, or None for the best", "有限的数，或用 None 表示取最好结果"),
    # ptqlab/widgets/grid.py
    ("a setting with an effect", "起作用的设置"),
    ("the text of a JSON file: {...}", "JSON 文件的文本：{...}"),
    # ptqlab/widgets/grid_edits.py
    ("a {level} of the model", "模型中的{level|word}"),
    # ptqlab/widgets/grid_rules.py
    ("{node}: input {index} is no quantized tensor. {reason}", "{node}：输入 {index} 不是量化张量。{reason}"),
    ("{node}: input {index} was asked for {value}, given {given}. {reason}",
     "{node}：输入 {index} 要求 {value}，得到 {given}。{reason}"),
    ("{node} reads no tensor from memory. {reason}", "{node} 没有从内存读取张量。{reason}"),
    ("{node} decides on the threshold of no tensor. {reason}", "{node} 不决定任何张量的阈值。{reason}"),
    # ptqlab/report/timeline.py
    ("an estimate that ptqlab wrote", "由 ptqlab 写出的性能预估"),
    ("{value} is no time", "{value} 不是时间"),
    ("a run without an estimate", "没有性能预估的运行"),
    ("a run that was compiled", "完成编译的运行"),
    ("compile without skip", "编译时不用 skip"),
    # ptqlab/report/operators.py
    ("an operator of the table; what is not listed runs on the CPU", "算子表中的算子；不在表中的算子在 CPU 上运行"),
    ("ptqlab ops lists them", "用 ptqlab ops 列出"),
    # ptqlab/perf/estimate.py
    ("1 to {cores} on {march}", "{march} 上为 1 到 {cores}"),
    # ptqlab/result/layers.py
    ("{metric} of {n_alone} nodes, alone and accumulated", "{n_alone} 个节点的 {metric}，单独量化与累积"),
    # ptqlab/widgets/dashboard_heat.py
    ("no node {wanted} in the heatmap", "热力图中没有节点 {wanted}"),
    # ptqlab/widgets/grid_session.py
    ("other nodes than the run has", "与该次运行不同的节点"),
    ("the model that the run was made of", "生成该次运行的模型"),
)

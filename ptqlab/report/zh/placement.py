"""Why a node runs where it runs (ptqlab/placement)."""

PAIRS: tuple[tuple[str, str], ...] = (
    # ptqlab/placement/capability.py
    ("CPU: {rule} Here: {found}.", "CPU：{rule}此处：{found}。"),
    ("CPU: the configuration asks for it.", "CPU：配置要求放在 CPU 上。"),
    ("BPU ({engine}): integers of the model stay as they are; no type can be asked for.",
     "BPU（{engine}）：模型中的整数保持原样，不能要求类型。"),
    ("int16 weights go with int16 features only: int8 weights are given.",
     "int16 权重只能与 int16 特征配合：采用 int8 权重。"),
    ("dual-int16 sums at most {longest_sum} products, and one output here sums {count}: int16 features with "
     "int8 weights are given.",
     "dual-int16 最多累加 {longest_sum} 个乘积，此处每个输出累加 {count} 个：采用 int16 特征、int8 权重。"),
    ("Input {index} of {op_type} is {only} always: {only2} is given.",
     "{op_type} 的输入 {index} 固定为 {only}：采用 {only2}。"),
    ("CPU: {wanted} was asked for and {march} has no float vector unit, so the node runs in float on the CPU; "
     "int16 keeps it on the BPU.",
     "CPU：要求的是 {wanted}，而 {march} 没有浮点向量单元，因此该节点以浮点在 CPU 上运行；int16 可使它留在 "
     "BPU 上。"),
    ("dual-int16 is a type of Conv, ConvTranspose, MatMul and Gemm only: {best} is given.",
     "dual-int16 只适用于 Conv、ConvTranspose、MatMul 和 Gemm：采用 {best}。"),
    ("{op_type} has no {wanted} on {march}: {best} is given.",
     "{op_type} 在 {march} 上不支持 {wanted}：采用 {best}。"),
    ("The TAE computes in integers: int16 features and int8 weights are given, and {wanted} output.",
     "TAE 以整数计算：采用 int16 特征、int8 权重，输出 {wanted}。"),
    ("gives indices or truth values", "输出的是索引或布尔值"),
    ("runs in the {engine}", "在 {engine} 中运行"),
    ("{op_type} {where} and has no float: {best} is given.", "{op_type} {where}，不支持浮点：采用 {best}。"),
    ("the default type", "默认类型"),
    ("asked for in model_config", "按 model_config 的要求"),
    ("asked for in op_config.{op_type}", "按 op_config.{op_type} 的要求"),
    ("asked for in subgraph_config", "按 subgraph_config 的要求"),
    ("asked for in node_config", "按 node_config 的要求"),
    ("BPU: moves data, and takes type and threshold from its neighbours.",
     "BPU：只搬运数据，类型和阈值取自相邻算子（被动量化）。"),
    ("BPU ({engine}): {origin}.", "BPU（{engine}）：{origin}。"),
    # ptqlab/placement/floats.py
    ("BPU: moves data, and what it reads is {type}.", "BPU：只搬运数据，它读取的是 {type}。"),
    # ptqlab/placement/functions.py
    ("BPU ({engine}): {qtype}, as asked for {decider}, which the same table computes.",
     "BPU（{engine}）：{qtype}，与 {decider} 的要求一致，两者由同一张表计算。"),
    # ptqlab/placement/place.py
    ("Last operator with weights: dual-int16 has no int32 output, so its output is int16.",
     "最后一个带权重的算子：dual-int16 没有 int32 输出，因此输出为 int16。"),
    ("Last operator with weights: its output is {tail_type} at high precision.",
     "最后一个带权重的算子：以 {tail_type} 高精度输出。"),
    ("BPU: computed inside {main}, with no quantizer between.", "BPU：在 {main} 内部计算，中间不再量化。"),
    # ptqlab/placement/regions.py
    ("CPU: it follows {tail}, the last operator with weights, which puts out {type}. Name it in quant_config, "
     "or set model_output_type to int8 or int16, to keep it on the BPU at lower precision.",
     "CPU：位于 {tail} 之后，而 {tail} 是最后一个带权重的算子，其输出为 {type}。若愿意以较低精度留在 BPU 上，"
     "请在 quant_config 中写出该节点，或把 model_output_type 设为 int8 或 int16。"),
    ("int16, as dual-int16 has no int32 output", "int16（dual-int16 没有 int32 输出）"),
    ("{tail_word} at high precision", "高精度的 {tail_word}"),
    ("CPU: it runs where {gone} does, which is on the CPU.", "CPU：它与 {gone} 在同一处运行，即 CPU 上。"),
    ("CPU: it only moves data and stands at the head of the graph, before any operator that carries a "
     "threshold. A type set on it has no effect; a unit conv in front would give it a threshold (unit_conv).",
     "CPU：它只搬运数据，且位于图的首部，前面没有任何带阈值的算子。给它设置类型不起作用；在前面插入一个 unit "
     "conv（unit_conv）可以给它阈值。"),
    ("CPU: it only moves data and no operator behind it carries a threshold. A type set on it has no effect; "
     "a unit conv behind it would give it a threshold (unit_conv).",
     "CPU：它只搬运数据，且后面没有任何带阈值的算子。给它设置类型不起作用；在后面插入一个 unit conv（unit_conv）"
     "可以给它阈值。"),
)

"""Operators that run in float on the CPU, each with the reason. What is not listed anywhere runs there too."""
from __future__ import annotations

from ptqlab.ops.spec import Engine, OpSpec, Role

UNKNOWN_OPERATOR = "{op} runs in float on the CPU: ptqlab has no integer kernel for it yet"

# operator -> (why, source)
CONTROL = "the BPU runs a fixed list of operators; what depends on data at run time is for the CPU"
LENGTH = "the length of its output depends on the data, and the BPU wants fixed shapes"
RECURRENT = ("the optimizer writes at most 64 steps with constant weights and the usual activations out as MatMul and "
             "vector operators; it could not here")
PLAIN_RNN = "it is not split into MatMul and vector operators, as LSTM and GRU are"
INDICES = "it computes with indices, which are never quantized"
FOLDED = "it is folded into constants or removed by the optimizer; what is left of it could not be"
NO_KERNEL = "ptqlab has no integer kernel for it"
X5_CPU = "the older BPU has no such operator either (documented for X5)"
REASONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("If", "Loop", "Scan"), (CONTROL, "our definition")),
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique", "Compress"), (LENGTH, "our definition")),
    **dict.fromkeys(("LSTM", "GRU"), (RECURRENT, "documented")),
    "RNN": (PLAIN_RNN, "our definition"),
    **dict.fromkeys(("IsNaN", "IsInf"), ("integers hold neither NaN nor Inf", "our definition")),
    **dict.fromkeys(("Shape", "Size", "Range", "ConstantOfShape", "Constant", "Dropout", "BatchNormalization"),
                    (FOLDED, "documented")),
    **dict.fromkeys(("OneHot", "ReverseSequence", "EyeLike"), (INDICES, "our definition")),
    "RoiAlign": (X5_CPU, "documented"),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
                    (f"{NO_KERNEL}; written as Abs, Mul, Log or Exp and a ReduceSum it runs on the BPU",
                     "our definition")),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
                     "ConvInteger", "MatMulInteger"),
                    ("the model is quantized already; ptqlab quantizes float models", "our definition")),
    "TopK": ("the SPU of the BPU has it (documented); ptqlab does not model that unit yet", "documented"),
    "DeformConv": ("a plug-in operator of the vendor's tool; ptqlab has no kernel for it", "documented"),
    "Div": ("by a constant it is a Mul, by a tensor a Reciprocal and a Mul; the optimizer could do neither here",
            "documented"),
    "Mod": (NO_KERNEL, "our definition"),
    "Sum": ("the optimizer makes Adds of it, on float32 tensors", "our definition"),
    "Mean": ("the optimizer makes Adds and a Mul of it, on float32 tensors", "our definition"),
    "Einsum": ("the optimizer makes a MatMul of a plain contraction; this one is none", "our definition"),
    "LRN": (NO_KERNEL, "our definition"),
    "MaxUnpool": (NO_KERNEL, "our definition"),
    "MaxRoiPool": (NO_KERNEL, "our definition"),
    "GroupNormalization": ("the optimizer makes an InstanceNormalization over groups of it, and could not here",
                           "documented"),
    "Upsample": ("the operator set 10 and later has Resize in its place", "documented"),
}
SPECS: tuple[OpSpec, ...] = tuple(
    OpSpec(op, Role.FLOAT, Engine.CPU, source=source, note=f"{op} runs in float on the CPU: {why}")
    for op, (why, source) in REASONS.items()
)

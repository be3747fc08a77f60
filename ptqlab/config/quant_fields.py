"""Every word of quant_config: levels, keys, types, methods, metrics; one table for each kind of knowledge."""
from __future__ import annotations

from dataclasses import dataclass

LEVELS = ("default", "model", "op", "subgraph", "node")
LEVEL_KEYS = {"model_config": "model", "op_config": "op", "subgraph_config": "subgraph", "node_config": "node"}

QTYPES = ("int8", "int16", "float16", "float32")
DUAL = "dual-int16"
# Operators that multiply two operands: int16 asks for int16 features and int8 weights, dual-int16 for int16 both.
TWO_OPERAND_OPS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
INT32_OPS = ("Softmax",)  # published examples ask int32 for Softmax: computed in float (our definition)
CLOSED_QTYPES = {
    "int4": "no platform modelled here has it",
    "mxint16": "microscaling types are not on the J6 platforms modelled here",
    "mxint8": "microscaling types are not on the J6 platforms modelled here",
    "mxint4": "microscaling types are not on the J6 platforms modelled here",
    "mxfp8": "microscaling types are not on the J6 platforms modelled here",
    "mxfp4": "microscaling types are not on the J6 platforms modelled here",
    "nvfp4": "it is not on the J6 platforms modelled here",
    "int16-ec": "what it computes is not published",
}
OUTPUT_TYPES = ("int8", "int16", "float32")
METRICS = ("cosine-similarity", "mse", "mae", "mre", "sqnr", "chebyshev")
DEFAULT_METRIC = "cosine-similarity"
METHODS = ("max", "kl", "mse")  # mse is ptqlab's own
CORRECTION_ORDERS = ("local", "sequential")  # the key "order" is ptqlab's own
WEIGHT_METHODS = ("max", "mse")  # mse is ptqlab's own
CLOSED_METHODS = {
    "percentile": 'write "max" with max_percentile, e.g. 0.9999',
    "min-max": 'write "max" with "asymmetric": true',
    "load": "name the file that holds the thresholds in calibration_parameters.thresholds",
    "skip": "random data is chosen by calibration_parameters.calibration_type: skip",
    "default": "leave calibration_type out: ptqlab's default recipe is used",
    "mix": "give a list of methods and layerwise_search",
}
DEVICES = ("BPU", "CPU")


@dataclass(frozen=True)
class ActivationField:
    """One key of an `activation` block; a list of values makes it a dimension of the search."""

    key: str
    kind: str  # choice, int, float, bool
    default: tuple[object, ...]
    rule: str
    zh: str
    allowed: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    is_list: bool = True

    @property
    def expected(self) -> str:
        one = {
            "choice": ", ".join(self.allowed),
            "bool": "true or false",
            "int": f"a whole number from {self.low} to {self.high}",
            "float": f"a number from {self.low} to {self.high}",
        }[self.kind]
        return f"{one}, or a list of these" if self.is_list else one


ACTIVATION = (
    ActivationField("calibration_type", "choice", (), "how the threshold is found; a list: the best is searched",
                    "校准方法，列表表示搜索", METHODS),
    ActivationField("num_bin", "int", (1024,), "bins of the kl histogram (documented minimum 129)", "kl 直方图 bin 数",
                    low=129, high=1_000_000),
    ActivationField("max_num_bin", "int", (16384,),
                    "most bins of the kl histogram when it is widened (documented minimum 258)", "kl 直方图最大 bin 数",
                    low=258, high=10_000_000, is_list=False),
    ActivationField("max_percentile", "float", (1.0,), "the threshold of max is this quantile of |x|", "max 校准百分位",
                    low=0.5, high=1.0),
    ActivationField("per_channel", "bool", (False,), "one threshold per channel", "激活按通道量化"),
    ActivationField("asymmetric", "bool", (False,), "zero point from minimum and maximum", "非对称量化"),
    # ptqlab's own
    ActivationField("equalization", "bool", (False,),
                    "cross-layer equalization: a step per channel between two operators with weights, of a size that "
                    "suits both the channel and the reader's weights; kept only where samples that did not set the "
                    "steps confirm it; goes before per_channel (ptqlab's own)",
                    "跨层均衡：两个带权重算子之间按通道的步长，兼顾通道范围与后一算子的权重；只有未参与确定步长的样本证实有益"
                    "才保留；优先于 per_channel（ptqlab 自有）"),
)
ACTIVATION_BY_KEY = {f.key: f for f in ACTIVATION}

# Keys of model_config; TOP_ALIASES may also stand at the top level (one published template writes them there).
TOP_ALIASES = ("activation", "weight", "modelwise_search", "layerwise_search", "search")
MODEL_KEYS = ("all_node_type", "model_output_type", *TOP_ALIASES)
ENTRY_KEYS = ("qtype", "input0", "input1", "input2", "activation", "ON")
SUBGRAPH_KEYS = ("inputs", "outputs", *ENTRY_KEYS)
NODE_INFO_KEYS = ("ON", "InputType", "InputType0", "InputType1", "OutputType")

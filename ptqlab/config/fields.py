"""Every key of the compile YAML: one table. Loader, JSON schema, template and the documentation page are made from it.

Key names, defaults and rules are the vendor's (documented); a choice of ours between contradicting sources is marked
"our choice". `rule` is the English sentence a reader sees, `zh` its Chinese twin.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ptqlab.config.image_types import INPUT_SOURCES, RT_TYPES, TRAIN_TYPES
from ptqlab.platforms import MARCHES


@dataclass(frozen=True)
class Field:
    """One key.

    kind        text, file, folder, bool, int, float, auto_int (int, or none for automatic), choice;
                names, choices, folders (";" lists); shapes, vectors (";" lists of 1x3x8x8 / of numbers);
                mapping, node_info, quant_config
    allowed     words of choice / choices, or of a mapping's values
    low, high   range of a number, both included
    per_input   the ";" list has one entry per model input
    deprecated  what a warning says of the key: it is read, and has no effect
    template    templates that list the key: "simple" (then also in full), "full" or ""
    carried     kept for the vendor's tool and written back; neither numbers nor estimate of ptqlab depend on it, which
                a note says where a value is given
    """

    key: str
    kind: str
    default: Any
    rule: str
    zh: str
    allowed: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    per_input: bool = False
    deprecated: str = ""
    template: str = ""
    carried: bool = False

    @property
    def expected(self) -> str:
        """What may stand there, for a message."""
        words = ", ".join(self.allowed)
        span = "" if self.low is None else f" of at least {digits(self.low)}"
        if self.low is not None and self.high is not None:
            span = f" from {digits(self.low)} to {digits(self.high)}"
        return {
            "text": "text", "file": "a path", "folder": "a folder", "bool": "true or false, without quotes",
            "int": f"a whole number{span}", "float": f"a number{span}",
            "auto_int": f"a whole number{span}, or none for automatic",
            "choice": words, "choices": f'one or more of {words}, separated by ";"',
            "names": 'names separated by ";" ("\\;" for one inside a name)',
            "folders": 'folders separated by ";", one per model input',
            "shapes": 'shapes such as 1x3x224x224, separated by ";", one per model input',
            "vectors": 'numbers separated by spaces or commas, None for no value; ";" between inputs',
            "mapping": f"a mapping{f' with the values {words}' if words else ''}",
            "node_info": 'text such as "Conv_0:int16;Conv_1:int16", or a mapping of nodes',
            "quant_config": "path of a JSON file, or the mapping itself",
        }[self.kind]


def digits(number: float) -> str:
    """A limit as a reader writes it: whole numbers without exponent or point."""
    return str(int(number)) if number == int(number) else f"{number:g}"


REMOVABLE_TYPES = ("Quantize", "Transpose", "Dequantize", "Cast", "Reshape", "Softmax")
DEBUG_MODES = ("dump_calibration_data", "dump_all_layers_output")
COMPILE_MODES = ("latency", "bandwidth", "balance")
OPTIMIZE_LEVELS = ("O0", "O1", "O2")
CACHE_MODES = ("disable", "enable", "force_overwrite")
MODEL_OUTPUT_INT8, MODEL_OUTPUT_INT16, RUN_FAST = "set_model_output_int8", "set_model_output_int16", "run_fast"
RECIPES = ("asymmetric", "asymmetric-search", "inverted-residual", "ceiling", "log-spectrum")
NO_EFFECT = "is deprecated and has no effect"

MODEL = (
    Field("onnx_model", "file", None, "the float model, .onnx; either this or caffe_model", "浮点 ONNX 模型路径",
          template="simple"),
    Field("caffe_model", "file", None, "Caffe 1.0 weights, .caffemodel, together with prototxt",
          "Caffe 模型权重 (.caffemodel)", template="simple"),
    Field("prototxt", "file", None, "Caffe 1.0 graph, .prototxt, together with caffe_model",
          "Caffe 模型结构 (.prototxt)", template="simple"),
    Field("march", "choice", "", "the BPU platform; required", "BPU 平台架构，必填", MARCHES, template="simple"),
    Field("working_dir", "folder", "./model_output", "where artifacts are written; created if missing",
          "输出目录，不存在时自动创建", template="full"),
    Field("output_model_file_prefix", "text", "model", "first part of every artifact's name", "产物文件名前缀",
          template="full"),
    Field("output_nodes", "names", None,
          "nodes whose outputs become the outputs of the model (the graph is cut there)", "指定为模型输出的节点",
          template="full"),
    Field("remove_node_type", "choices", None,
          "operator types removed at the graph's inputs and outputs, in this order", "按类型删除首尾节点（按顺序）",
          REMOVABLE_TYPES, template="full"),
    Field("remove_node_name", "names", None, "nodes removed at the graph's inputs and outputs, by exact name",
          "按名称删除首尾节点", template="full"),
    Field("node_info", "node_info", None,
          "older form of mixed precision; wins over run_on_cpu and run_on_bpu, yields to quant_config",
          "旧版混合精度配置"),
    Field("debug_mode", "choices", None, "what is written beside the model for analysis", "调试输出", DEBUG_MODES,
          template="full"),
    Field("layer_out_dump", "bool", False, "older form of debug_mode: dump_all_layers_output",
          "旧版 dump_all_layers_output"),
    Field("enable_vpu", "bool", True, "let the vector unit quantize and dequantize", "允许 VPU 执行量化/反量化",
          carried=True),
    Field("enable_spu", "bool", True, "let the scalar unit work", "允许使用 SPU", carried=True),
    Field("log_level", "int", None, "console INFO, file DEBUG, always", "日志级别（已弃用）", deprecated=NO_EFFECT),
    Field("set_node_data_type", "text", None, "use quant_config", "节点数据类型（已弃用）", deprecated=NO_EFFECT),
)
INPUT = (
    Field("input_name", "names", "", "names of the model's inputs; their order is that of every other list here",
          "输入名，多输入时必填，顺序决定其他参数的顺序", per_input=True, template="full"),
    Field("input_type_rt", "choices", "", "what feeds the input on the board", "板端运行时输入数据类型", RT_TYPES,
          per_input=True, template="simple"),
    Field("input_type_train", "choices", "", "what the float model was trained on", "训练时输入数据类型", TRAIN_TYPES,
          per_input=True, template="simple"),
    Field("input_layout_train", "choices", "", "layout of the float model's input; required for images",
          "训练时输入 layout，图像输入必填", ("NCHW", "NHWC"), per_input=True, template="simple"),
    Field("input_space_and_range", "choices", "regular", "bt601_video: nv12 with values in [16, 235]",
          "色彩范围，bt601_video 仅用于 nv12",
          ("regular", "bt601_video"), per_input=True),
    Field("input_shape", "shapes", None, "shape of every input; required for dynamic models",
          "输入 shape，动态模型必填", per_input=True, template="full"),
    Field("input_batch", "int", None, "batch of the compiled model; every input's first dimension must be 1",
          "编译 batch 数，要求所有输入首维为 1", low=1, high=4096),
    Field("separate_batch", "bool", False, "split the batch into separate inputs", "将 batch 拆分为独立输入",
          template="full"),
    Field("separate_name", "names", None, "split the batch of these inputs only; not with separate_batch",
          "仅拆分指定输入，与 separate_batch 互斥"),
    Field("mean_value", "vectors", None, "subtracted from the image, per channel", "图像减去的均值（按通道）",
          per_input=True, template="full"),
    Field("scale_value", "vectors", None, "multiplied after the mean, per channel; not with std_value",
          "均值后乘的系数，与 std_value 互斥", per_input=True, template="full"),
    Field("std_value", "vectors", None, "divides after the mean, per channel; not with scale_value",
          "均值后除的标准差，与 scale_value 互斥", per_input=True, template="full"),
    Field("norm_type", "text", None, "follows from mean_value, scale_value, std_value",
          "预处理类型（已弃用）", deprecated=NO_EFFECT),
    Field("input_layout_rt", "text", "", "the layout never changes on J6", "运行时 layout（已弃用）",
          deprecated=NO_EFFECT),
)
CALIBRATION = (
    Field("cal_data_dir", "folders", None,
          "folders of calibration samples, one per input; without it calibration is skipped",
          "校准数据目录，每个输入一个；不填则跳过校准", per_input=True, template="full"),
    Field("calibration_type", "choice", "",
          "how thresholds are found; nothing: ptqlab's default, mse with corrected biases; mse is ptqlab's own",
          "校准方法，不填则使用 ptqlab 默认方案（mse 阈值 + 偏置校正；mse 为 ptqlab 扩展）",
          ("kl", "max", "mse", "skip", "default", "mix")),
    Field("recipe", "choice", None,
          "quant_config entries that one word stands for, completed by your own; ptqlab's own key",
          "量化配置预设（ptqlab 扩展）", RECIPES),
    Field("thresholds", "file", None,
          "thresholds to be taken as they are: a record or calibrated model of an earlier run, or {tensor: T}; the "
          "rest is calibrated; ptqlab's own key", "直接使用的阈值文件（ptqlab 扩展）"),
    Field("per_channel", "bool", False, "one activation threshold per channel", "激活按通道量化"),
    Field("max_percentile", "float", None,
          "threshold of max: this quantile of |x| (our choice: the narrower of two published ranges)",
          "max 校准的百分位", low=0.5, high=1.0),
    Field("run_on_cpu", "names", None, "nodes kept in float on the CPU", "强制在 CPU 运行的节点"),
    Field("run_on_bpu", "names", None, "nodes put on the BPU where possible", "强制在 BPU 运行的节点"),
    Field("unit_conv", "names", None,
          "nodes at head or tail that only move data, and get a threshold from an identity convolution beside them; "
          "ptqlab's own key", "在首尾的数据搬运节点旁插入 unit conv，使其运行在 BPU 上（ptqlab 扩展）"),
    Field("optimization", "choice", None, "type of the model's outputs; run_fast is what fast-perf uses",
          "模型输出类型等优化选项", (MODEL_OUTPUT_INT8, MODEL_OUTPUT_INT16, RUN_FAST)),
    Field("quant_config", "quant_config", None,
          "precision and calibration of model, operator types, subgraphs, nodes", "量化配置（JSON 路径或内嵌字典）",
          template="full"),
    Field("preprocess_on", "bool", None, "data is used as it is", "自动预处理（已弃用）", deprecated=NO_EFFECT),
    Field("cal_data_type", "choices", None, "type of raw .bin samples; npy files know their own",
          "裸 bin 校准数据的类型（已弃用）", ("uint8", "float32"), per_input=True,
          deprecated="is deprecated and only tells the type of raw .bin samples; npy files know their own"),
)
COMPILER = (
    Field("compile_mode", "choice", "latency", "what the compiler optimizes for", "编译优化目标", COMPILE_MODES,
          template="full", carried=True),
    Field("balance_factor", "int", 0, "weight of latency against bandwidth; required for compile_mode: balance",
          "balance 模式的权衡系数", low=0, high=100, template="full", carried=True),
    Field("optimize_level", "choice", "O2", "effort of the compiler's search", "编译优化等级", OPTIMIZE_LEVELS,
          template="simple", carried=True),
    Field("core_num", "int", 1, "BPU cores the model runs on", "使用的 BPU 核数", low=1, high=4, template="full"),
    Field("max_time_per_fc", "int", 0, "longest function call in microseconds: 0 (no limit) or 1000 to 10000000",
          "单次 function call 最长时间 (us)", low=0, high=10_000_000, template="full", carried=True),
    Field("jobs", "int", 16, "processes the compiler may use", "编译进程数", low=0, high=1024, template="full",
          carried=True),
    Field("advice", "float", 0.0, "report operators slower than this many microseconds",
          "打印耗时超过该值 (us) 的算子", low=0, template="full"),
    Field("debug", "bool", True, "keep per-layer performance information", "保留逐层性能信息", carried=True),
    Field("input_source", "mapping", {}, "where an input's data comes from", "各输入的数据来源", tuple(INPUT_SOURCES),
          template="full"),
    Field("cache_mode", "choice", "disable", "reuse of calibration results", "校准结果缓存模式", CACHE_MODES,
          template="full"),
    Field("cache_path", "folder", "", "existing folder for cache_mode", "缓存目录", template="full"),
    Field("max_l2m_size", "auto_int", 0, "bytes of the shared L2 memory to use; nash-h and nash-p families only",
          "可用 L2M 大小 (字节)", low=0, high=25_165_824, carried=True),
    Field("extra_params", "mapping", {}, "passed to the compiler, e.g. {input_no_padding: true}", "编译器扩展参数",
          carried=True),
    Field("ability_entry", "text", None, "opaque", "内部参数", carried=True),
    Field("hbdk3_compatible_mode", "bool", False, "older compiler", "hbdk3 兼容模式（已弃用）", deprecated=NO_EFFECT),
)
CUSTOM = (
    Field("op_register_files", "names", None, "Python files of custom operators", "自定义算子文件",
          deprecated="has no effect in ptqlab: custom operators are not run"),
    Field("custom_op_method", "text", None, "register", "自定义算子方式",
          deprecated="has no effect in ptqlab: custom operators are not run"),
    Field("custom_op_dir", "folder", None, "folder of op_register_files", "自定义算子目录",
          deprecated="has no effect in ptqlab: custom operators are not run"),
)
GROUPS: dict[str, tuple[Field, ...]] = {
    "model_parameters": MODEL,
    "input_parameters": INPUT,
    "calibration_parameters": CALIBRATION,
    "compiler_parameters": COMPILER,
    "custom_op": CUSTOM,
}
OPTIONAL_GROUPS = ("custom_op",)
# Keys of other groups' names that users look for; said when the key stands in the wrong group.
GROUP_OF: dict[str, str] = {f.key: group for group, fields in GROUPS.items() for f in fields}
EXTRAS_TOLERATED = "calibration_parameters"  # the vendor's schema lets unknown keys pass here only (documented)


def field_of(group: str, key: str) -> Field:
    """The table's row of a key that exists."""
    return next(f for f in GROUPS[group] if f.key == key)

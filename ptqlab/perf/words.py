"""The words of performance reports in English and Chinese; field names are the vendor's in both."""
from __future__ import annotations

LANGUAGES = ("en", "zh")

_WORDS: dict[str, tuple[str, str]] = {
    "title": ("Static performance of {model} on {march}", "{model} 在 {march} 上的静态性能评估"),
    "summary": ("Summary", "概要"),
    "latency": ("BPU latency (static)", "BPU 延迟（静态）"),
    "board": ("latency on the board, one thread", "板端单线程延迟"),
    "runtime": ("of it runtime", "其中运行时开销"),
    "cpu_part": ("of it CPU operators (guess)", "其中 CPU 算子（推测）"),
    "fps": ("FPS, one and two threads", "FPS（单线程 / 双线程）"),
    "segments": ("BPU segments", "BPU 分段"),
    "ddr": ("DDR per run, loaded / stored", "每次推理 DDR 读 / 写"),
    "memory": ("memory: static / dynamic", "内存：静态 / 动态"),
    "ops": ("original conv OPs", "卷积原始 OPs"),
    "macs": ("MACs by type", "各精度 MAC 数"),
    "cores": ("BPU cores", "BPU 核数"),
    "basis": ("What the figures rest on", "数据依据"),
    "timeline": ("Timeline by engine", "各引擎时间线"),
    "bandwidth": ("Utilization and DDR bandwidth over the run", "运行过程中的利用率与 DDR 带宽"),
    "utilization": ("TAE", "TAE 利用率"),
    "loading": ("DDR loading", "DDR 读带宽"),
    "storing": ("DDR storing", "DDR 写带宽"),
    "layers": ("Layers", "逐层明细"),
    "layer": ("layer", "层"),
    "op": ("op", "算子"),
    "qtype": ("type", "精度"),
    "period": ("active period (us)", "活动区间 (us)"),
    "computing": ("computing, no DDR (us)", "计算（不含 DDR）(us)"),
    "load": ("load (us)", "读 (us)"),
    "store": ("store (us)", "写 (us)"),
    "bound": ("decided by", "瓶颈"),
    "origin": ("origin ops", "原始算子"),
    "cpu": ("Operators on the CPU", "CPU 上的算子"),
    "cpu_none": ("None.", "无。"),
    "cpu_own": ("own time (us)", "自身耗时 (us)"),
    "cpu_convert": ("conversions (us)", "量化/反量化 (us)"),
    "cpu_place": ("place", "位置"),
    "head": ("head", "首部"),
    "middle": ("middle", "中间"),
    "tail": ("tail", "尾部"),
    "advice": ("Advice", "优化建议"),
    "advice_none": ("No layer takes more than the limit.", "没有超过阈值的层。"),
    "share": ("of the model", "占模型"),
    "why": ("why", "原因"),
    "do": ("what to do", "建议"),
    "why_cpu": ("runs on the CPU", "运行在 CPU 上"),
    "do_cpu": ("`explain` tells the rule; run_on_bpu, a type in quant_config or a unit conv may bring it back",
               "用 `explain` 查看原因；可尝试 run_on_bpu、在 quant_config 中指定精度或插入 unit conv"),
    "why_loading": ("its {kb} kB of weights arrive later than they are used", "{kb} kB 权重的加载慢于计算"),
    "do_loading": ("fewer or grouped weights; the next frame costs the same, so a batch shares the load",
                   "减少权重或使用分组卷积；增大 batch 可分摊加载"),
    "why_stored": ("its result goes to DDR at the end", "结果在末尾写回 DDR"),
    "do_stored": ("fewer or narrower outputs: int8 at the output, or the post-processing's first steps in the model",
                  "减少输出或降低输出精度（int8），或将后处理前几步并入模型"),
    "why_macs": ("{gmacs} GMACs", "{gmacs} GMAC 计算量"),
    "do_macs": ("fewer channels, a smaller map, or a cheaper convolution", "减少通道数、缩小特征图或换用更便宜的卷积"),
    "why_streamed": ("{kb} kB of weights do not stay at the MACs", "{kb} kB 权重无法常驻计算单元"),
    "do_streamed": ("fewer channels or groups: up to {limit} kB stay", "减少通道数或分组：不超过 {limit} kB 可常驻"),
    "why_padding": ("{percent} % of its MACs are padding", "{percent} % 的 MAC 是对齐填充"),
    "do_padding": ("channels in multiples of {multiple}", "通道数取 {multiple} 的倍数"),
    "why_depthwise": ("depthwise: the TAE is badly filled", "深度可分离卷积：TAE 利用率低"),
    "do_depthwise": ("a group convolution, or a dense one with fewer channels", "改用分组卷积或通道更少的普通卷积"),
    "why_table": ("{act} looks every element up in a table", "{act} 需要逐元素查表"),
    "do_table": ("Relu, Relu6 or Clip behind a convolution cost nothing", "卷积后的 Relu、Relu6、Clip 不增加耗时"),
    "why_vector": ("{op} goes over all its elements in the vector unit", "{op} 在向量单元逐元素处理"),
    "do_vector": ("fold it into a convolution, or make the tensor smaller before it", "并入卷积，或先缩小张量"),
    "why_bits": ("{qtype} features", "{qtype} 特征"),
    "do_bits": ("int8 where the accuracy allows it", "精度允许时改用 int8"),
}


def say(key: str, lang: str = "en", /, **values: object) -> str:
    """The words of `key` in a language, filled with `values`; plain text, not escaped."""
    return _WORDS[key][LANGUAGES.index(lang) if lang in LANGUAGES else 0].format(**values)


def advice_pairs() -> list[tuple[str, str]]:
    """Cause and remedy of slow layers, English and Chinese, as patterns with {named} holes."""
    return [pair for key, pair in _WORDS.items() if key.startswith(("why_", "do_"))]

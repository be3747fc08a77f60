"""The words a reader sees, in English and Chinese: one small table for views, one switch, and a door to messages.

Column names, keys, operators, types and verbs are the vendor's in both languages. Messages of errors and findings, and
the reasons of placement rules, are made in English where they arise and stay English in files and logs; `spoken` puts
them into the reader's language (the pairs are in `ptqlab/report/zh`).
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ptqlab.errors import Finding, Problem, PtqError, display_with

LANGUAGES = ("en", "zh")

_WORDS: dict[str, tuple[str, str]] = {
    "result": ("{model} on {march}", "{model}，平台 {march}"),
    "counts": ("{nodes} nodes: {bpu} BPU, {cpu} CPU; {samples}",
               "{nodes} 个节点：BPU {bpu} 个，CPU {cpu} 个；{samples}"),
    "samples": ("{n} calibration samples", "校准样本 {n} 个"),
    "no_samples": ("calibration skipped: random data, accuracy figures mean nothing",
                   "跳过校准：使用随机数据，精度数字没有意义"),
    "complete": ("complete", "完整"),
    "partial": ("partial", "不完整"),
    "partial_why": ("Partial result: the run ended after stage '{stage}'.", "结果不完整：运行止于阶段“{stage}”。"),
    "outputs": ("Model outputs", "模型输出"),
    "worst": ("Nodes with the lowest quantized cosine", "量化余弦最低的节点"),
    "not_compared": ("No node was compared with the float model.", "没有节点与浮点模型比较过。"),
    "findings": ("Findings", "提示"),
    "no_findings": ("None.", "无。"),
    "warning": ("warning", "警告"),
    "note": ("note", "说明"),
    "notes": ("notes: {n}", "说明：{n} 条"),
    "do": ("Do", "建议"),
    "titled": ("{words}:", "{words}："),
    "said_of": ("{what}: {words}", "{what}：{words}"),
    "more": ("and {n} more", "另有 {n} 条"),
    "artifacts": ("Artifacts in {folder}", "产物目录 {folder}"),
    "chart": ("Cosine per node, in graph order", "逐节点余弦（按图顺序）"),
    "calibrated": ("Calibrated Cosine", "Calibrated Cosine（校准）"),
    "quantized": ("Quantized Cosine", "Quantized Cosine（量化）"),
    "on_cpu": ("on the CPU", "在 CPU 上"),
    "nan": ("not a number", "NaN"),
    "node_axis": ("node, in graph order", "节点（按图顺序）"),
    "cosine_axis": ("cosine to the float model", "与浮点模型的余弦"),
    "nothing_to_plot": ("no node was compared with the float model", "没有节点与浮点模型比较过"),
    "asked_granted": ("asked {asked}, granted {granted}", "要求 {asked}，得到 {granted}"),
    "as_asked": ("{granted}, as asked", "{granted}，与要求一致"),
    "explain_type": ("Type", "类型"),
    "explain_place": ("Runs on", "运行于"),
    "explain_origin": ("Asked by", "要求来自"),
    "explain_reason": ("Why", "原因"),
    "explain_output": ("Output", "输出"),
    "explain_threshold": ("Threshold", "阈值"),
    "explain_cosine": ("Cosine", "余弦"),
    "explain_fused": ("Computed in", "合并到"),
    "explain_holds": ("Also computes", "同时计算"),
    "explain_tags": ("Noticed", "注意"),
    "origin_node": ("quant_config node_config[{key}]", "quant_config node_config[{key}]"),
    "origin_op": ("quant_config op_config[{key}]", "quant_config op_config[{key}]"),
    "origin_model": ("quant_config model_config", "quant_config model_config"),
    "origin_default": ("the default (int8)", "默认值（int8）"),
    "no_threshold": ("none", "无"),
    "inherits": ("calibrated {calibrated}, quantized {quantized}", "校准 {calibrated}，量化 {quantized}"),
    "stage_line": ("{stage}: {done}{of}, {seconds:.0f} s", "{stage}：{done}{of}，{seconds:.0f} 秒"),
    "left": ("{line}, about {left} left", "{line}，约剩 {left}"),
    "seconds": ("{s} s", "{s} 秒"),
    "minutes": ("{m} min {s} s", "{m} 分 {s} 秒"),
    "hours": ("{h} h {m} min", "{h} 小时 {m} 分"),
    "stage_start": ("{stage} ...", "{stage} ..."),
    "stage_end": ("{stage}: done in {seconds:.1f} s", "{stage}：完成，{seconds:.1f} 秒"),
    "done_in": ("Done in {seconds:.1f} s.", "完成，用时 {seconds:.1f} 秒。"),
    "stopped": ("Stopped.", "已停止。"),
    "demo_next": ("The model, its calibration data and config.yaml are in {folder}, the artifacts in {artifacts}.\n"
                  "Next: `make lab` opens the first notebook, notebooks/00_quickstart.ipynb.",
                  "模型、校准数据和 config.yaml 在 {folder}，产物在 {artifacts}。\n"
                  "下一步：`make lab` 打开第一个 notebook：notebooks/00_quickstart.ipynb。"),
    "none": ("none", "无"),
    "placement": ("Where the nodes run", "节点运行位置"),
    "node_types": ("Node types", "算子类型"),
    "segments": ("BPU segments: {n}", "BPU 分段 {n} 个"),
    "check_counts": ("{nodes} nodes: {bpu} BPU, {cpu} CPU; {segments}",
                     "{nodes} 个节点：BPU {bpu} 个，CPU {cpu} 个；{segments}"),
    "cpu_nodes": ("Nodes on the CPU, by reason", "CPU 节点（按原因）"),
    "islands": ("splits the model: these stand between parts on the BPU", "切断模型：位于 BPU 部分之间"),
    "reason": ("Reason", "原因"),
    "count": ("Nodes", "节点数"),
    "names": ("Names", "名称"),
    "would_help": ("What would help", "改进建议"),
    "noticed": ("Also noticed", "其他提示"),
    "next_config": ("A configuration to go on with: {path}", "后续可用的配置文件：{path}"),
    "speed": ("Estimated speed", "性能预估"),
    "figure": ("Figure", "指标"),
    "value": ("Value", "数值"),
    "latency": ("latency, BPU part", "延时（BPU 部分）"),
    "board_latency": ("latency on the board, one thread", "板端单线程延时"),
    "fps_1": ("FPS, one thread", "单线程 FPS"),
    "fps_2": ("FPS, two threads", "双线程 FPS"),
    "fast_perf_note": ("Random calibration data: the speed is meant, accuracy was not measured.",
                       "使用随机校准数据：仅评估性能，不评估精度。"),
    "removed": ("Removed at inputs and outputs", "首尾删除的节点"),
    "interface": ("Inputs and outputs", "输入输出"),
    "memory": ("Memory", "内存"),
    "versions": ("Versions", "版本"),
    "operators": ("Operators", "算子"),
    "removable": ("Removable node info", "Removable node info（可删除节点）"),
    "encodings": ("Integer tensors", "整数张量"),
    "artifact": ("Artifact", "产物"),
    "file": ("File", "文件"),
    "written": ("Written", "已写入"),
    "agree": ("all outputs agree", "所有输出一致"),
    "disagree": ("outputs differ", "输出不一致"),
    "derived": ("The bytes of the image inputs of {model} were made from the float data.",
                "{model} 的图像输入由浮点数据反推得到。"),
    "first_difference": ("First node that differs: {node}", "第一个不一致的节点：{node}"),
    "ops_title": ("Operators of the BPU on {march}", "{march} 的 BPU 算子"),
    "ops_every": ("every march", "所有平台"),
    "rules": ("Rules", "约束"),
    "no_rules": ("no further rule", "无其他约束"),
    "ops_more": ("ptqlab ops --op NAME lists the rules of one operator.", "ptqlab ops --op NAME 列出该算子的约束。"),
    "perf_none": ("this run made no estimate", "该次运行没有性能预估"),
    "against": ("against", "对比"),
    "change": ("Change", "变化"),
    "setting": ("Setting", "设置"),
    "settings_differ": ("Settings that differ", "不同的设置"),
    "nodes_changed": ("Nodes that changed: {n}, the largest change first", "有变化的节点：{n} 个（变化大的在前）"),
    "type_changed": ("type changed", "类型改变"),
    "sensitivity_title": ("Sensitivity per node, {metric}", "逐节点敏感度，{metric}"),
    "worst_of": ("the {n} worst of {of}", "{of} 个中最差的 {n} 个"),
    "not_measured": ("not measured", "未测量"),
    "nothing_measured": ("nothing was measured", "没有测量结果"),
    "kind_weight": ("weight", "权重"),
    "kind_activation": ("input", "输入"),
    "kind_node": ("output", "输出"),
    "raw": ("float", "浮点"),
    "quantized_values": ("quantized", "量化后"),
    "count_axis": ("count", "个数"),
    "channel": ("channel", "通道"),
    "farthest_of": ("the {n} of {of} that reach farthest", "{of} 个中幅值最大的 {n} 个"),
    "distribution_title": ("Values around {node}", "{node} 附近的数值分布"),
    "channels_title": ("Channels around {node}", "{node} 附近的逐通道分布"),
    "timeline": ("Timeline by engine", "各引擎时间线"),
    "timeline_title": ("{model} on {march}: {us} us on the BPU, by engine",
                       "{model}，平台 {march}：BPU 用时 {us} us（按引擎）"),
    "time_axis": ("us from the start of the run", "自开始起的时间 (us)"),
    "bound": ("decided by", "瓶颈"),
    "error_title": ("Accumulated error along the graph", "沿图累积的误差"),
    "all_quantized": ("everything quantized", "全部量化"),
    "weights_only": ("weights only", "仅权重"),
    "activations_only": ("activations only", "仅激活"),
    "pareto_title": ("Accuracy against latency, by tuning step", "精度与延时（按调优步骤）"),
    "front": ("Pareto front", "Pareto 前沿"),
    "step_kept": ("step, kept", "保留的步骤"),
    "step_back": ("step, taken back", "撤销的步骤"),
    "latency_axis": ("estimated latency (us)", "预估延时 (us)"),
    "doctor_title": ("Doctor: {subject}", "诊断：{subject}"),
    "data": ("Calibration data", "校准数据"),
    "not_numbers": ("NaN, masks, zeros and constants", "NaN、掩码、全零与常量"),
    "outputs_left": ("What is left of each output", "各输出保留的信息"),
    "varying_db": ("SQNR without the mean (dB)", "去均值后 SQNR (dB)"),
    "distinct": ("distinct values, quantized / float", "不同取值数（量化 / 浮点）"),
    "largest_error": ("largest error", "最大误差"),
    "verdict": ("Verdict", "结论"),
    "fine": ("fine", "正常"),
    "dead": ("dead: one value whatever the input", "失效：无论输入如何都只有一个值"),
    "few_values": ("nearly dead: {n} different values", "几乎失效：只有 {n} 个不同取值"),
    "cosine_hides": ("the cosine speaks of the mean; what varies is lost", "余弦只反映均值，变化的部分已丢失"),
    "signal_lost": ("lost: less than {db} dB of what varies is left", "信号丢失：变化部分不足 {db} dB"),
    "float_constant": ("constant in the float model already", "浮点模型中已是常量"),
    "float_not_finite": ("NaN or Inf in the float model already", "浮点模型中已有 NaN 或 Inf"),
    "causes": ("Where the accuracy is lost, and what to do", "精度损失的位置与对策"),
    "cause": ("Cause", "原因"),
    "seen": ("Seen here", "此处所见"),
    "graph_cosine": ("colour: quantized cosine of the node's output", "颜色：节点输出的量化余弦"),
    "graph_qtype": ("colour: type granted", "颜色：实际采用的类型"),
    "graph_on": ("colour: where the node runs", "颜色：运行位置"),
    "graph_latency": ("colour: share of the BPU's time", "颜色：占 BPU 用时的比例"),
    "graph_unknown": ("not compared", "未比较"),
    "graph_no_layer": ("no layer of its own on the BPU", "BPU 上没有对应的层"),
    "graph_whole": ("{n} nodes", "{n} 个节点"),
    "graph_part": ("{n} of {total} nodes", "{total} 个节点中的 {n} 个"),
    "graph_misfit": ("The graph cannot be shown: the installed Netron does not fit.",
                     "无法显示图：已安装的 Netron 版本不符。"),
    "color_cosine": ("cosine", "余弦"),
    "color_qtype": ("type", "类型"),
    "color_on": ("BPU or CPU", "BPU 或 CPU"),
    "color_latency": ("latency", "延时"),
    "grid_title": ("quant_config of {model} on {march}", "{model} 的 quant_config，平台 {march}"),
    "grid_level": ("Level", "级别"),
    "grid_level_model": ("model", "模型"),
    "grid_level_op": ("operator type", "算子类型"),
    "grid_level_subgraph": ("subgraph", "子图"),
    "grid_level_node": ("node", "节点"),
    "grid_about": ("nodes", "节点"),
    "grid_reads_nothing": ("{node} reads no tensor from memory. {reason}", "{node} 不从内存读取张量。{reason}"),
    "grid_no_threshold": ("{node} decides on the threshold of no tensor. {reason}",
                          "{node} 不决定任何张量的阈值。{reason}"),
    "grid_no_tensor": ("{node}: input {index} is no quantized tensor. {reason}",
                       "{node}：输入 {index} 不是量化张量。{reason}"),
    "grid_not_given": ("{node}: input {index} was asked for {asked}, given {given}. {reason}",
                       "{node}：输入 {index} 要求 {asked}，得到 {given}。{reason}"),
    "grid_set": ("Set", "设置"),
    "grid_to": ("to", "为"),
    "grid_for": ("for the selected rows", "所选行"),
    "grid_do": ("Set", "应用到所选"),
    "grid_inherit": ("(inherit)", "（继承）"),
    "grid_undo": ("Undo", "撤销"),
    "grid_redo": ("Redo", "重做"),
    "grid_changed": ("Changed only", "只看已改"),
    "grid_export": ("Export", "导出"),
    "grid_load": ("Load", "载入"),
    "grid_apply": ("Apply", "编译"),
    "grid_stop": ("Stop", "停止"),
    "grid_rows": ("{n} rows, {m} selected", "共 {n} 行，已选 {m} 行"),
    "grid_all": ("select all rows that are shown", "选择所有显示的行"),
    "grid_one": ("select this row", "选择此行"),
    "grid_from": ("from {level}_config", "来自 {level}_config"),
    "grid_from_default": ("the default", "默认值"),
    "grid_changes": ("Changes: {n}", "修改：{n} 项"),
    "grid_cosine_of": ("Output cosine", "输出余弦"),
    "grid_cosine": ("Output cosine, {n} samples", "输出余弦（{n} 个样本）"),
    "grid_latency": ("Latency, estimated", "预估延时"),
    "grid_computing": ("computing ...", "计算中……"),
    "grid_no_data": ("unknown: no calibration data. Give them: run.grid(data=...)",
                     "未知：没有校准数据。请用 run.grid(data=...) 给出"),
    "grid_opening": ("Opening the model ...", "正在打开模型……"),
    "grid_ready": ("Ready.", "就绪。"),
    "grid_refused": ("Refused: {why}", "拒绝：{why}"),
    "grid_refused_some": ("{n} of {m} refused: {why}", "{m} 项中有 {n} 项被拒绝：{why}"),
    "grid_nothing_undo": ("Nothing to undo.", "没有可撤销的操作。"),
    "grid_nothing_redo": ("Nothing to redo.", "没有可重做的操作。"),
    "grid_applying": ("Compiling: {line}", "正在编译：{line}"),
    "grid_applied": ("Compiled; the new run is grid.result, its files are in {folder}",
                     "编译完成；新结果为 grid.result，文件在 {folder}"),
    "grid_busy": ("A compile run is under way; stop it or wait for it.", "正在编译；请停止或等待。"),
    "grid_stopped": ("Stopped; the run before is untouched.", "已停止；之前的结果不受影响。"),
    "grid_failed": ("This went wrong inside ptqlab: {why}", "ptqlab 内部出错：{why}"),
    "grid_run": ("figures of the run before the changes", "修改之前那次运行的数值"),
    "grid_widget": ("The grid itself needs a running kernel: run.grid().", "可编辑表格需要运行中的内核：run.grid()。"),
    "graph_bar_stage": ("Model", "模型"),
    "graph_bar_color": ("Colour", "颜色"),
    "graph_bar_hops": ("Hops", "跳数"),
    "graph_bar_cut": ("Only around the selection", "仅显示所选节点周围"),
    "graph_bar_whole": ("Whole graph", "完整图"),
    "graph_bar_loading": ("The graph is being drawn ...", "正在绘制图……"),
    "graph_bar_slow": ("The viewer has not started within 20 s. Reload the page, or save it with graph_html.",
                       "查看器 20 秒内未启动。请刷新页面。"),
    "heat_of_run": ("Cosine per node, as the run measured it, worst first", "逐节点余弦（该次运行测得，差的在前）"),
    "heat_calibrated": ("calibrated", "校准"),
    "heat_quantized": ("quantized", "量化"),
    "heat_metric": ("Metric", "指标"),
    "heat_all": ("all {n} nodes", "全部 {n} 个节点"),
    "heat_best": ("best", "最好"),
    "heat_worst": ("worst", "最差"),
    "node_column": ("Node", "Node（节点）"),
    "detail_busy": ("Values, causes and errors of this node are computed ...",
                    "正在计算该节点的数值分布、原因与误差……"),
    "detail_hint": ("Select a node: in the heatmap, in the graph or in the grid.",
                    "请在热力图、计算图或表格中选择一个节点。"),
    "detail_failed": ("Figures cannot be computed: {why}", "无法计算数值：{why}"),
    "detail_cause": ("Cause", "误差原因"),
    "detail_no_cause": ("nothing conspicuous in what it reads", "输入数据未见异常"),
    "detail_remedy": ("Remedy", "对策"),
    "detail_distribution": ("Distribution", "数值分布"),
    "detail_channels": ("Per channel", "逐通道"),
    "detail_error": ("Accumulated error", "累积误差"),
    "detail_codes": ("ends of the codes", "编码范围端点"),
    "detail_boxes": ("range, middle half", "范围与中间一半"),
    "detail_median": ("median", "中位数"),
    "dash_compute": ("Compute sensitivity", "计算敏感度"),
    "dash_stop": ("Stop", "停止"),
    "dash_computing": ("Sensitivity is computed: {done} of {total}", "正在计算敏感度：{done} / {total}"),
    "dash_computed": ("Sensitivity of every node is known.", "已得到各节点敏感度。"),
    "dash_stopped": ("Stopped: what was measured is shown.", "已停止：显示已测得的部分。"),
    "stage_original": ("original model", "原始模型"),
    "stage_optimized": ("optimized model", "优化后模型"),
    "stage_calibrated": ("calibrated model", "校准模型"),
    "stage_quantized": ("quantized model (.bc)", "量化模型（.bc）"),
    "stage_hbm": ("compiled model (.hbm)", "编译后模型（.hbm）"),
    "slowest": ("Layers that take longest", "耗时最长的层"),
    "layer": ("Layer", "层"),
    "operator": ("Operator", "算子"),
    "type": ("Type", "类型"),
    "share": ("Share", "占比"),
    "report_title": ("{model} on {march}: quantization report", "{model}（{march}）量化报告"),
    "contents": ("Contents", "目录"),
    "sensitivity": ("Sensitivity", "敏感度"),
    "sensitivity_how": ("Each node alone quantized in the float model: how far the outputs move. Bright is bad; the "
                        "number stands in the cell.",
                        "在浮点模型中只量化一个节点，看输出变化多少。颜色越亮越差，数值写在格子里。"),
    "all_nodes": ("All nodes", "全部节点"),
    "graph": ("Graph", "计算图"),
    "settings": ("Settings", "配置"),
    "calibration": ("Calibration", "校准"),
    "compared_with": ("Compared with {name}", "与 {name} 对比"),
    "made_with": ("Made with {versions}. One file, nothing is fetched.", "由 {versions} 生成；单文件，无需联网。"),
    "estimate_rests": ("The estimate rests on", "预估依据"),
    "report_written": ("The report: {path}", "报告：{path}"),
    "stopping": ("Stopping at the next step ...", "将在下一步停止……"),
}

_state = {"language": ""}

#: Of pages in both languages: the one that is written just now, "" outside of them.
_written: ContextVar[str] = ContextVar("ptqlab_language", default="")


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """Everything inside is said in `name`, "en" or "zh", whatever the session speaks."""
    token = _written.set(name)
    try:
        yield
    finally:
        _written.reset(token)


def language() -> str:
    """The language of views: what `set_language` chose, else the environment's PTQLAB_LANG, else "en"."""
    chosen = _written.get() or _state["language"] or os.environ.get("PTQLAB_LANG", "")
    return chosen if chosen in LANGUAGES else "en"


def set_language(name: str) -> None:
    """Choose the language of views, "en" or "zh", for this session. Raises PtqError for any other."""
    if name not in LANGUAGES:
        raise PtqError(Problem("PTQ701", "language", repr(name), " or ".join(LANGUAGES)))
    _state["language"] = name


def say(key: str, /, **values: object) -> str:
    """The words of `key` in the current language, filled with `values`; plain text, not escaped."""
    return _WORDS[key][LANGUAGES.index(language())].format(**values)


def spoken(message: str) -> str:
    """A message, made in English, in the current language; what has no translation stays as it is."""
    if language() == LANGUAGES[0]:
        return message
    from ptqlab.report.zh import translate

    return translate(message)


def spoken_word(word: str) -> str:
    """A single word that ptqlab itself says, such as the name of a stage, in the current language."""
    if language() == LANGUAGES[0]:
        return word
    from ptqlab.report.zh import WORDS

    return WORDS.get(word) or spoken(word)


def told(finding: Finding) -> str:
    """A finding on one line, in the current language: code, message, and what to do."""
    tail = f" {hint_of(finding)}" if finding.hint else ""
    return f"{finding.code} {spoken(finding.message)}{tail}"


def hint_of(finding: Finding) -> str:
    """What to do about a finding, in the current language, with the word that says so."""
    return say("said_of", what=say("do"), words=spoken(finding.hint))


# errors is below this package and shows its refusals through what it is given here
display_with(spoken)

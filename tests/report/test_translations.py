"""Messages in Chinese: what has no pair, whether pairs are sound, and that showing changes no file and no identity."""
import ast
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from records import digits_record

import ptqlab
from ptqlab.config.fields import GROUPS
from ptqlab.debug.causes import CAUSES
from ptqlab.debug.diagnosis import Diagnosis
from ptqlab.errors import Finding, Interrupted, Problem, PtqError, told
from ptqlab.events import Event
from ptqlab.ops.spec import sentence
from ptqlab.ops.table import OPERATORS
from ptqlab.report import words
from ptqlab.report.explain import explain
from ptqlab.report.frames import nodes_frame
from ptqlab.report.page import Page
from ptqlab.report.text import summary
from ptqlab.report.words import spoken, spoken_word
from ptqlab.report.zh import PAIRS as OWN
from ptqlab.report.zh import WORDS, pairs_elsewhere, translate
from ptqlab.report.zh import words as shared
from ptqlab.report.zh.matching import HOLE, Pattern, Table, holes, skeleton
from ptqlab.result.progress import status

ROOT = Path(ptqlab.__file__).parent
CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: packages whose refusals and findings users read
SPEAKING = ("config", "graph", "passes", "placement", "quantize", "stages", "artifacts", "workers", "pipeline", "debug",
            "result", "widgets", "notebook", "cli", "perf", "platforms", "ops")
#: what tells a finding, and what refuses
FINDS = {"Finding", "warn", "note", "_note", "report", "large", "tell"}
REFUSES = {"Problem", "refuse", "PtqError", "raise_if", "Usage", "_refused", "_Broken", "_Wrong", "_Misfit",
           "UsageError"}
#: argument of these is for the log or for whoever develops ptqlab
SILENT = {"log", "debug", "info", "compile", "match", "search", "findall", "getattr"}
SKIPPED = ("ops/integer/", "ops/page.py", "artifacts/log.py", "perf/page.py", "perf/svg.py", "perf/vendor.py",
           "perf/words.py", "config/schema.py", "config/reference.py", "config/templates.py", "cli/completion.py",
           "result/tuning_report.py")
#: columns, comments of files, and what is the same in Chinese
NOT_SHOWN = {
    "opset \0", "dtype \0", "onnxruntime: \0", "reads it", "BPU: moves data", "run in", "or", "holds",
    ", or any key of the YAML",
    "calibration_type, bias_correction", "num_sample, metric, order", "topk, qtype, metric", "calibrated onnx",
    "float onnx", "NodeType a", "NodeType b", "Quantized Cosine a", "Quantized Cosine b", "J6E, RDK S100",
    "J6M, RDK S100P", "J6P, RDK S600", "The main quantized node information:", "The quantized model output:",
    "Calibrated Cosine", "Quantized Cosine", "Output Data Type", "bind refuses a model that cannot run a batch",
    "written by ptqlab for its BPU simulator; not loadable on a board",
}


class Speech(ast.NodeVisitor):
    """Texts that look like messages below a node, as skeletons: prose, that no log takes and no assertion."""

    def __init__(self, silent=SILENT):
        self.found, self.silent = {}, silent

    def visit_Module(self, node):
        self.visit_ClassDef(node)

    def visit_Assert(self, node):
        self.visit(node.test)

    def visit_Call(self, node):
        if called(node) not in self.silent:
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        if node.name != "__repr__":
            for part in node.body[1:] if ast.get_docstring(node) else node.body:
                self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        for part in node.body[1:] if ast.get_docstring(node) else node.body:
            self.visit(part)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node):
        self.take("".join(v.value if isinstance(v, ast.Constant) else "\0" for v in node.values), node)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self.take(re.sub(r"\{[A-Za-z_0-9]*\}", "\0", node.value), node)

    def take(self, text, node):
        prose = re.search(r"[A-Za-z]{2,}[,:;]? [a-zA-Z(0-9\0]|[a-z]{2,} ", text)
        if prose and not re.search(r"</?\w+[ >]| \| |\n|::", text) and not CHINESE.search(text):
            self.found.setdefault(text.strip(), node.lineno)


def called(node):
    """Name of what a call calls."""
    function = node.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def calls(node, names):
    return any(isinstance(n, ast.Call) and called(n) in names for n in ast.walk(node))


def speech(*nodes, place=""):
    """(skeleton, line) of every message below the nodes. A pass that leaves a node as it is tells the log alone."""
    reader = Speech(SILENT | {"refuse"} if place.startswith("passes/") else SILENT)
    for node in nodes:
        reader.visit(node)
    return [(text, line) for text, line in reader.found.items() if text not in NOT_SHOWN]


@cache
def modules():
    """(path below ptqlab, tree) of the modules that speak."""
    paths = [path for package in SPEAKING for path in sorted((ROOT / package).rglob("*.py"))]
    places = [(path.relative_to(ROOT).as_posix(), path) for path in paths]
    return [(place, ast.parse(path.read_text(encoding="utf-8"))) for place, path in places
            if not place.startswith(SKIPPED)]


def functions(tree):
    """Functions and methods of a module, inner ones with their outer one."""
    for node in tree.body:
        for part in node.body if isinstance(node, ast.ClassDef) else (node,):
            if isinstance(part, ast.FunctionDef):
                yield part


PAIRS = (*OWN, *pairs_elsewhere())
KNOWN = {skeleton(english) for english, _ in PAIRS}


def test_findings_have_chinese():
    """Every text of a function that tells a finding, and every text of the rules of placement, has its pair."""
    missing = []
    for place, tree in modules():
        everything = place.startswith("placement/") or place == "debug/causes.py"
        telling = [tree] if everything else [f for f in functions(tree) if calls(f, FINDS)]
        missing += [f"{place}:{line}  {text!r}" for text, line in speech(*telling, place=place) if text not in KNOWN]
    assert not missing, "no pair in ptqlab/report/zh for\n" + "\n".join(missing)


def test_rules_notes_and_causes_have_chinese():
    """Every rule and note of the operator table, and the sentence of every cause, is shown in Chinese."""
    shown = [sentence(rule) for spec in OPERATORS.values() for rule in spec.rules]
    shown += [spec.note for spec in OPERATORS.values() if spec.note]
    shown += [" ".join((cause.__doc__ or "").split()) for cause, _ in CAUSES]
    missing = [text for text in dict.fromkeys(shown) if not CHINESE.search(translate(text))]
    assert not missing, "no pair in ptqlab/report/zh for\n" + "\n".join(missing)
    assert all(cause.__name__.replace("_", " ") in WORDS for cause, _ in CAUSES)


def test_what_a_rule_finds_has_chinese():
    """What a rule answers where a node does not keep it has its pair: it stands behind "Here:"."""
    rules = {rule.__name__ for spec in OPERATORS.values() for rule in spec.rules}
    missing = [
        f"{place}:{line}  {text!r}" for place, tree in modules() if place.startswith("ops/")
        for text, line in speech(*(f for f in functions(tree) if f.name in rules)) if text not in KNOWN
    ]
    assert not missing, "no pair in ptqlab/report/zh for\n" + "\n".join(missing)


def test_stages_have_chinese():
    """Every name of a stage, which progress shows, has a Chinese one."""
    missing = []
    for place, tree in modules():
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and called(n) == "stage" and n.args):
            name = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
            if name is not None and name not in WORDS and not CHINESE.search(translate(name)):
                missing.append(f"{place}:{call.lineno}  {name!r}")
    assert not missing, "no word in ptqlab/report/zh for\n" + "\n".join(missing)


def test_refusals_have_chinese():
    """Of the texts of modules that refuse, at least 95 of 100 have their pair; the failure lists what lacks."""
    missing, total = [], 0
    for place, tree in modules():
        if not calls(tree, REFUSES):
            continue
        found = speech(tree, place=place)
        total += len(found)
        missing += [f"{place}:{line}  {text!r}" for text, line in found if text not in KNOWN]
    assert total > 500
    assert len(missing) <= total // 20, f"{len(missing)} of {total} have no pair\n" + "\n".join(missing)


def test_pairs_are_of_use():
    """Of the pairs, at least 95 of 100 are of texts that ptqlab still says; the failure lists those that are left."""
    reader = Speech(frozenset())
    for path in ROOT.rglob("*.py"):
        if "zh" not in path.parts:
            reader.visit(ast.parse(path.read_text(encoding="utf-8")))
    said = set(reader.found) | {sentence(rule) for spec in OPERATORS.values() for rule in spec.rules}
    said |= {spec.note for spec in OPERATORS.values()}
    said |= {" ".join((cause.__doc__ or "").split()) for cause, _ in CAUSES}
    put_together = {skeleton(english) for english, _ in shared.PAIRS}
    left = [english for english, _ in PAIRS if skeleton(english) not in said | put_together]
    assert len(left) <= len(PAIRS) // 20, f"{len(left)} of {len(PAIRS)} are of no use\n" + "\n".join(left)


def test_pairs_are_sound():
    """Both sides of a pair have the same holes, but for plurals, and no two pairs take the same text."""
    seen = {}
    for english, chinese in PAIRS:
        there = set(holes(chinese))
        assert there <= set(holes(english)), english
        assert {h for h in holes(english) if not h.startswith("_")} <= there, english
        assert len(set(holes(english))) == len(holes(english)), f"two holes of one name: {english}"
        assert seen.setdefault(skeleton(english), chinese) == chinese, f"two pairs for {english!r}"


def test_every_pattern_is_found_back():
    """A message made by a pattern comes out in Chinese, with everything that filled its holes."""
    wrong = []
    for english, chinese in PAIRS:
        names = holes(english)
        values = {n: str(7 + i) if n == "n" else "int8" if n == "dtype" else f"name{i}" for i, n in enumerate(names)}
        shown = translate(HOLE.sub(lambda hole, values=values: values[hole[1]], english))
        if (CHINESE.search(chinese) and not CHINESE.search(shown)) or any(
            value not in shown for name, value in values.items() if not name.startswith("_")
        ):
            wrong.append(f"{english!r} gives {shown!r}")
    assert not wrong, "\n".join(wrong)


def test_names_stay_as_they_are():
    """Names of nodes and files are no messages, whatever they look like."""
    assert translate("/block/conv 1/Conv: asked for int16, given int8. BPU (TAE): the default type.") == (
        "/block/conv 1/Conv：要求 int16，得到 int8。BPU（TAE）：默认类型。")
    for text in ("", "conv1", "input", "model_parameters.march", "/a/b: c", "nash-e", "1x3x224x224", "中文 名称",
                 "this sentence is not known to anybody", "foo is bar", "x and y"):
        assert translate(text) == text or text == "x and y"
    assert translate("did you mean input or output?") == "是不是 input 或 output？"


def test_messages_inside_of_messages_are_translated():
    """What fills a hole, and what stands behind a sentence or a place, is translated where it is a message itself."""
    assert translate("CPU: At least one operand must be computed. Here: both operands are constant.") == (
        "CPU：至少要有一个操作数不是常量。此处：两个操作数都是常量。")
    assert translate("config.yaml:3  a.b: calibration_type: kl is deprecated on J6") == (
        "config.yaml:3  a.b：calibration_type: kl 在 J6 上已弃用")
    assert translate("BPU (TAE): asked for in node_config. Last operator with weights: its output is int32 at high "
                     "precision.") == "BPU（TAE）：按 node_config 的要求。最后一个带权重的算子：以 int32 高精度输出。"
    assert translate("the configuration cannot be used: 3 problems") == "该配置无法使用：3 个问题"


def test_a_weak_pattern_takes_names_only():
    """A pattern of few letters does not take in sentences that it was not made for."""
    table = Table([("{a} for {b}", "{b} 用 {a}"), ("operand {x} is computed", "操作数 {x} 由计算得到")], {})
    assert table.translate("int8 for Conv") == "Conv 用 int8"
    assert table.translate("something is wanted for all of them") == "something is wanted for all of them"
    assert table.translate("operand w for Conv, Gemm") == "operand w for Conv, Gemm"


def test_what_others_say_is_left_whole():
    """Text of an error that is not ours fills a hole marked `any` as it is, unless all of it has a pair."""
    assert translate("cannot be read: EOF: reading array header, expected 65535 bytes got 1") == (
        "无法读取：EOF: reading array header, expected 65535 bytes got 1")
    assert translate("cannot write: No space left on device") == "无法写入：磁盘空间不足"


def test_what_stands_in_brackets_behind_names():
    """A list of names, each with what is said of it in brackets, keeps its names."""
    table = Table([("all zero: {named}", "全为零：{named}"), ("channel {n} is dead", "通道 {n} 已失效")], {})
    assert table.translate("all zero: a (channel 3 is dead), b c (channel 0 is dead)") == (
        "全为零：a（通道 3 已失效）, b c（通道 0 已失效）")
    assert table.translate("all zero: a (3), b (0)") == "全为零：a (3), b (0)"


def test_a_pattern_fits_by_its_pieces():
    """Literal pieces in order, the first at the start, the last at the end; a hole named n takes digits only."""
    pattern = Pattern.of("{x} of {y} samples: {z}", "")
    assert pattern.fit("3 of 20 samples: a, b") == {"x": "3", "y": "20", "z": "a, b"}
    assert pattern.fit("3 of 20 sample: a") is None
    assert Pattern.of("{n} nodes", "").fit("x nodes") is None
    assert Pattern.of("it is ab{x}ba", "").fit("it is aba") is None


def test_spaces_between_chinese_and_other_words():
    """Chinese beside Latin has a space, Chinese beside Chinese none."""
    table = Table([("in {place}, {count} left", "在{place}，剩{count}个"), ("the folder", "目录")], {})
    assert table.translate("in work, 3 left") == "在 work，剩 3 个"
    assert table.translate("in the folder, 3 left") == "在目录，剩 3 个"


def test_hostile_text_is_left_alone():
    """Text that is too long, or that repeats what patterns split at, comes back and does not take for ever."""
    for text in ("a: " * 2000, "a. " * 300, "; ".join(["x is y"] * 200), "{" * 500, "{x|word}", "\0 \0: \0"):
        assert translate(text) == text or len(text) < 4000


def test_english_is_untouched():
    """In English a message is the very text that was made."""
    text = "CPU: the configuration asks for it."
    assert spoken(text) is text and spoken_word("calibrate") == "calibrate"


@pytest.fixture
def chinese():
    """Views speak Chinese."""
    words.set_language("zh")
    yield
    words._state["language"] = ""


def test_a_refusal_in_chinese(chinese):
    """Notebook and shell show the block in Chinese; the error itself stays English."""
    error = PtqError([
        Problem("PTQ202", "bad.yaml:3  model_parameters.march", '"j6e"', "nash-b, nash-e", "J6E is nash-e"),
        Problem("PTQ203", "bad.yaml:4", "the number 3", "a folder"),
    ], "bad.yaml cannot be used")
    assert error._render_traceback_() == [
        "bad.yaml 无法使用：2 个问题",
        "PTQ202  bad.yaml:3  model_parameters.march",
        '    实际        "j6e"',
        "    允许        nash-b, nash-e",
        "    建议        J6E 即 nash-e",
        "PTQ203  bad.yaml:4",
        "    实际        数字 3",
        "    允许        目录",
    ]
    assert str(error).startswith("bad.yaml cannot be used: 2 problems\nPTQ202")
    assert told(Interrupted("calibrate", 3, 64)) == "在阶段“校准”停止，已完成 3/64；以前运行的产物不受影响"


def test_a_record_in_chinese(chinese):
    """Summary, explanation, page and frame are Chinese; the record that files are made of is not touched."""
    reason = "CPU: the configuration asks for it."
    finding = Finding("PTQ402", f"a: asked for int16, given float32. {reason}", ("a",),
                      "use more samples, or name the method")
    made = digits_record()
    made = replace(made, findings=(finding,), nodes=(replace(made.nodes[0], node="a", reason=reason),))
    before = made.to_json()
    assert "PTQ402  a：要求 int16，得到 float32。CPU：配置要求放在 CPU 上。" in summary(made)
    assert "建议：使用更多样本，或直接指定校准方法" in summary(made)
    page = Page("tune: no target, the best within the limits")
    page.findings([finding])
    assert "没有目标" in page.text() and "a：要求 int16" in page.html()
    assert all(CHINESE.search(reason) for reason in nodes_frame(made)["Reason"] if reason)
    assert CHINESE.search(str(explain(made, "a")))
    assert made.to_json() == before and not CHINESE.search(before)


def test_rules_of_the_configuration_are_taken_from_their_table():
    """What a key does is said in both languages where the key is defined, and shown from there."""
    row = next(row for rows in GROUPS.values() for row in rows if row.key == "march")
    assert translate(row.rule) == row.zh


def test_a_diagnosis_in_chinese():
    """The line of a cause: what it is, what was seen, what to do."""
    from ptqlab.debug.causes import Remedy

    cause = CAUSES[-1][0]
    one = Diagnosis("q", "conv", cause.__name__, " ".join((cause.__doc__ or "").split()),
                    "signal to noise without the mean 21.0 dB with 8 bits", Remedy("int16 for the nodes that read it"),
                    0.1, 9, 0.0, 21.0, 0.5)
    assert translate(str(one)) == ("conv（q）：位宽不足。数值分布良好，但 8 位对由它们计算的结果来说不够。"
                                   "此处：8 位时去均值后的信噪比为 21.0 dB。建议：对读取它的节点使用 int16。")


def test_findings_in_a_cell(chinese):
    """A list of findings, as `run.warnings`, is shown by IPython one by one in Chinese; repr is the data."""
    from IPython.lib.pretty import pretty

    finding = Finding("PTQ366", "input x is the same in all 4 samples", hint="use samples from real data")
    assert pretty([finding]) == "[警告 PTQ366: 输入 x 在全部 4 个样本中都相同 (使用真实数据作为样本)]"
    assert repr(finding).startswith("Finding(code='PTQ366', message='input x is the same")


def test_progress_in_chinese(chinese):
    """Stages have Chinese names where progress is shown; the log file is written from the events and keeps its own."""
    assert status(Event("step", "calibrate", 3, 64, 2.0, 8.0)) == "校准：3/64，2 秒，约剩 8 秒"

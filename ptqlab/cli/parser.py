"""The one argparse tree of the command line and the `%ptq` magic; completion is read off it as well.

What a metavar says decides what completion offers: FILE.yaml, FILE.onnx, ... files of that kind, MODEL any model
file, DIR folders, NODE names of nodes.
"""
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ptqlab import __version__
from ptqlab.cli.help import Help
from ptqlab.errors import nearest
from ptqlab.platforms import MARCHES
from ptqlab.report.netron_choices import COLORS, STAGES

SKIPS = ("export", "convert", "compile")
LANGUAGES = ("en", "zh")
MODEL_SUFFIXES = (".onnx", ".bc", ".hbm")
SHELLS = ("bash", "zsh")
FORMS = ("npy", "bin", "txt")


class Usage(Exception):
    """A line that the parser does not take; `str()` is the usage and what is wrong."""


class Done(Exception):
    """Help or version was asked for and is printed; nothing is left to do."""


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process, and names the nearest verb or option."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **{"formatter_class": Help, **keywords})

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{self.format_usage().rstrip()}\n{self.prog}: {message}{self._did_you_mean(message)}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            sys.stderr.write(message)
        raise Done

    def _did_you_mean(self, message: str) -> str:
        """The nearest verb, choice or option to the word that argparse complains of."""
        if choice := re.search(r"argument (\S+): invalid choice: '(.*?)' \(", message):
            named, word = choice.groups()
            action = self.options().get(named.split("/")[0])
            known = list(self.verbs() if action is None else action.choices or ())
        elif unknown := re.search(r"unrecognized arguments: (-\S+)", message):
            word = unknown[1]
            known = [option for parser in (self, *self.verbs().values()) for option in parser.options()]
        else:
            return ""
        near = nearest(word, known)
        return f"\ndid you mean {near[0]!r}?" if near else ""

    def verbs(self) -> dict[str, Parser]:
        """verb -> its parser, of a parser that has verbs."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def options(self) -> dict[str, argparse.Action]:
        """Every option string -> its action."""
        return dict(self._option_string_actions)

    def positionals(self) -> list[argparse.Action]:
        """Arguments without an option string, verbs excluded."""
        return [a for a in self._actions if not a.option_strings and not isinstance(a, argparse._SubParsersAction)]


def endings(action: argparse.Action) -> tuple[str, ...] | None:
    """Suffixes of the files that an argument takes; () for folders, None where it takes no path."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar.startswith("MODEL"):
        return MODEL_SUFFIXES
    if metavar.endswith("DIR"):
        return ()
    kind = re.search(r"FILE(\.\w+)$", metavar)
    if kind is None:
        return None
    return (".yaml", ".yml") if kind[1] == ".yaml" else (kind[1],)


def build(prog: str = "ptqlab") -> Parser:
    """The tree. `args.verb` is the verb, None when the line has none."""
    common = Parser(add_help=False)
    common.add_argument("--lang", choices=LANGUAGES,
                        help="language of tables and views (default: PTQLAB_LANG, else en)")
    top = Parser(prog=prog, description="Post-training quantization of ONNX models for the Horizon BPU.",
                 parents=[common], allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"ptqlab {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)

    def verb(name: str, help: str) -> Parser:
        # SUPPRESS: the option may stand before or after the verb; the later one must not reset the former
        made = verbs.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.add_argument("--lang", choices=LANGUAGES, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        return made

    _check(verb("check", "where every node of a model runs and why, and what would help; needs no data"))
    _fast_perf(verb("fast-perf", "the speed ceiling: everything int8 on the BPU, superfluous ends removed"))
    _config(verb("config", "write a configuration to start from, or print the JSON Schema of a file"))
    _compile(verb("compile", "quantize a model, simulate it, show what that does to every node"))
    explain = verb("explain", "what was asked of a node, what it was granted, and why")
    explain.add_argument("node", metavar="NODE", help="name as in the column Node")
    _run(explain)
    cosine = verb("cosine", "cosine to the float model, node by node")
    cosine.add_argument("-o", "--output", metavar="FILE.html", type=Path, help="write the figure as one html page")
    _run(cosine)
    grid = verb("grid", "the quant_config as a grid to be changed, with what each change does; in a notebook")
    grid.add_argument("--samples", type=int, default=8, metavar="N",
                      help="calibration samples that the effect is measured with (default: 8)")
    _run(grid)
    graph = verb("graph", "the graph of a run in Netron: a widget in a notebook, with -o a file that opens offline")
    graph.add_argument("node", nargs="?", metavar="NODE", help="only what is around this node")
    graph.add_argument("--hops", type=int, default=2, metavar="N", help="so many edges around NODE (default: 2)")
    graph.add_argument("--stage", choices=tuple(STAGES), default="optimized",
                       help="model of the run (default: optimized)")
    graph.add_argument("--color", choices=COLORS, default="cosine", help="measure by colour (default: cosine)")
    graph.add_argument("-o", "--output", metavar="FILE.html", type=Path, help="write one html page")
    _run(graph)
    _run(verb("dashboard", "heatmap, graph, grid and details of one node, linked; in a notebook"))
    compare = verb("compare", "two runs side by side: settings, outputs, speed, nodes")
    compare.add_argument("other", type=Path, metavar="DIR", help="folder of the other run, shown second")
    compare.add_argument("-o", "--output", metavar="FILE.html", type=Path, help="write the figure as one html page")
    _run(compare)
    report = verb("report", "one html file that opens offline and tells all of a run, in English and Chinese")
    report.add_argument("-o", "--output", metavar="FILE.html", type=Path, default=Path("report.html"),
                        help="the file (default: ./report.html)")
    report.add_argument("--with", dest="other", type=Path, metavar="DIR", help="folder of a run to compare with")
    report.add_argument("--no-sensitivity", action="store_true",
                        help="leave out what has to be computed: the heatmap and the causes")
    _run(report)
    doctor = verb("doctor", "what is wrong with a run, or with calibration data, why, and what to do")
    doctor.add_argument("-c", "--config", type=Path, metavar="FILE.yaml",
                        help="look at the calibration data of this configuration, before anything is compiled")
    doctor.add_argument("-w", "--worst", type=int, default=5, metavar="N", help="quantizers to explain (default: 5)")
    _run(doctor)
    from ptqlab.cli.debugging import add_debug, add_tune
    from ptqlab.cli.sensitivity import add_sensitivity

    sensitivity = verb("sensitivity", "what each node alone costs in int8, int16 and float16")
    add_sensitivity(sensitivity)
    _run(sensitivity)
    _march(sensitivity, help="whose rules say what a node is granted (default: that of the run)")
    _info(verb("info", "what a model file says of itself: parameters, inputs and outputs, memory, operators"))
    _infer(verb("infer", "run a model on arrays in files; the outputs become files"))
    _verify(verb("verify", "do two artifacts of one model agree?"))
    _ops(verb("ops", "what the BPU has: operators, their types and rules"))
    _perf(verb("perf", "estimated latency of layer tables, or of a run"))
    add_debug(verb("debug", "which nodes quantization hurts, and why: the sub-commands of hmct-debugger"))
    tune = verb("tune", "mixed precision until the target, each step with its cost in latency")
    add_tune(tune)
    _march(tune)
    demo = verb("demo", "compile the built-in digits network")
    demo.add_argument("--working-dir", type=Path, default=Path("demo_output"), metavar="DIR",
                      help="folder for the model, its data and the artifacts (default: ./demo_output)")
    _march(demo, default="nash-e", help="platform (default: nash-e)")
    completion = verb("completion", "print a completion script: eval \"$(ptqlab completion bash)\"")
    completion.add_argument("shell", choices=SHELLS, help="the shell it is for")
    return top


def _march(parser: Parser, **how: Any) -> None:
    parser.add_argument("--march", choices=MARCHES, metavar="M",
                        **{"help": f"platform: {', '.join(MARCHES)}", **how})


def _run(parser: Parser) -> None:
    parser.add_argument("--run", type=Path, default=None, metavar="DIR",
                        help="folder of the compile run (default: the last run of the notebook, else ./model_output)")


def _model(parser: Parser) -> None:
    """A float model, by itself or behind -m as in hb_compile."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE.onnx", help="float model; the same as -m")
    parser.add_argument("-m", "--model", type=Path, metavar="FILE.onnx", help="float model")
    _proto(parser, "--proto")


def _proto(parser: Parser, *flags: str) -> None:
    parser.add_argument(*flags, dest="proto", type=Path, metavar="FILE.prototxt",
                        help="Caffe graph; Caffe models are refused, export to ONNX")


def _shapes(parser: Parser, only: str = "") -> None:
    parser.add_argument("-i", "--input-shape", nargs=2, action="append", metavar=("NAME", "SHAPE"),
                        help=f"static shape of an input, such as 1x3x224x224; repeatable{only}")


def _check(parser: Parser) -> None:
    _model(parser)
    parser.add_argument("-c", "--config", type=Path, metavar="FILE.yaml", help="check with this configuration")
    _march(parser)
    _shapes(parser)
    parser.add_argument("--quant-config", type=Path, metavar="FILE.json", help="quant_config JSON")
    parser.add_argument("--core-num", type=int, metavar="N", help="BPU cores the model runs on")


def _fast_perf(parser: Parser) -> None:
    _model(parser)
    _march(parser)
    _shapes(parser)
    parser.add_argument("--core-num", type=int, metavar="N", help="BPU cores the model runs on")
    parser.add_argument("--working-dir", type=Path, metavar="DIR", help="folder for the artifacts")
    parser.add_argument("--prefix", metavar="NAME", help="how the names of the artifacts begin")


def _config(parser: Parser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-s", "--simple-yaml", action="store_true", help="the keys that must be set")
    what.add_argument("-f", "--full-yaml", action="store_true", help="the keys that are commonly set")
    what.add_argument("-c", "--custom-op", action="store_true", help="refused: custom operators are not run")
    what.add_argument("--schema", nargs="?", const="config", choices=("config", "quant_config"),
                      help="print the JSON Schema of the YAML (config) or of quant_config")
    parser.add_argument("-m", "--model", type=Path, metavar="FILE.onnx", help="float model to fill the values from")
    _proto(parser, "-p", "--proto")
    _march(parser)
    _shapes(parser, "; for a model with dynamic inputs")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")


def _compile(parser: Parser) -> None:
    parser.description = (
        f"{parser.description}. Modes, as in hb_compile: -c is a configuration; -m alone is a check; "
        "-m with --fast-perf is fast-perf; -m with --calibration-data compiles without a YAML.")
    parser.add_argument("-c", "--config", type=Path, metavar="FILE.yaml", help="YAML configuration")
    parser.add_argument("-m", "--model", type=Path, metavar="FILE.onnx", help="ONNX model, when there is no YAML")
    _proto(parser, "--proto")
    _march(parser)
    parser.add_argument("--fast-perf", action="store_true", help="the speed ceiling of --model; accuracy is not meant")
    _shapes(parser, "; with --model only")
    parser.add_argument("--core-num", type=int, metavar="N", help="BPU cores; check and fast-perf only")
    parser.add_argument("--calibration-data", action="append", metavar="[NAME=]DIR",
                        help="folder of calibration samples; NAME= for a model with several inputs, repeatable")
    parser.add_argument("--quant-config", type=Path, metavar="FILE.json", help="quant_config JSON")
    parser.add_argument("--working-dir", type=Path, metavar="DIR", help="folder for the artifacts")
    parser.add_argument("--prefix", metavar="NAME", help="how the names of the artifacts begin")
    parser.add_argument("--skip", choices=SKIPS, help="stop before this stage; --skip compile is the accuracy loop")


def _info(parser: Parser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help=".onnx, .bc or .hbm")
    parser.add_argument("-n", "--name", metavar="NAME", help="name of the model in the file")
    parser.add_argument("--encodings", action="store_true", help="type, scale and zero point of every integer tensor")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _infer(parser: Parser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help=".onnx, .bc or .hbm")
    parser.add_argument("-i", "--input", action="append", required=True, metavar="[NAME=]FILE.npy",
                        help="array of an input; NAME= for a model with several inputs, repeatable")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    parser.add_argument("--dump", action="append", default=[], metavar="TENSOR",
                        help="also write this tensor of the optimized graph (.bc, .hbm); all: every one; repeatable")
    parser.add_argument("--form", choices=FORMS, default="npy", help="npy (default), bin (raw) or txt")
    parser.add_argument("--integers", action="store_true", help="write dumped tensors as integers, not dequantized")


def _verify(parser: Parser) -> None:
    parser.add_argument("models", nargs="?", metavar="MODEL,MODEL", help="the two files; the same as -m")
    parser.add_argument("-m", "--model", dest="models_option", metavar="MODEL,MODEL",
                        help="two of .onnx, .bc, .hbm; .hbm is compared number by number, all else by cosine")
    parser.add_argument("-i", "--input", action="append", required=True, metavar="[NAME=]FILE.npy",
                        help="one set of data: files joined by commas; a second set, for the second form of the "
                             "inputs (camera bytes), is a second -i")
    parser.add_argument("-c", "--compare-digits", "--compare_digits", type=int, default=5, metavar="N",
                        help="consistent means |a - b| <= 10^-N (default: 5)")


def _ops(parser: Parser) -> None:
    _march(parser, default=None)
    parser.add_argument("--op", metavar="NAME", help="one operator with all its rules")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def _perf(parser: Parser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--layers", nargs="+", type=Path, metavar="FILE.jsonl", help="layer tables, also gzipped")
    what.add_argument("--run", type=Path, metavar="DIR",
                      help="folder of a run (default: the last run of the notebook, else ./model_output)")
    _march(parser, help="platform; for --layers")
    parser.add_argument("--core-num", type=int, default=1, metavar="N", help="BPU cores; for --layers (default: 1)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """The line as a namespace. Raises Usage for a bad one, Done after help or version."""
    args = parser.parse_args(list(words))
    if args.verb is None:
        parser.error(f"choose a verb: {', '.join(parser.verbs())}")
    return args

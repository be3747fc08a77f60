"""The one argparse tree of the command line and the `%ptq` magic; completion is read off it as well."""
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ptqlab import __version__
from ptqlab.errors import nearest
from ptqlab.platforms import MARCHES

SKIPS = ("export", "convert", "compile")
LANGUAGES = ("en", "zh")


class Usage(Exception):
    """A line that the parser does not take; `str()` is the usage and what is wrong."""


class Done(Exception):
    """Help or version was asked for and is printed; nothing is left to do."""


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process, and names the nearest verb or option."""

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

    _compile(verb("compile", "quantize a model, simulate it, show what that does to every node"))
    explain = verb("explain", "what was asked of a node, what it was granted, and why")
    explain.add_argument("node", metavar="NODE", help="name as in the column Node")
    _run(explain)
    cosine = verb("cosine", "cosine to the float model, node by node")
    cosine.add_argument("-o", "--output", metavar="FILE.html", type=Path, help="write the figure as one html page")
    _run(cosine)
    demo = verb("demo", "compile the built-in digits network")
    demo.add_argument("--working-dir", type=Path, default=Path("demo_output"), metavar="DIR",
                      help="folder for the model, its data and the artifacts (default: ./demo_output)")
    demo.add_argument("--march", choices=MARCHES, default="nash-e", metavar="M", help="platform (default: nash-e)")
    return top


def _run(parser: Parser) -> None:
    parser.add_argument("--run", type=Path, default=None, metavar="DIR",
                        help="folder of the compile run (default: the last run of the notebook, else ./model_output)")


def _compile(parser: Parser) -> None:
    parser.add_argument("-c", "--config", type=Path, metavar="FILE", help="YAML configuration")
    parser.add_argument("-m", "--model", type=Path, metavar="FILE", help="ONNX model, when there is no YAML")
    parser.add_argument("--march", choices=MARCHES, metavar="M", help=f"platform: {', '.join(MARCHES)}")
    parser.add_argument("-i", "--input-shape", nargs=2, action="append", metavar=("NAME", "SHAPE"),
                        help="static shape of an input, such as 1x3x224x224; repeatable; with --model only")
    parser.add_argument("--calibration-data", action="append", metavar="[NAME=]DIR",
                        help="folder of calibration samples; NAME= for a model with several inputs, repeatable")
    parser.add_argument("--quant-config", type=Path, metavar="FILE", help="quant_config JSON")
    parser.add_argument("--working-dir", type=Path, metavar="DIR", help="folder for the artifacts")
    parser.add_argument("--prefix", metavar="NAME", help="how the names of the artifacts begin")
    parser.add_argument("--skip", choices=SKIPS, help="stop before this stage; --skip compile is the accuracy loop")


def parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """The line as a namespace. Raises Usage for a bad one, Done after help or version."""
    args = parser.parse_args(list(words))
    if args.verb is None:
        parser.error(f"choose a verb: {', '.join(parser.verbs())}")
    return args

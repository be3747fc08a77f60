"""What each verb does, for the command line and for the magic: arguments in, a result object out."""
from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ptqlab.artifacts.files import atomic_write
from ptqlab.cli.parser import Usage
from ptqlab.errors import Finding, Problem, PtqError, shorten
from ptqlab.events import Watch
from ptqlab.result.api import compile, load, run
from ptqlab.result.compiled import CompileResult

DEFAULT_RUN = Path("model_output")


def run_compile(args: argparse.Namespace, cell: str | None = None, *, progress: Any = None) -> CompileResult:
    """Verb `compile`. `cell` is the YAML text of a notebook cell, in place of -c."""
    from ptqlab import config

    configured = cell is not None or args.config is not None
    if cell is not None and args.config is not None:
        raise Usage("compile: the configuration is in the cell; leave out -c")
    if configured and args.model is not None:
        raise Usage("compile: the configuration gives the model already; leave out -m")
    if not configured and args.model is None:
        raise Usage("compile: give -c FILE (a YAML configuration), or -m FILE and --march")
    keywords: dict[str, Any] = {}
    watch = Watch()
    if args.input_shape and not configured:
        keywords["input_shape"] = shapes(args.input_shape)
    elif args.input_shape:
        watch.finding(Finding("PTQ202", "-i/--input-shape has no effect together with a configuration",
                              hint="set input_shape in the configuration"))
    if args.calibration_data:
        keywords["calibration_data"] = folders(args.calibration_data)
    for name in ("model", "march", "quant_config", "working_dir", "prefix", "skip"):
        if (value := getattr(args, name)) is not None:
            keywords[name] = value
    settings = config.load(args.config, **keywords) if cell is None else config.load_text(cell, "cell", **keywords)
    return run(settings, progress=progress, watch=watch)


def run_demo(args: argparse.Namespace, *, progress: Any = None) -> CompileResult:
    """Verb `demo`: write the digits example into the folder and compile it there."""
    from ptqlab.examples import digits

    with _writing(args.working_dir):
        config = digits.write_config(args.working_dir, march=args.march)
    return compile(config, working_dir=args.working_dir / "model_output", progress=progress)


def write_page(run: CompileResult, path: Path) -> None:
    """The cosine figure of a run as one html page that needs nothing else."""
    with _writing(path):
        atomic_write(path, run.plot_cosine().to_html(include_plotlyjs=True))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn the system's refusal to write into one of ours."""
    try:
        yield
    except OSError as error:
        raise PtqError(Problem("PTQ604", str(path), f"cannot write: {error.strerror or error}",
                               "a place that can be written to", "choose another one")) from None


def chosen_run(args: argparse.Namespace, last: CompileResult | None) -> CompileResult:
    """The run that `--run` names, else the session's last one, else the one in ./model_output."""
    if args.run is not None:
        return load(args.run)
    if last is not None:
        return last
    if not DEFAULT_RUN.is_dir():
        raise PtqError(Problem("PTQ608", "--run", "no run was named and there is no ./model_output",
                               "the folder of a compile run", "compile first, or say --run DIR"))
    return load(DEFAULT_RUN)


def shapes(pairs: list[list[str]]) -> dict[str, tuple[int, ...]]:
    """{name: shape} from NAME 1x3x224x224 pairs. Raises PtqError naming every pair that is none."""
    problems = [Problem("PTQ203", f"--input-shape {shorten(name)}", repr(shorten(shape)),
                        "sizes joined by x, such as 1x3x224x224")
                for name, shape in pairs if not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", shape)]
    names = [name for name, _ in pairs]
    problems += [Problem("PTQ203", f"--input-shape {shorten(name)}", f"given {names.count(name)} times", "once")
                 for name in dict.fromkeys(names) if names.count(name) > 1]
    if problems:
        raise PtqError(problems, "compile")
    return {name: tuple(map(int, shape.split("x"))) for name, shape in pairs}


def folders(words: list[str]) -> Path | dict[str, Path]:
    """A folder, or {input: folder} when the words read NAME=DIR."""
    if len(words) == 1 and "=" not in words[0]:
        return Path(words[0])
    bad = [Problem("PTQ204", "--calibration-data", repr(shorten(word)), "NAME=DIR, once for every input")
           for word in words if not word.partition("=")[0] or not word.partition("=")[2]]
    if bad:
        raise PtqError(bad, "compile")
    return {word.partition("=")[0]: Path(word.partition("=")[2]) for word in words}

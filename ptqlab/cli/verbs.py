"""What each verb does, for the command line and for the magic: a parsed line in, a result object out."""
from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptqlab.artifacts.files import atomic_write, writing
from ptqlab.cli.debugging import run_debug, run_tune
from ptqlab.cli.parser import Usage, build
from ptqlab.cli.sensitivity import run_sensitivity
from ptqlab.cli.values import files_of, folders, shapes
from ptqlab.errors import Finding, Problem, PtqError
from ptqlab.events import Watch
from ptqlab.report.words import say
from ptqlab.result.api import compile, load, run
from ptqlab.result.compiled import CompileResult
from ptqlab.result.shown import (
    CheckResult,
    FastPerfResult,
    InferResult,
    Shown,
    SpeedResult,
    TemplateResult,
    Text,
    VerifyResult,
    as_json,
)

DEFAULT_RUN = Path("model_output")
CAFFE = (".caffemodel", ".prototxt")


@dataclass
class Session:
    """What a line finds around it.

    last      the session's last compile run;  progress  as in `ptqlab.compile`
    cell      text of a notebook cell, the YAML of `compile`;  march  platform of lines with a model and no --march
    notebook  widgets can be shown
    """

    last: CompileResult | None = None
    progress: Any = None
    cell: str | None = None
    march: str = ""
    notebook: bool = False


def run_compile(args: argparse.Namespace, session: Session) -> CompileResult | CheckResult:
    """Verb `compile` in all its modes (documented): -c; -m alone; -m with --fast-perf; and ours, -m with data."""
    _refuse_caffe(args)
    mode = _mode(args, session.cell)
    if mode == "check":
        return run_check(args, session)
    if mode == "fast-perf":
        return run_fast_perf(args, session)
    from ptqlab import config

    keywords: dict[str, Any] = {}
    watch = Watch()
    configured = args.model is None
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
    if not configured and session.march:
        keywords.setdefault("march", session.march)
    if session.cell is None:
        settings = config.load(args.config, **keywords)
    else:
        settings = config.load_text(session.cell, "cell", **keywords)
    return run(settings, progress=session.progress, watch=watch)


def _mode(args: argparse.Namespace, cell: str | None) -> str:
    """"config", "data", "check" or "fast-perf". Raises Usage for a mixture that means nothing."""
    if cell is not None and args.config is not None:
        raise Usage("compile: the configuration is in the cell; leave out -c")
    configured = cell is not None or args.config is not None
    if args.model is not None and args.model.suffix.lower() == ".bc":
        raise Usage("compile: recompiling a .bc is not there yet; compile the float model again with -c")
    if args.fast_perf and configured:
        raise Usage("compile: --fast-perf takes -m, not a configuration; leave one of them out")
    if configured and args.model is not None:
        raise Usage("compile: the configuration gives the model already; leave out -m (with -c it may only be a .bc)")
    if not configured and args.model is None:
        raise Usage("compile: give -c FILE (a YAML configuration), or -m FILE and --march")
    mode = "config" if configured else "fast-perf" if args.fast_perf else "data" if args.calibration_data else "check"
    if args.core_num is not None and mode in ("config", "data"):
        raise Usage("compile: --core-num is for check and fast-perf; set core_num in the configuration")
    idle = {"check": ("working_dir", "prefix", "skip"), "fast-perf": ("calibration_data", "quant_config", "skip")}
    found = [f"--{name.replace('_', '-')}" for name in idle.get(mode, ()) if getattr(args, name) is not None]
    if found and mode == "check":
        raise Usage(f"compile: -m alone is a check, which takes no {', '.join(found)}; to compile, give "
                    "--calibration-data, or -c")
    if found:
        raise Usage(f"compile: --fast-perf measures speed alone and takes no {', '.join(found)}")
    return mode


def run_check(args: argparse.Namespace, session: Session) -> CheckResult:
    """Verb `check`."""
    from ptqlab.result.looks import check

    _refuse_caffe(args)
    model = _one_model(args, "check")
    configured = args.config if args.verb == "check" else None
    if (configured is None) == (model is None):
        raise Usage("check: give a model (FILE.onnx, or -m FILE.onnx) and --march, or -c FILE.yaml")
    return check(configured, **_asked(args, session, model), progress=session.progress)


def run_fast_perf(args: argparse.Namespace, session: Session) -> FastPerfResult:
    """Verb `fast-perf`."""
    from ptqlab.result.looks import fast_perf

    _refuse_caffe(args)
    model = _one_model(args, "fast-perf")
    if model is None:
        raise Usage("fast-perf: give a model (FILE.onnx, or -m FILE.onnx) and --march")
    asked = {"march": None, **_asked(args, session, model)}
    return fast_perf(**asked, progress=session.progress)


def _one_model(args: argparse.Namespace, verb: str) -> Path | None:
    behind_verb: Path | None = getattr(args, "file", None)
    if behind_verb is not None and args.model is not None:
        raise Usage(f"{verb}: the model is given twice; leave out -m")
    return behind_verb or args.model


def _asked(args: argparse.Namespace, session: Session, model: Path | None) -> dict[str, Any]:
    """Keywords of check and fast-perf, those that the line gives."""
    asked: dict[str, Any] = {} if model is None else {"model": model}
    march = args.march or (session.march if model is not None else "")
    if march:
        asked["march"] = march
    if args.input_shape:
        asked["input_shape"] = shapes(args.input_shape)
    for name in ("quant_config", "core_num", "working_dir", "prefix"):
        if (value := getattr(args, name, None)) is not None:
            asked[name] = value
    return asked


def _refuse_caffe(args: argparse.Namespace) -> None:
    given = [p for p in (args.proto, args.model, getattr(args, "file", None)) if p is not None]
    named = [p for p in given if p.suffix.lower() in CAFFE] or ([args.proto] if args.proto is not None else [])
    if named:
        raise PtqError([Problem("PTQ209", str(p), "a Caffe model", "an .onnx model",
                                "Caffe 1.0 is not read yet: export the network to ONNX") for p in named], args.verb)


def run_config(args: argparse.Namespace, session: Session) -> TemplateResult | Text:
    """Verb `config`: a template in the current folder, or a schema as text."""
    from ptqlab.config import config_schema, quant_config_schema, template

    if args.schema is not None:
        return as_json(config_schema() if args.schema == "config" else quant_config_schema())
    if args.custom_op:
        raise Usage("config: custom operators are not run by ptqlab; use -s or -f")
    _refuse_caffe(args)
    kind = "simple" if args.simple_yaml else "full"
    target = Path(f"{kind}_compile_config.yaml")
    if target.exists() and not args.force:
        raise PtqError(Problem("PTQ609", str(target), "a file of that name is there already", "no such file",
                               "move it away, or add --force to overwrite it"), "config")
    inputs = None
    if args.model is not None:
        inputs = _static_inputs(args.model, shapes(args.input_shape or []))
    elif args.input_shape:
        raise Usage("config: -i is for a model with dynamic inputs; give -m")
    model = None if args.model is None else str(args.model)
    with writing(target):
        atomic_write(target, template(kind, model, args.march or session.march or None, inputs))
    return TemplateResult(target)


def _static_inputs(model: Path, given: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Input name -> shape; an open batch alone is 1. Raises PtqError for a model that cannot be read."""
    from ptqlab.graph import load as load_model
    from ptqlab.graph.peek import batches_of_one

    graph = load_model(model, batches_of_one(model, given)[0])
    return {str(v.name): graph.shape(str(v.name)) for v in graph.inputs}


def run_demo(args: argparse.Namespace, session: Session) -> CompileResult:
    """Verb `demo`: write the digits example into the folder and compile it there."""
    from ptqlab.examples import digits

    with writing(args.working_dir):
        config = digits.write_config(args.working_dir, march=args.march)
    return compile(config, working_dir=args.working_dir / "model_output", progress=session.progress)


def run_explain(args: argparse.Namespace, session: Session) -> Any:
    """Verb `explain`."""
    return chosen_run(args, session).explain(args.node)


def run_cosine(args: argparse.Namespace, session: Session) -> CompileResult:
    """Verb `cosine`: the run itself; with -o the page is written. Each caller shows it in its own way."""
    found = chosen_run(args, session)
    if args.output is not None:
        with writing(args.output):
            atomic_write(args.output, found.plot_cosine().to_html(include_plotlyjs=True))
    return found


def run_graph(args: argparse.Namespace, session: Session) -> Any:
    """Verb `graph`: the widget where there is a notebook; with -o a page."""
    from ptqlab.report.netron import graph_page

    _needs_notebook(args, session)
    found = chosen_run(args, session)
    what = {"stage": args.stage, "around": args.node, "hops": args.hops, "color": args.color}
    if args.output is None:
        return found.graph(**what)
    page = graph_page(found.record, found.directory, **what)
    with writing(args.output):
        atomic_write(args.output, page)
    return Text(str(args.output))


def run_grid(args: argparse.Namespace, session: Session) -> Any:
    """Verb `grid`: a widget, in a notebook only."""
    _needs_notebook(args, session)
    return chosen_run(args, session).grid(samples=args.samples)


def run_dashboard(args: argparse.Namespace, session: Session) -> Any:
    """Verb `dashboard`: linked widgets, in a notebook only."""
    _needs_notebook(args, session)
    return chosen_run(args, session).dashboard()


def _needs_notebook(args: argparse.Namespace, session: Session) -> None:
    """Raise Usage for a widget that nothing could show."""
    if not session.notebook and getattr(args, "output", None) is None:
        instead = f", or {args.verb} -o FILE.html writes a page" if "output" in args else ""
        raise Usage(f"{args.verb}: a widget, which needs a notebook: %ptq {args.verb}{instead}")


def run_compare(args: argparse.Namespace, session: Session) -> Shown:
    """Verb `compare`: the named run is b; with -o the page with the figure is written."""
    found = chosen_run(args, session).compare(args.other)
    if args.output is not None:
        with writing(args.output):
            atomic_write(args.output, found.plot().to_html(include_plotlyjs=True))
    return found


def run_report(args: argparse.Namespace, session: Session) -> Text:
    """Verb `report`: writes the file and says where."""
    found = chosen_run(args, session).report(args.output, other=args.other, sensitivity=not args.no_sensitivity,
                                             progress=session.progress)
    return Text(say("report_written", path=found))


def run_doctor(args: argparse.Namespace, session: Session) -> Shown:
    """Verb `doctor`."""
    from ptqlab.result.doctor import doctor

    if args.worst < 0:
        raise Usage("doctor: --worst takes 0 or more")
    if args.config is not None and args.run is not None:
        raise Usage("doctor: -c looks at data before a run, --run at a run; give one of them")
    if args.config is not None:
        return doctor(args.config, progress=session.progress)
    return doctor(chosen_run(args, session), worst=args.worst, progress=session.progress)


def run_info(args: argparse.Namespace, session: Session) -> Shown | Text:
    """Verb `info`."""
    from ptqlab.result.looks import info

    found = info(args.model, name=args.name, encodings=args.encodings)
    return as_json(found.to_dict()) if args.json else found


def run_infer(args: argparse.Namespace, session: Session) -> InferResult:
    """Verb `infer`."""
    from ptqlab.result.looks import infer

    named = files_of(args.input, "infer")
    twice = [name for name in dict.fromkeys(n for n, _ in named) if [n for n, _ in named].count(name) > 1]
    if twice:
        raise Usage(f"infer: {', '.join(n or 'a file without NAME=' for n in twice)}: given twice; "
                    "a model with several inputs takes NAME=FILE.npy for each")
    with writing(args.output):
        return infer(args.model, dict(named), args.output, dump=args.dump, form=args.form, integers=args.integers)


def run_verify(args: argparse.Namespace, session: Session) -> VerifyResult:
    """Verb `verify`."""
    from ptqlab.pipeline.verify import verify_files

    if (args.models is None) == (args.models_option is None):
        raise Usage("verify: give the two models once, as A,B or as -m A,B")
    models = [word.strip() for word in (args.models or args.models_option).split(",")]
    if len(models) != 2 or not all(models):
        raise Usage(f"verify: two models joined by a comma are compared, not {len(models)}")
    if not 0 <= args.compare_digits <= 15:
        raise Usage("verify: --compare-digits takes 0 to 15")
    sets = [files_of(one.split(","), "verify") for one in args.input]
    return VerifyResult(verify_files((models[0], models[1]), sets, digits=args.compare_digits))


def run_ops(args: argparse.Namespace, session: Session) -> Shown | Text:
    """Verb `ops`."""
    from ptqlab.result.looks import operators

    found = operators(args.march or session.march or None, args.op)
    return as_json(found.to_list()) if args.json else found


def run_perf(args: argparse.Namespace, session: Session) -> Shown | Text:
    """Verb `perf`."""
    from ptqlab.result.looks import estimate

    if args.layers is None:
        if args.march is not None:
            raise Usage("perf: --march is for --layers; a run has its own")
        record = chosen_run(args, session).record
        return as_json({"model": record.model, **record.perf}) if args.json else SpeedResult([], record)
    march = args.march or session.march
    if not march:
        raise Usage("perf: --layers needs --march")
    found = estimate(args.layers, march, core_num=args.core_num)
    return as_json(found.rows) if args.json else found


def run_completion(args: argparse.Namespace, session: Session) -> Text:
    """Verb `completion`."""
    from ptqlab.cli.completion import script

    return Text(script(build(), args.shell))


def chosen_run(args: argparse.Namespace, session: Session) -> CompileResult:
    """The run that `--run` names, else the session's last one, else the one in ./model_output."""
    if args.run is not None:
        return load(args.run)
    if session.last is not None:
        return session.last
    if not DEFAULT_RUN.is_dir():
        raise PtqError(Problem("PTQ608", "--run", "no run was named and there is no ./model_output",
                               "the folder of a compile run", "compile first, or say --run DIR"))
    return load(DEFAULT_RUN)


VERBS: dict[str, Callable[[argparse.Namespace, Session], Any]] = {
    "check": run_check, "fast-perf": run_fast_perf, "config": run_config, "compile": run_compile,
    "explain": run_explain, "cosine": run_cosine, "graph": run_graph, "grid": run_grid,
    "dashboard": run_dashboard,
    "compare": run_compare, "report": run_report,
    "doctor": run_doctor, "info": run_info, "infer": run_infer, "verify": run_verify,
    "ops": run_ops, "perf": run_perf, "debug": run_debug, "tune": run_tune, "sensitivity": run_sensitivity,
    "demo": run_demo, "completion": run_completion,
}

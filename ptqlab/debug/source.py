"""From what a user holds - a file, a compile result, folders, arrays - to a network and its samples."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ptqlab import config as configuration
from ptqlab.arith.metrics import METRICS, Metric
from ptqlab.debug.measured import Judge
from ptqlab.debug.network import Network, load_network
from ptqlab.debug.ranking import AnyMetric, UserMetric
from ptqlab.errors import Problem, PtqError, nearest, raise_if, shorten
from ptqlab.quantize.samples import Samples, load_samples

#: Metrics as a user gives them: names, own functions, or a list of both.
MetricNames: TypeAlias = "str | Judge | Sequence[str | Judge]"
DEBUG_METRICS = ("cosine-similarity", "mse", "mre", "sqnr", "chebyshev")


def open_source(model: Any, data: Any = None) -> tuple[Network, Samples]:
    """The network and the samples of a calibrated model.

    model  path of a calibrated model, a CompileResult, or a Network
    data   as `calibration_data` of a compile run; for a CompileResult the folders it was calibrated with, if None
    Raises PtqError with every problem.
    """
    network = open_network(model)
    if data is None:
        data = _data_of(model)
    inputs = {str(v.name): (network.graph.shape(str(v.name)), network.graph.dtype(str(v.name)))
              for v in network.graph.inputs}
    return network, load_samples(data, inputs)


def open_network(model: Any) -> Network:
    """The network of a calibrated model file, a CompileResult or of itself."""
    if isinstance(model, Network):
        return model
    artifacts = getattr(model, "artifacts", None)
    if artifacts is None:
        return load_network(model)
    if "calibrated" not in artifacts:
        raise PtqError(Problem("PTQ550", "debug", "a run without a calibrated model", "a run of compile"), "debug")
    return load_network(artifacts["calibrated"], artifacts.get("optimized_float"))


def _data_of(model: Any) -> Any:
    """The arrays or folders that a compile result was calibrated with."""
    held = getattr(model, "data", None)
    if held is not None:
        return held
    record = getattr(model, "record", None)
    if record is not None:
        folders = configuration.load(record.settings).calibration.folders
        if folders:
            return dict(folders)
    raise PtqError(Problem("PTQ553", "calibration data", "none given, and the run names no folder of its own",
                           "a folder of samples, {input: folder} or {input: [array, ...]}"), "debug")


def march_of(model: Any) -> str | None:
    """The march of a compile result; None where nothing says it."""
    return getattr(getattr(model, "record", None), "march", None)


def all_metrics_of(given: MetricNames, where: str = "metrics") -> list[AnyMetric]:
    """Metrics of names, and the user's own ones: functions of (outputs by name, number of the sample)."""
    listed = [given] if isinstance(given, str) or callable(given) else list(given)
    own = [UserMetric(str(getattr(m, "__name__", f"metric{i}")), m) for i, m in enumerate(listed) if callable(m)]
    named = metrics_of([m for m in listed if not callable(m)], where) if len(own) < len(listed) or not own else []
    both: list[AnyMetric] = [*named, *own]
    names = [m.name for m in both]
    raise_if([Problem("PTQ554", where, f"two metrics named {shorten(n)!r}", "names that differ")
              for n in dict.fromkeys(names) if names.count(n) > 1], "debug")
    of_name, mine = iter(named), iter(own)
    return [next(mine) if callable(m) else next(of_name) for m in listed]


def metrics_of(given: str | Sequence[str], where: str = "metrics") -> list[Metric]:
    """The metrics of these names. PtqError for names that are none."""
    names = [given] if isinstance(given, str) else list(given)
    problems = []
    for name in names:
        if name not in DEBUG_METRICS:
            near = nearest(str(name), DEBUG_METRICS, 1)
            problems.append(Problem("PTQ554", where, repr(shorten(name)), ", ".join(DEBUG_METRICS),
                                    f"did you mean {near[0]!r}?" if near else ""))
    if not names:
        problems.append(Problem("PTQ554", where, "no metric", ", ".join(DEBUG_METRICS)))
    raise_if(problems, "debug")
    return [METRICS[n] for n in names]


def first_samples(samples: Samples, count: int | None, where: str = "data_num") -> Samples:
    """The first `count` samples, all for None. PtqError for a number that is none."""
    if count is None:
        return samples
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        problem = Problem("PTQ554", where, repr(shorten(count)), "a whole number from 1, or None for all")
        raise PtqError(problem, "debug")
    return samples.first(min(count, len(samples)))


def folder_of(save_dir: str | Path) -> Path:
    """A folder to write to, made if need be."""
    path = Path(save_dir)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PtqError(Problem("PTQ604", str(path), f"cannot write: {error.strerror or error}",
                               "a place that can be written to", "choose another one"), "debug") from None
    return path

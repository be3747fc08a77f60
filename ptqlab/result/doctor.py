"""The doctor: what is wrong with a run or with calibration data, why, and what to do."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptqlab.errors import Finding, Problem, PtqError
from ptqlab.events import Watch
from ptqlab.report.health import OutputHealth, health_page
from ptqlab.report.page import Page
from ptqlab.report.words import spoken, spoken_word
from ptqlab.result.api import watched
from ptqlab.result.compiled import CompileResult
from ptqlab.result.shown import Shown

if TYPE_CHECKING:
    from ptqlab.config import Config
    from ptqlab.debug.diagnosis import Diagnosis
    from ptqlab.debug.network import Network
    from ptqlab.quantize.parallel import SampleSet
    from ptqlab.quantize.samples import Samples
    from ptqlab.result.progress import Progress


@dataclass
class DoctorResult(Shown):
    """What the doctor found.

    subject   the model or the data
    problems  of the data: samples that cannot be used
    data      findings on the calibration data;  run  findings of the run
    outputs   how much of each output is left;  causes  the quantizers that hurt most, with cause and remedy
    """

    subject: str
    problems: Sequence[Problem] = ()
    data: Sequence[Finding] = ()
    run: CompileResult | None = None
    outputs: Sequence[OutputHealth] = ()
    causes: Sequence[Diagnosis] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that a user has to act on."""
        warned = any(f.severity == "warning" for f in (*self.data, *(self.run.warnings if self.run else ())))
        return not (self.problems or warned or any(o.trouble for o in self.outputs))

    def page(self) -> Page:
        record = None if self.run is None else self.run.record
        causes = [(d.node, spoken_word(d.cause.replace("_", " ")), spoken(d.found), spoken(d.remedy.what))
                  for d in self.causes]
        return health_page(self.subject, self.problems, self.data, record, self.outputs, causes)

    def __repr__(self) -> str:
        return f"DoctorResult({self.subject}: {'healthy' if self.healthy else 'see print()'})"


def doctor(what: CompileResult | str | Path | Mapping[str, Any], *, data: Any = None, worst: int = 5,
           samples: int | None = 4, progress: bool | Progress | None = None, **keywords: Any) -> DoctorResult:
    """Look a run, or the calibration data of a configuration, over.

    what     a run; or a configuration as in `ptqlab.compile`, whose data are looked at before anything is compiled
    data     calibration data; None: those of the run or configuration
    worst    number of quantizers to explain;  samples  how many samples explain them, None: all

    Raises PtqError for data that cannot be found; samples that are of no use are told in the result.
    """
    watch = Watch()
    if isinstance(what, CompileResult):
        run = what
        return watched(lambda: _of_run(run, data, worst, samples, watch), watch, progress)
    from ptqlab import config as configuration

    given = {} if data is None else {"calibration_data": data}
    settings = configuration.load(what, **given, **keywords)
    return watched(lambda: _of_data(settings, watch), watch, progress)


def _of_run(run: CompileResult, data: Any, worst: int, samples: int | None, watch: Watch) -> DoctorResult:
    from ptqlab.debug.diagnosis import diagnose
    from ptqlab.debug.source import first_samples

    network, known = run.source(data)
    problems, found = _examined(known, (), watch)
    some = [dict(sample) for sample in first_samples(known, samples)]
    with np.errstate(invalid="ignore"):  # a mask of -inf minus its mean is NaN, and is meant to be
        causes = diagnose(network, some, worst=worst, data_num=None, watch=watch)
        outputs = outputs_of(network, some)
    return DoctorResult(run.record.model, problems, found, run, outputs, causes)


def _of_data(settings: Config, watch: Watch) -> DoctorResult:
    """The data of a configuration against the model's inputs."""
    from ptqlab import config as configuration
    from ptqlab.graph import load
    from ptqlab.quantize.samples import load_samples

    if settings.calibration.data is None:
        raise PtqError(Problem("PTQ553", "calibration data", "none", "samples to look at",
                               "give cal_data_dir, or calibration_data"), "doctor")
    graph = load(settings.model.onnx_model, settings.input_shapes, output_nodes=settings.model.output_nodes)
    names = [str(v.name) for v in graph.inputs]
    settings = configuration.bind(settings, {n: (graph.shape(n), str(graph.dtype(n))) for n in names})
    subject = settings.model.onnx_model.name
    try:
        samples = load_samples(settings.calibration.data, {n: (graph.shape(n), graph.dtype(n)) for n in names}, watch,
                               settings.calibration.raw_types)
    except PtqError as error:
        return DoctorResult(subject, error.problems)
    problems, found = _examined(samples, settings.inputs, watch)
    return DoctorResult(subject, problems, found)


def _examined(samples: Samples, inputs: Any, watch: Watch) -> tuple[Sequence[Problem], Sequence[Finding]]:
    """What the data doctor says; samples with NaN or Inf as problems."""
    from ptqlab.quantize.doctor import examine

    try:
        return (), examine(samples, inputs, watch)
    except PtqError as error:
        return error.problems, ()


def outputs_of(network: Network, samples: SampleSet) -> list[OutputHealth]:
    """What quantization leaves of each output that a node computes; measured on `samples`."""
    from ptqlab.debug.distribution import values_of

    nodes = {str(v.name): v.producer() for v in network.graph.outputs}
    named = {output: str(node.name) for output, node in nodes.items()
             if node is not None and node.outputs[0].name == output}
    found = values_of(network, list(named.values()), samples, "outputs") if named else []
    return [OutputHealth.of(output, values) for output, values in zip(named, found, strict=True)
            if values.before.dtype.kind == "f"]

"""The main job as a list of stages: float model in, quantized model and its story out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

import numpy as np

from ptqlab import config as configuration
from ptqlab import perf, workers
from ptqlab.artifacts.files import Workspace, artifact_name
from ptqlab.artifacts.models import write_quantized
from ptqlab.artifacts.tables import node_info_csv
from ptqlab.config import Config
from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, ShapeInferenceError, load, save
from ptqlab.pipeline import requests, rows
from ptqlab.pipeline.interface import DUMP_DATA, Interface, batched_graph, build_interface, removed_text
from ptqlab.pipeline.layer_search import raised
from ptqlab.pipeline.measure import Measures, differing_finding, measure, overflow_finding, zero_finding
from ptqlab.pipeline.prepared import prepared
from ptqlab.pipeline.presets import with_preset
from ptqlab.placement import Asks, place
from ptqlab.platforms import Platform, platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.doctor import examine
from ptqlab.quantize.encode import encode
from ptqlab.quantize.lower import lower
from ptqlab.quantize.samples import Samples, load_samples, random_samples
from ptqlab.stages.calibration import Calibration
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import CalibratedModel
from ptqlab.stages.record import Record

RANDOM_SAMPLES = 1


@dataclass
class _Run:
    """What the stages of one run share."""

    config: Config
    watch: Watch
    work: Workspace
    kind: str
    executor: Executor | None = None
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, *, counts_itself: bool = False) -> Iterator[None]:
        """Time a stage and tell the watch; work that counts samples tells its own stage inside."""
        started = time.perf_counter()
        with nullcontext() if counts_itself else self.watch.stage(name):
            yield
        self.timings[name] = round(time.perf_counter() - started, 3)

    def tell(self, findings: tuple[Finding, ...] | list[Finding]) -> None:
        for finding in findings:
            self.watch.finding(finding)


def compile_model(
    config: Config,
    *,
    skip: str | None = None,
    watch: Watch | None = None,
    executor: Executor | None = None,
    kind: str = "compile",
) -> Record:
    """Quantize and simulate a model; artifacts go to `config.model.working_dir`, all of them or none.

    kind  "compile", or "fast-perf": nothing is compared with the float model, since random data say nothing of accuracy
    skip  "export" or "convert" stop before the integer model, "compile" before the `.hbm`
    Raises PtqError with all problems of an input; Interrupted when the watch was stopped.
    """
    watch = watch or Watch()
    with Workspace(config.model.working_dir, config.model.output_model_file_prefix) as work:
        run = _Run(config, watch, work, kind, executor)
        return _stages(run, skip or config.skip)


def _stages(run: _Run, skip: str | None) -> Record:
    target = platform(run.config.model.march)
    loaded = _prepare(run)
    graph = _optimize(run, loaded)
    asks, plan = _place(run, graph, target)
    samples = _samples(run, graph)
    with run.stage("calibrate", counts_itself=True):
        asks, plan, calibration = _calibrate(run, graph, target, asks, plan, samples)
        run.watch.log(f"calibration: {calibration.method}")
        run.tell(calibration.findings)
        encodings = encode(graph, plan, calibration)
        run.tell(encodings.findings)
        calibrated = calibrated_model(graph, plan, encodings)
        save(calibrated.model, run.work.path("calibrated"))
        _mark(calibrated, plan)
        save(calibrated.model, run.work.path("ptq"))
    quantized, interface = None, None
    if skip not in ("export", "convert"):
        with run.stage("convert"):
            quantized = lower(graph, plan, encodings)
            run.tell(quantized.findings)
            batched = batched_graph(loaded, run.config)
            interface = build_interface(run.config, graph, plan, asks, encodings, quantized, batched, target, run.watch)
            _write_interface(run, interface)
    measures = Measures()
    if run.kind == "compile":
        with run.stage("compare", counts_itself=True):
            measures = measure(graph, plan, encodings, calibrated, quantized, samples, len(samples), run.watch)
            told = overflow_finding(graph, measures) + differing_finding(measures)
            run.tell(told + zero_finding(graph, plan, measures))
    if interface is not None and skip != "compile":
        with run.stage("compile"):
            write_quantized(interface.removed or interface.quantized, run.work.path("hbm"), "hbm", _about(run))
    figures = _estimate(run, graph, plan)
    return _finish(run, graph, plan, calibration, measures, target, len(samples), skip, figures)


def _estimate(run: _Run, graph: FloatGraph, plan: Plan) -> dict[str, Any]:
    """The static performance estimate, as plain data."""
    march = run.config.model.march
    # where public sources differ a configuration may ask for more cores than are counted here, and was warned
    cores = min(run.config.compiler.core_num, platform(march).cores)
    with run.stage("estimate"):
        layers = perf.from_plan(graph, plan)
        result = perf.estimate(layers, march, model=run.work.prefix, core_num=cores)
        limit = run.config.compiler.advice or None
        slow = perf.advice(layers, result, limit)
        run.tell(_slower_than(limit, slow) if limit else [])
        run.work.path("perf_json").write_text(json.dumps(perf.performance_json(result), indent=1), encoding="utf-8")
        run.work.path("perf_html").write_text(perf.performance_html(result, slow), encoding="utf-8")
        for line in perf.summary_lines(result):
            run.watch.log(line)
    return result.to_dict()


def _slower_than(limit: float, slow: Sequence[perf.Advice]) -> list[Finding]:
    """The answer to `advice`: operators that take longer than so many microseconds, slowest first."""
    named = [a for a in slow if a.us > limit]
    if not named:
        return [Finding("PTQ460", f"advice: no operator takes longer than {limit:g} us", severity="note")]
    told = "; ".join(f"{a.layer} {a.us:.1f} us{': ' if a.causes else ''}{', '.join(a.causes)}" for a in named[:10])
    more = f"; and {len(named) - 10} more" if len(named) > 10 else ""
    hint = "; ".join(dict.fromkeys(r for a in named[:10] for r in a.remedies))
    message = f"advice: {len(named)} operators take longer than {limit:g} us (estimate): {told}{more}"
    return [Finding("PTQ460", message, tuple(a.layer for a in named), hint, "note")]


def _prepare(run: _Run) -> FloatGraph:
    with run.stage("prepare"):
        model = run.config.model
        try:
            graph = load(model.onnx_model, run.config.input_shapes, output_nodes=model.output_nodes)
        except ShapeInferenceError as error:
            _save_failed(run, error)
            raise
        run.tell(graph.findings)
        inputs = {str(v.name): (graph.shape(str(v.name)), str(graph.dtype(str(v.name)))) for v in graph.inputs}
        run.config = configuration.bind(run.config, inputs)
        run.tell(run.config.findings)
        save(graph.model, run.work.path("original_float"))
    return graph


def _save_failed(run: _Run, error: ShapeInferenceError) -> None:
    """Leave the model whose shapes do not fit where the user can open it."""
    where = run.config.model.working_dir / artifact_name("shape_inference_fail", "")
    save(error.model, where)
    run.watch.log(f"the model as far as its shapes are known: {where}")


def _optimize(run: _Run, graph: FloatGraph) -> FloatGraph:
    with run.stage("optimize"):
        told = len(graph.findings)
        optimized = prepared(graph, run.config, run.watch)
        run.tell(optimized.findings[told:])
        save(optimized.model, run.work.path("optimized_float"))
    return optimized


def _place(run: _Run, graph: FloatGraph, target: Platform) -> tuple[Asks, Plan]:
    with run.stage("place"):
        run.config, notes = with_preset(run.config, graph, target)
        run.tell(notes)
        asks, findings = requests.make_asks(graph, run.config)
        run.tell(findings)
        plan = place(graph, target, asks)
        run.tell(requests.without_effect(plan, asks))
        on_bpu = sum(n.on_bpu for n in plan.nodes.values())
        run.watch.log(f"{on_bpu} of {len(plan.nodes)} nodes on the BPU in {plan.segments} segment(s)")
    return asks, plan


def _calibrate(
    run: _Run, graph: FloatGraph, target: Platform, asks: Asks, plan: Plan, samples: Samples
) -> tuple[Asks, Plan, Calibration]:
    """Thresholds; after a layer search those of the plan with better types for the worst nodes."""
    with workers.opened(run.executor) as pool:
        store, total = requests.store(run.config), len(samples)
        asked = requests.make_recipe(graph, plan, run.config)
        found = calibrate(graph, plan, samples, total, run.watch, asked, pool, store)
        if run.config.calibration.quant.layer_search is None:
            return asks, plan, found
        quant, answer = raised(run.config.calibration.quant, graph, plan, found, samples, run.watch, pool)
        run.config = replace(run.config, calibration=replace(run.config.calibration, quant=quant))
        asks, plan = _place(run, graph, target)
        asked = requests.make_recipe(graph, plan, run.config)
        found = calibrate(graph, plan, samples, total, run.watch, asked, pool, store)
        return asks, plan, replace(found, answers={**found.answers, "layer_search": answer})


def _samples(run: _Run, graph: FloatGraph) -> Samples:
    with run.stage("read calibration data", counts_itself=True):
        inputs = {str(v.name): (graph.shape(str(v.name)), graph.dtype(str(v.name))) for v in graph.inputs}
        calibration = run.config.calibration
        if calibration.data is None or calibration.calibration_type == "skip":
            run.watch.finding(
                Finding(
                    "PTQ301",
                    "no calibration data: thresholds come from random numbers, so the accuracy figures mean nothing",
                    hint="give cal_data_dir for figures that mean something",
                )
            )
            return random_samples(inputs, RANDOM_SAMPLES)
        samples = load_samples(calibration.data, inputs, run.watch, calibration.raw_types)
        run.tell(samples.findings)
        run.tell(examine(samples, run.config.inputs, run.watch))
        if DUMP_DATA in run.config.model.debug_mode:
            _dump(run, samples)
    return samples


def _dump(run: _Run, samples: Samples) -> None:
    """`calibration_data/<input>/<n>.npy`: what calibration is fed, ready for the calibrated model."""
    for index, sample in enumerate(samples):
        for name, array in sample.items():
            np.save(run.work.extra("calibration_data", name, f"{index}.npy"), array, allow_pickle=False)


def _mark(calibrated: CalibratedModel, plan: Plan) -> None:
    """The ptq model: the calibrated graph with device and type of each node written on it."""
    for node in calibrated.model.graph:
        decided = plan.nodes.get(str(node.name))
        if decided is not None:
            node.metadata_props.update({"ptqlab.on": decided.device.value, "ptqlab.qtype": decided.granted})


def _write_interface(run: _Run, interface: Interface) -> None:
    """`.bc`, and what belongs to removed nodes."""
    write_quantized(interface.quantized, run.work.path("quantized"), "bc", _about(run))
    if interface.removed is not None:
        write_quantized(interface.removed, run.work.path("quantized_removed"), "bc", _about(run))
        run.work.path("deleted_nodes").write_text(removed_text(interface.nodes), encoding="utf-8")


def _about(run: _Run) -> dict[str, Any]:
    return {"march": run.config.model.march, "settings": run.config.to_dict(), "versions": versions()}


def _finish(
    run: _Run,
    graph: FloatGraph,
    plan: Plan,
    calibration: Any,
    measures: Measures,
    target: Platform,
    samples: int,
    skip: str | None,
    figures: Mapping[str, Any],
) -> Record:
    work = run.work
    keys = [k for k in ARTIFACTS if work.path(k).exists()] + ["node_info", "record"]
    older = [name for name in work.left_over() if name not in {work.path(k).name for k in keys}]
    if older:
        run.watch.finding(
            Finding(
                "PTQ605",
                f"left by an earlier run and not written again: {', '.join(older)}",
                hint="delete them, or run all stages",
            )
        )
    record = Record(
        model=run.config.model.output_model_file_prefix,
        march=target.march,
        nodes=rows.node_rows(graph, plan, calibration, measures, target),
        outputs=rows.output_rows(graph, measures),
        findings=tuple(run.watch.findings),
        inputs=rows.tensor_infos(graph.inputs, graph),
        output_infos=rows.tensor_infos(graph.outputs, graph),
        kind=run.kind,
        segments=plan.segments,
        complete=skip is None,
        samples=samples,
        settings=run.config.to_dict(),
        quant_config=run.config.calibration.quant.to_dict(),
        calibration=calibration.to_dict(),
        artifacts={k: work.path(k).name for k in keys},
        timings=run.timings,
        perf=figures,
        versions=versions(),
    )
    work.path("node_info").write_text(node_info_csv(record), encoding="utf-8")
    work.path("record").write_text(record.to_json(), encoding="utf-8")
    work.publish()
    return record


ARTIFACTS = (
    "original_float",
    "optimized_float",
    "calibrated",
    "ptq",
    "quantized",
    "quantized_removed",
    "deleted_nodes",
    "hbm",
    "perf_html",
    "perf_json",
)


def versions() -> dict[str, str]:
    """Versions of what made a result."""
    return {name: metadata.version(name) for name in ("ptqlab", "onnxruntime", "onnx", "onnx-ir", "numpy")}

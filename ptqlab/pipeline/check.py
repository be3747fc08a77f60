"""`check`: what a platform makes of a model, without data and without quantizing anything."""

from __future__ import annotations

import time
from pathlib import Path

from ptqlab import config as configuration
from ptqlab.artifacts.files import atomic_write, writing
from ptqlab.config import Config
from ptqlab.config.templates import template
from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, bodies, load
from ptqlab.graph.peek import batches_of_one
from ptqlab.pipeline import requests, rows
from ptqlab.pipeline.compile import versions
from ptqlab.pipeline.measure import Measures
from ptqlab.pipeline.prepared import prepared
from ptqlab.placement import place
from ptqlab.platforms import platform
from ptqlab.stages.plan import Plan
from ptqlab.stages.record import Record

FOLDER = Path(".check")
NO_DATA = "PTQ255"  # "no calibration data", which a check needs none of


def check_model(config: Config, *, watch: Watch | None = None, folder: Path | None = None) -> Record:
    """Placement of every node with its reason, segments, and what would help.

    Writes `<folder>/<model>_config.yaml` (default folder `.check` in the working directory of the process), a full
    configuration to go on with; the record's artifacts name it. A batch that the model leaves open becomes 1.
    Raises PtqError with all problems of the model and the configuration.
    """
    watch = watch or Watch()
    target = platform(config.model.march)
    started = time.perf_counter()
    with watch.stage("check"):
        given, opened = batches_of_one(config.model.onnx_model, config.input_shapes)
        loaded = load(config.model.onnx_model, given, output_nodes=config.model.output_nodes)
        inputs = {str(v.name): (loaded.shape(str(v.name)), str(loaded.dtype(str(v.name)))) for v in loaded.inputs}
        config = configuration.bind(config, inputs)
        graph = prepared(loaded, config, watch)
        asks, findings = requests.make_asks(graph, config)
        plan = place(graph, target, asks)
        told = [
            *_settings_findings(config),
            *([batch_finding(opened)] if opened else []),
            *graph.findings,
            *findings,
            *requests.without_effect(plan, asks),
            *what_would_help(graph, plan),
        ]
        for finding in told:
            watch.finding(finding)
    where = (FOLDER if folder is None else folder) / f"{config.model.onnx_model.stem}_config.yaml"
    shapes = {name: shape for name, (shape, _) in inputs.items()}
    with writing(where):
        atomic_write(where, template("full", str(config.model.onnx_model), target.march, shapes))
    return Record(
        model=config.model.onnx_model.stem,
        march=target.march,
        nodes=rows.node_rows(graph, plan, None, Measures(), target),
        outputs=(),
        findings=tuple(watch.findings),
        inputs=rows.tensor_infos(graph.inputs, graph),
        output_infos=rows.tensor_infos(graph.outputs, graph),
        kind="check",
        segments=plan.segments,
        settings=config.to_dict(),
        quant_config=config.calibration.quant.to_dict(),
        artifacts={"config": where.name},
        timings={"check": round(time.perf_counter() - started, 3)},
        versions=versions(),
    )


def batch_finding(inputs: tuple[str, ...]) -> Finding:
    """What was decided for inputs whose batch the model leaves open."""
    return Finding(
        "PTQ434",
        f"the batch of {', '.join(inputs)} is open in the model and was taken as 1",
        hint="-i NAME SHAPE sets another one",
        severity="note",
    )


def _settings_findings(config: Config) -> list[Finding]:
    """Findings of the configuration that matter without calibration data."""
    return [f for f in config.findings if f.code != NO_DATA]


def what_would_help(graph: FloatGraph, plan: Plan) -> list[Finding]:
    """Advice on what stands on the CPU: one finding per kind of cause, with the nodes it is about."""
    behind_tail = _named(plan, "after-tail")
    head, tail = _named(plan, "passive-head"), _named(plan, "passive-tail")
    islands = _islands(graph, plan)
    advice = []
    if behind_tail:
        advice.append(
            _note(
                "PTQ430",
                f"{_count(behind_tail)} behind the last operator with weights on the CPU",
                behind_tail,
                "model_output_type int8 or int16, or naming them in quant_config, keeps them on the BPU",
            )
        )
    if head:
        advice.append(
            _note(
                "PTQ431",
                f"{_count(head)} at the head on the CPU",
                head,
                "remove_node_type takes them out of the quantized model, so that pre-processing does their work; "
                "unit_conv gives them a threshold, at lower precision",
            )
        )
    if tail:
        advice.append(
            _note(
                "PTQ432",
                f"{_count(tail)} at the tail on the CPU",
                tail,
                "remove_node_type takes them out of the quantized model, so that post-processing does their work; "
                "unit_conv gives them a threshold, at lower precision",
            )
        )
    flow = tuple(str(n.name) for n in graph.nodes if any(True for _ in bodies(n)))
    if flow:
        advice.append(
            _note(
                "PTQ435",
                f"{_count(flow)} on the CPU with everything in its bodies",
                flow,
                "the BPU has no control flow: make the condition of If a constant, unroll Loop and Scan before export",
            )
        )
    if islands:
        advice.append(
            _note(
                "PTQ433",
                f"{_count(islands)} on the CPU between parts on the BPU: the model runs in {plan.segments} segments, "
                "each with a switch, a dequantize and a quantize",
                islands,
                "replace these operators by ones the BPU has (ptqlab ops), or move them to the end of the model",
            )
        )
    return advice


def _islands(graph: FloatGraph, plan: Plan) -> tuple[str, ...]:
    """CPU nodes with the BPU both before and behind them."""
    before: set[str] = set()
    behind: set[str] = set()
    for node in graph.nodes:
        preds = [str(p.name) for v in node.inputs if v is not None and (p := v.producer()) is not None]
        if any(plan.nodes[p].on_bpu or p in before for p in preds):
            before.add(str(node.name))
    for node in reversed(graph.nodes):
        succs = [str(c.name) for o in node.outputs if o.name for c in graph.consumers(str(o.name))]
        if any(plan.nodes[s].on_bpu or s in behind for s in succs):
            behind.add(str(node.name))
    return tuple(n for n, p in plan.nodes.items() if not p.on_bpu and n in before and n in behind)


def _named(plan: Plan, rule: str) -> tuple[str, ...]:
    return tuple(n for n, p in plan.nodes.items() if p.rule == rule)


def _count(nodes: tuple[str, ...]) -> str:
    return "1 node stands" if len(nodes) == 1 else f"{len(nodes)} nodes stand"


def _note(code: str, message: str, nodes: tuple[str, ...], hint: str) -> Finding:
    return Finding(
        code, f"{message}: {', '.join(nodes[:6])}{' and more' if len(nodes) > 6 else ''}", nodes, hint, "note"
    )

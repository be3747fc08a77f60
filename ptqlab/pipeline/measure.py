"""How near the calibrated and the integer model come to the float model, tensor by tensor, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import Agreement
from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, session
from ptqlab.quantize.calibrated import with_folded_weights
from ptqlab.simulate import FastExecutor
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import CalibratedModel, QuantizedModel

# they hand on every element once, so a cosine over them is that of their input
REORDERING = frozenset({"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity"})


@dataclass
class Measures:
    """Agreement with the float model per tensor of the optimized graph.

    same_as   tensor -> tensor whose figures it shares (a pure reordering, a node fused into an operator)
    overflow  tensor in float16 -> number of its values that are Inf or NaN where the float model's are finite
    differing  output that is no float -> (its elements that differ from the float model's, all its elements)
    """

    calibrated: dict[str, Agreement] = field(default_factory=dict)
    quantized: dict[str, Agreement] = field(default_factory=dict)
    same_as: dict[str, str] = field(default_factory=dict)
    overflow: dict[str, int] = field(default_factory=dict)
    differing: dict[str, tuple[int, int]] = field(default_factory=dict)

    def of(self, kind: str, tensor: str) -> Agreement | None:
        table = self.calibrated if kind == "calibrated" else self.quantized
        return table.get(self.same_as.get(tensor, tensor))


def compared_tensors(graph: FloatGraph, plan: Plan) -> tuple[list[str], dict[str, str]]:
    """(tensors to compare, tensor -> the compared tensor that stands for it), over all node outputs of the graph."""
    same: dict[str, str] = {}
    outputs = {str(v.name) for v in graph.outputs}
    for group in plan.groups.values():
        for member in group.members:
            outputs_of = graph.node(member).outputs
            same.update({str(o.name): group.output for o in outputs_of if o.name and len(outputs_of) == 1})
    compared = []
    for node in graph.nodes:
        for out in node.outputs:
            name = str(out.name)
            if not out.name or same.get(name, name) != name:
                continue
            first = node.inputs[0] if node.inputs else None
            if (
                node.op_type in REORDERING
                and first is not None
                and first.producer() is not None
                and name not in outputs
            ):
                same[name] = same.get(str(first.name), str(first.name))
            else:
                compared.append(name)
                same.pop(name, None)
    # a reordering may stand for a tensor that itself stands for another
    resolved = {name: same.get(target, target) for name, target in same.items()}
    return compared, resolved


def measure(
    graph: FloatGraph,
    plan: Plan,
    encodings: Encodings,
    calibrated: CalibratedModel,
    quantized: QuantizedModel | None,
    samples: Iterable[Mapping[str, np.ndarray]],
    total: int,
    watch: Watch,
) -> Measures:
    """Run the three models side by side on every sample. `quantized` None: the integer figures stay empty."""
    compared, same = compared_tensors(graph, plan)
    measures = Measures(same_as=same)
    measures.calibrated = {t: Agreement() for t in compared}
    measures.quantized = {t: Agreement() for t in compared} if quantized else {}
    finals = {str(v.name) for v in graph.outputs}
    float_run = session(graph.model, outputs=compared)
    calibrated_run = session(
        with_folded_weights(calibrated, encodings), outputs=[calibrated.names.get(t, t) for t in compared]
    )
    floats = {str(o.name): plan.nodes[str(n.name)].output for n in graph.nodes for o in n.outputs}
    integer = {t: t if floats.get(t) else _integer_name(t, quantized, finals) for t in compared} if quantized else {}
    integer_run = FastExecutor(quantized, keep=list(dict.fromkeys(integer.values())), raw=True) if quantized else None
    with watch.stage("compare", total) as stage:
        for sample in samples:
            truth = dict(zip(compared, float_run.run(compared, sample), strict=True))
            got = dict(zip(calibrated_run.output_names, calibrated_run.run(None, sample), strict=True))
            for tensor, agreement in measures.calibrated.items():
                agreement.add(truth[tensor], got[calibrated.names.get(tensor, tensor)])
            if integer_run is not None:
                codes = integer_run.run(sample)
                for tensor, agreement in measures.quantized.items():
                    value = _centred(codes[integer[tensor]], tensor, integer[tensor], quantized)
                    agreement.add(truth[tensor], value, distances=tensor in finals)
                    if tensor in finals and truth[tensor].dtype.kind != "f":
                        other, count = measures.differing.get(tensor, (0, 0))
                        other += int((truth[tensor] != value).sum())
                        measures.differing[tensor] = (other, count + truth[tensor].size)
                    if floats.get(tensor) is QType.FLOAT16:
                        lost = int((np.isfinite(truth[tensor]) & ~np.isfinite(value)).sum())
                        measures.overflow[tensor] = measures.overflow.get(tensor, 0) + lost
            stage.step()
    return measures


def overflow_finding(graph: FloatGraph, measures: Measures) -> list[Finding]:
    """The first node whose float16 output overflowed (no clamp: Inf, as on the chip), and the others behind it."""
    hit = [(n, t) for n in graph.nodes for o in n.outputs if measures.overflow.get(t := str(o.name))]
    if not hit:
        return []
    node, tensor = hit[0]
    names = tuple(dict.fromkeys(str(n.name) for n, _ in hit))
    behind = f"; then in {len(names) - 1} more node(s)" if len(names) > 1 else ""
    message = (
        f"float16 overflows first in {node.name} ({node.op_type}): {measures.overflow[tensor]} values of {tensor} are "
        f"Inf or NaN, beyond 65504{behind}"
    )
    return [Finding("PTQ530", message, names, f"float32 for {node.name}, or int16")]


def differing_finding(measures: Measures) -> list[Finding]:
    """Outputs that hold indices, counts or truth values, for which no cosine means anything: how many are the same."""
    told = {t: counts for t, counts in measures.differing.items() if counts[0]}
    if not told:
        return []
    parts = [f"{t} {n - lost} of {n} ({1 - lost / n:.1%})" for t, (lost, n) in told.items()]
    hint = "where two candidates lie close the last bit decides: int16 for the node in front keeps more of them apart"
    message = f"elements of integer outputs that equal the float model's: {', '.join(parts)}"
    return [Finding("PTQ531", message, hint=hint, severity="note")]


def zero_finding(graph: FloatGraph, plan: Plan, measures: Measures) -> list[Finding]:
    """Tensors on the BPU that are all zero and share the range of others, so that no threshold tells of them."""
    def dead_tensor(tensor: str) -> bool:
        agreement = measures.of("calibrated", tensor)
        return agreement is not None and agreement.count > 0 and agreement.aa == 0.0

    dead = [
        t for t in measures.calibrated if t in plan.tensors and dead_tensor(t)
        and not all(dead_tensor(source) for source in plan.sources[plan.tensors[t].slot])
    ]
    if not dead:
        return []
    makers = {t: node for t in dead if (node := graph.producer(t)) is not None}
    named = ", ".join(f"{t} (node {n.name}, {n.op_type})" for t, n in list(makers.items())[:5])
    more = f" and {len(makers) - 5} more" if len(makers) > 5 else ""
    hint = "if it should hold something, look at what is joined and cut in front of it, and at the samples"
    return [Finding("PTQ532", f"all zero over all samples, beside a range that others set: {named}{more}",
                    tuple(str(n.name) for n in makers.values()), hint)]  # fmt: skip


def _integer_name(tensor: str, quantized: QuantizedModel | None, finals: set[str]) -> str:
    """The tensor of the integer model to look at: codes where they are stored, float at outputs and on the CPU."""
    assert quantized is not None
    stored = quantized.integers.get(tensor)
    if stored is None or tensor in finals or stored.qtype is QType.INT32:
        return tensor
    return stored.name


def _centred(values: np.ndarray, tensor: str, name: str, quantized: QuantizedModel | None) -> np.ndarray:
    """Codes minus their zero point, by the step of each channel where they differ: in proportion to the real values,
    which is all a cosine asks for."""
    assert quantized is not None
    if name == tensor:
        return values
    stored = quantized.integers[tensor]
    centred = values - np.float32(stored.zero_point) if stored.zero_point else values
    return centred * stored.scale.astype(np.float32) if stored.scale.size > 1 else centred

"""What calibration is asked to do: the candidates of every slot and who asked for them, searches, bias correction.

A threshold belongs to a slot (tensors that share it), settings belong to nodes. The reader decides, as a type is that
of a node's inputs: of the active operators that read a slot the one whose activation settings come from the finest
level of quant_config, and among equals the first in topological order. Where nothing active reads the slot, the
operator that writes it decides.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ptqlab.arith.formats import QType
from ptqlab.config.document import Origin
from ptqlab.config.quant import ActivationConfig, NodeRequest, QuantConfig
from ptqlab.config.quant_fields import ACTIVATION, LEVELS
from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.quantize.methods import Found, Method, product
from ptqlab.stages.plan import Plan

# the default: corrections from this many samples (measured: 8 are too few for the small inputs of audio networks, 32
# gain nothing more)
DEFAULT_CORRECTION_SAMPLES = 16
MAX = Method("max")
# keys that only one method knows: they name it where calibration_type does not
OWN_KEYS = {"max": {"max_percentile"}, "kl": {"num_bin", "max_num_bin"}}


@dataclass(frozen=True)
class SlotAsk:
    """What is asked for one slot.

    methods  candidates, in the order of the configuration
    node     the node whose settings decide, "" where none does
    origin   where they come from
    qtype    narrowest type that a reader wants of the slot: thresholds are made for its codes
    """

    methods: tuple[Method, ...] = (MAX,)
    node: str = ""
    origin: Origin = field(default_factory=Origin)
    qtype: QType = QType.INT8


@dataclass(frozen=True)
class Correction:
    """Bias correction: `num_sample` samples give the mean of every input; `metric` decides node by node whether the
    correction is kept ("" keeps all, what the default recipe does). `order` "sequential" is tried besides. `inputs`:
    the mean error that rounding its input makes is taken back, too; bias_correction speaks of the weights' only."""

    num_sample: int
    metric: str = ""
    order: str = "local"
    inputs: bool = False


@dataclass(frozen=True)
class Recipe:
    """Everything that calibration is asked for.

    slots    by slot name
    search   "modelwise", "layerwise" or None;  metric  of the search
    correction  None where biases stay as they are
    default  nothing was configured: ptqlab's own recipe is in force
    weights  how the steps of weights are found: "max", or "mse" where it proves better
    loaded   tensor -> threshold to be taken from the file `loaded_from`
    """

    slots: Mapping[str, SlotAsk]
    search: str | None = None
    metric: str = "cosine-similarity"
    correction: Correction | None = None
    default: bool = False
    weights: str = "max"
    loaded: Mapping[str, Found] = field(default_factory=dict)
    loaded_from: str = ""
    findings: tuple[Finding, ...] = ()


def plain(plan: Plan, method: Method = MAX) -> Recipe:
    """One method for every slot and nothing else."""
    return Recipe({slot: SlotAsk((method,), qtype=plan.tensors[slot].stored) for slot in plan.sources})


def make_recipe(
    graph: FloatGraph, plan: Plan, quant: QuantConfig, subgraphs: Mapping[str, Sequence[str]] | None = None
) -> Recipe:
    """The recipe of a quant_config for a plan; `subgraphs`: node -> names of the subgraph_config entries with it."""
    subgraphs = subgraphs or {}
    searched = bool(quant.layerwise_search or quant.modelwise_search)  # asked for, not only implied by a list
    named = any("calibration_type" in e.activation for e in quant.entries())
    readers = slot_readers(graph, plan)
    requests: dict[str, NodeRequest] = {}
    slots: dict[str, SlotAsk] = {}
    findings: list[Finding] = []
    for slot, sources in plan.sources.items():
        reads = readers.get(slot, {})
        deciders = list(reads) or _writers(graph, plan, sources)
        for node in deciders:
            if node not in requests:
                requests[node] = quant.for_node(
                    node, graph.node(node).op_type, subgraphs.get(node, ()), 1, graph.aliases
                )
        qtype = min([plan.tensors[slot].stored, *reads.values()], key=lambda t: t.bits)
        slots[slot] = _slot_ask(slot, deciders, requests, searched, qtype, findings)
    several = any(len(s.methods) > 1 for s in slots.values())
    default = not (named or searched or several or quant.bias_correction or any(e.activation for e in quant.entries()))
    correction = None
    asked = quant.bias_correction
    if asked:
        correction = Correction(asked.num_sample, asked.metric, asked.order)
    elif not (named or searched or several):
        correction = Correction(DEFAULT_CORRECTION_SAMPLES, inputs=True)
    weights = str(quant.weight_method.value) if quant.weight_method else "max"
    search = quant.search if several else None
    return Recipe(slots, search, quant.search_metric, correction, default and not quant.weight_method, weights,
                  findings=tuple(findings))


def slot_readers(graph: FloatGraph, plan: Plan) -> dict[str, dict[str, QType]]:
    """Slot -> active nodes on the BPU that read it from memory, in topological order, with the type they read."""
    readers: dict[str, dict[str, QType]] = {}
    for node in graph.nodes:
        name = str(node.name)
        decided = plan.nodes[name]
        if not decided.on_bpu or spec_of(node).role is not Role.ACTIVE:
            continue
        for value, qtype in zip(node.inputs, decided.inputs, strict=True):
            held = plan.tensors.get(str(value.name)) if value is not None else None
            if held is None or qtype is None or made_inside(graph, plan, name, held.name):
                continue
            mine = readers.setdefault(held.slot, {})
            mine[name] = min(mine.get(name, qtype), qtype, key=lambda t: t.bits)
    return readers


def made_inside(graph: FloatGraph, plan: Plan, node: str, tensor: str) -> bool:
    """Whether a tensor is made by the node's own group: then no code is read."""
    producer = graph.producer(tensor)
    return producer is not None and str(producer.name) in plan.group_of(node).members


def _writers(graph: FloatGraph, plan: Plan, sources: tuple[str, ...]) -> list[str]:
    names = [str(p.name) for t in sources if (p := graph.producer(t)) is not None]
    return [plan.nodes[n].group for n in names if plan.nodes[n].on_bpu]


def _level(request: NodeRequest) -> int:
    return max(LEVELS.index(request.origins[row.key].level) for row in ACTIVATION)


def _slot_ask(
    slot: str, deciders: list[str], requests: Mapping[str, NodeRequest], searched: bool, qtype: QType,
    findings: list[Finding],
) -> SlotAsk:
    if not deciders:
        return SlotAsk(product(ActivationConfig(), named=False, searched=searched), qtype=qtype)
    # max keeps the first of equals
    node = max(deciders, key=lambda name: _level(requests[name]))
    request = requests[node]
    given = {row.key for row in ACTIVATION if request.origins[row.key].level != "default"}
    methods = product(_implied(request.activation, given), "calibration_type" in given, searched)
    level = _level(request)
    origin = next((o for row in ACTIVATION if LEVELS.index((o := request.origins[row.key]).level) == level), Origin())
    overruled = [n for n in deciders if _level(requests[n]) > 1 and requests[n].activation != request.activation]
    for other in overruled:
        findings.append(Finding(
            "PTQ412",
            f"{other}: its activation settings do not take effect on tensor "
            f"{slot}, which {node} reads too: one tensor has one threshold, and {node} decides",
            (other, node), "give both nodes the same settings"))
    return SlotAsk(methods, node, origin, qtype)


def _implied(asked: ActivationConfig, given: set[str]) -> ActivationConfig:
    """A method for keys that belong to one: max_percentile without a type means max, num_bin means kl."""
    if asked.calibration_type or "calibration_type" in given:
        return asked
    return replace(asked, calibration_type=tuple(name for name, keys in OWN_KEYS.items() if keys & given))

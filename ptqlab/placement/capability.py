"""Whether a node can run on the BPU at all, and in which types: the operator table against the request."""
from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ptqlab.arith.formats import QType, widest
from ptqlab.ops.integer.accumulate import LONGEST_SUM
from ptqlab.ops.rules import product_count
from ptqlab.ops.spec import Engine, OpSpec, Role, sentence
from ptqlab.ops.table import spec_of
from ptqlab.placement.asks import Ask
from ptqlab.platforms import Platform

# rule of a TAE operator asked for float: integers inside, float output
TAE_FLOAT = "tae-float-output"


@dataclass(frozen=True)
class Verdict:
    """What the table says of a node.

    able      the BPU can run it
    inputs    granted type per input; None for inputs that are no activation
    granted   word for the node table
    rule, reason  what decided
    weights   type of the constant operand of a TAE operator; None where there is none
    output    float type that it writes; None for integers
    """

    spec: OpSpec
    able: bool
    inputs: tuple[QType | None, ...]
    granted: str
    rule: str
    reason: str
    weights: QType | None = None
    output: QType | None = None

    @property
    def asked_types(self) -> tuple[QType, ...]:
        """Types of its activations, without those that are one type whatever is asked."""
        return tuple(t for i, t in enumerate(self.inputs) if t is not None and i not in self.spec.fixed_types)

    @property
    def in_float(self) -> bool:
        """The vector unit computes it in float."""
        return any(t is not None and not t.is_integer for t in self.inputs)

    @property
    def dual(self) -> bool:
        """Both operands of its products are int16."""
        types = [t for t in (*self.inputs, self.weights) if t is not None]
        return self.spec.is_tae and types == [QType.INT16, QType.INT16]


def judge(node: ir.Node, ask: Ask, platform: Platform) -> Verdict:
    """The verdict on one node, looked at alone; its neighbours come later."""
    spec = spec_of(node)
    nothing = (None,) * len(node.inputs)
    if spec.role is Role.FLOAT:
        return Verdict(spec, False, nothing, "float32", "float-operator", spec.note)
    for rule in spec.rules:
        found = rule(node, platform)
        if found is not None:
            return Verdict(spec, False, nothing, "float32", rule.__name__, f"CPU: {sentence(rule)} Here: {found}.")
    if ask.on == "CPU":
        return Verdict(spec, False, nothing, "float32", "asked-cpu", "CPU: the configuration asks for it.")
    return _grant(node, spec, ask, platform)


def _grant(node: ir.Node, spec: OpSpec, ask: Ask, platform: Platform) -> Verdict:
    """Types for the features of a node that the BPU can run."""
    if spec.native:
        reason = f"BPU ({spec.engine.value}): integers of the model stay as they are; no type can be asked for."
        return Verdict(spec, True, (None,) * len(node.inputs), "int32", "native-integers", reason)
    inputs: list[QType | None] = [None] * len(node.inputs)
    output: QType | None = None
    notes: list[str] = []
    rule = "default" if ask.level == "default" else f"asked-{ask.level}"
    for index in spec.feature_indices(node):
        wanted = _wanted(node, spec, ask, index)
        granted, note, changed = grant_type(wanted, spec, platform)
        if granted is not None and index in spec.fixed_types:
            granted, note, changed = _fixed_type(wanted, index, spec, named=index in ask.inputs)
        if granted is None:
            return Verdict(spec, False, (None,) * len(node.inputs), "float32", changed, note)
        if changed == TAE_FLOAT:
            output = widest([QType(wanted), *([] if output is None else [output])])
            granted = QType.INT8 if index and len(spec.feature_indices(node)) == 2 else granted
        inputs[index] = granted
        if note and note not in notes:
            notes.append(note)
            rule = changed
    weights, note, changed = _weight_type(node, spec, ask, inputs)
    if note:
        notes.append(note)
        rule = changed
    floats = [t for t in inputs if t is not None and not t.is_integer]
    if floats:
        # one operand in float makes the operator one of floats
        output = widest(floats)
        inputs = [None if t is None else output for t in inputs]
    reason = " ".join(notes) or _plain_reason(ask, spec)
    return Verdict(spec, True, tuple(inputs), _granted_word(spec, inputs, weights), rule, reason, weights, output)


def _weight_type(
    node: ir.Node, spec: OpSpec, ask: Ask, inputs: list[QType | None]
) -> tuple[QType | None, str, str]:
    """Type of the constant operand of a TAE operator (None: there is none), a sentence if it differs, the rule's id."""
    features = spec.feature_indices(node)
    if not spec.is_tae or len(features) != 1:
        return None, "", ""
    if ask.inputs.get(1 - features[0], "int16" if ask.qtype == "dual-int16" else "int8") != "int16":
        return QType.INT8, "", ""
    if inputs[features[0]] is not QType.INT16:
        return QType.INT8, "int16 weights go with int16 features only: int8 weights are given.", "dual-needs-features"
    count = product_count(node)
    if count > LONGEST_SUM:
        return QType.INT8, (f"dual-int16 sums at most {LONGEST_SUM} products, and one output here sums {count}: int16 "
                            "features with int8 weights are given."), "dual-long-sum"
    return QType.INT16, "", ""


def _wanted(node: ir.Node, spec: OpSpec, ask: Ask, index: int) -> str:
    """Type asked for one feature. Of the two tensors of a MatMul the second stands where weights do (documented):
    int16 means int16 x int8, dual-int16 means int16 for both."""
    if index in ask.inputs:
        return ask.inputs[index]
    if spec.is_tae and len(spec.feature_indices(node)) == 2:
        return {"int16": ("int16", "int8")[index], "dual-int16": "int16"}.get(ask.qtype, ask.qtype)
    return ask.qtype


def _granted_word(spec: OpSpec, inputs: list[QType | None], weights: QType | None) -> str:
    types = [t for i, t in enumerate(inputs) if t is not None and i not in spec.fixed_types]
    if spec.is_tae and [*types, *([] if weights is None else [weights])] == [QType.INT16, QType.INT16]:
        return "dual-int16"
    if spec.is_tae and types == [QType.INT16, QType.INT8]:
        return "int16"
    return "/".join(sorted({t.value for t in types}) or ["int8"])


def _fixed_type(wanted: str, index: int, spec: OpSpec, named: bool) -> tuple[QType, str, str]:
    """The type of a feature that has only one; a request that names this input is told so."""
    only = spec.fixed_types[index]
    if not named or wanted == only:
        return only, "", ""
    return only, f"Input {index} of {spec.op_type} is {only.value} always: {only.value} is given.", "type-not-available"


def grant_type(wanted: str, spec: OpSpec, platform: Platform) -> tuple[QType | None, str, str]:
    """Granted type of one feature (None: the node runs on the CPU), a sentence if it differs, and the rule's id."""
    if wanted in ("float16", "float32"):
        if QType(wanted) not in platform.float_types:
            return None, (f"CPU: {wanted} was asked for and {platform.march} has no float vector unit, so the node "
                          "runs in float on the CPU; int16 keeps it on the BPU."), "no-float-unit"
        return float_type(QType(wanted), spec, platform)
    if wanted == "dual-int16":
        if not spec.is_tae:
            best = spec.types_on(platform)[-1]
            note = f"dual-int16 is a type of Conv, ConvTranspose, MatMul and Gemm only: {best.value} is given."
            return best, note, "dual-only-tae"
        return QType.INT16, "", ""
    qtype = QType(wanted)
    types = spec.types_on(platform)
    if qtype not in types:
        best = types[-1]
        return best, f"{spec.op_type} has no {wanted} on {platform.march}: {best.value} is given.", "type-not-available"
    return qtype, "", ""


def float_type(wanted: QType, spec: OpSpec, platform: Platform) -> tuple[QType, str, str]:
    """What a request for float gives where the platform has a float vector unit [our definition].

    Operators of the VAE compute in it. The TAE stays integer: int16 features, int8 weights, float output. What the AAE
    runs, and what gives indices or truth values, gets its widest integers. Movers take what their neighbours have.
    """
    if spec.is_tae:
        note = f"The TAE computes in integers: int16 features and int8 weights are given, and {wanted.value} output."
        return QType.INT16, note, TAE_FLOAT
    best = spec.types_on(platform)[-1]
    if spec.role is Role.PASSIVE:
        return best, "", ""
    if spec.engine is not Engine.VAE or spec.plain_output:
        where = "gives indices or truth values" if spec.plain_output else f"runs in the {spec.engine.value}"
        return best, f"{spec.op_type} {where} and has no float: {best.value} is given.", "no-float-here"
    return wanted, "", ""


def _plain_reason(ask: Ask, spec: OpSpec) -> str:
    origin = {
        "default": "the default type",
        "model": "asked for in model_config",
        "op": f"asked for in op_config.{spec.op_type}",
        "subgraph": "asked for in subgraph_config",
        "node": "asked for in node_config",
    }[ask.level]
    if spec.role is Role.PASSIVE:
        return "BPU: moves data, and takes type and threshold from its neighbours."
    return f"BPU ({spec.engine.value}): {origin}."

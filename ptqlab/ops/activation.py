"""Activations and other functions of one operand: tables, and rescales where those are exact."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.requantize import GUARD_BITS
from ptqlab.arith.rounding import round_half_away
from ptqlab.arith.tables import GUARD_INT8, SEGMENTS, curve_table, exact_table
from ptqlab.errors import Finding
from ptqlab.ops.composed import Composed
from ptqlab.ops.conv import output_attributes, scaled_by
from ptqlab.ops.functions import FUNCTIONS
from ptqlab.ops.node import attribute, constant
from ptqlab.ops.rules import float_features, not_empty
from ptqlab.ops.spec import Encoding, Engine, Lower, Lowering, Operand, OpSpec, Role, Rule
from ptqlab.platforms import Platform

TABLE_ERROR = "ptqlab.table_error"
# steps of the output; half a step each for the entries and for the result are unavoidable
NOTABLE_ERROR, LARGE_ERROR = 1.0, 64.0
# scales from here on are so coarse that rounding to whole numbers changes nothing a code could show
COARSE = 2.0**20
# rad between codes; half of it is an error of 5 % of the amplitude
COARSE_PHASE = 0.1
ONE_PERIOD = ("bring the operand into one period (-pi to pi) before it is quantized: ptqlab.reduce_periods writes such "
              "a model; its nodes run in float32 on nash-b, nash-h and nash-p, else on the CPU")


def one_constant_number(node: ir.Node, platform: Platform) -> str | None:
    """Pow needs one constant operand that is a single number; as base it must not be negative."""
    base, exponent = (constant(v) for v in node.inputs)
    if (base is None) == (exponent is None):
        return "no operand is constant" if base is None else "both operands are constant"
    number = base if exponent is None else exponent
    assert number is not None
    if number.size != 1:
        return f"a constant of shape {list(number.shape)}"
    if base is not None and float(number.reshape(())) < 0:
        return f"base {float(number.reshape(()))}"
    return None


def constant_slope(node: ir.Node, platform: Platform) -> str | None:
    """The slope of PRelu must be constant."""
    slope = node.inputs[1]
    assert slope is not None, "ONNX wants a slope"
    return None if constant(slope) is not None else f"slope {slope.name} is computed"


def _out(ctx: Lowering, node: ir.Node) -> Encoding:
    out = ctx.output(node)
    assert out is not None, "only TAE operators leave at high precision"
    return out


def _feature(ctx: Lowering, node: ir.Node) -> Operand:
    """The computed operand: the first, but of Pow it may be the second."""
    return ctx.read(node, 0 if constant(node.inputs[0]) is None else 1)


def _ratio(x: Operand, out: Encoding) -> float:
    """Output steps per input step."""
    return float(x.encoding.scale) / float(out.scale)


def lower_table(ctx: Lowering, node: ir.Node) -> None:
    """256 exact entries for int8, a piecewise linear table for int16; says so where the latter is not good enough."""
    function = FUNCTIONS[node.op_type]
    _write_table(ctx, node, _feature(ctx, node), lambda real: function.at(real, node))


def lower_composed(ctx: Lowering, main: ir.Node, function: Composed) -> None:
    """A function written in several nodes, as one table under the name of the main one."""
    reader, index = next((n, i) for n in function.members for i, v in enumerate(n.inputs) if v is function.source)
    _write_table(ctx, main, ctx.read(reader, index), function.at)


def _write_table(ctx: Lowering, node: ir.Node, x: Operand, function: Callable[[np.ndarray], np.ndarray]) -> None:
    out = _out(ctx, node)

    def target(codes: np.ndarray) -> np.ndarray:
        real = (codes - x.encoding.zero_point) * float(x.encoding.scale)
        return function(real) / float(out.scale) + out.zero_point

    to = int(ir.DataType.from_numpy(out.qtype.numpy))
    if node.op_type in ("Sin", "Cos") and float(x.encoding.scale) > COARSE_PHASE:
        ctx.report(_coarse_phase(node, x.encoding))
    if x.encoding.qtype is QType.INT8:
        entries = exact_table(target, out.low, out.high).astype(out.qtype.numpy)
        ctx.write(node, "Int8Table", {"x": x.value, "table": entries}, {"to": to})
        return
    guard = GUARD_INT8 if out.qtype is QType.INT8 else 0
    table = curve_table(target, out.low, out.high, guard)
    ctx.write(node, "Int16Table", {"x": x.value, "ranges": table.ranges, "table": table.entries},
              {"guard": guard, "to": to}, {TABLE_ERROR: f"{table.error:.3f}"})
    if table.error > NOTABLE_ERROR:
        ctx.report(_inaccurate(node, x.encoding, out, table.error))


def _coarse_phase(node: ir.Node, x: Encoding) -> Finding:
    step = float(x.scale)
    return Finding(
        "PTQ514",
        f"{node.op_type} {node.name}: its operand reaches +-{step * x.high:.4g} rad, so that neighbouring "
        f"{x.qtype.value} codes lie {step:.3g} rad apart ({100 * step / (2 * np.pi):.3g} % of a period)",
        (str(node.name),), ONE_PERIOD, "warning" if step > 5 * COARSE_PHASE else "note",
    )


def _inaccurate(node: ir.Node, x: Encoding, out: Encoding, error: float) -> Finding:
    reach = float(x.scale) * x.high
    hint = "clip the operand away from where the function is steep"
    if node.op_type in ("Sin", "Cos"):
        hint = ONE_PERIOD
    return Finding(
        "PTQ511",
        f"{node.op_type} {node.name}: its int16 table of {SEGMENTS} segments follows the curve over +-{reach:.4g} to "
        f"within {error:.2f} steps of its {out.qtype.value} output ({error * float(out.scale):.3g})",
        (str(node.name),), hint, "warning" if error > LARGE_ERROR else "note",
    )


def lower_sigmoid_line(ctx: Lowering, node: ir.Node) -> None:
    """HardSigmoid: y = clamp(alpha x + beta, 0, 1), a rescale whose clamp is that of the function."""
    x, out = _feature(ctx, node), _out(ctx, node)
    alpha, beta = attribute(node, "alpha", 0.2), attribute(node, "beta", 0.5)
    attributes = {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, out)
    attributes |= {"low": out.code(0.0), "high": out.code(1.0)}
    offset = round_half_away(np.asarray(beta / float(out.scale) * (1 << GUARD_BITS)))
    ctx.write(node, "RescaleAdd", {
        "x": x.value, **scaled_by("", np.asarray(alpha * _ratio(x, out))),
        "offset": np.asarray(np.clip(offset, -(2**31), 2**31 - 1), np.int32),
    }, attributes)


def lower_negative(ctx: Lowering, node: ir.Node) -> None:
    x, out = _feature(ctx, node), _out(ctx, node)
    attributes = {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, out)
    ctx.write(node, "Rescale", {"x": x.value, **scaled_by("", np.asarray(-_ratio(x, out)))}, attributes)


def lower_two_slopes(ctx: Lowering, node: ir.Node) -> None:
    """Abs, LeakyRelu, PRelu: a factor of their own for negative numbers."""
    x, out = _feature(ctx, node), _out(ctx, node)
    slope = {"Abs": np.asarray(-1.0), "LeakyRelu": np.asarray(attribute(node, "alpha", 0.01))}.get(node.op_type)
    if slope is None:
        slope = ctx.constant(node, 1)
        assert slope is not None, "the slope of PRelu is constant by rule"
    ratio = _ratio(x, out)
    inputs: dict[str, ir.Value | np.ndarray] = {
        "x": x.value, **scaled_by("", np.asarray(ratio)), **scaled_by("negative_", slope.astype(np.float64) * ratio),
    }
    attributes = {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, out)
    ctx.write(node, "TwoSlopes", inputs, attributes)


def lower_whole(ctx: Lowering, node: ir.Node) -> None:
    """Floor, Ceil, Round: exact in every type; a piecewise line cannot follow that many stairs."""
    x, out = _feature(ctx, node), _out(ctx, node)
    attributes = {"x_zero_point": x.encoding.zero_point} | output_attributes(ctx, node, out)
    if float(x.encoding.scale) >= COARSE:
        ctx.write(node, "Rescale", {"x": x.value, **scaled_by("", np.asarray(_ratio(x, out)))}, attributes)
        return
    ctx.write(node, node.op_type, {
        "x": x.value, "step": np.asarray(x.encoding.scale, np.float32),
        **scaled_by("", np.asarray(1.0 / float(out.scale))),
    }, attributes)


TABLE_NOTE = "int8: exact table of 256 entries; int16: up to 64 linear segments of 64 entries"
DOCUMENTED = frozenset(FUNCTIONS) - {"Shrink"}


def _table(op_type: str) -> OpSpec:
    rules = (float_features, not_empty) if op_type != "Pow" else (float_features, one_constant_number, not_empty)
    return OpSpec(op_type, Role.ACTIVE, Engine.VAE, features=None if op_type == "Pow" else (0,), rules=rules,
                  lower=lower_table, source="documented" if op_type in DOCUMENTED else "our definition",
                  note=TABLE_NOTE)


def _exact(op_type: str, lower: Lower, note: str, *rules: Rule) -> OpSpec:
    return OpSpec(op_type, Role.ACTIVE, Engine.VAE, features=(0,), rules=(float_features, *rules, not_empty),
                  lower=lower, source="documented", note=note)


SPECS = (
    *(_table(name) for name in FUNCTIONS),
    _exact("HardSigmoid", lower_sigmoid_line, "a rescale with offset, clamped to the codes of 0 and 1"),
    _exact("Neg", lower_negative, "a rescale by a negative factor"),
    _exact("Abs", lower_two_slopes, "a rescale with a factor of its own for negative numbers"),
    _exact("LeakyRelu", lower_two_slopes, "a rescale with a factor of its own for negative numbers"),
    _exact("PRelu", lower_two_slopes, "as LeakyRelu; the slope may differ by channel", constant_slope),
    _exact("Floor", lower_whole, "exact in every type"),
    _exact("Ceil", lower_whole, "exact in every type"),
    _exact("Round", lower_whole, "exact in every type, ties to even"),
)

"""Functions of one operand from float model to integers: near the real function, no NaN, and honest about error."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from lowered import Lowered, lowered, one_node
from models import model, node, value

from ptqlab.graph import session
from ptqlab.ops.activation import TABLE_ERROR
from ptqlab.ops.functions import FUNCTIONS
from ptqlab.ops.table import OPERATORS
from ptqlab.placement import Ask
from ptqlab.simulate import FastExecutor
from ptqlab.stages.plan import Device

# where an operator of the list is tested: everywhere unless its domain is smaller
SPANS = {"Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.95, 0.95), "Acosh": (1, 8), "Sqrt": (0, 8), "Log": (0.05, 8),
         "Reciprocal": (0.2, 5), "Tan": (-1.4, 1.4), "Exp": (-6, 2), "Sinh": (-2, 2), "Cosh": (-2, 2)}
NOT_IN_OPSET_19 = {"Gelu", "Swish"}
STANDARD = sorted(set(FUNCTIONS) - NOT_IN_OPSET_19 - {"Pow"})
SLOPES = ["LeakyRelu", "Abs", "Neg", "HardSigmoid", "Floor", "Ceil", "Round"]


def span(op: str) -> np.ndarray:
    low, high = SPANS.get(op, (-4, 4))
    return np.linspace(low, high, 504, dtype=np.float32).reshape(1, 7, 8, 9)


def at_the_codes(run: Lowered, op: str, **attributes: object) -> np.ndarray:
    """The float operator at what the input's codes stand for, clamped to what the output's codes can hold."""
    x = run.real("x").astype(np.float32)
    y = session(one_node(op, {"x": x}, **attributes).SerializeToString()).run(None, {"x": x})[0].astype(np.float64)
    high = run.encodings.view("y", run.quantized.integers["y"].qtype).high
    y = np.nan_to_num(y, nan=0.0, posinf=1e30, neginf=-1e30)
    return np.clip(y, -(high + 1) * run.step("y"), high * run.step("y"))


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("op", [*STANDARD, *SLOPES])
def test_every_function_is_near_the_real_one(op: str, qtype: str) -> None:
    """At the codes of its input an int8 operator is off by half a step of rounding, an int16 one by a step."""
    x = span(op)
    run = lowered(one_node(op, {"x": x}), {"x": x}, qtype=qtype)
    assert run.plan.nodes["op"].device is Device.BPU
    off = np.abs(run.real("y") - at_the_codes(run, op)) / run.step("y")
    # int16: half a step more for the entries of the table, or for the 15 bits of a multiplier
    assert off.max() <= (0.52 if qtype == "int8" else 1.05)


def test_every_listed_function_is_an_operator() -> None:
    """What has a real function has an entry in the operator table, and runs on the vector unit."""
    assert all(OPERATORS[op].lower is not None and OPERATORS[op].engine == "VAE" for op in [*FUNCTIONS, *SLOPES])


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize(("op", "at_zero_or_below"), [("Sqrt", 0), ("Log", "low"), ("Reciprocal", "high")])
def test_outside_of_its_domain_a_function_saturates(op: str, at_zero_or_below: object, qtype: str) -> None:
    """Codes that never occurred in calibration (zero and negative numbers) give an end of the range, and no NaN."""
    x = span(op)
    other = np.zeros_like(x)
    if op != "Reciprocal":
        other.ravel()[::2] = -2
    run = lowered(one_node(op, {"x": x}), {"x": x}, qtype=qtype)
    again = lowered_with(run, {"x": other})
    high = 127 if qtype == "int8" else 32767
    wanted = {"low": -high - 1, "high": high}.get(str(at_zero_or_below), 0)
    assert set(np.unique(again).tolist()) == {wanted}


def lowered_with(run: Lowered, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """Codes of y for other data under the same quantization."""
    name = run.quantized.integers["y"].name
    return FastExecutor(run.quantized, keep=[name]).run(feeds)[name]


@pytest.mark.parametrize(("exponent", "low"), [(2.0, -3), (3.0, -3), (0.5, 0), (-1.0, 0.3), (1.7, 0)])
@pytest.mark.parametrize("qtype", ["int8", "int16"])
def test_pow_with_a_constant_exponent(exponent: float, low: float, qtype: str) -> None:
    """Whole exponents take negative numbers, fractions start at zero."""
    x = np.linspace(low, 3, 301, dtype=np.float32)[None]
    run = lowered(one_node("Pow", {"x": x}, {"c": np.float32(exponent)}), {"x": x}, qtype=qtype)
    wanted = np.power(np.maximum(run.real("x"), low if exponent in (2.0, 3.0) else 0.01), exponent)
    inside = run.real("x") >= low
    assert run.operators()[1] == ("Int8Table" if qtype == "int8" else "Int16Table")
    assert np.abs(run.real("y") - wanted)[inside].max() / run.step("y") <= (0.51 if qtype == "int8" else 1.01) + (
        0 if low else np.power(0.01, exponent) / run.step("y"))


def test_pow_with_a_constant_base() -> None:
    """2^x is a table of the second operand."""
    x = np.linspace(-3, 3, 101, dtype=np.float32)[None]
    run = lowered(one_node("Pow", {"x": x}, {"c": np.float32(2)}, inputs=["c", "x"]), {"x": x})
    assert np.abs(run.real("y") - 2.0 ** run.real("x")).max() / run.step("y") <= 0.51


@pytest.mark.parametrize(("constants", "inputs", "found"), [
    ({"c": np.ones(3, np.float32)}, ["x", "c"], "a constant of shape [3]"),
    ({"c": np.float32(-2)}, ["c", "x"], "base -2.0"),
    ({}, ["x", "x"], "no operand is constant"),
])
def test_pow_that_is_no_table_runs_on_the_cpu(constants: dict[str, object], inputs: list[str], found: str) -> None:
    """The reason says what this node has."""
    x = np.array([[1, 2, 2.5]], np.float32)
    run = lowered(one_node("Pow", {"x": x}, constants, inputs=inputs), {"x": x})
    assert run.plan.nodes["op"].device is Device.CPU and found in run.plan.nodes["op"].reason


@pytest.mark.parametrize("qtype", ["int8", "int16"])
def test_prelu_has_a_slope_per_channel(qtype: str) -> None:
    """Slopes 0, 0.1, -0.5, 1, 2 of five channels, within half a step."""
    x = np.linspace(-2, 2, 120, dtype=np.float32).reshape(1, 5, 4, 6) * np.float32(1.1)
    slope = np.array([0, 0.1, -0.5, 1, 2], np.float32).reshape(5, 1, 1)
    run = lowered(one_node("PRelu", {"x": x}, {"slope": slope}), {"x": x}, qtype=qtype)
    real = run.real("x")
    assert np.abs(run.real("y") - np.where(real < 0, slope * real, real)).max() / run.step("y") <= 0.52


def test_a_computed_slope_runs_on_the_cpu() -> None:
    """A slope that is an input has no kernel; the reason names it."""
    x = np.ones((1, 3), np.float32)
    run = lowered(one_node("PRelu", {"x": x, "slope": x}), {"x": x, "slope": x})
    assert "slope slope is computed" in run.plan.nodes["op"].reason


def test_hard_sigmoid_clamps_at_zero_and_one() -> None:
    """Beyond its straight part the codes are those of 0 and 1 exactly."""
    x = np.linspace(-9, 9, 99, dtype=np.float32)[None]
    run = lowered(one_node("HardSigmoid", {"x": x}), {"x": x})
    assert run.outputs["y"][0, 0] == 0 and run.outputs["y"].min() == 0
    assert abs(run.outputs["y"][0, -1] - 1) < 1e-6


def test_a_sine_over_many_periods_is_reported() -> None:
    """1000 rad in int16: the finding names node and error, and advises one period; the model file notes it too."""
    x = np.linspace(-1000, 1000, 4001, dtype=np.float32)[None]
    run = lowered(one_node("Sin", {"x": x}), {"x": x}, qtype="int16")
    finding = run.quantized.findings[0]
    assert (finding.code, finding.nodes, finding.severity) == ("PTQ511", ("op",), "warning")
    assert "Sin op" in finding.message and "one period" in finding.hint
    table = next(n for n in run.quantized.model.graph if n.op_type == "Int16Table")
    noted = float(table.metadata_props[TABLE_ERROR])
    assert noted > 100 and f"{noted:.2f} steps" in finding.message
    off = np.abs(run.real("y") - np.sin(run.real("x"))).max() / run.step("y")
    assert off <= noted + 0.5


@pytest.mark.parametrize(("reach", "qtype", "severity"), [
    (3.0, "int8", None), (20.0, "int8", "note"), (100.0, "int8", "warning"), (100.0, "int16", None),
])
def test_a_phase_in_coarse_steps_is_reported(reach: float, qtype: str, severity: str | None) -> None:
    """int8 codes of 100 rad lie 0.79 rad apart: the table is exact, its operand is not; one period avoids it."""
    x = np.linspace(-reach, reach, 101, dtype=np.float32)[None]
    run = lowered(one_node("Cos", {"x": x}), {"x": x}, qtype=qtype)
    found = [f for f in run.quantized.findings if f.code == "PTQ514"]
    assert [f.severity for f in found] == ([severity] if severity else [])
    if severity == "warning":
        assert "+-100 rad" in found[0].message and "0.787 rad apart (12.5 % of a period)" in found[0].message
        assert "one period" in found[0].hint


def test_an_ordinary_table_is_not_reported() -> None:
    """A sigmoid's table is as good as one step: noted in the file, no finding."""
    x = span("Sigmoid")
    run = lowered(one_node("Sigmoid", {"x": x}), {"x": x}, qtype="int16")
    table = next(n for n in run.quantized.model.graph if n.op_type == "Int16Table")
    assert run.quantized.findings == () and float(table.metadata_props[TABLE_ERROR]) <= 1.0


def test_gelu_in_both_forms() -> None:
    """Erf and tanh form at known points: Gelu(1) = 0.841345, tanh form 0.841192; both 0 at 0."""
    x = np.array([-30.0, 0.0, 1.0, 30.0])
    for attributes, wanted in (([], 0.8413447), ([ir.AttrString("approximate", "tanh")], 0.8411920)):
        made = ir.Node("", "Gelu", [ir.Value(name="x")], attributes=attributes, num_outputs=1)
        assert FUNCTIONS["Gelu"].at(x, made) == pytest.approx([0, 0, wanted, 30], abs=1e-6)


def test_swish_at_known_points() -> None:
    """x sigmoid(x) at 0, 1 and far out."""
    made = ir.Node("", "Swish", [ir.Value(name="x")], num_outputs=1)
    assert FUNCTIONS["Swish"].at(np.array([-800.0, 0.0, 1.0, 800.0]), made) == pytest.approx([0, 0, 0.7310586, 800])


@pytest.mark.parametrize("wide", ["int16 in, int8 out", "int8 in, int16 out"])
def test_input_and_output_may_differ_in_type(wide: str) -> None:
    """The table is made for the type its operand is read in and the type its readers want."""
    x = span("Tanh")
    # the Mul has a second operand, or both nodes would be one function of x
    proto = model([node("Tanh", ["x"], "t", "op"), node("Mul", ["t", "u"], "y", "mul")],
                  [value("x", x.shape), value("u", x.shape)], [value("y", None)])
    first, second = ("int16", "int8") if wide.startswith("int16") else ("int8", "int16")
    run = lowered(proto, {"x": x, "u": x}, asks={"op": Ask(first, level="node"), "mul": Ask(second, level="node")})
    assert str(run.codes["x"].dtype) == first and str(run.codes["t"].dtype) == second
    off = np.abs(run.real("t") - np.tanh(run.real("x"))).max() / run.step("t")
    assert off <= 0.51

"""Normalizations: by hand, against slow loops, the same bits in every form, near the real function, never NaN."""
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import Lowered, lowered, one_node
from models import model, node, value
from small import INT8, INT16, QUICK, clamped, codes, each, every_form, output, rescaled

from ptqlab.arith.requantize import GUARD_BITS, fixed_point
from ptqlab.graph import session
from ptqlab.ops.emit import FunctionEmitter
from ptqlab.ops.integer.norm import ROOTS, _emit_inverse_root, inverse_root
from ptqlab.ops.integer.spec import OPSET
from ptqlab.stages.plan import Device

TYPES = st.sampled_from([INT8, INT16])


def scaled(ratio: object) -> dict[str, np.ndarray]:
    multiplier, shift = fixed_point(np.asarray(ratio, np.float64))
    return {"multiplier": multiplier, "shift": shift}


def offset(values: object) -> dict[str, np.ndarray]:
    """Real offsets in output steps."""
    return {"offset": np.asarray(np.round(np.asarray(values) * (1 << GUARD_BITS)), np.int32)}


def normalize(x: np.ndarray, count: int, gamma: object, beta: object, step: float, epsilon: int = 0,
              to: int = INT8, zero: int = 0) -> np.ndarray:
    constants = scaled(np.asarray(gamma, np.float64) * 2.0**-16 / step) | offset(np.asarray(beta) / step)
    return every_form("Normalize", {"x": x}, constants, {"count": count, "epsilon": epsilon} | output(to, zero))


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_normalization_by_hand(dtype: type) -> None:
    """1, 3: mean 2, deviation 1, so -1 and 1: with steps of 0.1 and beta 0.5 that is -5 and 15, as of any two."""
    x = np.array([[1, 3], [100, 50], [7, 8]], dtype)
    assert normalize(x, 2, 1.0, 0.5, 0.1).tolist() == [[-5, 15], [15, -5], [-5, 15]]


def test_gamma_and_beta_by_element() -> None:
    """The same rows with gamma 2, -1 and beta 0, 1: -2 and -1 + 1 = 0 times ten."""
    x = np.array([[1, 3]], np.int8)
    assert normalize(x, 2, [2.0, -1.0], [0.0, 1.0], 0.1).tolist() == [[-20, 0]]


@pytest.mark.parametrize("epsilon", [0, 7])
def test_a_constant_row_gives_beta_and_no_nan(epsilon: int) -> None:
    """A row whose elements are all equal has no deviation: beta stands there, whatever epsilon is."""
    x = np.array([[-128] * 5, [127] * 5, [0] * 5], np.int8)
    assert normalize(x, 5, 3.0, 0.25, 0.05, epsilon).tolist() == [[5] * 5] * 3


def test_epsilon_counts_in_units_of_the_variance() -> None:
    """1, 3 has n^2 var = 4; E = 12 makes it 16: half the deviation, -0.5 and 0.5."""
    assert normalize(np.array([[1, 3]], np.int8), 2, 1.0, 0.0, 0.1, 12).tolist() == [[-5, 5]]


def test_an_outlier_among_many_reaches_the_root_of_their_number() -> None:
    """One 32767 among 65535 elements of 0 stands sqrt(n - 1) = 255.99 deviations out; the sums fit their 63 bits."""
    x = np.zeros((1, 65535), np.int16)
    x[0, 7] = 32767
    got = normalize(x, 65535, 1.0, 0.0, 256 / 32767, 0, INT16)
    assert abs(int(got[0, 7]) - 32766) <= 2 and set(np.unique(np.delete(got[0], 7)).tolist()) <= {0, -1}
    x[0, ::2], x[0, 1::2] = -32768, 32767
    # variance + epsilon = 3/2 of the variance: 1 / sqrt(1.5) = 0.8165 deviations in steps of 2 / 32767
    assert set(np.abs(normalize(x, 65535, 1.0, 0.0, 2 / 32767, 1 << 61, INT16)).ravel().tolist()) <= {13377, 13378}


def slow_root(u: int) -> tuple[int, int]:
    k = -11
    while 4 ** (k + 12) <= u:
        k += 1
    v = math.floor(Fraction(u) / Fraction(4) ** k)
    assert 2**22 <= v < 2**24
    i, f = divmod(v - 2**22, 1 << 14)
    return int(ROOTS[i]) + (((int(ROOTS[i + 1]) - int(ROOTS[i])) * f + (1 << 13)) >> 14), k


def slow_divided(c: int, u: int, bits: int) -> int:
    r, k = slow_root(u)
    return math.floor(Fraction(c * r) * Fraction(2) ** (bits - 30 - k) + Fraction(1, 2))


@QUICK
@given(TYPES, TYPES, st.sampled_from([(1, 12), (3, 4), (6, 2), (12, 1)]), st.sampled_from([0, 1, 10**4, 1 << 61]),
       st.sampled_from([0, -128, 9]), st.integers(0, 999))
def test_every_form_equals_the_loop(source: int, to: int, shape: tuple[int, int], epsilon: int, zero: int,
                                    seed: int) -> None:
    """Rows of 1 to 12 elements, a scale and an offset per element: every form equals Python's integers."""
    rng = np.random.default_rng(seed)
    x = codes(rng, source, shape)
    x[-1] = x[-1, 0] if seed % 3 == 0 else x[-1]
    constants = scaled(rng.uniform(-1, 1, shape[1]) * 2.0**-16 * 30)
    constants |= {"offset": rng.integers(-20000, 20000, shape[1]).astype(np.int32)}
    attributes = {"count": shape[1], "epsilon": epsilon} | output(to, zero)
    got = every_form("Normalize", {"x": x}, constants, attributes)
    m, s, o = (each(constants[k], shape) for k in ("multiplier", "shift", "offset"))
    for r, row in enumerate(x.tolist()):
        n, total = len(row), sum(row)
        u = max(n * sum(v * v for v in row) - total * total + epsilon, 1)
        for i, v in enumerate(row):
            z = slow_divided(n * v - total, u, 16)
            guarded = rescaled(z, m[r, i], s[r, i] - GUARD_BITS) + o[r, i]
            assert got[r, i] == clamped((guarded + (1 << (GUARD_BITS - 1))) >> GUARD_BITS, attributes)


@QUICK
@given(st.sampled_from(["UnitLength", "UnitSum"]), TYPES, TYPES, st.integers(0, 2), st.sampled_from([0, 5, -128]),
       st.integers(0, 999))
def test_unit_length_and_unit_sum_equal_the_loop(op: str, source: int, to: int, axis: int, zero: int,
                                                 seed: int) -> None:
    """Along any axis, zero rows included."""
    rng = np.random.default_rng(seed)
    x = codes(rng, source, (2, 3, 4))
    x[np.arange(x.size).reshape(x.shape) % 5 == seed % 5] = zero
    constants = scaled(2.0**-22 * 32767) | {"axes": np.array([axis])}
    attributes = {"x_zero_point": zero} | output(to)
    got = every_form(op, {"x": x}, constants, attributes)
    m, s = int(constants["multiplier"]), int(constants["shift"])
    rows, results = (np.moveaxis(a, axis, -1).reshape(-1, x.shape[axis]).tolist() for a in (x, got))
    for row, result in zip(rows, results, strict=True):
        c = [v - zero for v in row]
        if op == "UnitLength":
            z = [slow_divided(v, max(sum(w * w for w in c), 1), 22) for v in c]
        else:
            total = max(sum(map(abs, c)), 1)
            z = [(v * ((2**50 + total // 2) // total) + 2**27) >> 28 for v in c]
        assert result == [clamped(rescaled(v, m, s), attributes) for v in z]


def test_unit_length_by_hand() -> None:
    """3, 4 has length 5: 0.6 and 0.8, in steps of 0.1; zeros stay zeros. Of order 1 it is 3/7 and 4/7."""
    x = np.array([[3, 4], [0, 0]], np.int8)
    constants = scaled(2.0**-22 / 0.1) | {"axes": np.array([1])}
    assert every_form("UnitLength", {"x": x}, constants, {"x_zero_point": 0} | output()).tolist() == [[6, 8], [0, 0]]
    assert every_form("UnitSum", {"x": x}, constants, {"x_zero_point": 0} | output()).tolist() == [[4, 6], [0, 0]]


def test_the_inverse_root_is_as_good_as_it_says() -> None:
    """Relative error below 2^-17 from 1 to 2^63, powers of four and their neighbours included."""
    u = np.unique(np.concatenate([np.geomspace(1, 2.0**62.9, 20001).astype(np.int64)]
                                 + [4**e + np.array([-1, 0, 1]) for e in range(1, 31)]))
    r, k = inverse_root(u)
    exact = 1 / np.sqrt(u.astype(np.float64))
    assert np.abs(r * 2.0 ** (-30.0 - k) / exact - 1).max() < 2.0**-17
    assert r.min() >= 1 << 18 and r.max() <= 1 << 19


def test_the_inverse_root_in_standard_operators_is_the_same() -> None:
    """Its emitted form gives the reference's integers, ties of the interpolation included."""
    v = np.arange(1 << 22, 1 << 24, 257, dtype=np.int64)
    i, f = (v >> 14) - 256, v & 16383
    ties = ((ROOTS[i] - ROOTS[i + 1]) * f) % 16384 == 8192
    assert ties.any()
    u = np.concatenate([v, np.array([1, 2, 3, 4, 5, 4**20 - 1, 4**20, 2**62, 2**63 - 1])])
    value_u = ir.Value(name="u", shape=ir.Shape(u.shape), type=ir.TensorType(ir.DataType.INT64))
    emitter = FunctionEmitter({"u": value_u}, {})
    result = _emit_inverse_root(emitter, value_u)
    result.name, result.shape, result.dtype = "root", ir.Shape(u.shape), ir.DataType.DOUBLE
    graph = ir.Graph([value_u], [result], nodes=emitter.nodes, opset_imports={"": OPSET}, name="root")
    got = session(ir.Model(graph, ir_version=8)).run(None, {"u": u})[0]
    r, k = inverse_root(u)
    assert np.array_equal(got, r * 2.0**-k)


def error_at_codes(run: Lowered) -> float:
    """Largest distance to the float operator at what the codes of x stand for, in steps of y."""
    x = run.real("x").astype(np.float32)
    y = session(run.graph.model).run(None, {"x": x})[0].astype(np.float64)
    high = 127 if run.codes["y"].dtype == np.int8 else 32767
    return float(np.abs(run.real("y") / run.step("y") - np.clip(y / run.step("y"), -high - 1, high)).max())


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


NODES = {
    "layer": ("LayerNormalization", normal(2, 5, 96) * 3 + 1, {"s": normal(96), "b": normal(96, seed=1)}, {}),
    "tiny": ("LayerNormalization", normal(2, 5, 96) * 2e-3, {"s": normal(96), "b": normal(96, seed=1)}, {}),
    "huge": ("LayerNormalization", normal(2, 5, 96) * 1e5, {"s": normal(96)}, {}),
    "two axes": ("LayerNormalization", normal(2, 5, 9), {"s": normal(5, 9), "b": normal(5, 9, seed=1)}, {"axis": 1}),
    "small epsilon": ("LayerNormalization", normal(2, 5, 9), {"s": normal(5, 9)}, {"axis": -2, "epsilon": 1e-12}),
    "instance": ("InstanceNormalization", normal(2, 6, 7, 9) * np.arange(1, 7, dtype=np.float32)[:, None, None],
                 {"s": normal(6), "b": normal(6, seed=1)}, {}),
    "length": ("LpNormalization", normal(2, 6, 7), {}, {"axis": 1}),
    "sum": ("LpNormalization", normal(2, 6, 7), {}, {"axis": -1, "p": 1}),
}


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("name", NODES)
def test_a_node_is_near_the_real_function(name: str, qtype: str) -> None:
    """At the codes of its input: half a step of rounding; in int16 as much again for 15-bit multipliers and root."""
    op, x, constants, attributes = NODES[name]
    run = lowered(one_node(op, {"x": x}, constants, **attributes), {"x": x}, qtype=qtype)
    assert run.plan.nodes["op"].device is Device.BPU
    assert error_at_codes(run) <= (0.52 if qtype == "int8" else 1.2)
    assert run.cosine("y") > (0.999 if qtype == "int8" else 0.99999)


def test_group_normalization_runs_on_the_bpu() -> None:
    """It arrives as InstanceNormalization over groups."""
    x = normal(2, 6, 4, 4)
    proto = model([node("Relu", ["x"], "r", "relu"),
                   node("GroupNormalization", ["r", "s", "b"], "g", "gn", num_groups=3),
                   node("Relu", ["g"], "y", "relu2")], [value("x", x.shape)], [value("y", None)],
                  [*(one_node("Relu", {}, {"s": normal(3), "b": normal(3, seed=1)}).graph.initializer)], opset=18)
    run = lowered(proto, {"x": x})
    assert {n.device for n in run.plan.nodes.values()} == {Device.BPU} and run.cosine("y") > 0.999


@pytest.mark.parametrize("qtype", ["int8", "int16"])
def test_constant_rows_of_a_node_give_its_bias(qtype: str) -> None:
    """An input that is constant per row (and all zero in one) gives beta, finite everywhere."""
    x = np.repeat(np.array([[0.0], [1.0], [-3.0]], np.float32), 8, axis=1)
    b = normal(8, seed=3)
    run = lowered(one_node("LayerNormalization", {"x": x}, {"s": normal(8), "b": b}), {"x": x}, qtype=qtype)
    assert np.abs(run.outputs["y"] - b).max() <= run.step("y")


@pytest.mark.parametrize(("constants", "shape", "found"), [
    ({}, (2, 8), "input 1 (s) is computed"),
    ({"s": np.ones(70000, np.float32)}, (1, 70000), "70000 elements"),
])
def test_what_has_no_kernel_runs_on_the_cpu(constants: dict[str, np.ndarray], shape: tuple[int, ...],
                                            found: str) -> None:
    """A computed scale, or more than 65535 elements: the reason says what this node has."""
    feeds = {"x": normal(*shape)} | ({} if constants else {"s": normal(shape[-1])})
    run = lowered(one_node("LayerNormalization", feeds, constants), feeds)
    assert run.plan.nodes["op"].device is Device.CPU and found in run.plan.nodes["op"].reason


def test_mean_and_deviation_as_outputs_run_on_the_cpu() -> None:
    """The optional outputs of LayerNormalization exist on the CPU only."""
    x = normal(2, 8)
    proto = model([node("LayerNormalization", ["x", "s"], ["y", "mean"], "op")], [value("x", x.shape)],
                  [value("y", None), value("mean", None)],
                  list(one_node("Relu", {}, {"s": normal(8)}).graph.initializer), opset=19)
    run = lowered(proto, {"x": x})
    assert run.plan.nodes["op"].device is Device.CPU and "output mean is used" in run.plan.nodes["op"].reason

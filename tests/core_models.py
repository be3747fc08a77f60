"""Small models that try the core at its edges, one function each: `EDGES[name]() -> (model, feeds)`.

The docstring of a builder says what is special about it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from models import IMAGE, Built, batch_norm, image, init, ints, model, node, random, value
from onnx import TensorProto, helper

EDGES: dict[str, Callable[[], Built]] = {}
f32 = np.float32


def edge(build: Callable[[], Built]) -> Callable[[], Built]:
    EDGES[build.__name__] = build
    return build


def weights(**shapes: tuple[int, ...]) -> list:
    """Random initializers by name."""
    return [init(name, random(*shape, seed=index)) for index, (name, shape) in enumerate(shapes.items())]


def net(
    nodes: list, outputs: list[str], inits: list, inputs: dict[str, np.ndarray] | None = None, **more: object
) -> Built:
    """A model with inputs as fed, and outputs whose shapes are left open."""
    feeds = inputs or image()
    infos = [value(k, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype)) for k, a in feeds.items()]
    return model(nodes, infos, [value(o, None) for o in outputs], inits, **more), feeds


FOUR = {"w": (4, 3, 1, 1), "w2": (4, 4, 1, 1), "w3": (2, 4, 1, 1)}


@edge
def outputs_that_are_read() -> Built:
    """Every tensor is an output of the model and read by the next operator, too."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "conv2"),
    ]
    return net(nodes, ["c", "r", "y"], weights(**FOUR))


@edge
def output_is_input() -> Built:
    """An input is an output as it stands."""
    nodes = [node("Conv", ["x", "w"], "c", "conv")]
    infos = [value("x", IMAGE)]
    return model(nodes, infos, [value("x", IMAGE), value("c", None)], weights(**FOUR)), image()


@edge
def output_is_constant() -> Built:
    """A weight, and a tensor that depends on constants only, are outputs."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Add", ["k", "k"], "kk", "add")]
    return net(nodes, ["w", "kk", "c"], [*weights(**FOUR), init("k", random(5))])


@edge
def identical_outputs() -> Built:
    """One convolution under two names, and twice the Relu of it."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Identity", ["c"], "y1", "i1"),
        node("Identity", ["c"], "y2", "i2"),
        node("Relu", ["c"], "r1", "relu1"),
        node("Relu", ["c"], "r2", "relu2"),
    ]
    return net(nodes, ["y1", "y2", "r1", "r2"], weights(**FOUR))


@edge
def identity_between() -> Built:
    """An Identity that the optimizer cannot remove stands between two convolutions: both its ends are outputs."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Identity", ["c"], "i", "id"),
        node("Conv", ["i", "w3"], "y", "conv2"),
    ]
    return net(nodes, ["c", "i", "y"], weights(**FOUR))


@edge
def unused_inputs() -> Built:
    """Inputs that feed nothing, one of them int64."""
    feeds = {**image(), "u": np.ones((2, 3), np.int64), "v": np.ones(1, f32)}
    return net([node("Conv", ["x", "w"], "c", "conv")], ["c"], weights(**FOUR), feeds)


@edge
def integers_and_bools() -> Built:
    """int32, int64 and bool tensors on the CPU between two convolutions, and as outputs."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Greater", ["c", "z"], "g", "greater"),
        node("Cast", ["g"], "gi", "cast", to=TensorProto.INT32),
        node("Add", ["gi", "i"], "yi", "add"),
        node("Not", ["g"], "nb", "not"),
        node("Cast", ["g"], "gf", "cast_back", to=TensorProto.FLOAT),
        node("Mul", ["gf", "c"], "m", "mul"),
        node("Conv", ["m", "w3"], "y", "conv2"),
    ]
    made, feeds = net(nodes, ["y"], [*weights(**FOUR), init("z", f32(0))], {**image(), "i": np.array([5], np.int32)})
    made.graph.output.extend([value("yi", None, TensorProto.INT32), value("nb", None, TensorProto.BOOL)])
    return made, feeds


@edge
def rank_0_tensors() -> Built:
    """A mean over everything, scaled, added back, squared: tensors of rank 0 as activation, input and output."""
    nodes = [
        node("ReduceMean", ["x"], "m", "mean", keepdims=0),
        node("Mul", ["m", "s"], "ms", "mul"),
        node("Add", ["ms", "k"], "mk", "add_k"),
        node("Add", ["x", "mk"], "a", "add"),
        node("Conv", ["a", "w"], "c", "conv"),
        node("ReduceMean", ["c"], "z", "mean2", keepdims=0),
    ]
    return net(nodes, ["z", "mk"], [init("k", f32(2)), *weights(**FOUR)], {**image(), "s": np.array(1.5, f32)})


@edge
def one_axis() -> Built:
    """1-D convolutions: uneven pads, stride, dilation, groups, a pooling between."""
    nodes = [
        node("Conv", ["x", "w", "b"], "c", "conv", pads=[2, 1], strides=[2], dilations=[2]),
        node("Relu", ["c"], "r", "relu"),
        node("MaxPool", ["r"], "p", "pool", kernel_shape=[2], strides=[2]),
        node("Conv", ["p", "w2"], "y", "conv2", group=2),
    ]
    return net(nodes, ["y"], weights(w=(4, 3, 3), b=(4,), w2=(4, 2, 2)), {"x": random(2, 3, 21)})


@edge
def empty_tensors() -> Built:
    """A Slice of nothing, concatenated and returned."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Slice", ["c", "s", "e", "ax"], "none", "slice"),
        node("Concat", ["none", "c"], "k", "cat", axis=1),
        node("Conv", ["k", "w3"], "y", "conv2"),
    ]
    return net(nodes, ["y", "none"], [*weights(**FOUR), ints("s", 0), ints("e", 0), ints("ax", 1)])


@edge
def hostile_names() -> Built:
    """Names that are paths, markup, quotes, line ends, or look like names the simulator makes up."""
    a, b, c, d, e = "../../evil", "<script>alert(1)</script>", "conv/0", "..0", ".constant_0"
    nodes = [
        node("Conv", ["x", "w"], a, "../../evil"),
        node("Relu", [a], b, "<script>"),
        node("Conv", [b, "w2"], c, "conv"),
        node("Add", [c, b], d, "conv/0"),
        node("Conv", [d, "w2"], e, "con\nv"),
        node("Relu", [e], "y", ".constant_1"),
    ]
    return net(nodes, ["y", d], weights(**FOUR))


@edge
def broken_weights() -> Built:
    """NaN among the weights, Inf in a bias."""
    w = random(4, 3, 1, 1)
    w[0, 0], w[1, 0] = np.nan, np.inf
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv"), node("Conv", ["c", "w3"], "y", "end")]
    return net(nodes, ["y"], [init("w", w), init("b", np.array([0, 0, np.inf, 1], f32)), *weights(w3=(2, 4, 1, 1))])


@edge
def colliding_names() -> Built:
    """Tensors and nodes already bear the names that lowering and the calibrated model would give their own."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "c_quantized", "c_quantize"),
        node("Conv", ["c_quantized", "w2"], "c_calibrated", "x_quantize"),
        node("Relu", ["c_calibrated"], "c_float", "x_HzCalibration"),
        node("Conv", ["c_float", "w2"], "c_quantized_quantized", "y_dequantize"),
        node("Relu", ["c_quantized_quantized"], "conv_weight", "conv_weight"),
        node("Conv", ["conv_weight", "w2"], "c_quantized_calibrated", "conv3"),
        node("Add", ["c_quantized_calibrated", "c_float"], "y", "x_calibrated"),
    ]
    return net(nodes, ["y", "c_quantized", "conv_weight"], weights(**FOUR))


@edge
def float_suffixes() -> Built:
    """Outputs named y, y_float and y_float_float: the calibrated model renames none of them."""
    nodes = [
        node("Conv", ["x", "w"], "y", "conv"),
        node("Relu", ["y"], "y_float", "relu"),
        node("Conv", ["y_float", "w2"], "z", "conv2"),
        node("Conv", ["z", "w2"], "y_float_float", "conv3"),
        node("Conv", ["y_float_float", "w2"], "q", "conv4"),
    ]
    return net(nodes, ["y", "y_float", "z", "q"], weights(**FOUR))


@edge
def matmul_forms() -> Built:
    """MatMul of rank 3 with bias, Relu and residual; MatMul of a vector."""
    nodes = [
        node("MatMul", ["x", "w"], "m", "mm"),
        node("Add", ["m", "b"], "a", "bias"),
        node("Relu", ["a"], "r", "relu"),
        node("MatMul", ["r", "w2"], "m2", "mm2"),
        node("Add", ["m2", "x"], "res", "res"),
        node("MatMul", ["res", "w"], "y", "mm3"),
        node("MatMul", ["v", "w"], "v1", "mm4"),
        node("MatMul", ["v1", "w2"], "v2", "mm5"),
    ]
    return net(nodes, ["y", "v2"], weights(w=(6, 6), b=(6,), w2=(6, 6)), {"x": random(2, 4, 6), "v": random(6, seed=5)})


@edge
def gemm_chain() -> Built:
    """Gemm with a 1-D bias and transB, then with a row as bias."""
    nodes = [
        node("Gemm", ["x", "w", "b"], "m", "g1", transB=1),
        node("Relu", ["m"], "r", "relu"),
        node("Gemm", ["r", "w2", "b2"], "y", "g2"),
    ]
    return net(nodes, ["y"], weights(w=(5, 6), b=(5,), w2=(5, 3), b2=(1, 3)), {"x": random(3, 6)})


@edge
def all_zero() -> Built:
    """Input and first weights are all zero: no threshold is 0, no figure NaN."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "conv2"),
    ]
    return net(
        nodes,
        ["y", "r"],
        [init("w", np.zeros((4, 3, 1, 1), f32)), *weights(w3=(2, 4, 1, 1))],
        {"x": np.zeros(IMAGE, f32)},
    )


@edge
def dead_behind_large() -> Built:
    """A Relu that never opens stands behind values near 1e12: its safe threshold makes a ratio far beyond 2^20."""
    nodes = [
        node("Mul", ["x", "big"], "xb", "mul"),
        node("Conv", ["xb", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "conv2"),
    ]
    inits = [init("big", f32(1e12)), init("w", -np.abs(random(4, 3, 1, 1))), *weights(w3=(2, 4, 1, 1))]
    return net(nodes, ["y"], inits, {"x": np.abs(random(*IMAGE))})


@edge
def tiny_values() -> Built:
    """Values near 1e-42, which float32 holds with a few bits."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "conv2"),
        node("Add", ["x", "x"], "a", "add"),
    ]
    return net(nodes, ["y", "a"], weights(**FOUR), image(scale=1e-42))


@edge
def huge_values() -> Built:
    """Values near 1e30."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "conv2"),
    ]
    return net(nodes, ["y"], weights(**FOUR), image(scale=1e30))


@edge
def infinities_inside() -> Built:
    """A square that overflows float32: thresholds and corrections come from what is finite."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Mul", ["c", "c"], "q", "square"),
        node("Conv", ["q", "w3"], "y", "conv2"),
    ]
    x = random(*IMAGE)
    x[0, 0, 0, 0] = 1e25
    return net(nodes, ["y"], weights(**FOUR), {"x": x})


@edge
def wide_bias() -> Built:
    """Channels with almost no weights beside a bias of normal size."""
    factors = np.array([1, 1e-9, 0, 1e-30], f32).reshape(4, 1, 1, 1)
    nodes = [node("Conv", ["x", "w", "b"], "c", "conv"), node("Conv", ["c", "w3"], "y", "conv2")]
    return net(
        nodes,
        ["y"],
        [init("w", random(4, 3, 1, 1) * factors), init("b", np.array([1, 2, 3, -4], f32)), *weights(w3=(2, 4, 1, 1))],
    )


@edge
def pads() -> Built:
    """Pad in every mode, of a value between codes, of -Inf in front of a pooling, and cutting."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Pad", ["c", "p"], "p1", "reflect", mode="reflect"),
        node("Pad", ["p1", "p", "v"], "p2", "constant"),
        node("Pad", ["p2", "p"], "p3", "edge", mode="edge"),
        node("Pad", ["p3", "cut"], "p4", "cut"),
        node("Conv", ["p4", "w3"], "y", "conv2"),
        node("Pad", ["c", "p", "ninf"], "p5", "inf"),
        node("MaxPool", ["p5"], "m", "pool", kernel_shape=[3, 3], strides=[2, 2]),
        node("Conv", ["m", "w3"], "z", "conv3"),
    ]
    inits = [
        *weights(**FOUR),
        ints("p", 0, 0, 1, 2, 0, 0, 2, 1),
        ints("cut", 0, 0, -1, 2, 0, 0, 2, -1),
        init("v", f32(0.7)),
        init("ninf", f32(-np.inf)),
    ]
    return net(nodes, ["y", "z"], inits)


@edge
def pools() -> Built:
    """Max and average pooling: uneven pads, ceil_mode, count_include_pad, dilation; global average."""
    common = {"kernel_shape": [3, 3], "strides": [2, 2]}
    forms = [
        ("MaxPool", {"pads": [1] * 4, "ceil_mode": 1}),
        ("AveragePool", {"pads": [1] * 4, "ceil_mode": 1}),
        ("AveragePool", {"pads": [1] * 4, "ceil_mode": 1, "count_include_pad": 1}),
        ("AveragePool", {"pads": [1, 0, 1, 2]}),
        ("AveragePool", {"pads": [1, 0, 1, 2], "count_include_pad": 1}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [4, 4], "dilations": [3, 3], "ceil_mode": 1}),
        ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [1, 0, 0, 1]}),
    ]
    nodes = [node("Conv", ["x", "w"], "c", "conv")]
    for i, (op, attributes) in enumerate(forms):
        nodes += [
            node(op, ["c"], f"p{i}", f"pool{i}", **(common | attributes)),
            node("Conv", [f"p{i}", "w3"], f"y{i}", f"end{i}"),
        ]
    nodes += [node("GlobalAveragePool", ["c"], "g", "global"), node("Conv", ["g", "w3"], "y7", "end7")]
    return net(nodes, [f"y{i}" for i in range(8)], weights(**FOUR), {"x": random(1, 3, 9, 10)})


@edge
def means() -> Built:
    """ReduceMean over the channels, over nothing (noop_with_empty_axes), over the last axis without keeping it."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("ReduceMean", ["c"], "n", "noop", noop_with_empty_axes=1),
        node("ReduceMean", ["n", "one"], "m", "channels"),
        node("Mul", ["m", "c"], "mc", "mul"),
        node("Conv", ["mc", "w3"], "y", "conv2"),
        node("ReduceMean", ["y", "last"], "z", "rows", keepdims=0),
    ]
    return net(nodes, ["y", "z"], [*weights(**FOUR), ints("one", 1), ints("last", -1)], opset=18)


@edge
def slices() -> Built:
    """A Slice whose axes are left out while steps are given, backwards and far beyond the ends."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Slice", ["c", "s", "e", "", "st"], "sl", "slice"),
        node("Conv", ["sl", "w3"], "y", "conv2"),
    ]
    return net(
        nodes,
        ["y"],
        [*weights(**FOUR), ints("s", 0, 0, -1, 99), ints("e", 1, 4, -9, -(2**63)), ints("st", 1, 1, -2, -3)],
    )


@edge
def diamonds() -> Built:
    """A tensor added to itself; two convolutions of one tensor added."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Add", ["c", "c"], "d", "twice"),
        node("Conv", ["d", "w2"], "e", "left"),
        node("Conv", ["d", "w2"], "f", "right"),
        node("Add", ["e", "f"], "g", "join"),
        node("Relu", ["g"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "conv2"),
    ]
    return net(nodes, ["y"], weights(**FOUR))


@edge
def residual_from_cpu() -> Built:
    """The other operand of a residual Add comes late, from the CPU, and from the same convolution."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("LRN", ["c"], "s", "cpu", size=3),
        node("Conv", ["c", "w2"], "d", "conv2"),
        node("Add", ["d", "s"], "a", "add"),
        node("Conv", ["a", "w3"], "y", "conv3"),
    ]
    return net(nodes, ["y"], weights(**FOUR))


@edge
def input_read_late() -> Built:
    """The input is read by the CPU first and by the BPU only behind that."""
    nodes = [
        node("LRN", ["x"], "s", "cpu", size=3),
        node("Add", ["s", "x"], "a", "add"),
        node("Conv", ["a", "w"], "c", "conv"),
    ]
    return net(nodes, ["c"], weights(**FOUR))


@edge
def cpu_islands() -> Built:
    """Two operators without a BPU form between three convolutions."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("LRN", ["c"], "s", "cpu1", size=3),
        node("Conv", ["s", "w2"], "d", "conv2"),
        node("Hardmax", ["d"], "h", "cpu2", axis=1),
        node("Mul", ["d", "h"], "m", "mul"),
        node("Conv", ["m", "w3"], "y", "conv3"),
    ]
    return net(nodes, ["y"], weights(**FOUR))


@edge
def concats() -> Built:
    """Concat of tensors at several scales, of one tensor twice, of constants, and of a Concat."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Conv", ["x", "big"], "d", "conv_d"),
        node("Relu", ["d"], "dr", "relu_d"),
        node("Conv", ["dr", "w2"], "dd", "conv_dd"),
        node("MaxPool", ["c"], "mp", "pool", kernel_shape=[1, 1]),
        node("Concat", ["c", "dr", "mp", "k"], "k1", "cat1", axis=1),
        node("Concat", ["k1", "c", "c"], "k2", "cat2", axis=1),
        node("Conv", ["k2", "wide"], "y", "conv2"),
    ]
    inits = [
        *weights(w=(4, 3, 1, 1), w2=(4, 4, 1, 1), wide=(3, 22, 1, 1)),
        init("big", random(4, 3, 1, 1, seed=7, scale=9)),
        init("k", random(1, 2, 8, 8, seed=8, scale=5)),
    ]
    return net(nodes, ["y", "dd"], inits)


@edge
def constant_beside_large() -> Built:
    """Small constants are concatenated with large activations, and weigh most behind: their codes matter."""
    end = np.concatenate([random(3, 4, 1, 1, scale=1e-3), random(3, 8, 1, 1)], 1)
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Concat", ["c", "k"], "cc", "cat", axis=1),
        node("Conv", ["cc", "end"], "r", "conv2"),
        node("Conv", ["r", "last"], "y", "conv3"),
    ]
    inits = [
        init("w", random(4, 3, 1, 1, scale=9)),
        init("end", end),
        init("k", np.abs(random(1, 8, 8, 8, scale=0.1))),
        *weights(last=(3, 3, 1, 1)),
    ]
    return net(nodes, ["y"], inits)


@edge
def passive_chain() -> Built:
    """Transpose, Reshape, Unsqueeze, Squeeze and Flatten between two operators with weights."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Transpose", ["c"], "t", "transpose", perm=[0, 2, 3, 1]),
        node("Reshape", ["t", "s"], "r", "reshape"),
        node("Unsqueeze", ["r", "ax"], "u", "unsqueeze"),
        node("Squeeze", ["u", "ax"], "q", "squeeze"),
        node("Flatten", ["q"], "f", "flatten", axis=2),
        node("MatMul", ["f", "end"], "y", "matmul"),
    ]
    return net(nodes, ["y"], [*weights(w=(4, 3, 1, 1), end=(4, 5)), ints("s", 1, 64, 4), ints("ax", 0)])


@edge
def first_output_left_out() -> Built:
    """An LSTM that stays one (it clips), whose sequence output is left out; only its last state is used."""
    nodes = [
        node("LSTM", ["x", "W", "R"], ["", "yh"], "lstm", hidden_size=2, clip=50.0),
        node("Squeeze", ["yh", "ax"], "q", "squeeze"),
        node("MatMul", ["q", "w"], "y", "matmul"),
    ]
    return net(nodes, ["y"], [*weights(W=(1, 8, 3), R=(1, 8, 2), w=(2, 3)), ints("ax", 0)], {"x": random(5, 1, 3)})


@edge
def masks() -> Built:
    """A factor of 1e30 where the data are 0, and a mask of -Inf that is added."""
    x = random(*IMAGE)
    x[0, 0, 0, 5] = 0
    factor = np.where(np.arange(192).reshape(IMAGE) == 5, 1e30, 1).astype(f32)
    mask = np.where(np.triu(np.ones((8, 8)), 1) > 0, -np.inf, 0).astype(f32)
    nodes = [
        node("Mul", ["x", "factor"], "a", "mul"),
        node("Conv", ["a", "w"], "c", "conv"),
        node("Add", ["c", "mask"], "m", "mask"),
        node("Relu", ["m"], "r", "relu"),
        node("Conv", ["r", "w3"], "y", "conv2"),
    ]
    return net(nodes, ["y"], [*weights(**FOUR), init("factor", factor), init("mask", mask)], {"x": x})


@edge
def odd_clips() -> Built:
    """Clip whose lower bound is above its upper one, and Clip to below zero."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Clip", ["c", "one", "minus"], "a", "swapped"),
        node("Conv", ["c", "w2"], "b", "conv2"),
        node("Clip", ["b", "", "minus"], "d", "below"),
        node("Conv", ["d", "w3"], "y", "conv3"),
        node("Conv", ["a", "w3"], "z", "conv4"),
    ]
    return net(nodes, ["y", "z"], [*weights(**FOUR), init("one", f32(1)), init("minus", f32(-0.5))])


@edge
def two_inputs() -> Built:
    """Convolutions of two inputs at different scales are added, and a residual behind that."""
    nodes = [
        node("Conv", ["a", "w"], "c", "conv"),
        node("Conv", ["b", "w"], "d", "conv2"),
        node("Add", ["c", "d"], "e", "add"),
        node("Relu", ["e"], "r", "relu"),
        node("Conv", ["r", "w2"], "f", "conv3"),
        node("Add", ["f", "r"], "g", "add2"),
        node("Conv", ["g", "w3"], "y", "conv4"),
    ]
    return net(nodes, ["y"], weights(**FOUR), {"a": random(*IMAGE), "b": random(*IMAGE, seed=3, scale=5)})


@edge
def branches_that_capture() -> Built:
    """The branches of an If read a tensor that the BPU stores, and a constant, from outside; the body of a Loop too."""
    then = helper.make_graph([node("Mul", ["r", "two"], "t0", "then_mul")], "then", [], [value("t0", None)])
    other = helper.make_graph([node("Sub", ["r", "k"], "e0", "else_sub")], "else", [], [value("e0", None)])
    body = helper.make_graph(
        [node("Add", ["state", "d"], "next", "body_add"), node("Identity", ["going"], "still", "body_go")],
        "body",
        [value("step", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("state", [1, 4, 8, 8])],
        [value("still", [], TensorProto.BOOL), value("next", [1, 4, 8, 8])],
    )
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w2"], "d", "conv2"),
        node("If", ["cond"], "o", "branch", then_branch=then, else_branch=other),
        node("Loop", ["three", "", "o"], "l", "loop", body=body),
        node("Add", ["l", "d"], "ad", "add"),
        node("Conv", ["ad", "w3"], "y", "conv3"),
    ]
    inits = [*weights(**FOUR), init("two", f32(2)), init("k", f32(3)), init("three", 3, np.int64)]
    return net(nodes, ["y"], inits, {**image(), "cond": np.array(True)})


@edge
def vector_unit_only() -> Built:
    """No operator with weights: Add, Mul, Relu, Clip and a mean are all of the network."""
    nodes = [
        node("Add", ["x", "y"], "a", "add"),
        node("Mul", ["a", "x"], "m", "mul"),
        node("Relu", ["m"], "r", "relu"),
        node("Clip", ["r", "lo", "hi"], "c", "clip"),
        node("ReduceMean", ["c"], "z", "mean", axes=[1]),
    ]
    return net(
        nodes,
        ["z", "m"],
        [init("lo", f32(0.1)), init("hi", f32(2))],
        {"x": random(*IMAGE), "y": random(*IMAGE, seed=2)},
    )


@edge
def nothing_for_the_bpu() -> Built:
    """No node runs on the BPU at all."""
    return net(
        [node("LRN", ["x"], "s", "norm", size=3), node("Transpose", ["s"], "y", "transpose")],
        ["y"],
        [],
    )


@edge
def volumes() -> Built:
    """Convolutions and pools over three spatial axes, with a BatchNormalization and a residual Add."""
    norm, constants = batch_norm("bn", 4)
    nodes = [
        node("Conv", ["x", "w"], "c", "conv", pads=[1] * 6),
        node("BatchNormalization", ["c", *norm], "n", "norm"),
        node("Relu", ["n"], "r", "relu"),
        node("MaxPool", ["r"], "p", "pool", kernel_shape=[1, 2, 2], strides=[1, 2, 2]),
        node("Conv", ["p", "w2"], "d", "conv2", pads=[1] * 6, group=2),
        node("Add", ["d", "p"], "s", "sum"),
        node("AveragePool", ["s"], "a", "mean", kernel_shape=[2, 2, 2]),
        node("Conv", ["a", "w3"], "y", "conv3"),
    ]
    made = weights(w=(4, 2, 3, 3, 3), w2=(4, 2, 3, 3, 3), w3=(2, 4, 1, 1, 1))
    return net(nodes, ["y"], [*made, *constants], {"x": random(1, 2, 4, 6, 6)})


@edge
def movers_at_both_ends() -> Built:
    """Movers at the head; Relu, Reshape and a Concat of two equal branches behind the last convolution."""
    nodes = [
        node("Reshape", ["x", "four"], "x4", "head"),
        node("Transpose", ["x4"], "xt", "turn", perm=[0, 3, 1, 2]),
        node("Conv", ["xt", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w2"], "d", "conv2"),
        node("Relu", ["d"], "s", "relu2"),
        node("Reshape", ["s", "two"], "f", "flat"),
        node("Concat", ["f", "f"], "y", "join", axis=1),
    ]
    made = [*weights(w=(4, 3, 1, 1), w2=(2, 4, 1, 1)), ints("four", 1, 8, 8, 3), ints("two", 1, 128)]
    return net(nodes, ["y"], made, {"x": random(1, 192)})


@edge
def log_spectrum() -> Built:
    """A filter bank, its power, the logarithm less its lowest value, and a convolution that looks at it."""
    bank = np.stack([np.cos(2 * np.pi * k * np.arange(64) / 64 + p) for k in range(1, 17) for p in (0, np.pi / 2)])
    nodes = [
        node("Conv", ["x", "bank"], "c", "bank", strides=[16]),
        node("Mul", ["c", "c"], "p", "square"),
        node("Reshape", ["p", "pairs"], "q", "pairs"),
        node("ReduceSum", ["q", "axis"], "s", "power", keepdims=0),
        node("Add", ["s", "eps"], "e", "lift"),
        node("Log", ["e"], "l", "log"),
        node("ReduceMin", ["l"], "m", "lowest", axes=[1, 2]),
        node("Sub", ["l", "m"], "n", "above"),
        node("Transpose", ["n"], "t", "turn", perm=[0, 2, 1]),
        node("Conv", ["t", "w"], "d", "look"),
        node("Relu", ["d"], "y", "relu"),
    ]
    inits = [init("bank", (bank[:, None] / 64).astype(f32)), ints("pairs", 1, 16, 2, 61), ints("axis", 2),
             init("eps", f32(1e-10)), init("w", random(4, 61, 3))]  # fmt: skip
    t = np.arange(1024)
    sound = np.sin(2 * np.pi * 5 * t / 64) + 1e-3 * np.sin(2 * np.pi * 11 * t / 64)
    return net(nodes, ["y"], inits, {"x": (sound[None, None] + random(1, 1, 1024, scale=1e-4)).astype(f32)})

"""Small ONNX models for tests, one function each: `MODELS[name]() -> (model, feeds)`.

The docstring of a builder says what is special about it. All weights are random with a fixed seed; every model runs
in onnxruntime as it is. Helpers `node`, `init`, `value`, `model` build further ones in a line or two.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Feeds = dict[str, np.ndarray]
Built = tuple[onnx.ModelProto, Feeds]
MODELS: dict[str, Callable[[], Built]] = {}


def register(build: Callable[[], Built]) -> Callable[[], Built]:
    MODELS[build.__name__] = build
    return build


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(shape) + 0.5).astype(np.float32)


def init(name: str, array: object, dtype: object = None) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(array, dtype=dtype, order="C"), name)


def ints(name: str, *values: int) -> onnx.TensorProto:
    return init(name, values, np.int64)


def value(name: str, shape: Sequence[int | str | None] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str] | str, name: str | None = None, **attributes: object
) -> onnx.NodeProto:
    outputs = [outputs] if isinstance(outputs, str) else list(outputs)
    return helper.make_node(
        op, list(inputs), outputs, name=f"{op.lower()}_{outputs[0]}" if name is None else name, **attributes
    )


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto],
    outputs: Iterable[onnx.ValueInfoProto],
    inits: Iterable[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    ir_version: int = 8,
    functions: Iterable[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "net", list(inputs), list(outputs), list(inits))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = helper.make_model(graph, opset_imports=opsets, functions=list(functions), producer_name="ptqlab tests")
    made.ir_version = ir_version
    return made


IMAGE = (1, 3, 8, 8)


def image(seed: int = 1, scale: float = 1.0) -> Feeds:
    return {"x": random(*IMAGE, seed=seed, scale=scale)}


def batch_norm(prefix: str, channels: int, seed: int = 5) -> tuple[list[str], list[onnx.TensorProto]]:
    """Input names and constants of a BatchNormalization."""
    arrays = {"scale": positive(channels, seed=seed), "bias": random(channels, seed=seed + 1),
              "mean": random(channels, seed=seed + 2), "var": positive(channels, seed=seed + 3)}
    return [f"{prefix}_{k}" for k in arrays], [init(f"{prefix}_{k}", a) for k, a in arrays.items()]


def single(op: str, inputs: Feeds, constants: dict[str, np.ndarray | None], *, opset: int = 17, outputs: int = 1,
           order: Sequence[str] = (), dtype: int | None = TensorProto.FLOAT, **attributes: object) -> Built:
    """A model of one node; inputs in the order given by `order`, or inputs then constants (None: left out)."""
    names = list(order) or [*inputs, *("" if a is None else k for k, a in constants.items())]
    given = [value(k, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype)) for k, a in inputs.items()]
    outs = [f"y{i}" if i else "y" for i in range(outputs)]
    infos = [helper.make_tensor_value_info(o, dtype, None) if dtype else onnx.ValueInfoProto(name=o) for o in outs[:1]]
    return model([node(op, names, outs, "op", **attributes)], given, infos,
                 [init(k, a) for k, a in constants.items() if a is not None], opset=opset), inputs


@register
def conv_bn_relu() -> Built:
    """Conv without bias, BatchNormalization, Relu: three nodes, two after fusing."""
    names, inits = batch_norm("bn", 4)
    nodes = [node("Conv", ["x", "w"], "c", "conv", pads=[1] * 4), node("BatchNormalization", ["c", *names], "b", "bn"),
             node("Relu", ["b"], "y", "relu")]
    return model(
        nodes, [value("x", IMAGE)], [value("y", [1, 4, 8, 8])], [init("w", random(4, 3, 3, 3)), *inits]
    ), image()


@register
def conv_bias_grouped_bn() -> Built:
    """Conv with bias in 2 groups, BatchNormalization; a depthwise Conv with BatchNormalization behind."""
    n1, i1 = batch_norm("p", 6)
    n2, i2 = batch_norm("q", 6, seed=9)
    nodes = [
        node("Conv", ["x", "w", "b"], "c", "conv", group=2),
        node("BatchNormalization", ["c", *n1], "d", "bn1"),
        node("Conv", ["d", "v"], "e", "depthwise", group=6, pads=[1] * 4),
        node("BatchNormalization", ["e", *n2], "y", "bn2"),
    ]
    inits = [
        init("w", random(6, 2, 1, 1)),
        init("b", random(6, seed=2)),
        init("v", random(6, 1, 3, 3, seed=3)),
        *i1,
        *i2,
    ]
    return model(nodes, [value("x", [2, 4, 5, 5])], [value("y", [2, 6, 5, 5])], inits), {
        "x": random(2, 4, 5, 5, seed=4)
    }


@register
def conv_transpose_bn() -> Built:
    """Grouped ConvTranspose whose weights are [Cin, Cout/group, ...], then BatchNormalization."""
    names, inits = batch_norm("bn", 6)
    nodes = [
        node("ConvTranspose", ["x", "w"], "c", "deconv", group=2, strides=[2, 2]),
        node("BatchNormalization", ["c", *names], "y", "bn"),
    ]
    return model(nodes, [value("x", [1, 4, 4, 4])], [value("y", None)], [init("w", random(4, 3, 2, 2)), *inits]), {
        "x": random(1, 4, 4, 4)
    }


@register
def mlp() -> Built:
    """MatMul + Add, Gemm + BatchNormalization, and a MatMul of rank 3 whose bias stays an Add."""
    names, inits = batch_norm("bn", 5)
    nodes = [
        node("MatMul", ["x", "w1"], "m", "fc1"),
        node("Add", ["m", "b1"], "a", "fc1_bias"),
        node("Relu", ["a"], "r", "relu"),
        node("Gemm", ["r", "w2", "b2"], "g", "fc2", transB=1),
        node("BatchNormalization", ["g", *names], "n", "bn"),
        node("Reshape", ["n", "s"], "h", "reshape"),
        node("MatMul", ["h", "w3"], "o", "fc3"),
        node("Add", ["b3", "o"], "y", "fc3_bias"),
    ]
    inits += [
        init("w1", random(8, 6)),
        init("b1", random(6, seed=1)),
        init("w2", random(5, 6, seed=2)),
        init("b2", random(5, seed=3)),
        ints("s", 1, 2, 5),
        init("w3", random(5, 3, seed=4)),
        init("b3", random(3, seed=5)),
    ]
    return model(nodes, [value("x", [2, 8])], [value("y", [1, 2, 3])], inits), {"x": random(2, 8, seed=6)}


@register
def mobile_block() -> Built:
    """Inverted residual block: expand, depthwise, project, add, mean over H and W, Gemm, Softmax."""
    inits: list[onnx.TensorProto] = [init("zero", np.float32(0)), init("six", np.float32(6))]
    nodes: list[onnx.NodeProto] = []
    x = "x"
    for index, (cin, cout, kernel, group, act) in enumerate(
        ((8, 16, 1, 1, True), (16, 16, 3, 16, True), (16, 8, 1, 1, False))
    ):
        names, more = batch_norm(f"n{index}", cout, seed=10 * index)
        inits += [init(f"w{index}", random(cout, cin // group, kernel, kernel, seed=index, scale=0.4)), *more]
        nodes.append(node("Conv", [x, f"w{index}"], f"c{index}", f"conv{index}", group=group, pads=[kernel // 2] * 4))
        nodes.append(node("BatchNormalization", [f"c{index}", *names], f"b{index}", f"bn{index}"))
        x = f"b{index}"
        if act:
            nodes.append(node("Clip", [x, "zero", "six"], f"r{index}", f"relu6_{index}"))
            x = f"r{index}"
    nodes += [
        node("Add", [x, "x"], "sum", "add"),
        node("ReduceMean", ["sum"], "mean", "mean", axes=[2, 3], keepdims=0),
        node("Gemm", ["mean", "wf", "bf"], "logits", "fc", transB=1),
        node("Softmax", ["logits"], "y", "softmax", axis=1),
    ]
    inits += [init("wf", random(10, 8, seed=7)), init("bf", random(10, seed=8))]
    return model(nodes, [value("x", [1, 8, 6, 6])], [value("y", [1, 10])], inits), {"x": random(1, 8, 6, 6, seed=9)}


@register
def attention() -> Built:
    """Scaled dot-product attention with a -Inf causal mask and a residual."""
    mask = np.triu(np.ones((4, 4), bool), 1)[None]
    nodes = [
        node("MatMul", ["x", "wq"], "q", "q"),
        node("MatMul", ["x", "wk"], "k", "k"),
        node("MatMul", ["x", "wv"], "v", "v"),
        node("Transpose", ["k"], "kt", "k_t", perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], "s", "qk"),
        node("Div", ["s", "root"], "d", "scale"),
        node("Where", ["mask", "ninf", "d"], "m", "mask"),
        node("Softmax", ["m"], "p", "softmax", axis=-1),
        node("MatMul", ["p", "v"], "o", "pv"),
        node("Add", ["o", "x"], "y", "residual"),
    ]
    inits = [init(n, random(8, 8, seed=i, scale=0.5)) for i, n in enumerate(("wq", "wk", "wv"))]
    inits += [init("root", np.float32(8**0.5)), init("mask", mask), init("ninf", np.float32(-np.inf))]
    return model(nodes, [value("x", [1, 4, 8])], [value("y", [1, 4, 8])], inits), {"x": random(1, 4, 8, seed=5)}


@register
def bn_alone() -> Built:
    """BatchNormalization on the input, after Relu, and on a Conv result that is an output: none goes into a Conv."""
    names, inits = batch_norm("bn", 3)
    nodes = [node("BatchNormalization", ["x", *names], "a", "bn_in"), node("Relu", ["a"], "r", "relu"),
             node("BatchNormalization", ["r", *names], "b", "bn_relu"), node("Conv", ["b", "w"], "c", "conv"),
             node("BatchNormalization", ["c", *names], "y", "bn_shared")]
    return model(
        nodes, [value("x", IMAGE)], [value("y", IMAGE), value("c", IMAGE)], [init("w", random(3, 3, 1, 1)), *inits]
    ), image()


@register
def relu6_spellings() -> Built:
    """Relu6 as Clip with constants or Constant nodes, Min of Max, Max of Min, Relu, Min; open bounds; integer Clip."""
    nodes = [
        helper.make_node("Constant", [], ["lo"], name="lo", value=init("v", np.zeros((1,), np.float32))),
        node("Clip", ["x", "zero", "six"], "a", "clip"),
        node("Clip", ["x", "lo", "six"], "b", "clip_nodes"),
        node("Max", ["x", "zero"], "c0", "max"),
        node("Min", ["c0", "six"], "c", "min"),
        node("Min", ["six", "x"], "d0", "min_first"),
        node("Max", ["d0", "zero"], "d", "max_last"),
        node("Relu", ["x"], "e0", "relu"),
        node("Min", ["e0", "six"], "e", "relu_min"),
        node("Clip", ["x", "", "six"], "f", "open_low"),
        node("Clip", ["x", "zero"], "g", "open_high"),
        node("Clip", ["x"], "h", "open_both"),
        node("Clip", ["i", "ilo", "ihi"], "yi", "integer"),
        node("Concat", list("abcdefgh"), "y", "cat", axis=1),
    ]
    inits = [
        init("zero", np.float32(0)),
        init("six", np.float32(6)),
        init("ilo", 0, np.int64),
        init("ihi", 2, np.int64),
    ]
    return model(
        nodes,
        [value("x", IMAGE), value("i", [4], TensorProto.INT64)],
        [value("y", None), value("yi", [4], TensorProto.INT64)],
        inits,
    ), {**image(scale=5), "i": np.array([-3, 1, 2, 9])}


@register
def identity_outputs() -> Built:
    """One tensor returned under several names, an input that is an output, and Dropout as the last node."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Identity", ["c"], "y1", "id1"),
        node("Identity", ["c"], "y2", "id2"),
        node("Dropout", ["c"], "y3", "drop"),
        node("Identity", ["x"], "y4", "id_in"),
        node("Relu", ["y1"], "y5", "relu"),
    ]
    return model(
        nodes, [value("x", IMAGE)], [value(f"y{i}", IMAGE) for i in (3, 1, 2, 4, 5)], [init("w", random(3, 3, 1, 1))]
    ), image()


@register
def constant_outputs() -> Built:
    """Outputs that depend on constants only: a chain, a Constant node, one of two Split results, an initializer."""
    nodes = [
        node("Range", ["r0", "r1", "r2"], "rg", "range"),
        node("Mul", ["rg", "k"], "rk", "mulk"),
        node("Add", ["rk", "hf"], "anchors", "addh"),
        helper.make_node("Constant", [], ["c0"], name="const", value=init("v", random(3))),
        node("Split", ["anchors"], ["s0", "s1"], "split"),
        node("Conv", ["x", "w"], "f", "conv"),
        node("Mul", ["f", "s1"], "y", "mul"),
    ]
    inits = [
        init("r0", np.float32(0)),
        init("r1", np.float32(16)),
        init("r2", np.float32(1)),
        init("k", np.float32(8)),
        init("hf", np.float32(4)),
        init("w", random(3, 3, 1, 1)),
    ]
    outs = [value("anchors", [16]), value("c0", [3]), value("s0", [8]), value("y", IMAGE), value("w", [3, 3, 1, 1])]
    return model(nodes, [value("x", IMAGE)], outs, inits, opset=13), image()


@register
def folded_weights() -> Built:
    """Weights from a chain of Cast, Reshape, Transpose; bias from Mul of constants; shape by Shape, Gather, Concat."""
    nodes = [
        node("Cast", ["w16"], "w32", "cast_w", to=TensorProto.FLOAT),
        node("Reshape", ["w32", "shp"], "wr", "reshape_w"),
        node("Transpose", ["wr"], "w", "transpose_w", perm=[3, 0, 1, 2]),
        node("Mul", ["b1", "b2"], "b", "mul_b"),
        node("Conv", ["x", "w", "b"], "c", "conv"),
        node("Shape", ["c"], "s", "shape"),
        node("Gather", ["s", "i0"], "n", "gather"),
        node("Unsqueeze", ["n", "a0"], "n1", "unsqueeze"),
        node("Concat", ["n1", "m1"], "target", "concat", axis=0),
        node("Reshape", ["c", "target"], "y", "reshape"),
    ]
    inits = [
        init("w16", random(27, 4).astype(np.float64)),
        ints("shp", 3, 3, 3, 4),
        init("b1", random(4, seed=2)),
        init("b2", np.float32(0.5)),
        init("i0", 0, np.int64),
        ints("a0", 0),
        ints("m1", -1),
    ]
    return model(nodes, [value("x", IMAGE)], [value("y", [1, 144])], inits), image()


@register
def shared_constants() -> Built:
    """Two Convs share weights and bias, one is followed by BatchNormalization; `six` bounds a Clip and scales."""
    names, more = batch_norm("bn", 4)
    nodes = [
        node("Conv", ["x", "w", "b"], "c1", "conv_a"),
        node("BatchNormalization", ["c1", *names], "n1", "bn"),
        node("Mul", ["x", "six"], "x6", "up"),
        node("Conv", ["x6", "w", "b"], "c2", "conv_b"),
        node("Clip", ["c2", "", "six"], "k", "clip"),
        node("Add", ["n1", "k"], "y", "add"),
    ]
    inits = [init("w", random(4, 3, 1, 1)), init("b", random(4, seed=3)), init("six", np.float32(6)), *more]
    return model(nodes, [value("x", IMAGE)], [value("y", [1, 4, 8, 8])], inits), image()


@register
def layout_moves() -> Built:
    """Transposes that cancel, Reshapes in a row, Pad before Conv and pooling, Flatten, Squeeze, Slice of all."""
    nodes = [
        node("Transpose", ["x"], "t1", "to_nhwc", perm=[0, 2, 3, 1]),
        node("Transpose", ["t1"], "t2", "to_nchw", perm=[0, 3, 1, 2]),
        node("Pad", ["t2", "pads"], "p", "pad"),
        node("Conv", ["p", "w"], "c", "conv"),
        node("Pad", ["c", "pads"], "q", "pad_pool"),
        node("AveragePool", ["q"], "a", "pool", kernel_shape=[3, 3]),
        node("Slice", ["a", "s0", "s1"], "sl", "slice_all"),
        node("Unsqueeze", ["sl", "ax"], "u", "unsqueeze"),
        node("Squeeze", ["u", "ax"], "sq", "squeeze"),
        node("Flatten", ["sq"], "y", "flatten"),
    ]
    inits = [
        ints("pads", 0, 0, 1, 1, 0, 0, 1, 1),
        init("w", random(4, 3, 3, 3)),
        ints("s0", 0, 0),
        ints("s1", 99, 99),
        ints("ax", 0),
    ]
    return model(nodes, [value("x", IMAGE)], [value("y", [1, 256])], inits), image()


@register
def gemm_forms() -> Built:
    """Gemm with transA, transB, alpha and beta; without C; with C of one element; with a column as C."""
    nodes = [
        node("Gemm", ["a", "B", "C"], "y1", "g1", transA=1, transB=1, alpha=2.0, beta=0.5),
        node("Gemm", ["y1", "B2"], "y2", "g2"),
        node("Gemm", ["y2", "B3", "C3"], "y3", "g3", alpha=0.25),
        node("Gemm", ["y2", "B3", "C4"], "y4", "g4", beta=3.0),
    ]
    inits = [
        init("B", random(3, 6)),
        init("C", np.array([10, -20, 5], np.float32)),
        init("B2", random(3, 5, seed=2)),
        init("B3", random(5, 2, seed=3)),
        init("C3", np.array([0.7], np.float32)),
        init("C4", random(4, 1, seed=4)),
    ]
    return model(nodes, [value("a", [6, 4])], [value("y1", [4, 3]), value("y3", [4, 2]), value("y4", [4, 2])], inits), {
        "a": random(6, 4, seed=7)
    }


@register
def arithmetic() -> Built:
    """Sub and Div by constants, Sum of three, Sub from a constant, Div by a computed tensor, integer Div."""
    nodes = [
        node("Sub", ["x", "mean"], "s", "sub_mean"),
        node("Div", ["s", "std"], "d", "div_std"),
        node("Sum", ["x", "s", "d"], "t", "sum"),
        node("Sub", ["one", "t"], "o", "one_minus"),
        node("Exp", ["x"], "e", "exp"),
        node("Div", ["o", "e"], "y", "div_exp"),
        node("Div", ["i", "two"], "yi", "halve"),
    ]
    inits = [
        init("mean", random(3, 1, 1)),
        init("std", positive(3, 1, 1)),
        init("one", np.float32(1)),
        init("two", 2, np.int64),
    ]
    return model(
        nodes,
        [value("x", IMAGE), value("i", [3], TensorProto.INT64)],
        [value("y", IMAGE), value("yi", [3], TensorProto.INT64)],
        inits,
    ), {**image(), "i": np.array([7, -7, 4])}


@register
def unnamed_nodes() -> Built:
    """No node has a name, and one output name looks like a made-up node name."""
    nodes = [node("Conv", ["x", "w"], "c", ""), node("Relu", ["c"], "r", ""), node("Add", ["r", "c"], "y", "Relu_r")]
    return model(nodes, [value("x", IMAGE)], [value("y", [1, 4, 8, 8])], [init("w", random(4, 3, 1, 1))]), image()


@register
def local_functions() -> Built:
    """Calls of a model-local function, one of them nested in another function, with an attribute passed on."""
    inner = helper.make_function(
        "local",
        "ConvAct",
        ["a", "w"],
        ["r"],
        [node("Conv", ["a", "w"], "c", "inner_conv"), node("LeakyRelu", ["c"], "r", "inner_act")],
        [helper.make_opsetid("", 17)],
        ["slope"],
    )
    inner.node[1].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    outer = helper.make_function("local", "Twice", ["a", "w"], ["r"], [
        helper.make_node("ConvAct", ["a", "w"], ["m"], name="first", domain="local", slope=0.5),
        helper.make_node("ConvAct", ["m", "w"], ["r"], name="second", domain="local", slope=0.25)],
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])
    nodes = [helper.make_node("ConvAct", ["x", "w1"], ["m"], name="blk_a", domain="local", slope=0.1),
             helper.make_node("Twice", ["m", "w2"], ["y"], name="blk_b", domain="local")]
    return model(
        nodes,
        [value("x", IMAGE)],
        [value("y", [1, 4, 8, 8])],
        [init("w1", random(4, 3, 1, 1)), init("w2", random(4, 4, 1, 1, seed=2))],
        functions=[inner, outer],
        domains=["local"],
    ), image()


@register
def branches() -> Built:
    """If with two bodies that read tensors from outside, and a Loop: opaque, but they run."""
    then = helper.make_graph([node("Mul", ["r", "two"], "t0", "then_mul")], "then", [], [value("t0", IMAGE)])
    other = helper.make_graph([node("Sub", ["r", "two"], "e0", "else_sub")], "else", [], [value("e0", IMAGE)])
    body = helper.make_graph(
        [node("Add", ["state", "two"], "next", "body_add"), node("Identity", ["going"], "still", "body_cond")],
        "body",
        [value("step", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("state", IMAGE)],
        [value("still", [], TensorProto.BOOL), value("next", IMAGE)],
    )
    nodes = [
        node("Relu", ["x"], "r", "relu"),
        node("ReduceSum", ["x"], "total", "total", keepdims=0),
        node("Greater", ["total", "zero"], "cond", "greater"),
        node("If", ["cond"], "chosen", "branch", then_branch=then, else_branch=other),
        node("Loop", ["three", "", "chosen"], "y", "loop", body=body),
    ]
    return model(nodes, [value("x", IMAGE)], [value("y", IMAGE)],
                 [init("two", np.float32(2)), init("zero", np.float32(0)), init("three", 3, np.int64)]), image()


@register
def wide_shared() -> Built:
    """Weights of more than a kilobyte, read by two nodes, and a large integer constant."""
    nodes = [
        node("MatMul", ["x", "w"], "a", "mm1"),
        node("Relu", ["a"], "r", "relu"),
        node("MatMul", ["r", "w"], "b", "mm2"),
        node("Gather", ["b", "order"], "y", "gather", axis=1),
    ]
    order = np.random.default_rng(1).permutation(256).astype(np.int64)
    inits = [init("w", random(256, 256, scale=0.06)), init("order", order)]
    return model(nodes, [value("x", [2, 256])], [value("y", [2, 256])], inits), {"x": random(2, 256)}

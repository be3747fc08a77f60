"""Lifting to opset 19: each operator whose definition changed, from each opset it is found in, against onnxruntime."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from models import Built, init, ints, model, node, positive, random, single, value

from ptqlab.errors import PtqError
from ptqlab.graph import load, session, verify
from ptqlab.passes import adapt

X = {"x": random(2, 3, 7, 6, seed=3)}


def reference(built: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime gives for the file as it is, nothing rewritten."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(built.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def check(built: Built) -> list[str]:
    """Adapt, compare outputs exactly in type and shape and closely in value; operator types of the result."""
    proto, feeds = built
    graph = load(proto)
    lifted = adapt(graph)
    assert lifted.opset == 19
    verify(lifted)
    results = session(lifted.model, optimise=False).run(None, feeds)
    for expected, found, output in zip(reference(proto, feeds), results, lifted.outputs, strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape == lifted.shape(output.name)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    return [n.op_type for n in lifted.nodes]


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 15, 18, 19])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
def test_softmax_family_works_on_the_same_axes(op: str, axis: int | None, opset: int) -> None:
    """Below opset 13 all axes from `axis` on count as one; from 13 on one axis does."""
    attributes = {} if axis is None else {"axis": axis}
    types = check(single(op, X, {}, opset=opset, **attributes))
    start = 1 if axis is None else axis
    assert types == (["Reshape", op, "Reshape"] if opset < 13 and start < 3 else [op])


def test_softmax_over_one_long_axis_needs_no_reshape() -> None:
    """[1, C, 1, 1] with axis 1 is the usual classifier tail: the axis alone says the same."""
    assert check(single("Softmax", {"x": random(1, 10, 1, 1)}, {}, opset=11, axis=1)) == ["Softmax"]


def test_an_axis_the_tensor_does_not_have_is_refused() -> None:
    """Far below the first; the library's inference takes it."""
    with pytest.raises(PtqError, match="axis -4611686018427387904 of a tensor of 4 dimensions"):
        adapt(load(single("Softmax", X, {}, opset=11, axis=-(2**62))[0]))


@pytest.mark.parametrize("opset", [10, 11, 13, 18])
@pytest.mark.parametrize(
    "op",
    [
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    ],
)
@pytest.mark.parametrize("axes", [None, (2, 3), (1,)])
def test_reduce_axes_become_an_input(op: str, axes: tuple[int, ...] | None, opset: int) -> None:
    """Axes were an attribute until opset 13 (ReduceSum) or 18; no axes means all."""
    feeds = {"x": positive(2, 3, 4, 5)}
    if axes is not None and opset >= (13 if op == "ReduceSum" else 18):
        check(single(op, feeds, {"axes": np.array(axes)}, opset=opset, keepdims=0))
    else:
        check(single(op, feeds, {}, opset=opset, keepdims=1, **({} if axes is None else {"axes": axes})))


@pytest.mark.parametrize("opset", [10, 11, 13])
def test_squeeze_and_unsqueeze_axes_become_an_input(opset: int) -> None:
    """Squeeze with and without axes, Unsqueeze."""
    feeds = {"x": random(1, 3, 1, 4)}
    old = opset < 13
    check(single("Squeeze", feeds, {} if old else {"a": np.array([2])}, opset=opset, **({"axes": [2]} if old else {})))
    check(
        single(
            "Unsqueeze", feeds, {} if old else {"a": np.array([0, 3])}, opset=opset, **({"axes": [0, 3]} if old else {})
        )
    )
    check(single("Squeeze", feeds, {}, opset=opset))


@pytest.mark.parametrize("opset", [10, 11, 13, 18])
def test_split_sizes_become_an_input(opset: int) -> None:
    """Uneven and equal parts; opset 18 counts the outputs and may leave a smaller last part."""
    feeds = {"x": random(2, 7, 3)}
    sizes = [4, 2, 1]
    made = single(
        "Split",
        feeds,
        {} if opset < 13 else {"s": np.array(sizes)},
        opset=opset,
        outputs=3,
        axis=1,
        **({"split": sizes} if opset < 13 else {}),
    )
    made[0].graph.output.extend([value("y1", None), value("y2", None)])
    check(made)
    equal = single(
        "Split", {"x": random(2, 6)}, {}, opset=opset, outputs=3, axis=-1, **({"num_outputs": 3} if opset >= 18 else {})
    )
    equal[0].graph.output.extend([value("y1", None), value("y2", None)])
    check(equal)
    if opset >= 18:
        ragged = single("Split", feeds, {}, opset=opset, outputs=3, axis=1, num_outputs=3)
        ragged[0].graph.output.extend([value("y1", None), value("y2", None)])
        check(ragged)


@pytest.mark.parametrize("bounds", [{}, {"min": -0.5}, {"max": 0.5}, {"min": -0.25, "max": 0.75}])
def test_clip_attributes_become_inputs(bounds: dict[str, float]) -> None:
    """Opset 10 holds the bounds as attributes; the defaults mean no bound."""
    check(single("Clip", X, {}, opset=10, **bounds))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pad_attributes_become_inputs(mode: str) -> None:
    """Opset 10 holds pads and value as attributes; negative pads cut."""
    extra = {"value": 1.5} if mode == "constant" else {}
    pads = [0, 0, 1, 2, 0, 0, -1 if mode == "constant" else 1, 1]
    check(single("Pad", X, {}, opset=10, mode=mode, pads=pads, **extra))


@pytest.mark.parametrize("opset", [10, 12])
def test_dropout_is_inference(opset: int) -> None:
    """The ratio is an attribute in opset 10; the output is the input."""
    check(single("Dropout", X, {}, opset=opset, **({"ratio": 0.3} if opset < 12 else {})))


@pytest.mark.parametrize("opset", [10, 14, 15])
def test_batch_normalization(opset: int) -> None:
    """The inference form is the same in all opsets."""
    constants = {"s": positive(3), "b": random(3), "m": random(3, seed=2), "v": positive(3, seed=4)}
    check(single("BatchNormalization", X, constants, opset=opset, epsilon=1e-3))


def test_batch_normalization_in_training_form_is_refused() -> None:
    """Statistics that are used have no inference form: the node is named."""
    constants = {"s": positive(3), "b": random(3), "m": random(3, seed=2), "v": positive(3, seed=4)}
    proto, _ = single("BatchNormalization", X, constants, opset=10, outputs=5)
    proto.graph.output.append(value("y1", [3]))
    with pytest.raises(PtqError, match=r"node 'op'(.|\n)*training form"):
        adapt(load(proto))


RESIZED = [("grow", (1, 1, 2, 2)), ("odd", (1, 1, 1.5, 2.5)), ("shrink", (1, 1, 0.5, 0.6))]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("name", "scales"), RESIZED)
def test_resize_of_opset_10(name: str, scales: tuple[float, ...], mode: str) -> None:
    """Two inputs, corners fixed at 0."""
    check(single("Resize", X, {"s": np.array(scales, np.float32)}, opset=10, mode=mode))


def test_resize_of_opset_10_in_two_directions_is_refused() -> None:
    """Its nearest rounds down when growing and up when shrinking: no single newer form does both."""
    with pytest.raises(PtqError, match=r"node 'op'(.|\n)*grows one axis and shrinks another"):
        adapt(load(single("Resize", X, {"s": np.array([1, 1, 2, 0.5], np.float32)}, opset=10, mode="nearest")[0]))


TRANSFORMS = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(("mode", "transform"), [*product(["nearest", "linear", "cubic"], TRANSFORMS)])
@pytest.mark.parametrize("by", ["scales", "sizes"])
def test_resize_of_later_opsets(opset: int, mode: str, transform: str, by: str) -> None:
    """Empty tensors stand for missing inputs below 13; scales and sizes."""
    empty = np.zeros((0,), np.float32)
    constants: dict[str, np.ndarray | None] = {"roi": empty if opset < 13 else None}
    if by == "scales":
        constants["scales"] = np.array([1, 1, 1.5, 2], np.float32)
    else:
        constants |= {"scales": empty if opset < 13 else None, "sizes": np.array([2, 3, 10, 4])}
    check(single("Resize", X, constants, opset=opset, mode=mode, coordinate_transformation_mode=transform))


@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 0.6, 0.5), (1, 1, 1.5, 0.7)])
def test_resize_with_the_removed_half_pixel_rule(scales: tuple[float, ...]) -> None:
    """tf_half_pixel_for_nn with floor is half_pixel with ties rounded up."""
    constants = {"roi": np.zeros((0,), np.float32), "s": np.array(scales, np.float32)}
    check(
        single(
            "Resize",
            X,
            constants,
            opset=11,
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="tf_half_pixel_for_nn",
        )
    )


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("opset", [10, 11, 19])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (2, 2), (2, 1), (5, 3), (1, 2)])
def test_automatic_padding_is_written_out(pad: str, opset: int, kernel: int, stride: int) -> None:
    """Conv, MaxPool, AveragePool and LpPool with SAME and VALID padding, odd totals on either side."""
    shape = {"strides": [stride, stride], "auto_pad": pad}
    window = shape | {"kernel_shape": [kernel, kernel]}
    check(single("Conv", X, {"w": random(4, 3, kernel, kernel)}, opset=opset, **shape))
    if kernel >= stride:  # onnxruntime refuses other pools itself
        check(single("MaxPool", X, {}, opset=opset, **window))
        check(single("AveragePool", X, {}, opset=opset, **window))
        check(single("AveragePool", X, {}, opset=opset, count_include_pad=1, **window))
        check(single("LpPool", X, {}, opset=opset, p=2, **window))


@pytest.mark.parametrize(("pad", "pads"), [("SAME_UPPER", [2, 1, 2, 2]), ("SAME_LOWER", [2, 2, 2, 1])])
def test_automatic_padding_of_a_dilated_conv(pad: str, pads: list[int]) -> None:
    """onnxruntime cannot run it as it is; worked out by hand: 7x6, windows of 5x4, totals 4x3."""
    weights = {"w": random(4, 3, 3, 2)}
    lifted = adapt(load(single("Conv", X, weights, auto_pad=pad, dilations=[2, 3])[0]))
    expected = reference(*single("Conv", X, weights, pads=pads, dilations=[2, 3]))[0]
    np.testing.assert_allclose(session(lifted.model).run(None, X)[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("opset", [10, 11, 18])
def test_average_pool_rounds_its_size_the_same(ceil_mode: int, count: int, opset: int) -> None:
    """ceil_mode with and without padding that counts."""
    check(
        single(
            "AveragePool",
            X,
            {},
            opset=opset,
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 0, 0, 1],
            ceil_mode=ceil_mode,
            count_include_pad=count,
        )
    )


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (2, 2), (4, 2), (3, 1), (2, 3)])
@pytest.mark.parametrize("opset", [10, 11, 19])
def test_conv_transpose_padding_is_written_out(pad: str, kernel: int, stride: int, opset: int) -> None:
    """auto_pad and output_shape of ConvTranspose."""
    weights = {"w": random(3, 4, kernel, kernel)}
    check(single("ConvTranspose", X, weights, opset=opset, strides=[stride, stride], auto_pad=pad))
    if pad in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        size = [7 * stride, 6 * stride]
        check(
            single("ConvTranspose", X, weights, opset=opset, strides=[stride, stride], output_shape=size, auto_pad=pad)
        )


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_normalization_becomes_instance_normalization(groups: int) -> None:
    """Scale and bias of opset 18 are per group."""
    feeds = {"x": random(2, 4, 5, 3, seed=2)}
    constants = {"s": positive(groups), "b": random(groups)}
    made, _ = single("GroupNormalization", feeds, constants, opset=18, num_groups=groups, epsilon=1e-3)
    lifted = adapt(load(made))
    grouped = feeds["x"].astype(np.float64).reshape(2, groups, -1)
    normal = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-3)
    expected = (normal * constants["s"][:, None] + constants["b"][:, None]).reshape(2, 4, 5, 3)
    np.testing.assert_allclose(session(lifted.model).run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)


def test_scatter_becomes_scatter_elements() -> None:
    """Scatter of opset 10 was renamed."""
    constants = {"i": np.array([[0, 2, 1]]), "u": random(1, 3, seed=2)}
    assert check(single("Scatter", {"x": random(3, 3)}, constants, opset=10, axis=0)) == ["ScatterElements"]


def test_roi_align_keeps_its_corners() -> None:
    """The default of the coordinate rule changed in opset 16."""
    constants = {"r": np.array([[0.5, 1, 4, 5], [1, 1, 3, 3]], np.float32), "b": np.array([0, 1])}
    check(single("RoiAlign", X, constants, opset=10, output_height=2, output_width=2, sampling_ratio=2))


@pytest.mark.parametrize("opset", [10, 11])
def test_operators_that_mean_the_same(opset: int) -> None:
    """A handful of operators whose version changed in types only."""
    check(single("TopK", {"x": random(3, 5)}, {"k": np.array([2])}, opset=opset, outputs=2, axis=1))
    check(single("ArgMax", {"x": random(3, 5)}, {}, opset=opset, axis=1, dtype=onnx.TensorProto.INT64))
    check(single("Gemm", {"x": random(3, 5)}, {"b": random(5, 2), "c": random(2)}, opset=opset))
    check(
        single("Slice", {"x": random(3, 5)}, {"s": np.array([1]), "e": np.array([-1]), "a": np.array([1])}, opset=opset)
    )
    check(single("DepthToSpace", {"x": random(1, 8, 2, 2)}, {}, opset=opset, blocksize=2))
    check(single("PRelu", X, {"s": random(3, 1, 1)}, opset=opset))
    check(single("InstanceNormalization", X, {"s": positive(3), "b": random(3)}, opset=opset))
    check(single("MaxPool", X, {}, opset=opset, kernel_shape=[3, 2], ceil_mode=1, pads=[1, 0, 1, 0], strides=[2, 2]))
    check(
        single("LSTM", {"x": random(4, 1, 3)}, {"w": random(1, 8, 3), "r": random(1, 8, 2)}, opset=opset, hidden_size=2)
    )


def test_bodies_are_lifted_too() -> None:
    """An operator inside a branch of If gets its new form."""

    def body(name: str, axes: list[int]) -> onnx.GraphProto:
        return onnx.helper.make_graph(
            [node("Squeeze", ["x"], f"{name}_out", f"{name}_squeeze", axes=axes)],
            name,
            [],
            [value(f"{name}_out", None)],
        )

    nodes = [node("If", ["cond"], "y", "if", then_branch=body("a", [0]), else_branch=body("b", [0]))]
    proto = model(
        nodes, [value("x", [1, 3]), value("cond", [], onnx.TensorProto.BOOL)], [value("y", None)], [], opset=11
    )
    check((proto, {"x": random(1, 3), "cond": np.array(True)}))


def test_dropout_in_training_mode_is_told() -> None:
    """A random Dropout is treated as inference, with a warning that names it."""
    constants = {"r": np.float32(0.5), "t": np.array(True)}
    lifted = adapt(load(single("Dropout", X, constants, opset=13)[0]))
    assert [f.nodes for f in lifted.findings if f.code == "PTQ138"] == [("op",)]
    np.testing.assert_array_equal(session(lifted.model).run(None, X)[0], X["x"])


def test_the_loaded_graph_stays_as_it_was() -> None:
    """adapt works on a copy."""
    graph = load(
        model(
            [node("Squeeze", ["x"], "y", axes=[0])],
            [value("x", [1, 2])],
            [value("y", None)],
            [ints("unused", 1), init("u", 1.0)],
            opset=10,
        )
    )
    adapt(graph)
    assert graph.opset == 10
    assert "axes" in graph.node("squeeze_y").attributes

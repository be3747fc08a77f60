"""Lift a model of opset 10 to 18 to opset 19, operator by operator, without changing what it computes.

One small function per operator whose definition changed; the table at the end says from which opset on the new
form holds. Operators that are not listed mean the same in both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Finding, Problem, PtqError, shorten
from ptqlab.graph.model import NEWEST_OPSET
from ptqlab.passes.base import Work, all_nodes, get_float, get_int, get_ints, get_string, is_static, shape_of

Adapter = Callable[[Work, ir.Node], object]


class Adapt:
    """Given a model of opset 10 to 19; result the same model in opset 19, bodies of If and Loop included.

    Padding that the operator works out itself (auto_pad) is written out in every opset, as are removed spellings.
    PtqError when a form has no equal in opset 19.
    """

    def __call__(self, work: Work) -> int:
        opset = work.graph.opset_imports[""]
        changes = 0
        for node in list(all_nodes(work.graph)):
            for below, adapter in TABLE.get(node.op_type, ()):
                if opset < below:
                    adapter(work, node)
                    changes += 1
        for graph in work.model.graphs():
            graph.opset_imports[""] = NEWEST_OPSET
        work.model.opset_imports[""] = NEWEST_OPSET
        return changes


def _unsupported(node: ir.Node, found: str, expected: str) -> PtqError:
    return PtqError(
        Problem("PTQ108", f"node '{shorten(node.name)}'", found, expected, "export the model with a newer opset"),
        f"Lifting the model to opset {NEWEST_OPSET}",
    )


def _needed(node: ir.Node, value: ir.Value | None) -> tuple[int, ...]:
    """Shape of a tensor without which the node cannot be lifted; inside a body it may be open."""
    if not is_static(value):
        raise _unsupported(
            node, f"{node.op_type} inside a branch or loop, where its shape is not known", "a known shape"
        )
    return shape_of(value)


def _dtype(node: ir.Node) -> ir.DataType:
    """Element type of the result, which is that of the first input."""
    for value in (*node.outputs[:1], *node.inputs[:1]):
        if value is not None and value.dtype is not None:
            return value.dtype
    raise _unsupported(node, f"{node.op_type} inside a branch or loop, where its type is not known", "a known type")


def _ints(work: Work, node: ir.Node, suffix: str, values: object) -> ir.Value:
    return work.add_constant(f"{node.name}_{suffix}", np.asarray(values, np.int64))


def attribute_to_input(attribute: str, index: int) -> Adapter:
    """A list attribute that became the input `index` (axes, split)."""

    def adapt(work: Work, node: ir.Node) -> None:
        given = node.attributes.pop(attribute, None)
        if given is not None:
            work.set_input(node, index, _ints(work, node, attribute, given.as_ints()))

    return adapt


def split(work: Work, node: ir.Node) -> None:
    """Equal parts were implied by the number of outputs; sizes are always written out."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return
    axis = get_int(node, "axis", 0)
    if any(not is_static(o) for o in node.outputs):  # inside a body, where shapes may be open
        node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))
        return
    node.attributes.pop("num_outputs", None)
    work.set_input(node, 1, _ints(work, node, "split", [shape_of(o)[axis] for o in node.outputs]))


def clip(work: Work, node: ir.Node) -> None:
    dtype = _dtype(node)
    limits = np.finfo(np.float32)
    for index, (name, unbounded) in enumerate((("min", float(limits.min)), ("max", float(limits.max))), 1):
        given = node.attributes.pop(name, None)
        if given is not None and given.as_float() != unbounded:
            work.set_input(
                node, index, work.add_constant(f"{node.name}_{name}", np.array(given.as_float(), dtype.numpy()))
            )


def pad(work: Work, node: ir.Node) -> None:
    dtype = _dtype(node)
    pads = get_ints(node, "pads")
    value = get_float(node, "value", 0.0)
    node.attributes.pop("pads", None)
    node.attributes.pop("value", None)
    work.set_input(node, 1, _ints(work, node, "pads", pads))
    if value:
        work.set_input(node, 2, work.add_constant(f"{node.name}_value", np.array(value, dtype.numpy())))


def dropout(work: Work, node: ir.Node) -> None:
    """The ratio says nothing in inference."""
    node.attributes.pop("ratio", None)


def batch_normalization(work: Work, node: ir.Node) -> None:
    """Running statistics were extra outputs; in inference they do not exist."""
    extra = [o for o in node.outputs[1:] if o.name]
    if any(o.uses() or o.is_graph_output() for o in extra):
        raise _unsupported(
            node, "BatchNormalization whose statistics outputs are used (training form)", "the inference form"
        )
    node.resize_outputs(1)


def flattening(work: Work, node: ir.Node) -> None:
    """Softmax, LogSoftmax and Hardmax below opset 13 worked on all axes from `axis` (default 1) on as one.

    Where at most one of these axes is longer than 1 that axis alone says the same; otherwise the tensor is
    reshaped to two axes and back.
    """
    shape = _needed(node, node.inputs[0])
    axis = get_int(node, "axis", 1)
    axis += len(shape) if axis < 0 else 0
    if not 0 <= axis < len(shape):
        found = f"axis {get_int(node, 'axis', 1)} of a tensor of {len(shape)} dimensions"
        raise _unsupported(node, found, "an axis it has")
    long = [i for i in range(axis, len(shape)) if shape[i] != 1]
    if len(long) <= 1:
        node.attributes["axis"] = ir.AttrInt64("axis", long[0] if long else min(axis, len(shape) - 1))
        return
    source = node.inputs[0]
    assert source is not None and source.dtype is not None
    flat = (int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis:], dtype=np.int64)))
    before = work.add_node(
        "Reshape",
        [source, _ints(work, node, "flat", flat)],
        f"{node.name}_flatten",
        before=node,
        shape=flat,
        dtype=source.dtype,
    )
    node.replace_input_with(0, before.outputs[0])
    node.attributes["axis"] = ir.AttrInt64("axis", 1)
    work.append_node(node, "Reshape", [_ints(work, node, "shape", shape)], f"{node.name}_unflatten", inner_shape=flat)


def scatter(work: Work, node: ir.Node) -> None:
    node.op_type = "ScatterElements"


def roi_align(work: Work, node: ir.Node) -> None:
    node.attributes["coordinate_transformation_mode"] = ir.AttrString(
        "coordinate_transformation_mode", "output_half_pixel"
    )


def resize_10(work: Work, node: ir.Node) -> None:
    """Resize of opset 10: corners fixed at 0, nearest cut off when growing and rounded up when shrinking."""
    scales = node.inputs[1]
    source, target = _needed(node, node.inputs[0]), _needed(node, node.outputs[0])
    grows = any(t > s for s, t in zip(source, target, strict=True))
    shrinks = any(t < s for s, t in zip(source, target, strict=True))
    node.attributes["coordinate_transformation_mode"] = ir.AttrString("coordinate_transformation_mode", "asymmetric")
    if get_string(node, "mode", "nearest") == "nearest":
        if grows and shrinks:
            raise _unsupported(
                node, "nearest Resize of opset 10 that grows one axis and shrinks another", "one direction for all axes"
            )
        node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "ceil" if shrinks else "floor")
    node.resize_inputs(3)
    node.replace_input_with(1, None)
    node.replace_input_with(2, scales)


def resize_13(work: Work, node: ir.Node) -> None:
    """tf_half_pixel_for_nn was removed: with floor it is half_pixel rounded half up."""
    if get_string(node, "coordinate_transformation_mode", "half_pixel") == "tf_half_pixel_for_nn":
        if (
            get_string(node, "nearest_mode", "round_prefer_floor") != "floor"
            or get_string(node, "mode", "nearest") != "nearest"
        ):
            raise _unsupported(
                node, "Resize with tf_half_pixel_for_nn and a nearest_mode other than floor", "nearest_mode floor"
            )
        node.attributes["coordinate_transformation_mode"] = ir.AttrString(
            "coordinate_transformation_mode", "half_pixel"
        )
        node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "round_prefer_ceil")


def resize_inputs(work: Work, node: ir.Node) -> None:
    """Empty tensors stood for inputs that are not given."""
    for index in range(1, len(node.inputs)):
        value = node.inputs[index]
        if value is not None and is_static(value) and 0 in shape_of(value):
            node.replace_input_with(index, None)
    last = max(i for i, v in enumerate(node.inputs) if v is not None)
    node.resize_inputs(last + 1)


def group_normalization(work: Work, node: ir.Node) -> None:
    """GroupNormalization of opset 18 (scale and bias per group) is InstanceNormalization over groups."""
    source, scale, bias = node.inputs
    assert source is not None and source.dtype is not None
    shape = _needed(node, source)
    groups = get_int(node, "num_groups", 1)
    grouped = (shape[0], groups, int(np.prod(shape[1:], dtype=np.int64)) // groups)
    before = work.add_node(
        "Reshape",
        [source, _ints(work, node, "groups", grouped)],
        f"{node.name}_group",
        before=node,
        shape=grouped,
        dtype=source.dtype,
    )
    epsilon = get_float(node, "epsilon", 1e-5)
    work.retype(node, "InstanceNormalization", [before.outputs[0], scale, bias], [ir.AttrFloat32("epsilon", epsilon)])
    work.append_node(node, "Reshape", [_ints(work, node, "shape", shape)], f"{node.name}_ungroup", inner_shape=grouped)


def explicit_pads(work: Work, node: ir.Node) -> None:
    """auto_pad SAME_UPPER, SAME_LOWER and VALID as pads."""
    mode = get_string(node, "auto_pad", "NOTSET")
    if mode != "NOTSET" and not (is_static(node.inputs[0]) and is_static(node.outputs[0])):
        return  # inside a body, where shapes may be open; the attribute still exists in opset 19
    node.attributes.pop("auto_pad", None)
    if mode == "NOTSET":
        return
    source, target = shape_of(node.inputs[0])[2:], shape_of(node.outputs[0])[2:]
    kernel = get_ints(node, "kernel_shape") or shape_of(node.inputs[1])[2:]
    strides = get_ints(node, "strides", [1] * len(source))
    dilations = get_ints(node, "dilations", [1] * len(source))
    begin, end = [], []
    for n, out, k, stride, dilation in zip(source, target, kernel, strides, dilations, strict=True):
        total = 0 if mode == "VALID" else max((out - 1) * stride + (k - 1) * dilation + 1 - n, 0)
        small, large = total // 2, total - total // 2
        begin.append(large if mode == "SAME_LOWER" else small)
        end.append(small if mode == "SAME_LOWER" else large)
    node.attributes["pads"] = ir.AttrInt64s("pads", begin + end)


def transposed_pads(work: Work, node: ir.Node) -> None:
    """auto_pad and output_shape of ConvTranspose as pads and output_padding."""
    mode = get_string(node, "auto_pad", "NOTSET")
    asked = bool(get_ints(node, "output_shape"))
    if (asked or mode != "NOTSET") and not (is_static(node.inputs[0]) and is_static(node.outputs[0])):
        return  # as above
    node.attributes.pop("auto_pad", None)
    node.attributes.pop("output_shape", None)
    if mode == "NOTSET" and not asked:
        return
    source, target = shape_of(node.inputs[0])[2:], shape_of(node.outputs[0])[2:]
    kernel = get_ints(node, "kernel_shape") or shape_of(node.inputs[1])[2:]
    strides = get_ints(node, "strides", [1] * len(source))
    dilations = get_ints(node, "dilations", [1] * len(source))
    extra = list(get_ints(node, "output_padding", [0] * len(source)))
    begin, end = [], []
    for axis, (n, out, k, stride, dilation) in enumerate(zip(source, target, kernel, strides, dilations, strict=True)):
        total = stride * (n - 1) + extra[axis] + (k - 1) * dilation + 1 - out
        if total < 0:  # the output is larger than the kernel reaches: that is output_padding
            extra[axis] -= total
            total = 0
        small, large = total // 2, total - total // 2
        begin.append(small if mode == "SAME_UPPER" else large)
        end.append(large if mode == "SAME_UPPER" else small)
    node.attributes["pads"] = ir.AttrInt64s("pads", begin + end)
    if any(extra):
        node.attributes["output_padding"] = ir.AttrInt64s("output_padding", extra)


def inference_only(work: Work, node: ir.Node) -> None:
    """Dropout in training mode would be random; the model is taken for inference."""
    mode = work.scalar(node.inputs[2]) if len(node.inputs) > 2 else False
    if mode:
        work.findings.append(
            Finding(
                "PTQ138",
                f"Dropout '{shorten(node.name)}' is in training mode; it is treated as inference.",
                (str(node.name),),
                "export the model in evaluation mode",
            )
        )
        node.resize_inputs(1)


ALWAYS = NEWEST_OPSET + 1
_AXES_18 = ((18, attribute_to_input("axes", 1)),)

# operator -> (opset from which on its form is the present one, how an older one is brought to it)
TABLE: dict[str, tuple[tuple[int, Adapter], ...]] = {
    "AveragePool": ((ALWAYS, explicit_pads),),
    "BatchNormalization": ((14, batch_normalization),),
    "Clip": ((11, clip),),
    "Conv": ((ALWAYS, explicit_pads),),
    "ConvTranspose": ((ALWAYS, transposed_pads),),
    "Dropout": ((12, dropout), (ALWAYS, inference_only)),
    "GroupNormalization": ((ALWAYS, group_normalization),),
    "Hardmax": ((13, flattening),),
    "LogSoftmax": ((13, flattening),),
    "LpPool": ((ALWAYS, explicit_pads),),
    "MaxPool": ((ALWAYS, explicit_pads),),
    "Pad": ((11, pad),),
    "ReduceL1": _AXES_18,
    "ReduceL2": _AXES_18,
    "ReduceLogSum": _AXES_18,
    "ReduceLogSumExp": _AXES_18,
    "ReduceMax": _AXES_18,
    "ReduceMean": _AXES_18,
    "ReduceMin": _AXES_18,
    "ReduceProd": _AXES_18,
    "ReduceSum": ((13, attribute_to_input("axes", 1)),),
    "ReduceSumSquare": _AXES_18,
    "Resize": ((11, resize_10), (13, resize_13), (ALWAYS, resize_inputs)),
    "RoiAlign": ((16, roi_align),),
    "Scatter": ((11, scatter),),
    "Softmax": ((13, flattening),),
    "Split": ((13, attribute_to_input("split", 1)), (ALWAYS, split)),
    "Squeeze": ((13, attribute_to_input("axes", 1)),),
    "Unsqueeze": ((13, attribute_to_input("axes", 1)),),
}

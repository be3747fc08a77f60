"""One spelling for what can be written in several ways; the operator's name stays with its result."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ptqlab.passes.base import Work, get_float, get_int, shape_of
from ptqlab.passes.fuse import batch_norm_affine


def _is_float(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.FLOAT


class SplitBatchNormalization:
    """Given BatchNormalization (inference) that was not fused into an operator in front.
    Result: Mul by a constant per channel under the name of the BatchNormalization, and Add of a constant named
    `<name>_bias` that gives its output."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.op_type != "BatchNormalization":
                continue
            affine = batch_norm_affine(work, node)
            if affine is None:
                work.refuse(node, "its statistics are not constant")
                continue
            source = node.inputs[0]
            shape = shape_of(source)
            broadcast = (-1, *(1,) * (len(shape) - 2))
            scale = work.add_constant(f"{node.name}_scale", affine.scale.reshape(broadcast).astype(np.float32))
            shift = work.add_constant(f"{node.name}_shift", affine.shift.reshape(broadcast).astype(np.float32))
            work.retype(node, "Mul", [source, scale])
            work.append_node(node, "Add", [shift], f"{node.name}_bias", inner_shape=shape)
            changes += 1
        return changes


class UnifyClip:
    """Given float Clip with constant bounds of any spelling, Max and Min with one constant number, and Min of Max or
    Max of Min.
    Result: Clip whose two bounds are constants of rank 0, a missing bound being -Inf or +Inf; Relu for [0, +Inf].
    Of Min(Max(x, a), b) the outer node keeps its name. Integer Clip is left alone."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.graph is None or not node.outputs[0].name or not _is_float(node.outputs[0]):
                continue
            found = clip_bounds(work, node)
            if found is None:
                continue
            source, low, high = found
            inner = source.producer()
            if (
                node.op_type in ("Min", "Max")
                and inner is not None
                and inner.op_type in ("Min", "Max", "Relu", "Clip")
                and work.sole_reader(source) is node
            ):
                deeper = clip_bounds(work, inner)
                if deeper is not None:
                    source = deeper[0]
                    low, high = (float(np.clip(b, low, high)) for b in deeper[1:])
                    self._write(work, node, source, low, high)
                    work.merge(inner, node)
                    changes += 1
                    continue
            changes += self._write(work, node, source, low, high)
        return changes

    @staticmethod
    def _write(work: Work, node: ir.Node, source: ir.Value, low: float, high: float) -> int:
        if low == 0 and high == np.inf:
            if node.op_type == "Relu":
                return 0
            work.retype(node, "Relu", [source])
            return 1
        if low == -np.inf and high == np.inf:
            work.retype(node, "Identity", [source])
            return 1
        bounds = [node.inputs[i] if i < len(node.inputs) else None for i in (1, 2)]
        done = node.op_type == "Clip" and all(b is not None and shape_of(b) == () for b in bounds)
        if done:
            return 0
        names = (f"{node.name}_min", f"{node.name}_max")
        values = [
            b
            if node.op_type == "Clip" and b is not None and shape_of(b) == ()
            else work.add_constant(n, np.array(v, np.float32))
            for b, n, v in zip(bounds, names, (low, high), strict=True)
        ]
        work.retype(node, "Clip", [source, *values])
        return 1


def clip_bounds(work: Work, node: ir.Node) -> tuple[ir.Value, float, float] | None:
    """(source, low, high) of Clip, Relu, and Max or Min with one number; None for everything else."""
    inputs = list(node.inputs)
    if node.op_type == "Relu" and inputs[0] is not None:
        return inputs[0], 0.0, np.inf
    if node.op_type == "Clip" and inputs[0] is not None:
        bounds = [
            (-np.inf, np.inf)[i - 1] if len(inputs) <= i or inputs[i] is None else work.scalar(inputs[i])
            for i in (1, 2)
        ]
        low, high = bounds
        return None if low is None or high is None or low > high else (inputs[0], float(low), float(high))
    if node.op_type in ("Max", "Min") and len(inputs) == 2:
        for source, other in (inputs, inputs[::-1]):
            number = work.scalar(other)
            if source is not None and number is not None and shape_of(source) == shape_of(node.outputs[0]):
                return (source, number, np.inf) if node.op_type == "Max" else (source, -np.inf, number)
    return None


class UnifyGemm:
    """Given Gemm. Result: a constant B is stored as [K, N] with alpha in it, a constant C as [N] with beta in it;
    a computed A that is transposed gets a Transpose named `<name>_transpose` in front."""

    def __call__(self, work: Work) -> int:
        return sum(
            self._unify(work, node)
            for node in list(work.graph)
            if node.op_type == "Gemm" and _is_float(node.outputs[0])
        )

    @staticmethod
    def _unify(work: Work, node: ir.Node) -> int:
        changes = 0
        if get_int(node, "transA", 0):
            changes += _transpose_input(work, node)
        weights = work.constant(node.inputs[1])
        alpha, trans = get_float(node, "alpha", 1.0), get_int(node, "transB", 0)
        if weights is not None and (alpha != 1 or trans):
            scaled = _scaled(weights.T if trans else weights, alpha)
            if scaled is None:
                return changes + work.refuse(node, "alpha times its weights would hold Inf or NaN")
            work.set_constant(node, 1, scaled)
            changes += 1
            node.attributes.pop("alpha", None)
            node.attributes.pop("transB", None)
        given = node.inputs[2] if len(node.inputs) > 2 else None
        bias = work.constant(given)
        beta = get_float(node, "beta", 1.0)
        if bias is not None:
            columns = shape_of(node.outputs[0])[1]
            row = bias.size == 1 or bias.shape in ((columns,), (1, columns))
            if beta != 1 or (row and bias.shape != (columns,)):
                scaled = _scaled(np.broadcast_to(bias.reshape(-1), (columns,)) if row else bias, beta)
                if scaled is None:
                    return changes + work.refuse(node, "beta times its bias would hold Inf or NaN")
                work.set_constant(node, 2, scaled)
                changes += 1
            node.attributes.pop("beta", None)
        if given is None:
            node.attributes.pop("beta", None)
        return changes


def _scaled(array: np.ndarray, factor: float) -> np.ndarray | None:
    """float32 array times factor, contiguous; None when the result is not finite."""
    with np.errstate(all="ignore"):
        result = np.ascontiguousarray((array.astype(np.float64) * factor).astype(np.float32))
    return result if np.isfinite(result).all() else None


def _transpose_input(work: Work, node: ir.Node) -> int:
    source = node.inputs[0]
    assert source is not None and source.dtype is not None
    array = work.constant(source)
    if array is not None:
        work.set_constant(node, 0, np.ascontiguousarray(array.T))
    else:
        first = work.add_node(
            "Transpose",
            [source],
            f"{node.name}_transpose",
            before=node,
            shape=shape_of(source)[::-1],
            dtype=source.dtype,
            attributes=[ir.AttrInt64s("perm", [1, 0])],
        )
        node.replace_input_with(0, first.outputs[0])
    node.attributes.pop("transA", None)
    return 1


class ReplaceArithmetic:
    """Given float Div, Sub of a constant, and Sum, Mean, Max and Min of any number of operands.
    Result: Mul by the reciprocal (a constant, or computed by a Reciprocal named `<name>_reciprocal`), Add of the
    negative constant, and chains of operators of two operands whose last one has the name of the node; that of Mean
    ends in a Mul."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if not node.outputs or not _is_float(node.outputs[0]):
                continue
            if node.op_type in ("Sum", "Mean") or (node.op_type in ("Max", "Min") and len(node.inputs) != 2):
                changes += self._chain(work, node)
            elif node.op_type in ("Div", "Sub"):
                array = work.constant(node.inputs[1])
                if array is None and node.op_type == "Div":
                    changes += self._by_reciprocal(work, node)
                    continue
                if array is None or work.constant(node.inputs[0]) is not None:
                    continue
                changes += self._invert(work, node, array)
        return changes

    @staticmethod
    def _invert(work: Work, node: ir.Node, array: np.ndarray) -> int:
        if node.op_type == "Sub":
            work.retype(node, "Add", [node.inputs[0], work.add_constant(f"{node.name}_negative", -array)])
            return 1
        with np.errstate(divide="ignore", over="ignore"):
            reciprocal = (1 / array.astype(np.float64)).astype(np.float32)
        if not np.isfinite(reciprocal).all() or (reciprocal == 0).any():
            return work.refuse(node, "its divisor holds values that have no reciprocal")
        work.retype(node, "Mul", [node.inputs[0], work.add_constant(f"{node.name}_reciprocal", reciprocal)])
        return 1

    @staticmethod
    def _by_reciprocal(work: Work, node: ir.Node) -> int:
        divisor = node.inputs[1]
        assert divisor is not None and divisor.dtype is not None
        made = work.add_node("Reciprocal", [divisor], f"{node.name}_reciprocal", before=node,
                             shape=shape_of(divisor), dtype=divisor.dtype)
        work.retype(node, "Mul", [node.inputs[0], made.outputs[0]])
        return 1

    @staticmethod
    def _chain(work: Work, node: ir.Node) -> int:
        first, *others = node.inputs
        assert first is not None
        if not others:
            work.retype(node, "Identity", [first])
            return 1
        op = "Add" if node.op_type in ("Sum", "Mean") else node.op_type
        total = first
        for index, value in enumerate(others if node.op_type == "Mean" else others[:-1]):
            assert total.dtype is not None
            shape = np.broadcast_shapes(shape_of(total), shape_of(value))
            added = work.add_node(
                op, [total, value], f"{node.name}_part{index}", before=node, shape=shape, dtype=total.dtype
            )
            total = added.outputs[0]
        if node.op_type == "Mean":
            share = np.asarray(1 / (len(others) + 1), np.float32)
            work.retype(node, "Mul", [total, work.add_constant(f"{node.name}_share", share)])
        else:
            work.retype(node, op, [total, others[-1]])
        return 1


class ReplaceFlatten:
    """Given Flatten; result Reshape to the same, static shape."""

    def __call__(self, work: Work) -> int:
        nodes = [n for n in work.graph if n.op_type == "Flatten"]
        for node in nodes:
            shape = np.array(shape_of(node.outputs[0]), np.int64)
            work.retype(node, "Reshape", [node.inputs[0], work.add_constant(f"{node.name}_shape", shape)])
        return len(nodes)


class ReplaceReduceMean:
    """Given ReduceMean over all spatial axes of a tensor [N, C, H, W, ...].
    Result: GlobalAveragePool under its name, and where the axes were dropped a Reshape named `<name>_reshape`."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.op_type != "ReduceMean" or not _is_float(node.outputs[0]):
                continue
            source = node.inputs[0]
            shape = shape_of(source)
            axes = work.constant(node.inputs[1]) if len(node.inputs) > 1 else None
            if (
                len(shape) < 4
                or axes is None
                or sorted(int(a) % len(shape) for a in axes) != list(range(2, len(shape)))
            ):
                continue
            kept = get_int(node, "keepdims", 1) == 1
            work.retype(node, "GlobalAveragePool", [source])
            if not kept:
                target = work.add_constant(f"{node.name}_shape", np.array(shape[:2], np.int64))
                work.append_node(
                    node,
                    "Reshape",
                    [target],
                    f"{node.name}_reshape",
                    inner_shape=(*shape[:2], *(1,) * (len(shape) - 2)),
                )
            changes += 1
        return changes

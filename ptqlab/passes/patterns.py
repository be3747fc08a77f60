"""Normalizations, Softmax and hard activations that exporters write in primitive nodes: one operator again.

What stands inside such a pattern (a variance, a sum of exponentials) has a range that few bits cannot hold, so that a
quantized pattern is far worse than the quantized operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.ops.composed import composed
from ptqlab.passes.base import Work, get_int, shape_of

MOVES_ONES = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Identity"})
# where functions that are recognized by their values are looked at
PROBE = np.concatenate([np.linspace(-9, 9, 721), [-1e3, -50.0, 50.0, 1e3]])


# --- reading a graph backwards -----------------------------------------------------------------------------------
def _made_by(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node that makes a tensor, when it is one of these operators."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type in ops and node.domain == "" else None


def _plain(value: ir.Value) -> ir.Value:
    """The tensor behind Reshapes and the like that only add or drop axes of length 1."""
    while (node := _made_by(value, *MOVES_ONES)) is not None:
        source = node.inputs[0]
        assert source is not None
        if [d for d in shape_of(source) if d != 1] != [d for d in shape_of(value) if d != 1]:
            break
        value = source
    return value


def _operands(work: Work, node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Both orders of the two operands of a node whose operands may change places."""
    a, b = node.inputs[:2]
    assert a is not None and b is not None
    yield a, b
    if a is not b:
        yield b, a


def _reduced(work: Work, node: ir.Node) -> tuple[ir.Value, tuple[int, ...]] | None:
    """(source, axes counted from the first) of a reduction with constant axes."""
    source = node.inputs[0]
    axes = work.constant(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
    assert source is not None
    rank = len(shape_of(source))
    if axes is None:
        axes = np.arange(rank)
        if (len(node.inputs) > 1 and node.inputs[1] is not None) or get_int(node, "noop_with_empty_axes", 0):
            return None
    if not axes.size:
        return None
    return source, tuple(sorted({int(a) % rank for a in axes.reshape(-1)}))


def _mean_of(work: Work, value: ir.Value) -> tuple[ir.Value, tuple[int, ...]] | None:
    """(x, axes) where a tensor is the mean of x over axes: ReduceMean, or ReduceSum times or over the count."""
    value = _plain(value)
    if (node := _made_by(value, "ReduceMean")) is not None:
        return _reduced(work, node)
    if (node := _made_by(value, "GlobalAveragePool")) is not None and node.inputs[0] is not None:
        return node.inputs[0], tuple(range(2, len(shape_of(node.inputs[0]))))
    node = _made_by(value, "Mul", "Div")
    if node is None:
        return None
    for total, factor in [*_operands(work, node)][: 1 if node.op_type == "Div" else 2]:
        number, summed = work.scalar(factor), _made_by(_plain(total), "ReduceSum")
        found = None if number is None or summed is None else _reduced(work, summed)
        if found is None or number is None:
            continue
        count = np.prod([shape_of(found[0])[a] for a in found[1]])
        if np.isclose(number if node.op_type == "Div" else 1 / number if number else 0, count, rtol=1e-5):
            return found
    return None


def _square_of(work: Work, value: ir.Value) -> ir.Value | None:
    """x where a tensor is x squared: Pow 2, or x times itself."""
    if (node := _made_by(_plain(value), "Pow")) is not None and work.scalar(node.inputs[1]) == 2:
        return node.inputs[0]
    if (node := _made_by(_plain(value), "Mul")) is not None and node.inputs[0] is node.inputs[1]:
        return node.inputs[0]
    return None


def _is_mean(work: Work, value: ir.Value, x: ir.Value, axes: tuple[int, ...]) -> bool:
    return _mean_of(work, value) == (x, axes)


def _broadcasts(value: ir.Value, x: ir.Value, axes: tuple[int, ...]) -> bool:
    """Whether a tensor without `axes` meets x in the right places: each of its axes is that of x, or 1."""
    kept = tuple(1 if i in axes else d for i, d in enumerate(shape_of(x)))
    own = shape_of(value)
    return (1,) * (len(kept) - len(own)) + own == kept


# --- writing -----------------------------------------------------------------------------------------------------
def _become(
    work: Work, node: ir.Node, op_type: str, inputs: Sequence[ir.Value], attributes: Sequence[ir.Attr] = ()
) -> int:
    """Make a node another operator; what only it needed so far goes, and its names become aliases of the node."""
    unused = list(node.inputs)
    work.retype(node, op_type, inputs, attributes)
    while unused:
        value = unused.pop()
        old = value.producer() if value is not None else None
        if old is None or old.graph is not node.graph or any(o.uses() or o.is_graph_output() for o in old.outputs):
            continue
        unused += list(old.inputs)
        work.merge(old, node)
    return 1


# --- LayerNormalization, InstanceNormalization -------------------------------------------------------------------
@dataclass(frozen=True)
class _Spread:
    """1 / sqrt(variance of x over axes + epsilon), or its inverse."""

    x: ir.Value
    axes: tuple[int, ...]
    epsilon: float
    inverse: bool


class FuseNormalization:
    """Given a normalization in primitive nodes: the mean is taken off, the rest is multiplied by 1 / sqrt(variance +
    epsilon), in the forms of torch (ReduceMean, Sub, Pow or Mul, ReduceMean, Add, Sqrt, Div), TensorFlow
    (x * r + (beta - mean * r)) and JAX (ReduceSum times 1 / n, mean of squares less square of mean, Relu), over axes
    of which each is constant, optionally with constant factors and summands behind it.
    Result: LayerNormalization under the name of the last node of the pattern, where the axes are the last ones, else
    between Transposes `<name>_last` and `<name>_first`; InstanceNormalization where they are all spatial axes. A
    factor or summand that does not lie along the normalized axes stays behind it."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.graph is not None and node.op_type in ("Mul", "Div", "Add") and _is_float(node):
                found = _normalized(work, node)
                if found is not None:
                    changes += _write_norm(work, node, found)
        return changes


@dataclass(frozen=True)
class _Norm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta; gamma and beta as they broadcast against x."""

    x: ir.Value
    axes: tuple[int, ...]
    epsilon: float
    gamma: np.ndarray | None = None
    beta: np.ndarray | None = None


def _is_float(node: ir.Node) -> bool:
    return node.outputs[0].dtype == ir.DataType.FLOAT


def _spread_of(work: Work, value: ir.Value) -> _Spread | None:
    """What a tensor is of x, where it is the root of a variance or the inverse of one."""
    value, inverse = _plain(value), False
    if (node := _made_by(value, "Reciprocal")) is not None and node.inputs[0] is not None:
        value, inverse = _plain(node.inputs[0]), True
    elif (node := _made_by(value, "Div")) is not None and work.scalar(node.inputs[0]) == 1:
        assert node.inputs[1] is not None
        value, inverse = _plain(node.inputs[1]), True
    if (node := _made_by(value, "Sqrt")) is None:
        node = _made_by(value, "Pow")
        power = None if node is None else work.scalar(node.inputs[1])
        if power not in (0.5, -0.5):
            return None
        inverse ^= power == -0.5
    assert node is not None and node.inputs[0] is not None
    added = _made_by(_plain(node.inputs[0]), "Add")
    if added is None:
        return None
    for variance, number in _operands(work, added):
        epsilon, found = work.scalar(number), _variance_of(work, variance)
        if epsilon is not None and epsilon > 0 and found is not None:
            return _Spread(*found, epsilon, inverse)
    return None


def _variance_of(work: Work, value: ir.Value) -> tuple[ir.Value, tuple[int, ...]] | None:
    """(x, axes) where a tensor is the mean of (x - mean)^2, or the mean of x^2 less the square of the mean."""
    value = _plain(value)
    while (node := _made_by(value, "Relu", "Abs")) is not None and node.inputs[0] is not None:
        value = _plain(node.inputs[0])
    if (node := _made_by(value, "Max")) is not None and len(node.inputs) == 2:
        return next((f for a, b in _operands(work, node) if work.scalar(b) == 0 and (f := _variance_of(work, a))), None)
    if (node := _made_by(value, "Sub")) is not None:
        squares, mean = node.inputs
        assert squares is not None and mean is not None
        first, second = _mean_of(work, squares), _square_of(work, mean)
        x = None if first is None else _square_of(work, first[0])
        if first is None or second is None or x is None or not _is_mean(work, second, x, first[1]):
            return None
        return x, first[1]
    outer = _mean_of(work, value)
    centred = None if outer is None else _square_of(work, outer[0])
    if outer is None or centred is None:
        return None
    x = _centred(work, centred, outer[1])
    return None if x is None else (x, outer[1])


def _centred(work: Work, value: ir.Value, axes: tuple[int, ...]) -> ir.Value | None:
    """x where a tensor is x less its mean over axes."""
    node = _made_by(value, "Sub")
    if node is None or node.inputs[0] is None or node.inputs[1] is None:
        return None
    x, mean = node.inputs[0], node.inputs[1]
    good = _is_mean(work, mean, x, axes) and _broadcasts(mean, x, axes) and shape_of(value) == shape_of(x)
    return x if good else None


def _normalized(work: Work, node: ir.Node) -> _Norm | None:
    """The normalization that ends with a node, its own factor and summand included."""
    if node.op_type == "Add":
        return _tensorflow(work, node)
    if node.op_type == "Div":
        above, below = node.inputs
        spread = None if below is None else _spread_of(work, below)
        if spread is None or spread.inverse or above is None or below is None:
            return None
        return _checked(work, above, below, spread, None)
    for above, factor in _operands(work, node):
        if (spread := _spread_of(work, factor)) is not None and spread.inverse:
            found = _checked(work, above, factor, spread, None)
        elif (scaled := _made_by(factor, "Mul")) is not None:  # (x - mean) * (r * gamma)
            found = _scaled(work, above, scaled)
        else:
            continue
        if found is not None:
            return found
    return None


def _scaled(work: Work, above: ir.Value, factor: ir.Node) -> _Norm | None:
    for root, other in _operands(work, factor):
        spread, gamma = _spread_of(work, root), work.constant(other)
        if spread is not None and spread.inverse and gamma is not None:
            return _checked(work, above, root, spread, gamma)
    return None


def _checked(work: Work, above: ir.Value, root: ir.Value, spread: _Spread, gamma: np.ndarray | None) -> _Norm | None:
    x = _centred(work, above, spread.axes)
    if x is not spread.x or not _broadcasts(root, x, spread.axes):
        return None
    return _Norm(x, spread.axes, spread.epsilon, gamma)


def _tensorflow(work: Work, node: ir.Node) -> _Norm | None:
    """x * f + (beta - mean * f) with f = r or r * gamma."""
    for product, rest in _operands(work, node):
        first, second = _made_by(product, "Mul"), _made_by(rest, "Sub")
        beta = None if second is None else work.constant(second.inputs[0])
        third = None if second is None or beta is None else _made_by(second.inputs[1], "Mul")
        if first is None or third is None:
            continue
        for x, factor in _operands(work, first):
            mean = next((a for a, b in _operands(work, third) if b is factor), None)
            root, gamma = factor, None
            if (scaled := _made_by(factor, "Mul")) is not None:
                pairs = [(a, g) for a, b in _operands(work, scaled) if (g := work.constant(b)) is not None]
                root, gamma = pairs[0] if pairs else (factor, None)
            spread = _spread_of(work, root)
            if mean is None or spread is None or not spread.inverse or spread.x is not x:
                continue
            meets = _broadcasts(mean, x, spread.axes) and _broadcasts(root, x, spread.axes)
            if meets and _is_mean(work, mean, x, spread.axes):
                return _Norm(x, spread.axes, spread.epsilon, gamma, beta)
    return None


@dataclass(frozen=True)
class _Affine:
    """Constant factor and summand of a normalization, along some axes of x; `last` is the node that adds the last."""

    last: ir.Node
    taken: int
    gamma: np.ndarray | None
    beta: np.ndarray | None


def _affine(work: Work, node: ir.Node, found: _Norm, axes: tuple[int, ...]) -> _Affine | None:
    """What of factors and summands behind a normalization lies along `axes`; None where its own ones do not."""
    sizes = shape_of(found.x)
    gamma, beta = (_along(array, sizes, axes) for array in (found.gamma, found.beta))
    if (found.gamma is not None and gamma is None) or (found.beta is not None and beta is None):
        return None
    last, taken = node, sum(a is not None for a in (gamma, beta))
    while (reader := work.sole_reader(last.outputs[0])) is not None and reader.op_type in ("Mul", "Add"):
        other = reader.inputs[1] if reader.inputs[0] is last.outputs[0] else reader.inputs[0]
        array = _along(work.constant(other), sizes, axes)
        if array is None or shape_of(reader.outputs[0]) != sizes or (reader.op_type == "Mul" and beta is not None):
            break
        if reader.op_type == "Add":
            beta = array if beta is None else beta + array
        else:
            gamma = array if gamma is None else gamma * array
        last, taken = reader, taken + 1
    return _Affine(last, taken, gamma, beta)


def _write_norm(work: Work, node: ir.Node, found: _Norm) -> int:
    sizes, rank = shape_of(found.x), len(shape_of(found.x))
    if shape_of(node.outputs[0]) != sizes or 0 in sizes or found.x.dtype != ir.DataType.FLOAT:
        return 0
    best = _affine(work, node, found, found.axes)
    by_channel = _affine(work, node, found, (1,)) if rank > 2 and found.axes == tuple(range(2, rank)) else None
    # over images the usual operator is InstanceNormalization, over sequences it is not
    eager = rank > 3
    spatial = by_channel is not None and (best is None or by_channel.taken + eager > best.taken)
    best = by_channel if spatial else best
    if best is None:
        return work.refuse(node, "its factors do not lie along the axes that are normalized")
    last, shape = best.last, [sizes[1]] if spatial else [sizes[a] for a in found.axes]
    gamma = np.ones(shape) if best.gamma is None else best.gamma
    beta = np.zeros(shape) if best.beta is None else best.beta
    scale = work.add_constant(f"{last.name}_scale", gamma.astype(np.float32))
    shift = work.add_constant(f"{last.name}_shift", beta.astype(np.float32))
    epsilon = ir.AttrFloat32("epsilon", found.epsilon)
    if spatial:
        return _become(work, last, "InstanceNormalization", [found.x, scale, shift], [epsilon])
    order = [i for i in range(rank) if i not in found.axes] + list(found.axes)
    moved = [sizes[i] for i in order]
    attributes = [epsilon, ir.AttrInt64("axis", rank - len(found.axes))]
    if order == list(range(rank)):
        return _become(work, last, "LayerNormalization", [found.x, scale, shift], attributes)
    turned = work.add_node("Transpose", [found.x], f"{last.name}_last", before=last, shape=moved,
                           dtype=ir.DataType.FLOAT, attributes=[ir.AttrInt64s("perm", order)])  # fmt: skip
    _become(work, last, "LayerNormalization", [turned.outputs[0], scale, shift], attributes)
    back = [ir.AttrInt64s("perm", [order.index(i) for i in range(rank)])]
    work.append_node(last, "Transpose", [], f"{last.name}_first", inner_shape=moved, attributes=back)
    return 1


def _along(array: np.ndarray | None, sizes: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray | None:
    """A constant that broadcasts against x as one of the sizes of `axes`; None where it varies along other axes."""
    if array is None or array.ndim > len(sizes):
        return None
    whole = (1,) * (len(sizes) - array.ndim) + array.shape
    if any(d != 1 for i, d in enumerate(whole) if i not in axes):
        return None
    kept = array.reshape([whole[a] for a in axes]).astype(np.float64)
    return np.broadcast_to(kept, [sizes[a] for a in axes])


# --- Softmax -----------------------------------------------------------------------------------------------------
class FuseSoftmax:
    """Given e / sum(e) with e = Exp(x) or Exp(x - max(x)), the sum and the maximum over one axis; or x - max(x) less
    the Log of that sum.
    Result: Softmax, or LogSoftmax, of x under the name of the last node."""

    def __call__(self, work: Work) -> int:
        changes = 0
        for node in list(work.graph):
            if node.graph is None or not _is_float(node):
                continue
            found = _softmax(work, node) if node.op_type in ("Div", "Mul") else _log_softmax(work, node)
            if found is not None and shape_of(found[0]) == shape_of(node.outputs[0]):
                kind = "LogSoftmax" if node.op_type == "Sub" else "Softmax"
                changes += _become(work, node, kind, [found[0]], [ir.AttrInt64("axis", found[1])])
        return changes


def _sum_of(work: Work, value: ir.Value, e: ir.Value) -> int | None:
    """The axis over which a tensor is the sum of e, where it meets e in the right place."""
    node = _made_by(_plain(value), "ReduceSum")
    found = None if node is None else _reduced(work, node)
    if found is None or found[0] is not e or len(found[1]) != 1 or not _broadcasts(value, e, found[1]):
        return None
    return found[1][0]


def _softmax(work: Work, node: ir.Node) -> tuple[ir.Value, int] | None:
    pairs = [*_operands(work, node)]
    if node.op_type == "Div":
        del pairs[1:]
    for e, total in pairs:
        if node.op_type == "Mul":
            inverse = _made_by(_plain(total), "Reciprocal")
            if inverse is None or inverse.inputs[0] is None:
                continue
            axes_of = inverse.inputs[0]
            axis = _sum_of(work, axes_of, e)
            meets = axis is not None and _broadcasts(total, e, (axis,))
        else:
            axis, meets = _sum_of(work, total, e), True
        power = _made_by(e, "Exp")
        if axis is None or not meets or power is None or power.inputs[0] is None:
            continue
        return _without_max(work, power.inputs[0], axis), axis
    return None


def _log_softmax(work: Work, node: ir.Node) -> tuple[ir.Value, int] | None:
    if node.op_type != "Sub" or node.inputs[0] is None or node.inputs[1] is None:
        return None
    x, right = node.inputs
    assert x is not None and right is not None
    logarithm = _made_by(_plain(right), "Log")
    if logarithm is None or logarithm.inputs[0] is None:
        return None
    total = _made_by(_plain(logarithm.inputs[0]), "ReduceSum")
    power = None if total is None else _made_by(total.inputs[0], "Exp")
    if power is None or power.inputs[0] is not x:
        return None
    axis = _sum_of(work, logarithm.inputs[0], power.outputs[0])
    if axis is None or not _broadcasts(right, x, (axis,)):
        return None
    return _without_max(work, x, axis), axis


def _without_max(work: Work, value: ir.Value, axis: int) -> ir.Value:
    """x where a tensor is x less its maximum over the axis; else the tensor itself."""
    node = _made_by(value, "Sub")
    if node is None or node.inputs[0] is None or node.inputs[1] is None:
        return value
    top = _made_by(_plain(node.inputs[1]), "ReduceMax")
    found = None if top is None else _reduced(work, top)
    good = found == (node.inputs[0], (axis,)) and _broadcasts(node.inputs[1], node.inputs[0], (axis,))
    return node.inputs[0] if good else value


# --- hard activations ----------------------------------------------------------------------------------------------
class FuseHardActivation:
    """Given nodes of numbers, Clip, Relu and one tensor x that compute min(max(x + 3, 0), 6) / 6, or x times that, in
    any order.
    Result: HardSigmoid, or HardSwish, of x under the name of the last node."""

    def __call__(self, work: Work) -> int:
        sigmoid = np.clip(PROBE / 6 + 0.5, 0, 1)
        changes = 0
        for node in list(work.graph):
            if node.graph is None or node.op_type not in ("Mul", "Div"):
                continue
            for found in composed(node, lambda n: n.op_type in HARD):
                values = found.at(PROBE)
                if np.allclose(values, PROBE * sigmoid, rtol=1e-5, atol=1e-5):
                    changes += _become(work, node, "HardSwish", [found.source])
                elif np.allclose(values, sigmoid, rtol=1e-5, atol=1e-5):
                    alpha, beta = ir.AttrFloat32("alpha", 1 / 6), ir.AttrFloat32("beta", 0.5)
                    changes += _become(work, node, "HardSigmoid", [found.source], [alpha, beta])
                else:
                    continue
                break
        return changes


HARD = frozenset({"Add", "Clip", "Div", "HardSigmoid", "Mul", "Relu", "Sub"})

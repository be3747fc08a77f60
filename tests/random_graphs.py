"""Random small graphs over the operator table: one generator for each operator that the BPU has.

A generator adds its operator (and what it needs beside it) to a graph that grows; every node is computed at once, so
that shapes are known and nothing leaves the range of sane numbers.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
from models import init, model, node, value
from onnx import TensorProto, helper

LARGEST, MOST = 1e4, 4096
OPSET = 19
Generator = Callable[["Growing", str], "list[str]"]


class Growing:
    """A model under construction, with the value of every tensor."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}
        self.inputs: list[str] = []
        for name, shape in (("x", (1, 4, 6, 6)), ("y", (1, 4, 6, 6))):
            self.feed(name, self.rng.standard_normal(shape).astype(np.float32) * self.pick([0.5, 1, 3]))

    def pick(self, choices: Sequence) -> object:
        return choices[int(self.rng.integers(len(choices)))]

    def feed(self, name: str, array: np.ndarray) -> str:
        self.inputs.append(name)
        self.values[name] = array
        return name

    def constant(self, array: object, dtype: object = None) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def whole(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def tensor(self, fits: Callable[[tuple[int, ...]], bool] = lambda shape: True) -> str:
        """A float tensor whose shape fits, one of the latest more often than not; an input always fits."""
        found = [n for n, v in self.values.items() if v.dtype == np.float32 and fits(v.shape)]
        return found[-1] if self.rng.random() < 0.7 else str(self.pick(found))

    def image(self) -> str:
        return self.tensor(lambda shape: len(shape) == 4 and min(shape[2:]) >= 3)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape if name in self.values else self.constants[name].shape

    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: object) -> list[str]:
        """Append a node and compute it; AssertionError where it gives nothing that a test could be about."""
        names = [f"t{len(self.values)}_{i}" for i in range(outputs)]
        made = node(op, inputs, names, f"n{len(self.nodes)}_{op}", **attributes)
        results = self._computed(made, names)
        for result in results:
            assert result.size and result.size <= MOST, f"{op} gives {result.shape}"
            if result.dtype == np.float32:
                assert np.isfinite(result).all() and np.abs(result).max() < LARGEST, f"{op} leaves the sane range"
        self.nodes.append(made)
        self.values.update(zip(names, results, strict=True))
        return names

    def one(self, op: str, *inputs: str, **attributes: object) -> str:
        return self.add(op, inputs, **attributes)[0]

    def _computed(self, made: onnx.NodeProto, names: list[str]) -> list[np.ndarray]:
        fed = {n: self.values[n] for n in made.input if n in self.values}
        infos = [value(n, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in fed.items()]
        inits = [init(n, self.constants[n]) for n in dict.fromkeys(made.input) if n in self.constants]
        alone = model([made], infos, [onnx.ValueInfoProto(name=n) for n in names], inits, opset=OPSET)
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        runner = onnxruntime.InferenceSession(alone.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return runner.run(names, fed)

    def clipped(self, name: str, low: float, high: float) -> str:
        return self.one("Clip", name, self.constant(np.float32(low)), self.constant(np.float32(high)))

    def truth(self) -> str:
        """A bool tensor: an old one, or a new comparison."""
        known = [n for n, v in self.values.items() if v.dtype == np.bool_]
        return str(self.pick(known)) if known and self.rng.random() < 0.5 else comparison(self, "Greater")[0]

    def finished(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """(the model, whose outputs are the tensors that nothing reads, its feeds)"""
        read = {i for n in self.nodes for i in n.input}
        leaves = [o for n in self.nodes for o in n.output if o not in read]
        infos = [value(n, self.values[n].shape) for n in self.inputs]
        outputs = [value(n, self.shape(n), helper.np_dtype_to_tensor_dtype(self.values[n].dtype)) for n in leaves]
        inits = [init(n, a) for n, a in self.constants.items()]
        return model(self.nodes, infos, outputs, inits, opset=OPSET), {n: self.values[n] for n in self.inputs}


# --- operators with weights ------------------------------------------------------------------------------------
def convolution(g: Growing, op: str) -> list[str]:
    x = g.image()
    channels, group = g.shape(x)[1], 1
    if channels % 2 == 0 and g.rng.random() < 0.4:
        group = channels if g.rng.random() < 0.5 else 2
    kernel, stride = int(g.pick([1, 2, 3])), int(g.pick([1, 1, 2]))
    if op == "Conv":
        sizes = (group * int(g.pick([1, 2])), channels // group)
    else:
        sizes = (channels, int(g.pick([1, 2])))
    outputs = sizes[0] if op == "Conv" else group * sizes[1]
    operands = [x, g.normal(*sizes, kernel, kernel, scale=0.5)]
    if g.rng.random() < 0.5:
        operands.append(g.normal(outputs))
    pads = [kernel // 2] * 4 if op == "Conv" else [0] * 4
    return g.add(op, operands, group=group, strides=[stride] * 2, pads=pads, kernel_shape=[kernel] * 2)


def matmul(g: Growing, op: str) -> list[str]:
    x = g.tensor(lambda shape: len(shape) >= 2)
    if g.rng.random() < 0.5:
        return g.add(op, [x, g.normal(g.shape(x)[-1], 3, scale=0.5)])
    axes = [*range(len(g.shape(x)))]
    other = g.one("Transpose", x, perm=[*axes[:-2], axes[-1], axes[-2]])
    return g.add(op, [x, other])


def gemm(g: Growing, op: str) -> list[str]:
    x = g.one("Flatten", g.tensor(lambda shape: len(shape) >= 2), axis=1)
    rows, columns = g.shape(x)
    if g.rng.random() < 0.5:
        return g.add(op, [x, g.normal(3, columns, scale=0.5), g.normal(3)], transB=1, alpha=0.5)
    return g.add(op, [x, g.normal(rows, 2, scale=0.5)], transA=1)


# --- element by element ----------------------------------------------------------------------------------------
#: where a function is defined and moderate; others are fed with anything
DOMAINS = {
    "Log": (0.2, 8), "Sqrt": (0.0, 50), "Reciprocal": (0.3, 8), "Exp": (-6, 3), "Acos": (-0.95, 0.95),
    "Asin": (-0.95, 0.95), "Atanh": (-0.9, 0.9), "Acosh": (1.1, 8), "Tan": (-1.2, 1.2), "Sinh": (-3, 3),
    "Cosh": (-3, 3), "Sin": (-3, 3), "Cos": (-3, 3), "Pow": (0.3, 3), "Asinh": (-8, 8), "Celu": (-8, 8),
}


def unary(g: Growing, op: str) -> list[str]:
    x = g.tensor()
    return g.add(op, [g.clipped(x, *DOMAINS[op]) if op in DOMAINS else x])


def power(g: Growing, op: str) -> list[str]:
    return g.add(op, [g.clipped(g.tensor(), *DOMAINS[op]), g.constant(np.float32(g.pick([0.5, 2.0, 1.7])))])


def clip(g: Growing, op: str) -> list[str]:
    return [g.clipped(g.tensor(), -0.4, float(g.pick([0.7, 6.0])))]


def slope(g: Growing, op: str) -> list[str]:
    x = g.image()
    return g.add(op, [x, g.normal(g.shape(x)[1], 1, 1, scale=0.3)])


def binary(g: Growing, op: str) -> list[str]:
    x = g.tensor()
    same = [n for n, v in g.values.items() if v.shape == g.shape(x) and v.dtype == np.float32]
    other = str(g.pick(same)) if g.rng.random() < 0.7 else g.normal(*g.shape(x)[-1:])
    return g.add(op, [x, other] if g.rng.random() < 0.8 else [other, x])


def comparison(g: Growing, op: str) -> list[str]:
    x = g.tensor()
    return g.add(op, [x, g.normal(*g.shape(x)[-1:], scale=0.3)])


def logic(g: Growing, op: str) -> list[str]:
    first = g.truth()
    if op == "Not":
        return g.add(op, [first])
    same = [n for n, v in g.values.items() if v.dtype == np.bool_ and v.shape == g.shape(first)]
    return g.add(op, [first, str(g.pick(same))])


def where(g: Growing, op: str) -> list[str]:
    condition = g.truth()
    same = [n for n, v in g.values.items() if v.dtype == np.float32 and v.shape == g.shape(condition)]
    x = str(g.pick(same)) if same else g.normal(*g.shape(condition))
    return g.add(op, [condition, x, g.constant(np.float32(g.pick([0.0, -1.0])))])


# --- along axes ------------------------------------------------------------------------------------------------
def any_axis(g: Growing, x: str) -> int:
    rank = len(g.shape(x))
    return int(g.rng.integers(-rank, rank))


def ranked(g: Growing) -> str:
    return g.tensor(lambda shape: len(shape) >= 1 and math.prod(shape) > 1)


def along(g: Growing, op: str) -> list[str]:
    x = ranked(g)
    return g.add(op, [x], axis=any_axis(g, x))


def cumulative(g: Growing, op: str) -> list[str]:
    x = ranked(g)
    return g.add(op, [x, g.constant(np.int64(any_axis(g, x)))], reverse=int(g.rng.integers(2)))


def layer_norm(g: Growing, op: str) -> list[str]:
    x = g.tensor(lambda shape: len(shape) >= 2 and shape[-1] >= 3)
    width = g.shape(x)[-1]
    return g.add(op, [x, g.normal(width), g.normal(width)], axis=-1)


def instance_norm(g: Growing, op: str) -> list[str]:
    x = g.image()
    return g.add(op, [x, g.normal(g.shape(x)[1]), g.normal(g.shape(x)[1])])


def reduction(g: Growing, op: str) -> list[str]:
    x = ranked(g)
    return g.add(op, [x, g.whole(any_axis(g, x))], keepdims=int(g.rng.integers(2)))


def index(g: Growing, op: str) -> list[str]:
    x = ranked(g)
    found = g.one(op, x, axis=any_axis(g, x), keepdims=int(g.rng.integers(2)))
    return g.add("Cast", [found], to=int(g.pick([TensorProto.INT32, TensorProto.INT16])))


# --- windows and sizes -----------------------------------------------------------------------------------------
def pool(g: Growing, op: str) -> list[str]:
    size, stride = int(g.pick([2, 3])), int(g.pick([1, 2]))
    return g.add(op, [g.image()], kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)


def triangle(g: Growing, op: str) -> list[str]:
    x = g.tensor(lambda shape: len(shape) >= 2)
    return g.add(op, [x, g.constant(np.int64(g.pick([-1, 0, 1])))], upper=int(g.rng.integers(2)))


def whole_image(g: Growing, op: str) -> list[str]:
    return g.add(op, [g.image()])


def resize(g: Growing, op: str) -> list[str]:
    x, mode = g.image(), str(g.pick(["nearest", "linear", "cubic"]))
    scale = float(g.pick([2.0, 1.5]))
    scales = g.constant(np.array([1, 1, scale, scale], np.float32))
    return g.add(op, [x, "", scales], mode=mode)


def grid_sample(g: Growing, op: str) -> list[str]:
    grid = g.feed(f"grid{len(g.inputs)}", g.rng.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32))
    return g.add(op, [g.image(), grid], mode=str(g.pick(["bilinear", "nearest"])), padding_mode="border")


# --- movers ----------------------------------------------------------------------------------------------------
def reshape(g: Growing, op: str) -> list[str]:
    return g.add(op, [g.image(), g.whole(0, -1, 1)])


def flatten(g: Growing, op: str) -> list[str]:
    return g.add(op, [g.tensor(lambda shape: len(shape) >= 2)], axis=1)


def transpose(g: Growing, op: str) -> list[str]:
    x = ranked(g)
    return g.add(op, [x], perm=[int(i) for i in g.rng.permutation(len(g.shape(x)))])


def squeeze(g: Growing, op: str) -> list[str]:
    wide = g.one("Unsqueeze", g.tensor(lambda shape: len(shape) <= 4), g.whole(0))
    return g.add(op, [wide, g.whole(0)])


def unsqueeze(g: Growing, op: str) -> list[str]:
    return g.add(op, [g.tensor(lambda shape: len(shape) <= 4), g.whole(int(g.pick([0, 1])))])


def slice_(g: Growing, op: str) -> list[str]:
    x = g.image()
    if g.rng.random() < 0.5:
        return g.add(op, [x, g.whole(-1), g.whole(-100), g.whole(2), g.whole(-1)])
    return g.add(op, [x, g.whole(1), g.whole(100), g.whole(3), g.whole(2)])


def expand(g: Growing, op: str) -> list[str]:
    x = g.tensor(lambda shape: math.prod(shape) < 400)
    return g.add(op, [x, g.whole(2, *g.shape(x))])


def tile(g: Growing, op: str) -> list[str]:
    x = g.tensor(lambda shape: len(shape) >= 1 and math.prod(shape) < 400)
    return g.add(op, [x, g.whole(*[1] * (len(g.shape(x)) - 1), 2)])


def split(g: Growing, op: str) -> list[str]:
    x = g.tensor(lambda shape: len(shape) >= 1 and shape[-1] >= 3)
    return g.add(op, [x, g.whole(1, g.shape(x)[-1] - 1)], 2, axis=-1)


def blocks(g: Growing, op: str) -> list[str]:
    def fits(shape: tuple[int, ...]) -> bool:
        if len(shape) != 4:
            return False
        return shape[1] % 4 == 0 if op == "DepthToSpace" else shape[2] % 2 == shape[3] % 2 == 0

    return g.add(op, [g.tensor(fits)], blocksize=2)


def concat(g: Growing, op: str) -> list[str]:
    x = ranked(g)
    same = [n for n, v in g.values.items() if v.shape == g.shape(x) and v.dtype == np.float32]
    return g.add(op, [x, str(g.pick(same))], axis=any_axis(g, x))


def pad(g: Growing, op: str) -> list[str]:
    x, mode = g.image(), str(g.pick(["constant", "reflect", "edge"]))
    return g.add(op, [x, g.whole(0, 0, 1, 0, 0, 0, 0, 1)], mode=mode)


def gather(g: Growing, op: str) -> list[str]:
    return g.add(op, [g.tensor(lambda shape: len(shape) >= 1 and shape[-1] >= 3), g.whole(2, 0, -1)], axis=-1)


def gather_elements(g: Growing, op: str) -> list[str]:
    x = g.tensor(lambda shape: len(shape) >= 1 and shape[-1] >= 3)
    chosen = g.constant(g.rng.integers(0, g.shape(x)[-1], (*g.shape(x)[:-1], 2)))
    if op == "GatherElements":
        return g.add(op, [x, chosen], axis=-1)
    return g.add(op, [x, g.constant(np.zeros((*g.shape(x)[:-1], 1), np.int64)), g.normal(*g.shape(x)[:-1], 1)], axis=-1)


def gather_nd(g: Growing, op: str) -> list[str]:
    x = g.image()
    if op == "GatherND":
        return g.add(op, [x, g.constant(np.array([[0, 0], [0, -1]], np.int64))])
    return g.add(op, [x, g.constant(np.array([[0, 0]], np.int64)), g.normal(1, *g.shape(x)[2:])])


GENERATORS: dict[str, Generator] = {
    "Conv": convolution, "ConvTranspose": convolution, "MatMul": matmul, "Gemm": gemm, "Clip": clip, "PRelu": slope,
    "Pow": power, "Where": where, "CumSum": cumulative, "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm, "Resize": resize, "GridSample": grid_sample, "Reshape": reshape,
    "Flatten": flatten, "Transpose": transpose, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Slice": slice_,
    "Expand": expand, "Tile": tile, "Split": split, "Concat": concat, "Pad": pad, "Gather": gather,
    "Trilu": triangle,
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), binary),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), comparison),
    **dict.fromkeys(("And", "Or", "Not", "Xor"), logic),
    **dict.fromkeys(("Softmax", "LogSoftmax", "LpNormalization"), along),
    **dict.fromkeys(("AveragePool", "MaxPool"), pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), whole_image),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), index),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), blocks),
    **dict.fromkeys(("GatherElements", "ScatterElements"), gather_elements),
    **dict.fromkeys(("GatherND", "ScatterND"), gather_nd),
    **dict.fromkeys(
        (
            "Relu", "Neg", "Abs", "LeakyRelu", "Floor", "Ceil", "Round", "HardSigmoid", "Identity", "Acos", "Acosh",
            "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "HardSwish", "Log", "Mish",
            "Reciprocal", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan",
            "Tanh", "ThresholdedRelu",
        ), unary),
}  # fmt: skip


def grown(seed: int, ops: Sequence[str]) -> Growing:
    """A graph in which the operators follow one another; one whose result would be no test is left out."""
    graph = Growing(seed)
    for op in ops:
        before = len(graph.nodes), dict(graph.values), list(graph.inputs)
        try:
            GENERATORS[op](graph, op)
        except AssertionError:
            del graph.nodes[before[0] :]
            graph.values, graph.inputs = before[1], before[2]
    return graph

"""A calibrated model taken apart: the float graph, and every HzCalibration as a quantizer that can be put back alone.

The float graph has the nodes, their names and the outputs of the calibrated model. A quantizer on an output of the
model is read by an Identity that bears the quantizer's name.
"""
from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import fake_quantize
from ptqlab.errors import Problem, PtqError, nearest, shorten
from ptqlab.graph import FloatGraph
from ptqlab.ops.calibration_node import DOMAIN, NAME, calibration_function, calibration_node
from ptqlab.ops.spec import Role
from ptqlab.ops.table import spec_of
from ptqlab.quantize.calibrated import OWN_CORRECTION, SLOT
from ptqlab.quantize.lower import rounded_half
from ptqlab.stages.calibration import asymmetric

Edge = tuple[str, int]


@dataclass(frozen=True)
class Quantizer:
    """One HzCalibration node.

    tensor      what it rounds, by its name in the float graph
    kind        "activation", "weight" or "constant"
    scale       float32, shaped to broadcast against the tensor;  thresholds: as told, one per scale
    correction  for weights: how they change a bias, None where biases are not corrected
    slot        for activations: the tensor whose threshold it shares
    """

    name: str
    kind: str
    tensor: str
    scale: np.ndarray
    zero_point: int
    low: int
    high: int
    bits: int
    thresholds: np.ndarray
    axis: int = -1
    correction: Correction | None = None
    slot: str = ""

    @property
    def threshold(self) -> float:
        """The largest threshold."""
        return float(np.max(self.thresholds))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """x quantized and dequantized, float32."""
        with np.errstate(over="ignore", invalid="ignore"):  # the mark of a mask may be the largest float
            return fake_quantize(x, self.scale, self.zero_point, self.low, self.high)

    def clipped(self, x: np.ndarray) -> float:
        """Share of the values that lie more than half a step outside of the range."""
        codes = x / self.scale + np.float32(self.zero_point)
        return float(np.mean((codes < self.low - 0.5) | (codes > self.high + 0.5))) if x.size else 0.0

    def as_type(self, qtype: QType) -> Quantizer:
        """The same range with the codes of another integer type. A bias correction, which takes back the error of
        rounding to 8 bits, goes with its 8 bits."""
        if qtype.bits == self.bits:
            return self
        if self.zero_point:
            step, zero = float(self.scale.ravel()[0]), self.zero_point
            new = asymmetric((self.low - zero) * step, (self.high - zero) * step, qtype)
            scale, zero_point = np.full(self.scale.shape, new.scale, np.float32), new.zero_point
        else:
            widest = QType.INT8.qmax if self.bits == 8 else QType.INT16.qmax
            scale, zero_point = (self.scale * np.float32(widest / qtype.qmax)).astype(np.float32), 0
        return replace(self, scale=scale, zero_point=zero_point, low=qtype.qmin, high=qtype.qmax, bits=qtype.bits,
                       correction=None)


@dataclass(frozen=True)
class Correction:
    """A bias that is corrected where weights are rounded.

    node, index  the operator that adds the bias, and which of its inputs that is
    whole        with all that was corrected
    own          with the part for the weights alone, which holds while the operator's input is not rounded
    inputs       quantizers of that input -> their bits; empty where only the weights' error was corrected
    """

    node: str
    index: int
    whole: np.ndarray
    own: np.ndarray
    inputs: Mapping[str, int]

    def bias(self, on: Mapping[str, Quantizer]) -> np.ndarray:
        """The bias beside the quantizers that are on."""
        rounded = all(name in on and on[name].bits == bits for name, bits in self.inputs.items())
        return self.whole if rounded else self.own


@dataclass(frozen=True)
class Half:
    """A node in float16: its output is rounded to float16, and where it `computes` in float16, what it reads is, too.

    float32 arithmetic between numbers that float16 has, as in the integer model (DEFINITIONS.md).
    """

    node: str
    computes: bool

    @property
    def name(self) -> str:
        """Key in a choice; no quantizer bears it."""
        return f"{self.node}:float16"

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """float32 numbers rounded to float16; what is too large becomes Inf."""
        return rounded_half(x)


#: What is on in a float graph: quantizers by name, and nodes in float16.
Choice: TypeAlias = Mapping[str, Quantizer | Half]


class Network:
    """Float graph and quantizers of a calibrated model.

    graph       the float graph
    quantizers  by name, in the order of the model
    edges       (node, input) -> quantizers it reads through, from the float tensor on
    """

    def __init__(self, calibrated: ir.Model, optimized: ir.Model | None = None) -> None:
        """`optimized`: the float model it was made of, from which biases without correction are taken; without it
        those of Conv and Gemm keep their correction in the float graph."""
        model = calibrated.clone()
        graph = model.graph
        self.quantizers: dict[str, Quantizer] = {}
        self.edges: dict[Edge, tuple[str, ...]] = {}
        chains, origin = self._read_chains(graph)
        self._detach_outputs(graph, chains)
        for node in list(graph):
            if not _is_quantizer(node):
                for index, value in enumerate(node.inputs):
                    if value in chains:
                        self.edges[str(node.name), index] = chains[value]
                        node.replace_input_with(index, origin[value])
        for node in reversed([n for n in graph if _is_quantizer(n)]):
            # readers inside of the body of an If or Loop are on the CPU and read floats
            ir.convenience.replace_all_uses_with(node.outputs[0], origin[node.outputs[0]])
            graph.remove(node, safe=True)
        model.functions.clear()
        graph.opset_imports.pop(DOMAIN, None)
        self.graph = FloatGraph(model)
        self._undo_corrections(optimized)

    @classmethod
    def of(cls, path: Path, quantizers: Mapping[str, Quantizer], edges: Mapping[Edge, tuple[str, ...]]) -> Network:
        """A network that was taken apart before: its float graph from a file, and the rest as it was."""
        made = cls.__new__(cls)
        made.graph, made.quantizers, made.edges = FloatGraph(ir.load(path)), dict(quantizers), dict(edges)
        return made

    def _read_chains(self, graph: ir.Graph) -> tuple[dict[ir.Value, tuple[str, ...]], dict[ir.Value, ir.Value]]:
        chains: dict[ir.Value, tuple[str, ...]] = {}
        origin: dict[ir.Value, ir.Value] = {}
        for node in graph:
            if _is_quantizer(node):
                x, out, name = node.inputs[0], node.outputs[0], str(node.name)
                assert x is not None, f"{name} reads nothing"
                chains[out] = (*chains.get(x, ()), name)
                origin[out] = origin.get(x, x)
                self.quantizers[name] = _quantizer(node, str(origin[out].name))
        return chains, origin

    def _detach_outputs(self, graph: ir.Graph, chains: dict[ir.Value, tuple[str, ...]]) -> None:
        """An Identity between a quantizer and an output of the model; the output keeps its name."""
        for position, value in enumerate(graph.outputs):
            if value not in chains:
                continue
            made = ir.Node("", "Identity", [value], num_outputs=1, name=f"{chains[value][-1]}_output{position}")
            out = made.outputs[0]
            out.name, out.shape, out.type = str(value.name), value.shape, value.type
            value.name = f"{out.name}_quantized{position}"
            producer = value.producer()
            assert producer is not None
            graph.insert_after(producer, made)
            graph.outputs[position] = out

    def _undo_corrections(self, optimized: ir.Model | None) -> None:
        """Note both forms of every corrected bias, and put the one without correction into the float graph."""
        before = {str(n.name): n for n in optimized.graph} if optimized is not None else {}
        weights = {e[0]: chain[-1] for e, chain in self.edges.items() if self.quantizers[chain[-1]].kind == "weight"}
        for node in self.graph.nodes:
            for index, value in enumerate(node.inputs):
                array = self.graph.constant(value)
                found = re.fullmatch(r"(.*)_corrected_bias(_\d+)?", str(value.name)) if value is not None else None
                if value is None or array is None or found is None or found[1] not in weights:
                    continue
                owner = found[1]
                if node.op_type == "Add":
                    plain = np.zeros_like(array)
                elif owner in before:
                    plain = _bias(before[owner], array)
                else:
                    continue
                quantizer = weights[owner]
                correction = self._correction(owner, node, index, array, plain)
                self.quantizers[quantizer] = replace(self.quantizers[quantizer], correction=correction)
                value.const_value = ir.tensor(plain, name=value.name)

    def _correction(self, owner: str, node: ir.Node, index: int, whole: np.ndarray, plain: np.ndarray) -> Correction:
        kept = self.graph.node(owner).metadata_props.get(OWN_CORRECTION)
        if kept is None:
            return Correction(str(node.name), index, whole, whole, {})
        part = np.frombuffer(b64decode(kept, validate=True), "<f4")
        inputs = {name: self.quantizers[name].bits for name in self.of_input(owner, 0)}
        return Correction(str(node.name), index, whole, (plain + part.reshape(plain.shape)).astype(np.float32), inputs)

    @property
    def nodes(self) -> list[str]:
        """Nodes that compute with what a quantizer gives, in graph order; movers and outputs of the model aside."""
        return [str(n.name) for n in self.graph.nodes
                if not _is_mover(n) and not self._is_output(n) and self.of_node(str(n.name))]

    def _is_output(self, node: ir.Node) -> bool:
        return node.op_type == "Identity" and node.outputs[0].is_graph_output()

    def of_node(self, node: str) -> list[str]:
        """The quantizers on the inputs and weights of a node; those before movers that it reads count."""
        found: dict[str, None] = {}
        for index in range(len(self.graph.node(node).inputs)):
            found.update(dict.fromkeys(self.of_input(node, index)))
        return list(found)

    def of_input(self, node: str, index: int) -> list[str]:
        """The quantizers on one input of a node, or before the movers that it comes from."""
        value = self.graph.node(node).inputs[index]
        chain = self.edges.get((node, index))
        producer = value.producer() if value is not None else None
        if chain:
            return list(chain)
        return self.of_node(str(producer.name)) if producer is not None and _is_mover(producer) else []

    def of_kind(self, kind: str) -> list[str]:
        """Quantizers of "weight" (constant operands included) or "activation"."""
        return [n for n, q in self.quantizers.items() if (q.kind == "activation") == (kind == "activation")]

    def changed(self, choice: Choice) -> set[str]:
        """The nodes that compute something else under a choice."""
        found: set[str] = set()
        for key, on in choice.items():
            found.update([on.node] if isinstance(on, Half) else self.readers(key))
            if isinstance(on, Quantizer) and on.correction is not None:
                found.add(on.correction.node)
        return found

    def readers(self, quantizer: str) -> list[str]:
        """Nodes that read through a quantizer."""
        return list(self._readers.get(quantizer, ()))

    @cached_property
    def _readers(self) -> Mapping[str, Mapping[str, None]]:
        found: dict[str, dict[str, None]] = {}
        for (node, _), chain in self.edges.items():
            for quantizer in chain:
                found.setdefault(quantizer, {})[node] = None
        return found

    def resolve(self, names: Iterable[str], where: str) -> list[str]:
        """The quantizers that names of nodes or quantizers stand for; PtqError for names that are neither."""
        found: dict[str, None] = {}
        unknown = []
        for name in names:
            if name in self.quantizers:
                found[name] = None
            elif name in self.graph:
                found.update(dict.fromkeys(self.of_node(name)))
            else:
                unknown.append(name)
        if unknown:
            raise PtqError([unknown_node(n, self, where) for n in unknown], where)
        return list(found)


def unknown_node(name: str, network: Network, where: str) -> Problem:
    known = [*(str(n.name) for n in network.graph.nodes), *network.quantizers]
    near = nearest(name, known)
    return Problem("PTQ551", where, f"no node {shorten(name)!r}", "a node of the calibrated model",
                   f"nearest names: {', '.join(near)}" if near else "")


def _is_mover(node: ir.Node) -> bool:
    return spec_of(node).role is Role.PASSIVE


def _is_quantizer(node: ir.Node) -> bool:
    return bool(node.domain == DOMAIN and node.op_type == NAME)


def _bias(node: ir.Node, like: np.ndarray) -> np.ndarray:
    """The bias of a node of the float model; zeros where it has none."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None or value.const_value is None:
        return np.zeros_like(like)
    return np.broadcast_to(value.const_value.numpy().astype(like.dtype), like.shape).copy()


def _quantizer(node: ir.Node, tensor: str) -> Quantizer:
    a = node.attributes
    shape = [int(d) for d in a["shape"].as_ints()]
    return Quantizer(
        str(node.name), a["kind"].as_string(), tensor, np.asarray(a["scales"].as_floats(), np.float32).reshape(shape),
        a["zero_point"].as_int(), a["low"].as_int(), a["high"].as_int(), a["bits"].as_int(),
        np.asarray(a["thresholds"].as_floats(), np.float32), a["axis"].as_int(), slot=node.metadata_props.get(SLOT, ""),
    )


def load_network(path: str | Path, optimized: str | Path | None = None) -> Network:
    """The network of a calibrated model file. The optimized float model is looked for beside it, by its usual name.

    Raises PtqError for a file that is no calibrated model.
    """
    path = Path(path)
    beside = path.with_name(path.name.replace("_calibrated_model.onnx", "_optimized_float_model.onnx"))
    if optimized is None and beside != path and beside.is_file():
        optimized = beside
    model = _read(path)
    if not any(_is_quantizer(n) for n in model.graph):
        raise PtqError(Problem("PTQ550", str(path), "a model without HzCalibration nodes", "a calibrated model",
                               "give <prefix>_calibrated_model.onnx of a compile run"), "debug")
    try:
        return Network(model, _read(Path(optimized)) if optimized is not None else None)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise PtqError(Problem("PTQ550", str(path), f"HzCalibration nodes that cannot be read: {shorten(error)}",
                               "a calibrated model as ptqlab wrote it", "compile again"), "debug") from None


def _read(path: Path) -> ir.Model:
    if not path.is_file():
        raise PtqError(Problem("PTQ101", str(path), "no such file", "a calibrated model"), "debug")
    try:
        return ir.load(path)
    except Exception as error:
        raise PtqError(Problem("PTQ103", str(path), f"no ONNX model: {shorten(error)}", "an ONNX model"),
                       "debug") from None


def put_back(view: ir.Graph, network: Network, chosen: Choice) -> None:
    """Put what is chosen into a graph that was extracted from the float graph; constants are rounded at once."""
    made: dict[tuple[str, tuple[str, ...]], ir.Value] = {}
    halves = {h.node: h for h in chosen.values() if isinstance(h, Half)}
    quantizers = {n: q for n, q in chosen.items() if isinstance(q, Quantizer)}
    told = [q.correction for q in quantizers.values() if q.correction is not None]
    corrections = {(c.node, c.index): c.bias(quantizers) for c in told}
    for node in list(view):
        half = halves.get(str(node.name))
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            if half is not None and half.computes and value.dtype == ir.DataType.FLOAT:
                node.replace_input_with(index, _halved(view, node, value))
                continue
            if (str(node.name), index) in corrections:
                corrected = corrections[str(node.name), index]
                node.replace_input_with(index, _constant(view, f"{value.name}_back", corrected))
                continue
            active = tuple(n for n in network.edges.get((str(node.name), index), ()) if n in quantizers)
            if not active:
                continue
            node.replace_input_with(index, _rounded(view, node, value, active, quantizers, made))
        if half is not None:
            _halve_outputs(view, node)


def _rounded(
    view: ir.Graph, before: ir.Node, value: ir.Value, chain: tuple[str, ...], quantizers: Mapping[str, Quantizer],
    made: dict[tuple[str, tuple[str, ...]], ir.Value],
) -> ir.Value:
    """`value` through a chain of quantizers; what chains have in common is made once."""
    name = str(value.name)
    for length in range(1, len(chain) + 1):
        key, label = (name, chain[:length]), f"{name}/{'/'.join(chain[:length])}"
        if key not in made:
            q = quantizers[chain[length - 1]]
            if value.const_value is not None:
                made[key] = _constant(view, label, q(value.const_value.numpy()))
            else:
                node = calibration_node(
                    value, label, f"{label}/out", scales=q.scale, thresholds=q.thresholds, zero_point=q.zero_point,
                    low=q.low, high=q.high, bits=q.bits, kind=q.kind, shape=q.scale.shape or [1],
                )
                view.insert_before(before, node)
                made[key] = node.outputs[0]
        value = made[key]
    return value


def _halved(view: ir.Graph, before: ir.Node, value: ir.Value) -> ir.Value:
    """`value` rounded to float16, for one reader."""
    name = f"{value.name}/{before.name}"
    if value.const_value is not None:
        return _constant(view, name, rounded_half(value.const_value.numpy()))
    to, back = _casts(value, name)
    view.insert_before(before, to)
    view.insert_before(before, back)
    return back.outputs[0]


def _halve_outputs(view: ir.Graph, node: ir.Node) -> None:
    """Behind a node: its float outputs by way of float16, under their names."""
    for out in node.outputs:
        if not out.name or out.dtype != ir.DataType.FLOAT:
            continue
        readers, tensor = list(out.uses()), str(out.name)
        to, back = _casts(out, f"{tensor}/{node.name}")
        view.insert_after(node, to)
        view.insert_after(to, back)
        for reader, index in readers:
            reader.replace_input_with(index, back.outputs[0])
        for index, output in enumerate(view.outputs):
            if output is out:
                view.outputs[index] = back.outputs[0]
        out.name, back.outputs[0].name = f"{tensor}/float32", tensor


def _casts(value: ir.Value, name: str) -> tuple[ir.Node, ir.Node]:
    made = []
    for dtype in (ir.DataType.FLOAT16, ir.DataType.FLOAT):
        node = ir.Node("", "Cast", [value], attributes=[ir.AttrInt64("to", int(dtype))], num_outputs=1,
                       name=f"{name}/{dtype.name.lower()}")
        value_out = node.outputs[0]
        value_out.name, value_out.shape, value_out.dtype = f"{name}/{dtype.name.lower()}", value.shape, dtype
        made.append(node)
        value = value_out
    return made[0], made[1]


def _constant(view: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    tensor = ir.tensor(np.ascontiguousarray(array), name=name)
    value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    view.register_initializer(value)
    return value


@cache
def _function() -> ir.Function:
    """One body for all partial models: making it costs as much as a small piece."""
    return calibration_function()


def partial_model(
    network: Network, chosen: Choice, inputs: Collection[str] = (), outputs: Collection[str] = ()
) -> ir.Model:
    """The part of the float graph from `inputs` to `outputs` (all of it where not given) with chosen quantizers."""
    graph = network.graph.model.graph
    starts = list(inputs) or [str(v.name) for v in graph.inputs]
    ends = list(outputs) or [str(v.name) for v in graph.outputs]
    view = ir.convenience.extract(graph, starts, ends)
    put_back(view, network, chosen)
    model = ir.Model(view, ir_version=network.graph.model.ir_version)
    if any(_is_quantizer(n) for n in view):
        function = _function()
        model.functions[function.identifier()] = function
        view.opset_imports[DOMAIN] = 1
    return model

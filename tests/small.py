"""Helpers for the tests of the core: one integer operator in all its forms, whole compiles compared in every bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import settings

import ptqlab
from ptqlab.arith.rounding import dequantize
from ptqlab.artifacts.models import read_quantized
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, load, session, to_proto
from ptqlab.ops.integer import DOMAIN, DOMAIN_VERSION, INTEGER_OPS, OPSET
from ptqlab.passes import optimize
from ptqlab.placement import Asks, place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode
from ptqlab.quantize.lower import lower
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.calibration import Calibration, Encodings
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import CalibratedModel, QuantizedModel
from ptqlab.stages.schedule import Part

INT8, INT16 = (int(ir.DataType.INT8), int(ir.DataType.INT16))
QUICK = settings(derandomize=True, max_examples=15, deadline=None, database=None)
MANY = settings(derandomize=True, max_examples=30, deadline=None, database=None)
LIMITS = {INT8: (-128, 127), INT16: (-32768, 32767)}


def output(to: int = INT8, zero_point: int = 0, low: int | None = None, high: int | None = None) -> dict[str, int]:
    """The attributes of a requantizing operator; the clamp is the range of the type where not given."""
    least, most = LIMITS[to]
    return {
        "y_zero_point": zero_point,
        "low": least if low is None else low,
        "high": most if high is None else high,
        "to": to,
    }


def one_operator(
    op: str,
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
    result: np.ndarray,
) -> QuantizedModel:
    """A quantized model of one integer operator; `feeds` are its inputs by name, `result` tells the output's type."""
    spec = INTEGER_OPS[op]
    values: dict[str, ir.Value] = {}
    for name, array in {**feeds, **constants}.items():
        tensor = ir.tensor(array, name=name)
        values[name] = ir.Value(
            name=name,
            shape=ir.Shape(array.shape),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor if name in constants else None,
        )
    node = ir.Node(
        DOMAIN,
        op,
        [values[i] for i in spec.inputs],
        name="operator",
        num_outputs=1,
        attributes=[ir.convenience.convert_attribute(k, v) for k, v in attributes.items()],
    )
    out = node.outputs[0]
    out.name, out.shape, out.dtype = "result", ir.Shape(result.shape), ir.DataType.from_numpy(result.dtype)
    graph = ir.Graph(
        [values[f] for f in feeds],
        [out],
        nodes=[node],
        initializers=[values[c] for c in constants],
        opset_imports={"": OPSET, DOMAIN: DOMAIN_VERSION},
        name="one",
    )
    model = ir.Model(graph, ir_version=8, functions=[spec.function()])
    return QuantizedModel(model, {}, (Part("BPU", 0, ("operator",), tuple(feeds), ("result",)),)).verify()


def every_form(
    op: str, feeds: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray], attributes: Mapping[str, Any]
) -> np.ndarray:
    """What an integer operator gives: the reference kernel, the fast path and the model-local function must agree.

    The function runs with and without onnxruntime's rewriting, both with one and two threads.
    """
    spec = INTEGER_OPS[op]
    assert set(attributes) == set(spec.attributes)
    arrays = {**feeds, **constants}
    result = spec.reference(attributes, *(arrays[i] for i in spec.inputs))
    quantized = one_operator(op, feeds, constants, attributes, result)
    forms = {"reference executor": ReferenceExecutor(quantized).run(feeds)["result"]}
    for threads in (1, 2):
        forms[f"fast, {threads} threads"] = FastExecutor(quantized, threads=threads).run(feeds)["result"]
        forms[f"function, {threads} threads"] = session(quantized.model, optimise=threads == 2, threads=threads).run(
            None, feeds
        )[0]
    for form, got in forms.items():
        same_bits(got, result, form)
    return result


def same_bits(got: np.ndarray, wanted: np.ndarray, where: str) -> None:
    """The same dtype, shape and bytes, or an assertion that tells where and how far off."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), (
        f"{where}: {got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    )
    if got.tobytes() != wanted.tobytes():
        off = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
        raise AssertionError(
            f"{where}: {int((off != 0).sum())} of {off.size} elements differ, by up to {np.nanmax(off)}"
        )


def rescaled(value: int, multiplier: int, shift: int) -> int:
    """(v * m + 2^(s-1)) >> s for s >= 1, (v * m) << -s otherwise, in Python's integers."""
    product = int(value) * int(multiplier)
    return (product + (1 << (shift - 1))) >> shift if shift > 0 else product << -shift


def clamped(value: int, attributes: Mapping[str, int]) -> int:
    """The zero point added, then the clamp of the operator."""
    return max(attributes["low"], min(attributes["high"], attributes["y_zero_point"] + value))


def each(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`values` broadcast to a shape, as Python integers."""
    return np.broadcast_to(values, shape).astype(object)


def codes(rng: np.random.Generator, to: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random codes over the whole range, the two ends of it among them where there is room."""
    low, high = LIMITS[to]
    dtype = np.int8 if to == INT8 else np.int16
    made = rng.integers(low, high + 1, shape).astype(dtype)
    flat = made.reshape(-1)
    flat[:1], flat[-1:] = low, high
    return made


@dataclass(frozen=True)
class Made:
    """Every stage of a small model."""

    graph: FloatGraph
    plan: Plan
    calibration: Calibration
    encodings: Encodings
    calibrated: CalibratedModel
    integer: QuantizedModel


def planned(model: onnx.ModelProto, march: str = "nash-e", asks: Asks | None = None) -> tuple[FloatGraph, Plan]:
    """Optimized graph and plan of a ModelProto."""
    graph = optimize(load(model))
    return graph, place(graph, platform(march), asks)


def stages(
    model: onnx.ModelProto,
    feeds: Mapping[str, np.ndarray],
    *,
    march: str = "nash-e",
    asks: Asks | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
) -> Made:
    """All stages of a ModelProto, calibrated with `feeds`; `bounds` makes slots asymmetric (tensor -> low, high)."""
    graph, plan = planned(model, march, asks)
    calibration = calibrate(graph, plan, [feeds], 1, Watch())
    changed = {
        slot: replace(t, bounds=(bounds or {}).get(slot, t.bounds)) for slot, t in calibration.thresholds.items()
    }
    calibration = replace(calibration, thresholds=changed)
    encodings = encode(graph, plan, calibration)
    return Made(
        graph, plan, calibration, encodings, calibrated_model(graph, plan, encodings), lower(graph, plan, encodings)
    )


def compiled(
    model: Any,
    feeds: Mapping[str, np.ndarray],
    folder: Path,
    *,
    march: str = "nash-e",
    samples: int = 2,
    **keywords: Any,
) -> Any:
    """The result of `ptqlab.compile` of a ModelProto, calibrated with `feeds` at a few strengths."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "net.onnx")
    data = {
        name: [
            array if not i or array.dtype.kind != "f" else np.asarray(array * (1 - 0.1 * i), array.dtype)
            for i in range(samples)
        ]
        for name, array in feeds.items()
    }
    return ptqlab.compile(
        model=folder / "net.onnx",
        march=march,
        calibration_data=data,
        working_dir=folder / "out",
        progress=False,
        **keywords,
    )


def all_engines_agree(run: Any, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a compiled model; every integer tensor and output has the same bits in all engines and both files."""
    first = engines_agree(read_quantized(run.artifacts["quantized"]).quantized, feeds)
    second = engines_agree(read_quantized(run.artifacts["hbm"]).quantized, feeds)
    assert list(first) == list(second)
    for name, array in first.items():
        same_bits(second[name], array, f".hbm against .bc: {name}")
    return {info.name: first[info.name] for info in run.record.output_infos}


def engines_agree(integer: QuantizedModel, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs and all integer tensors of an integer model, by the reference; the other engines give the same bits."""
    names = [t.name for t in integer.integers.values()]
    wanted = ReferenceExecutor(integer, keep=names).run(feeds)
    forms = {f"fast, {n} threads": FastExecutor(integer, keep=names, threads=n).run(feeds) for n in (1, 2)}
    runner = session(integer.model, outputs=list(wanted), optimise=False)
    forms["onnxruntime"] = dict(zip(runner.output_names, runner.run(None, feeds), strict=True))
    for form, got in forms.items():
        assert list(got) == list(wanted), f"{form}: {list(got)}, not {list(wanted)}"
        for name, array in wanted.items():
            same_bits(got[name], array, f"{form}: tensor {name}")
    return wanted


def forced_steps(made: Made, feeds: Mapping[str, np.ndarray]) -> dict[str, float]:
    """How far each stored tensor of the integer model is from the calibrated model, in steps of that tensor.

    Every operator of the calibrated model is fed the numbers that the integer model stored in front of it, so that
    each figure is what this operator alone differs by.
    """
    proto = to_proto(made.calibrated.model)
    fed = {name: f"fed:{tensor}" for tensor, name in made.calibrated.names.items()}
    produced = {o for n in proto.graph.node for o in n.output}
    for node in proto.graph.node:
        node.input[:] = [fed.get(i, i) for i in node.input]
    for name in made.calibrated.names.values():
        proto.graph.input.append(onnx.helper.make_tensor_value_info(fed[name], onnx.TensorProto.FLOAT, None))
    del proto.graph.output[:]
    wanted = [name for name in made.calibrated.names.values() if name in produced]
    proto.graph.output.extend(onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in wanted)
    integers = made.integer.integers
    stored = ReferenceExecutor(made.integer, keep=[t.name for t in integers.values()]).run(feeds)
    real = {
        tensor: np.asarray(
            dequantize(stored[integers[tensor].name], integers[tensor].scale, integers[tensor].zero_point)
        )
        for tensor in made.calibrated.names
    }
    inputs = {**feeds, **{fed[name]: real[tensor] for tensor, name in made.calibrated.names.items()}}
    runner = session(proto.SerializeToString(), optimise=False)
    got = dict(zip(runner.output_names, runner.run(None, inputs), strict=True))
    return {
        tensor: float(np.abs(got[name].astype(np.float64) - real[tensor]).max() / float(integers[tensor].scale))
        for tensor, name in made.calibrated.names.items()
    }

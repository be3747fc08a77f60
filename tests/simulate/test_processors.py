"""Processors without AVX-512 and VNNI give the same bits: onnxruntime runs under an emulated one."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import init, model, node, random, value
from small import stages

from ptqlab.examples import digits
from ptqlab.graph import to_proto
from ptqlab.placement import Ask, Asks
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.simulate.fast import fast_model
from ptqlab.stages.quantized import QuantizedModel

QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
# runs each model; it imports nothing else, for the emulator takes most of its time to import
CHILD = """
import sys
import numpy as np
import onnxruntime
for stem in sys.argv[1:]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if stem.endswith("function"):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(stem + ".onnx", options, providers=["CPUExecutionProvider"])
    with np.load(stem + ".npz") as feeds:
        results = session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
    np.savez(stem + "_out.npz", **dict(zip([o.name for o in session.get_outputs()], results)))
"""


def network() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Sums of every kind: float32, digits, halves and bytes; depthwise, strided and 1x1; a table, a Softmax, a Gemm."""
    sizes = {"stem": (16, 3, 3, 3), "dw": (16, 1, 3, 3), "pw": (300, 16, 1, 1), "wide": (4, 300, 3, 3)}
    inits = [
        init(f"{n}_w", random(*s, seed=i, scale=float(np.prod(s[1:])) ** -0.5))
        for i, (n, s) in enumerate(sizes.items())
    ]
    inits += [init("fc_w", random(5, 4, seed=9))]
    nodes = [
        node("Conv", ["x", "stem_w"], "a", "stem", pads=[1] * 4), node("Relu", ["a"], "b", "relu"),
        node("Conv", ["b", "dw_w"], "c", "dw", pads=[1] * 4, group=16, strides=[2, 2]),
        node("Sigmoid", ["c"], "d", "sigmoid"), node("Conv", ["d", "pw_w"], "e", "pw"),
        node("Conv", ["e", "wide_w"], "f", "wide"), node("GlobalAveragePool", ["f"], "g", "pool"),
        node("Flatten", ["g"], "h", "flat"), node("Gemm", ["h", "fc_w"], "i", "fc", transB=1),
        node("Softmax", ["i"], "j", "softmax", axis=1), node("Mul", ["j", "i"], "y", "end"),
    ]  # fmt: skip
    return model(nodes, [value("x", [1, 3, 12, 12])], [value("y", None)], inits), {"x": random(1, 3, 12, 12)}


def written(quantized: QuantizedModel, feeds: dict[str, np.ndarray], stem: Path) -> list[Path]:
    """The graphs that onnxruntime runs for a model, with what goes in: each fast part, and the whole with functions."""
    nodes = {str(n.name): n for n in quantized.model.graph}
    parts = [p for p in quantized.parts if p.device == "BPU" and not p.floating]
    inner = [t for p in parts for t in p.inputs if t not in feeds]
    live = dict(feeds) | ReferenceExecutor(quantized, keep=inner).run(feeds)
    out = []
    for index, part in enumerate(parts):
        made = FastExecutor(quantized).wanted(part)
        proto = to_proto(fast_model(nodes, part, made))
        carried = {n: live[n].astype(np.float32) if live[n].dtype.kind == "i" else live[n] for n in part.inputs}
        out.append(_write(proto, carried, stem.with_name(f"{stem.name}_{index}_fast")))
    out.append(_write(to_proto(quantized.model), feeds, stem.with_name(f"{stem.name}_function")))
    return out


def _write(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], stem: Path) -> Path:
    onnx.save(proto, f"{stem}.onnx")
    np.savez(f"{stem}.npz", **feeds)
    return stem


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64" or QEMU is None, reason="needs qemu-x86_64 (Debian: qemu-user)")
@pytest.mark.parametrize("processor", ["Haswell"])
def test_the_same_bits_without_avx512_and_vnni(processor: str, tmp_path: Path) -> None:
    """The fast path and the functions of int8, int16 and dual-int16 models, here and on a processor of 2013 (AVX2)."""
    digit = {"image": digits.heldout()[0][:1].reshape(1, 1, 8, 8)}
    stems: list[Path] = []
    for name, (proto, feeds) in {"net": network(), "digits": (onnx.load(digits.model_path()), digit)}.items():
        for qtype in ("int8", "int16", "dual-int16"):
            asks = Asks({n.name: Ask(qtype, level="op") for n in proto.graph.node})
            stems += written(stages(proto, feeds, asks=asks).integer, feeds, tmp_path / f"{name}_{qtype}")
    results = []
    for prefix in ([], [str(QEMU), "-cpu", processor]):
        child = [*prefix, sys.executable, "-c", CHILD, *map(str, stems)]
        done = subprocess.run(child, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        results.append({stem: dict(np.load(f"{stem}_out.npz")) for stem in stems})
    here, there = results
    assert any("ConvInteger" in p.op_type for s in stems for p in onnx.load(f"{s}.onnx").graph.node)
    for stem in stems:
        for tensor, array in here[stem].items():
            assert array.tobytes() == there[stem][tensor].tobytes(), f"{stem.name}: {tensor}"

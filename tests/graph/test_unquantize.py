"""remove_quantization: the float model inside, and its ranges kept by a compile that is given the old file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from models import init, model, node, random, value

import ptqlab
from ptqlab.errors import PtqError
from ptqlab.graph import session

WEIGHTS = np.random.default_rng(3).integers(-127, 128, (4, 3, 1, 1)).astype(np.int8)
SCALES = np.array([0.01, 0.02, 0.005, 0.03], np.float32)


def quantized(folder: Path, *, extra: list[onnx.NodeProto] | None = None, outputs: tuple[str, ...] = ("y",)) -> Path:
    """x, Q, DQ, Conv of int8 weights per channel, Relu, Q, DQ, y; uint8 with a zero point behind the Relu."""
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], "xq", "qx"), node("DequantizeLinear", ["xq", "sx", "zx"], "xd", "dx"),
        node("DequantizeLinear", ["w", "sw", "zw"], "wd", "dw", axis=0),
        node("DequantizeLinear", ["b", "sb"], "bd", "db", axis=0),
        node("Conv", ["xd", "wd", "bd"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
        node("QuantizeLinear", ["r", "sr", "zr"], "rq", "qr"), node("DequantizeLinear", ["rq", "sr", "zr"], "y", "dr"),
    ]  # fmt: skip
    inits = [
        init("sx", np.float32(0.03)), init("zx", np.int8(0)), init("w", WEIGHTS), init("sw", SCALES),
        init("zw", np.zeros(4, np.int8)), init("b", np.array([100, -50, 7, 0], np.int32)),
        init("sb", SCALES * np.float32(0.03)), init("sr", np.float32(0.05)), init("zr", np.uint8(3)),
    ]  # fmt: skip
    made = model([*nodes, *(extra or [])], [value("x", [1, 3, 8, 8])], [value(o, None) for o in outputs], inits)
    path = folder / "qdq.onnx"
    onnx.save(made, path)
    return path


def test_the_float_model_inside(tmp_path: Path) -> None:
    """No quantize node is left; it is the convolution of the real weights, and within the roundings of the old one."""
    path = quantized(tmp_path)
    plain = ptqlab.remove_quantization(path, output=tmp_path / "float.onnx")
    ops = [n.op_type for n in onnx.load(plain).graph.node]
    assert ops == ["Conv", "Relu", "Identity"]
    x = random(1, 3, 8, 8, seed=1)
    (got,), (old,) = session(plain).run(["y"], {"x": x}), session(path).run(["y"], {"x": x})
    real = WEIGHTS[:, :, 0, 0] * SCALES[:, None]
    bias = np.array([100, -50, 7, 0]) * SCALES * 0.03
    wanted = np.maximum(np.einsum("oc,nchw->nohw", real, x) + bias[:, None, None], 0)
    assert np.allclose(got, wanted, atol=1e-4)
    assert np.abs(got - old).max() <= 0.026 + np.abs(real).sum(1).max() * 0.0151


def test_its_ranges_are_kept_by_thresholds(tmp_path: Path) -> None:
    """Compiled with thresholds from the old file, x has the step that it had there."""
    path = quantized(tmp_path)
    with pytest.raises(PtqError, match="remove_quantization"):
        ptqlab.check(model=path, march="nash-e", progress=False)
    plain = ptqlab.remove_quantization(path, output=tmp_path / "float.onnx")
    run = ptqlab.compile(model=plain, march="nash-e", working_dir=tmp_path / "out", progress=False, thresholds=path,
                         calibration_data=[random(1, 3, 8, 8, seed=i) for i in range(2)])  # fmt: skip
    [row] = [r for r in run.record.nodes if r.node == "conv"]
    assert row.threshold == pytest.approx(0.03 * 127, rel=0.01)


def test_every_node_that_cannot_be_taken_out_is_named(tmp_path: Path) -> None:
    """Operators on integers, integers that leave the model, the model's own path."""
    path = quantized(tmp_path, extra=[node("MatMulInteger", ["xq", "xq"], "m", "product")], outputs=("y", "m"))
    with pytest.raises(PtqError) as caught:
        ptqlab.remove_quantization(path, output=path)
    assert [(p.code, p.where, p.found) for p in caught.value.problems] == [
        ("PTQ121", "output", str(path)), ("PTQ123", "node 'product' (MatMulInteger)", "computes on integers"),
    ]  # fmt: skip
    path = quantized(tmp_path, outputs=("y", "rq"))
    with pytest.raises(PtqError, match="its integers are read or leave the model"):
        ptqlab.remove_quantization(path, output=tmp_path / "float.onnx")
    onnx.save(model([node("Relu", ["x"], "y", "r")], [value("x", [1])], [value("y", [1])]), path)
    with pytest.raises(PtqError, match="no DequantizeLinear"):
        ptqlab.remove_quantization(path, output=tmp_path / "float.onnx")
    assert not (tmp_path / "float.onnx").exists()

"""reduce_periods: the same values, an operand within one period, and a better integer model for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from models import init, model, node, random, value

import ptqlab
from ptqlab.arith.metrics import Agreement
from ptqlab.errors import PtqError


def waves(path: Path, scale: float = 400.0) -> Path:
    """Sin and Cos of an input times hundreds, as positions are encoded, and two convolutions behind them."""
    nodes = [
        node("Mul", ["x", "k"], "p", "phase"), node("Sin", ["p"], "s", "sin"), node("Cos", ["p"], "o", "cos"),
        node("Add", ["s", "o"], "a", "add"), node("Conv", ["a", "w"], "c", "conv"),
        node("Conv", ["c", "w2"], "y", "conv2"),
    ]  # fmt: skip
    inits = [init("w", random(4, 3, 1, 1)), init("k", np.float32(scale)), init("w2", random(4, 4, 1, 1, seed=2))]
    onnx.save(model(nodes, [value("x", [1, 3, 6, 6])], [value("y", None)], inits), path)
    return path


def test_the_values_stay_and_the_operand_is_within_one_period(tmp_path: Path) -> None:
    """Outputs to float32 precision; the nodes are named and shared by Sin and Cos; nothing else changes."""
    old, new = waves(tmp_path / "net.onnx"), tmp_path / "reduced.onnx"
    names = ptqlab.reduce_periods(old, output=new)
    assert names == tuple(f"sin_period_{i}" for i in range(6))
    feed = {"x": random(1, 3, 6, 6, seed=3)}
    before, after = (ptqlab.Runtime(path).run(None, feed)[0] for path in (old, new))
    assert np.abs(before - after).max() < 2e-3  # float32 of an operand of 1000 rad is 6e-5 rad coarse
    proto = onnx.load(new)
    assert sorted(n.name for n in proto.graph.node if n.name not in names) == sorted(
        n.name for n in onnx.load(old).graph.node
    )
    [operand] = {n.input[0] for n in proto.graph.node if n.op_type in ("Sin", "Cos")}
    proto.graph.output.append(onnx.helper.make_tensor_value_info(operand, onnx.TensorProto.FLOAT, None))
    onnx.save(proto, tmp_path / "seen.onnx")
    reduced = ptqlab.Runtime(tmp_path / "seen.onnx").run([operand], feed)[0]
    assert np.abs(reduced).max() > 3 and np.abs(reduced).max() <= np.pi + 1e-5


@pytest.mark.parametrize(("march", "given"), [("nash-e", "cpu"), ("nash-p", "float32")])
def test_what_it_is_for(march: str, given: str, tmp_path: Path) -> None:
    """Hundreds of radians are advised against, and with the reduction on the CPU or in float32 the model is good."""
    old = waves(tmp_path / "net.onnx")
    names = ptqlab.reduce_periods(old, output=tmp_path / "reduced.onnx")
    data = [random(1, 3, 6, 6, seed=s) for s in range(4)]
    alone = [*names, "phase"]
    entry = {"ON": "CPU"} if given == "cpu" else {"qtype": "float32"}
    found, said = {}, {}
    for path, nodes in ((old, {}), (tmp_path / "reduced.onnx", dict.fromkeys(alone, entry))):
        run = ptqlab.compile(
            model=path, march=march, working_dir=tmp_path / path.stem, progress=False, calibration_data=data,
            quant_config={"node_config": nodes} if nodes else {},
        )  # fmt: skip
        said[path.stem] = {f.code for f in run.record.findings}
        agreement = Agreement()
        for sample in data:
            agreement.add(ptqlab.Runtime(old).run(None, {"x": sample})[0],
                          ptqlab.Runtime(run.artifacts["hbm"]).run(None, {"x": sample})[0])  # fmt: skip
        found[path.stem] = agreement.cosine
    assert "PTQ514" in said["net"] and not {"PTQ511", "PTQ514"} & said["reduced"]
    assert found["net"] < 0.9 < found["reduced"]


def test_refusals_name_what_there_is(tmp_path: Path) -> None:
    """An unknown node, a model without sines, and writing over the model: each told, together where they meet."""
    path = waves(tmp_path / "net.onnx")
    with pytest.raises(PtqError) as caught:
        ptqlab.reduce_periods(path, ["sinn"], output=path)
    assert str(caught.value) == (
        "Reducing periods: 2 problems\n"
        "PTQ122  nodes\n    found     'sinn'\n    expected  a Sin or Cos: sin, cos\n    do        did you mean sin?\n"
        f"PTQ122  output\n    found     {path}\n    expected  another path than that of the model"
    )
    plain = tmp_path / "plain.onnx"
    onnx.save(model([node("Relu", ["x"], "y", "r")], [value("x", [1, 3])], [value("y", None)], []), plain)
    with pytest.raises(PtqError, match="no Sin and no Cos"):
        ptqlab.reduce_periods(plain, output=tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()

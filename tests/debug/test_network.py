"""A calibrated model taken apart and put together again."""
from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from debug_nets import CORRECTED, calibrated, network, written

from ptqlab.arith.formats import QType
from ptqlab.debug.network import Network, load_network, partial_model
from ptqlab.errors import PtqError
from ptqlab.graph import save, session


@pytest.mark.parametrize("block", [CORRECTED, {}])
def test_all_off_is_the_float_model_and_all_on_the_calibrated_one(block):
    """Bit for bit, biases of Conv and Gemm included, corrected for the weights or for the input, too."""
    graph, model, samples = calibrated(block)
    apart = Network(model, graph.model)
    assert sum(q.correction is not None for q in apart.quantizers.values()) >= 2
    for sample in samples:
        wanted = session(graph.model).run(None, sample)
        assert np.array_equal(session(apart.graph.model).run(None, sample)[0], wanted[0])
        together = partial_model(apart, apart.quantizers)
        assert np.array_equal(session(together).run(None, sample)[0], session(model).run(None, sample)[0])


def test_a_node_knows_its_quantizers():
    """A Conv reads through one quantizer for its input and one for its weights."""
    apart, _ = network()
    assert [apart.quantizers[q].kind for q in apart.of_node("conv0")] == ["activation", "weight"]
    assert apart.readers("x_HzCalibration") == ["conv0", "add"]
    assert set(apart.of_kind("weight")) | set(apart.of_kind("activation")) == set(apart.quantizers)


def test_another_type_keeps_the_range():
    """int16 codes cover what int8 codes cover, with steps of about a 256th."""
    apart, samples = network()
    quantizer = apart.quantizers["x_HzCalibration"]
    wide = quantizer.as_type(QType.INT16)
    x = samples[0]["x"]
    assert wide.as_type(QType.INT8).scale == pytest.approx(quantizer.scale)
    errors = [np.abs(q(x) - x).max() for q in (quantizer, wide)]
    assert 100 < errors[0] / errors[1] < 1000


def test_files_are_read_with_the_float_model_beside_them(tmp_path):
    """Corrected biases are taken back when the float model lies at its usual place."""
    path, _ = written(tmp_path)
    assert any(q.correction for q in load_network(path).quantizers.values())
    (tmp_path / "net_optimized_float_model.onnx").unlink()
    assert not any(q.correction for q in load_network(path).quantizers.values())


def test_files_that_are_no_calibrated_models_are_refused(tmp_path):
    """A missing file, something else than ONNX, and a float model: each with its own code."""
    graph = calibrated()[0]
    save(graph.model, tmp_path / "float.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"\x00\x01nonsense")
    codes = {}
    for name in ("none", "broken", "float"):
        with pytest.raises(PtqError) as error:
            load_network(tmp_path / f"{name}.onnx")
        codes[name] = error.value.problems[0].code
    assert codes == {"none": "PTQ101", "broken": "PTQ103", "float": "PTQ550"}


def test_a_hostile_quantizer_is_refused(tmp_path):
    """A HzCalibration node without its attributes is told as one."""
    model = calibrated()[1]
    node = next(n for n in model.graph if n.op_type == "HzCalibration")
    del node.attributes["scales"]
    ir.save(model, tmp_path / "net_calibrated_model.onnx")
    with pytest.raises(PtqError, match="PTQ550"):
        load_network(tmp_path / "net_calibrated_model.onnx")

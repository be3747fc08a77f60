"""Zero points everywhere: encodings, calibrated model, integer model, for every kind of small model."""
from __future__ import annotations

import numpy as np
import pytest
from calibration_nets import recipe
from models import MODELS
from small import planned

from ptqlab.arith.formats import QType
from ptqlab.arith.rounding import fake_quantize
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.ops.calibration_node import DOMAIN
from ptqlab.ops.spec import Encoding
from ptqlab.placement import Ask, Asks
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model
from ptqlab.quantize.encode import encode
from ptqlab.quantize.lower import lower
from ptqlab.simulate import FastExecutor, ReferenceExecutor
from ptqlab.stages.calibration import asymmetric

NAMES = ["conv_bn_relu", "conv_bias_grouped_bn", "mlp", "mobile_block", "relu6_spellings", "layout_moves", "arithmetic",
         "attention", "bn_alone", "gemm_forms", "conv_transpose_bn"]


@pytest.mark.parametrize(("bounds", "qtype", "scale", "zero_point"), [
    ((0.0, 255.0), QType.INT8, 1.0, -128),
    ((-255.0, 0.0), QType.INT8, 1.0, 127),
    ((-1.28, 1.27), QType.INT8, 0.01, 0),
    ((-0.1, 25.4), QType.INT8, 0.1, -127),
    ((0.0, 65535.0), QType.INT16, 1.0, -32768),
    ((-2.56e38, 2.54e38), QType.INT8, 2e36, 0),
])
def test_encodings_worked_out_by_hand(bounds: tuple[float, float], qtype: QType, scale: float, zero_point: int) -> None:
    """scale = (high - low) / 255 or / 65535, zero point = lowest code - low / scale rounded; 0.0 is a code."""
    made = asymmetric(*bounds, qtype)
    assert made == Encoding(qtype, made.scale, zero_point)
    assert float(made.scale) == pytest.approx(scale, rel=1e-6)
    assert fake_quantize(np.zeros(1, np.float32), made.scale, made.zero_point, made.low, made.high)[0] == 0.0


@pytest.mark.parametrize("qtype", ["int8", "int16"])
@pytest.mark.parametrize("name", NAMES)
def test_all_forms_agree(name: str, qtype: str) -> None:
    """Reference kernels, fast path and the model's own functions give the same bits with zero points other than 0, and
    every quantizer of the calibrated model computes the formula of its encoding."""
    model, feeds = MODELS[name]()
    graph = planned(model)[0]
    asks = Asks({str(n.name): Ask(qtype, level="model") for n in graph.nodes})
    graph, plan = planned(model, asks=asks)
    asked = recipe(graph, plan, {"activation": {"calibration_type": "mse", "asymmetric": True}})
    encoded = encode(graph, plan, calibrate(graph, plan, [feeds], 1, Watch(), asked))
    assert any(e.zero_point for e in encoded.slots.values())
    check_calibrated(graph, plan, encoded, feeds)
    quantized = lower(graph, plan, encoded)
    keep = list(dict.fromkeys(t.name for t in quantized.integers.values()))
    wanted = ReferenceExecutor(quantized, keep=keep).run(feeds)
    forms = [FastExecutor(quantized, keep=keep).run(feeds)]
    runner = session(quantized.model, outputs=list(wanted), optimise=False)
    forms.append(dict(zip(runner.output_names, runner.run(None, feeds), strict=True)))
    for form in forms:
        for tensor, array in wanted.items():
            np.testing.assert_array_equal(form[tensor], array, err_msg=tensor)


def check_calibrated(graph, plan, encoded, feeds) -> None:  # type: ignore[no-untyped-def]
    calibrated = calibrated_model(graph, plan, encoded).model
    nodes = [n for n in calibrated.graph if n.domain == DOMAIN and n.attributes["kind"].as_string() == "activation"]
    assert nodes
    names = list(dict.fromkeys(str(v.name) for n in nodes for v in (n.inputs[0], n.outputs[0])))  # type: ignore[union-attr]
    runner = session(calibrated, outputs=names, optimise=False)
    values = dict(zip(runner.output_names, runner.run(None, feeds), strict=True))
    for node in nodes:
        e = encoded.view(node.metadata_props["ptqlab.slot"], QType(node.metadata_props["ptqlab.qtype"]))
        x, y = values[str(node.inputs[0].name)], values[str(node.outputs[0].name)]
        np.testing.assert_array_equal(y, fake_quantize(x, e.scale, e.zero_point, e.low, e.high))


def test_views_keep_the_range() -> None:
    """A slot stored as int16 is seen as int8 over the same range, with a zero point of its own."""
    model, feeds = MODELS["mobile_block"]()
    graph = planned(model)[0]
    graph, plan = planned(model, asks=Asks({str(n.name): Ask("int16", level="model") for n in graph.nodes}))
    asked = recipe(graph, plan, {"activation": {"calibration_type": "max", "asymmetric": True}})
    encoded = encode(graph, plan, calibrate(graph, plan, [feeds], 1, Watch(), asked))
    for slot, stored in encoded.slots.items():
        view = encoded.view(slot, QType.INT8)
        assert view == asymmetric(*encoded.bounds[slot], QType.INT8)
        reach = [(e.low - e.zero_point) * float(e.scale) for e in (stored, view)]
        assert reach[0] == pytest.approx(reach[1], abs=float(view.scale))

"""What cells of the grid offer, and why an edit has no effect."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from core_models import net, weights
from models import node

from ptqlab import config as configuration
from ptqlab.config.quant_fields import DUAL
from ptqlab.pipeline.whatif import WhatIf
from ptqlab.platforms import MARCHES
from ptqlab.widgets.grid_edits import parsed
from ptqlab.widgets.grid_rules import allowed_types, options, refusals


@pytest.mark.parametrize(("op_type", "march", "types"), [
    ("Conv", "nash-e", ("int8", "int16", "float32", DUAL)),
    ("Conv", "nash-p", ("int8", "int16", "float16", "float32", DUAL)),
    ("Add", "nash-e", ("int8", "int16", "float32")),
    ("Add", "nash-p", ("int8", "int16", "float16", "float32")),
    ("Resize", "nash-p", ("int8",)),
    ("GlobalAveragePool", "nash-p", ("int8", "int16")),
    ("Reshape", "nash-e", ()),
    ("NonZero", "nash-e", ()),
    ("NoSuchOperator", "nash-e", ()),
])
def test_types_are_those_of_operator_and_march(op_type, march, types):
    """The operator table decides: floats where the march has them, dual where two operands are multiplied, nothing for
    what moves data or has no kernel."""
    assert allowed_types(op_type, march) == types


@pytest.mark.parametrize("march", MARCHES)
def test_one_input_is_never_dual(march):
    """dual-int16 is a word for a node; one input has int16."""
    assert DUAL in options("qtype", "Conv", march)
    assert DUAL not in options("input0", "Conv", march)
    assert options("per_channel", "Conv", march) == (True, False)
    assert options("nothing", "Conv", march) == ()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Conv, Relu inside it, Reshape, Gemm at the end, and a NonZero that has no kernel."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"), node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w2"], "d", "second"), node("Relu", ["d"], "y", "end"), node("NonZero", ["y"], "z", "zero"),
    ]
    made, feeds = net(nodes, ["y", "z"], weights(w=(4, 3, 1, 1), w2=(4, 4, 1, 1)))
    folder = tmp_path_factory.mktemp("rules")
    onnx.save(made, folder / "m.onnx")
    return WhatIf(configuration.load(None, model=folder / "m.onnx", march="nash-e", working_dir=folder,
                                     calibration_data={k: [np.asarray(v)] for k, v in feeds.items()}))


@pytest.mark.parametrize(("entry", "key", "why"), [
    ({"conv": {"qtype": "int16"}}, "qtype", ""),
    ({"conv": {"ON": "CPU"}}, "ON", ""),
    ({"conv": {"qtype": "float32"}}, "qtype", ""),
    ({"conv": {"activation": {"asymmetric": True}}}, "asymmetric", ""),
    ({"conv": {"input1": "int16"}}, "input1", "conv: input 1 was asked for int16, given int8. int16 weights go with"),
    ({"conv": {"qtype": "float16"}}, "qtype", "conv: asked for float16, given float32. CPU: float16 was asked for and"),
    ({"relu": {"qtype": "int16"}}, "qtype", "relu reads no tensor from memory. BPU: computed inside conv"),
    ({"relu": {"input0": "int16"}}, "input0", "relu reads no tensor from memory."),
    ({"relu": {"activation": {"asymmetric": True}}}, "asymmetric", "relu decides on the threshold of no tensor."),
    ({"zero": {"ON": "BPU"}}, "ON", "zero: "),
    ({"conv": {"ON": "CPU", "qtype": "int16"}}, "qtype", "conv: CPU: the configuration asks for it."),
])
def test_an_edit_without_effect_is_refused_in_the_words_of_the_plan(model, entry, key, why):
    """What takes effect is accepted; what does not is refused with the reason that placement gives."""
    (name, settings), = entry.items()
    value = settings.get(key, settings.get("activation", {}).get(key))
    found = refusals([name], key, value, model.placed(parsed({"node_config": entry})), model.graph)
    assert found.get(name, "").startswith(why)
    assert bool(found) == bool(why)


def test_taking_a_setting_out_is_never_refused(model):
    """None, back to what coarser levels say, has always an effect or none to refuse."""
    assert refusals(["relu", "zero"], "qtype", None, model.placed(parsed({})), model.graph) == {}

"""Recipes by name: what they stand for, that the user's own settings win, and what they are worth."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibration_nets import mobile
from core_models import EDGES, net
from models import MODELS, init, node, random
from small import planned

import ptqlab
from ptqlab.arith.formats import QType
from ptqlab.config import QuantConfig
from ptqlab.config.fields import RECIPES
from ptqlab.pipeline.presets import PRESETS, completed
from ptqlab.placement import Ask, Asks, place
from ptqlab.platforms import platform


def test_words_and_recipes_are_the_same() -> None:
    """Every word of the configuration has a recipe and every recipe a word."""
    assert set(RECIPES) == set(PRESETS)


@pytest.mark.parametrize("march", ["nash-b", "nash-e", "nash-m", "nash-h", "nash-p"])
def test_the_ceiling(march: str) -> None:
    """int16 with int16 weights on b, e and m; float16 with int16 products on h and p."""
    graph, _, _ = mobile(1)
    quant, _ = completed(QuantConfig(), "ceiling", graph, platform(march))
    assert quant.to_dict() == {
        "model_config": {"all_node_type": "float16" if march in ("nash-h", "nash-p") else "int16"},
        "op_config": {"Conv": {"qtype": "dual-int16"}, "Gemm": {"qtype": "dual-int16"}},
    }


def test_the_inverted_residual_recipe() -> None:
    """Three convolutions in dual-int16, residual Adds in int16, the rest asymmetric int8 with corrected biases."""
    graph, _, _ = mobile(1)
    quant, told = completed(QuantConfig(), "inverted-residual", graph, platform("nash-e"))
    assert quant.to_dict()["node_config"] == {
        "conv0": {"qtype": "dual-int16"}, "conv1": {"qtype": "dual-int16"}, "conv2": {"qtype": "dual-int16"},
        "add": {"qtype": "int16"},
    }
    assert quant.to_dict()["model_config"]["activation"] == {"calibration_type": "mse", "asymmetric": True}
    assert (told.code, told.severity) == ("PTQ445", "note")
    assert "4 node_config entries" in told.message


def test_a_search_by_recipe() -> None:
    """It brings its list and its search; a search or a method of the user's own stays."""
    graph, _, _ = mobile(1)
    quant = completed(QuantConfig(), "asymmetric-search", graph, platform("nash-e"))[0]
    assert (quant.search, quant.search_metric) == ("modelwise", "sqnr")
    own = QuantConfig.parse({"model_config": {"layerwise_search": {"metric": "mse"}}})
    quant = completed(own, "asymmetric-search", graph, platform("nash-e"))[0]
    assert (quant.search, quant.search_metric, quant.modelwise_search) == ("layerwise", "mse", None)
    own = QuantConfig.parse({"model_config": {"activation": {"calibration_type": "kl"}}})
    quant = completed(own, "asymmetric-search", graph, platform("nash-e"))[0]
    assert quant.to_dict()["model_config"]["activation"]["calibration_type"] == "kl"


def test_what_reads_a_residual_sum_keeps_its_precision() -> None:
    """The convolutions behind the third one, through its Clip, and behind the sum read int16: sums are stored so."""
    names = ["a", "b", "c", "d", "e", "f"]
    nodes = [
        node("Conv", ["x", "a"], "xa", "a"), node("Conv", ["xa", "b"], "xb", "b"), node("Conv", ["xb", "c"], "xc", "c"),
        node("Clip", ["xc", "zero", "six"], "rc", "clip"), node("Conv", ["rc", "d"], "xd", "d"),
        node("Conv", ["xd", "e"], "xe", "e"), node("Add", ["xe", "xd"], "sum", "add"),
        node("Conv", ["sum", "f"], "y", "f"),
    ]
    inits = [init(name, random(3, 3, 1, 1, seed=i)) for i, name in enumerate(names)]
    inits += [init("zero", 0.0, np.float32), init("six", 6.0, np.float32)]
    graph, _ = planned(net(nodes, ["y"], inits, {"x": random(1, 3, 4, 4)})[0])
    asked = {n: e["qtype"] for n, e in PRESETS["inverted-residual"](graph, platform("nash-e"))["node_config"].items()}
    assert asked == dict.fromkeys("abc", "dual-int16") | dict.fromkeys(["d", "add", "f"], "int16")
    quant = QuantConfig.parse(PRESETS["inverted-residual"](graph, platform("nash-e")))
    asks = Asks({str(n.name): Ask(asked.get(str(n.name), "int8"), level="node") for n in graph.nodes})
    stored = {t.name: t.stored for t in place(graph, platform("nash-e"), asks).tensors.values()}
    assert stored["sum"] == stored["rc"] == QType.INT16
    assert quant.bias_correction is not None


def test_the_users_own_settings_win() -> None:
    """Key by key on every level; what only the recipe says is added."""
    own: dict[str, Any] = {
        "model_config": {"all_node_type": "int8", "activation": {"calibration_type": "kl"},
                         "weight": {"bias_correction": {"num_sample": 3}}},
        "op_config": {"conv": {"qtype": "int16"}}, "node_config": {"add": {"qtype": "int8"}},
    }
    graph, _, _ = mobile(1)
    quant = QuantConfig.parse(own)
    ceiling = completed(quant, "ceiling", graph, platform("nash-e"))[0].to_dict()
    assert ceiling["model_config"]["all_node_type"] == "int8"
    assert ceiling["op_config"] == {"conv": {"qtype": "int16"}, "Gemm": {"qtype": "dual-int16"}}
    mixed = completed(quant, "inverted-residual", graph, platform("nash-e"))[0].to_dict()
    assert mixed["model_config"]["activation"] == {"calibration_type": "kl", "asymmetric": True}
    assert mixed["model_config"]["weight"]["bias_correction"]["num_sample"] == 3
    assert mixed["node_config"]["add"] == {"qtype": "int8"}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_compile_by_recipe(recipe: str, tmp_path: Path) -> None:
    """The keyword works, the record holds the quant_config it stood for, and that alone gives the same result."""
    import onnx

    model, feeds = EDGES["log_spectrum"]() if recipe == "log-spectrum" else MODELS["mobile_block"]()
    onnx.save(model, tmp_path / "net.onnx")
    given = {"model": str(tmp_path / "net.onnx"), "march": "nash-e", "progress": False,
             "calibration_data": {name: [x, x / 2] for name, x in feeds.items()}}
    run = ptqlab.compile(**given, recipe=recipe, working_dir=tmp_path / "a")
    assert run.record.quant_config
    assert any(f.code == "PTQ445" for f in run.record.findings)
    again = ptqlab.compile(**given, quant_config=run.record.quant_config, working_dir=tmp_path / "b")
    assert again.outputs.equals(run.outputs)
    assert not any(f.code == "PTQ445" for f in again.record.findings)

"""quant_config: every alias and level, and what is asked for a node (refusals as whole texts in bad_configs.txt)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptqlab.config import QuantConfig
from ptqlab.config.quant import BiasCorrection, LayerSearch
from ptqlab.config.quant_fields import CLOSED_METHODS, CLOSED_QTYPES, METRICS, QTYPES
from ptqlab.errors import PtqError

GUIDE = {
    "model_config": {"all_node_type": "int8", "model_output_type": "int16"},
    "activation": {
        "calibration_type": ["max", "kl"],
        "num_bin": [1024, 2048, 4096],
        "max_num_bin": 16384,
        "max_percentile": [0.99995, 1.0],
        "per_channel": [True, False],
        "asymmetric": [True, False],
    },
    "weight": {"bias_correction": {"num_sample": 1, "metric": "cosine-similarity"}},
    "modelwise_search": {"metric": "mse"},
    "layerwise_search": {"metric": "sqnr"},
    "op_config": {"softmax": {"qtype": "int16"}},
    "subgraph_config": {"head": {"inputs": ["n1"], "outputs": ["n9"], "qtype": "int16"}},
    "node_config": {
        "/a/MatMul_1": {"input0": "int16", "input1": "int8"},
        "/a/Conv": {"qtype": "int16", "activation": {"calibration_type": "kl"}},
    },
}


def test_template_of_the_guide() -> None:
    """The published template, with its blocks at the top level, is read whole and written in canonical form."""
    quant = QuantConfig.parse(GUIDE)
    assert quant.bias_correction == BiasCorrection(1, "cosine-similarity")
    assert (quant.search, quant.search_metric) == ("layerwise", "sqnr")
    assert quant.model_output_type is not None
    assert quant.model_output_type.value == "int16"
    request = quant.for_node("x", "Add")
    assert request.activation.calibration_type == ("max", "kl")
    assert request.activation.num_bin == (1024, 2048, 4096)
    assert request.activation.max_num_bin == 16384
    assert request.activation.max_percentile == (0.99995, 1.0)
    assert request.activation.per_channel == request.activation.asymmetric == (True, False)
    assert quant.for_node("/a/Conv", "Conv").activation.calibration_type == ("kl",)
    canonical = quant.to_dict()
    assert set(canonical) == {"model_config", "op_config", "subgraph_config", "node_config"}
    assert canonical["model_config"]["activation"] == GUIDE["activation"]
    assert QuantConfig.parse(canonical) == quant


def test_forms_of_a_source(tmp_path: Path) -> None:
    """Mapping, JSON text, path and nothing; the origin names the line, or "keyword"."""
    text = '{"model_config":\n {"all_node_type": "int16"}}'
    file = tmp_path / "q.json"
    file.write_text(text)
    by_file, by_text, by_mapping = (QuantConfig.parse(s) for s in (file, text, json.loads(text)))
    assert by_file == by_text == by_mapping == QuantConfig.parse(str(file))
    places = [str(q.for_node("a", "Add").origin) for q in (by_file, by_text, by_mapping)]
    assert places == [
        "model (model_config.all_node_type, q.json:2)",
        "model (model_config.all_node_type, quant_config:2)",
        "model (model_config.all_node_type, keyword)",
    ]
    for nothing in (None, {}, {"model_config": None}, "{}"):
        assert QuantConfig.parse(nothing) == QuantConfig()


def test_nothing_asked_is_int8() -> None:
    """Without a configuration every node is asked for in int8, the default of the default."""
    request = QuantConfig().for_node("c", "Conv", n_inputs=2)
    assert (request.qtype, request.inputs, request.on) == ("int8", ("int8", "int8"), None)
    assert {o.level for o in request.origins.values()} == {"default"}
    assert request.activation.calibration_type == ()


LEVELS = {
    "model_config": {"all_node_type": "int16", "activation": {"calibration_type": "max", "per_channel": True}},
    "op_config": {"CONV": {"qtype": "int8", "input0": "float16", "activation": {"calibration_type": "kl"}}},
    "subgraph_config": {"head": {"inputs": ["a"], "outputs": ["b"], "input1": "float32", "ON": "cpu"}},
    "node_config": {"c2": {"qtype": "int16", "activation": {"asymmetric": True}}, "c3": {"input0": "int16"}},
}


@pytest.mark.parametrize(
    ("node", "op_type", "subgraphs", "qtype", "inputs", "on", "levels"),
    [
        ("r", "Relu", (), "int16", ("int16",), None, ("model", "model")),
        ("c1", "Conv", (), "int8", ("float16", "int8"), None, ("op", "op", "op")),
        ("c1", "Conv", ("head",), "int8", ("float16", "float32"), "CPU", ("op", "op", "subgraph")),
        ("c2", "Conv", ("head",), "int16", ("int16", "int8"), "CPU", ("node", "node", "node")),
        ("c3", "Conv", ("head",), "int8", ("int16", "float32"), "CPU", ("op", "node", "subgraph")),
        ("m", "MatMul", (), "int16", ("int16", "int8"), None, ("model", "model", "model")),
    ],
)
def test_precedence(
    node: str,
    op_type: str,
    subgraphs: tuple[str, ...],
    qtype: str,
    inputs: tuple[str, ...],
    on: str | None,
    levels: tuple[str, ...],
) -> None:
    """model < op < subgraph < node, for each tensor by itself; a finer qtype replaces coarser inputs."""
    request = QuantConfig.parse(LEVELS).for_node(node, op_type, subgraphs, n_inputs=len(inputs))
    assert (request.qtype, request.inputs, request.on) == (qtype, inputs, on)
    keys = ["qtype", *(f"input{i}" for i in range(len(inputs)))]
    assert tuple(request.origins[k].level for k in keys) == levels


def test_activation_keys_are_resolved_one_by_one() -> None:
    """Each key of the activation block comes from the finest level that has it."""
    request = QuantConfig.parse(LEVELS).for_node("c2", "Conv")
    activation = request.activation
    assert (activation.calibration_type, activation.per_channel, activation.asymmetric) == (("kl",), (True,), (True,))
    assert [request.origins[k].level for k in ("calibration_type", "per_channel", "asymmetric", "num_bin")] == [
        "op",
        "model",
        "node",
        "default",
    ]


def test_several_subgraphs() -> None:
    """Of two subgraphs that hold a node, the last of the file wins."""
    ends = {"inputs": ["a"], "outputs": ["b"]}
    quant = QuantConfig.parse({"subgraph_config": {"p": {**ends, "qtype": "int16"}, "q": {**ends, "qtype": "float16"}}})
    assert quant.for_node("n", "Add", ("q", "p")).qtype == "float16"
    assert quant.for_node("n", "Add", ("p",)).qtype == "int16"


def test_two_operands() -> None:
    """int16 is int16 features with int8 weights; dual-int16 is both, and both inputs in int16 are dual-int16."""
    quant = QuantConfig.parse(
        {
            "op_config": {"Conv": {"qtype": "int16"}, "MatMul": {"qtype": "dual-int16"}},
            "node_config": {"c2": {"input0": "int16", "input1": "int16"}},
        }
    )
    assert quant.for_node("c1", "Conv", n_inputs=2).inputs == ("int16", "int8")
    assert quant.for_node("m", "MatMul", n_inputs=2).inputs == ("int16", "int16")
    both = quant.for_node("c2", "Conv", n_inputs=2)
    assert (both.qtype, both.inputs) == ("dual-int16", ("int16", "int16"))
    assert QuantConfig.parse({"model_config": {"all_node_type": "int16"}}).for_node("a", "Add", n_inputs=2).inputs == (
        "int16",
        "int16",
    )


def test_coarse_types_that_do_not_fit() -> None:
    """dual-int16 of a subgraph leaves an Add of it alone; int32 of a subgraph reaches Softmax only."""
    ends = {"inputs": ["a"], "outputs": ["b"]}
    types = {"p": "dual-int16", "q": "int32"}
    quant = QuantConfig.parse({"subgraph_config": {n: {**ends, "qtype": t} for n, t in types.items()}})
    assert [quant.for_node("n", op, ("p",)).qtype for op in ("Add", "Conv")] == ["int8", "dual-int16"]
    assert [quant.for_node("n", op, ("q",)).qtype for op in ("Add", "Softmax")] == ["int8", "int32"]


def test_aliases() -> None:
    """InputTypeN, operator types in any case, a level under a free name, ON as type (warned of) and as placement."""
    quant = QuantConfig.parse(
        {
            "model_config": {"default": {"all_node_type": "int16", "modelwise_search": {}}},
            "op_config": {"softmax": {"qtype": "int32"}, "lut": {"qtype": "float32"}},
            "node_config": {"a": {"InputType1": "int8"}, "b": {"ON": "int8"}, "c": {"ON": "CPU"}, "d": {"ON": "bpu"}},
        }
    )
    assert quant.for_node("a", "Add", n_inputs=2).inputs == ("int16", "int8")
    assert quant.for_node("s", "Softmax").qtype == "int32"
    assert quant.for_node("l", "Lut").qtype == "float32"
    assert [quant.for_node(n, "Add").qtype for n in "bc"] == ["int8", "int16"]
    assert [quant.for_node(n, "Add").on for n in "bcd"] == [None, "CPU", "BPU"]
    assert quant.modelwise_search is not None
    assert [f.code for f in quant.findings] == ["PTQ251"]
    assert 'node_config.b.ON: "ON": "int8" is read as "qtype": "int8"' in quant.findings[0].message


@pytest.mark.parametrize("qtype", QTYPES)
def test_types(qtype: str) -> None:
    """Each open type is accepted for the model, an operator type, a node and an input."""
    quant = QuantConfig.parse(
        {
            "model_config": {"all_node_type": qtype},
            "op_config": {"Add": {"qtype": qtype}},
            "node_config": {"n": {"qtype": qtype, "input0": qtype}},
        }
    )
    assert quant.for_node("n", "Add").inputs == (qtype,)


@pytest.mark.parametrize("qtype", CLOSED_QTYPES)
def test_closed_types(qtype: str) -> None:
    """Each type that no modelled platform has is refused with its reason."""
    with pytest.raises(PtqError) as refusal:
        QuantConfig.parse({"node_config": {"n": {"qtype": qtype}}})
    (problem,) = refusal.value.problems
    assert problem.code == "PTQ221"
    assert CLOSED_QTYPES[qtype] in problem.found


@pytest.mark.parametrize("method", CLOSED_METHODS)
def test_closed_methods(method: str) -> None:
    """Each method that is written otherwise here is refused with what to write."""
    with pytest.raises(PtqError) as refusal:
        QuantConfig.parse({"model_config": {"activation": {"calibration_type": method}}})
    assert refusal.value.problems[0].hint == CLOSED_METHODS[method]


@pytest.mark.parametrize("metric", METRICS)
def test_metrics(metric: str) -> None:
    """Every metric is accepted by every block that has one."""
    quant = QuantConfig.parse(
        {
            "model_config": {
                "modelwise_search": {"metric": metric},
                "weight": {"bias_correction": {"metric": metric}},
                "search": {"layer": {"topk": 256, "qtype": "int16", "metric": metric}},
            }
        }
    )
    assert quant.search_metric == metric
    assert quant.bias_correction == BiasCorrection(1, metric)
    assert quant.layer_search == LayerSearch(256, "int16", metric)


@pytest.mark.parametrize(
    ("config", "search"),
    [
        ({}, None),
        ({"modelwise_search": {}}, "modelwise"),
        ({"activation": {"calibration_type": "max"}}, None),
        ({"activation": {"calibration_type": ["max", "kl"]}}, "modelwise"),
        ({"activation": {"calibration_type": "max", "per_channel": [True, False]}}, "modelwise"),
        ({"activation": {"calibration_type": "max"}, "layerwise_search": {}}, "layerwise"),
        ({"modelwise_search": {}, "layerwise_search": {}}, "layerwise"),
    ],
)
def test_search(config: dict[str, object], search: str | None) -> None:
    """Several candidates, or the block itself, mean a modelwise search; layerwise wins where it is given."""
    assert QuantConfig.parse({"model_config": config}).search == search


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_bin", 129),
        ("max_num_bin", 258),
        ("max_percentile", 0.5),
        ("max_percentile", 1),
        ("calibration_type", "mse"),
        ("calibration_type", ["max", "kl", "mse"]),
    ],
)
def test_limits_are_included(key: str, value: object) -> None:
    """The documented minimum or maximum itself is accepted."""
    quant = QuantConfig.parse({"model_config": {"activation": {key: value}}})
    assert quant.model.activation[key].value == tuple(value if isinstance(value, list) else [value])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_bin", 128),
        ("num_bin", True),
        ("num_bin", 1024.0),
        ("num_bin", "1024"),
        ("max_num_bin", 257),
        ("max_percentile", 0.49),
        ("max_percentile", 1.1),
        ("per_channel", 1),
        ("asymmetric", "False"),
        ("calibration_type", 3),
        ("calibration_type", ["max", None]),
    ],
)
def test_values_refused(key: str, value: object) -> None:
    """Out of range, a boolean as number, a number as text: one problem with the key path."""
    with pytest.raises(PtqError) as refusal:
        QuantConfig.parse({"model_config": {"activation": {key: value}}})
    (problem,) = refusal.value.problems
    assert problem.where.startswith(f"model_config.activation.{key}")


def test_a_repeated_candidate_is_tried_once() -> None:
    """The same value twice in a list is one candidate, with a warning."""
    quant = QuantConfig.parse({"model_config": {"activation": {"calibration_type": ["max", "max"]}}})
    assert quant.model.activation["calibration_type"].value == ("max",)
    assert [f.code for f in quant.findings] == ["PTQ253"]


# ------------------------------------------------------------------ names
NODES = {"conv": "Conv", "conv2": "Conv", "relu": "Relu", "soft": "Softmax"}


def names(config: dict[str, object], aliases: dict[str, str] | None = None) -> tuple[list[str], list[str]]:
    quant = QuantConfig.parse(config)
    problems, findings = quant.check_names(NODES, aliases, ["t1"], {"conv": 3, "relu": 1})
    return [str(p) for p in problems], [str(f) for f in findings]


def test_unknown_node() -> None:
    """The whole text: the place, the name, and the nearest names."""
    problems, _ = names({"node_config": {"conv_typo": {"qtype": "int16"}}})
    assert problems == [
        "PTQ223  keyword  node_config.conv_typo.qtype\n"
        "    found     unknown node conv_typo\n"
        "    expected  a node of the optimized graph, or its name in the original model\n"
        "    do        nearest names: conv, conv2"
    ]


def test_types_against_the_operator() -> None:
    """dual-int16 on a Relu and int32 on a Conv are refused once the graph is known; int32 on a Softmax is fine."""
    problems, _ = names(
        {
            "node_config": {
                "relu": {"qtype": "dual-int16"},
                "conv": {"qtype": "int32"},
                "conv2": {"input0": "int32"},
                "soft": {"qtype": "int32"},
            }
        }
    )
    found = [p.splitlines()[1].split("found")[1].strip() for p in problems]
    assert found == ["dual-int16 for relu, a Relu", "int32 for conv, a Conv", "int32 for an input of conv2, a Conv"]


def test_input_that_the_node_does_not_have() -> None:
    """inputN beyond the node's inputs would have no effect: refused with the inputs there are."""
    problems, _ = names({"node_config": {"relu": {"input1": "int16"}, "conv": {"input2": "int16"}}})
    assert len(problems) == 1
    assert "input 1 of relu, which has 1 input\n    expected  input0" in problems[0]


def test_what_matches_no_node() -> None:
    """An operator type that does not occur is a warning with the nearest; a subgraph's unknown end is a problem."""
    problems, findings = names(
        {
            "op_config": {"Convs": {"qtype": "int16"}, "softmax": {"qtype": "int16"}},
            "subgraph_config": {"h": {"inputs": ["t1"], "outputs": ["relo"], "qtype": "int16"}},
        }
    )
    assert len(findings) == 1
    assert findings[0].startswith("PTQ256 op_config.Convs matches no node")
    assert "nearest names: Conv" in findings[0]
    assert len(problems) == 1
    assert "unknown node relo of subgraph h" in problems[0]


def test_aliases_of_nodes() -> None:
    """A name of the original model means the node that computes it now; the node's own entry wins, and that is told."""
    aliases = {"bn": "conv", "conv": "conv"}
    config: dict[str, object] = {"node_config": {"bn": {"qtype": "int16"}}}
    assert names(config, aliases) == ([], [])
    assert QuantConfig.parse(config).for_node("conv", "Conv", aliases=aliases).qtype == "int16"
    config = {"node_config": {"bn": {"qtype": "int16"}, "conv": {"qtype": "float16"}}}
    assert QuantConfig.parse(config).for_node("conv", "Conv", aliases=aliases).qtype == "float16"
    _, findings = names(config, aliases)
    assert "2 node_config entries mean the one node conv: bn, conv; the entry conv is used" in findings[0]

"""quant_config is written back in the vendor's structure, and a grid of nodes with the fewest rules."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptqlab.config import QuantConfig

OPS = {"c1": "Conv", "c2": "Conv", "c3": "Conv", "a1": "Add", "a2": "Add", "s": "Softmax"}


def exported(types: dict[str, str], quant: QuantConfig | None = None, **more: Any) -> dict[str, Any]:
    requests = {n: {"qtype": t} | more.get(n, {}) for n, t in types.items()}
    return (quant or QuantConfig()).export(requests, OPS)


def test_all_the_same() -> None:
    """int8 everywhere needs no rule, int16 everywhere needs one."""
    assert exported(dict.fromkeys(OPS, "int8")) == {}
    assert exported(dict.fromkeys(OPS, "int16")) == {"model_config": {"all_node_type": "int16"}}


def test_a_whole_type() -> None:
    """A type of operator that agrees is one op_config entry, also where it has one node only."""
    types = dict.fromkeys(OPS, "int8") | {"s": "int16", "a1": "int16", "a2": "int16"}
    assert exported(types) == {"op_config": {"Add": {"qtype": "int16"}, "Softmax": {"qtype": "int16"}}}


def test_an_exception_of_a_type() -> None:
    """Most of a type by op_config, the exception by node_config; a minority by node_config alone."""
    types = dict.fromkeys(OPS, "int8") | {"c1": "int16"}
    assert exported(types) == {"node_config": {"c1": {"qtype": "int16"}}}
    types = dict.fromkeys(OPS, "int8") | {"c1": "dual-int16", "c2": "dual-int16", "c3": "int16"}
    assert exported(types) == {
        "op_config": {"Conv": {"qtype": "dual-int16"}},
        "node_config": {"c3": {"qtype": "int16"}},
    }


def test_inputs_that_follow_from_the_type_are_left_out() -> None:
    """int16 on a Conv already says int8 weights; only what differs is written."""
    plain = exported(dict.fromkeys(OPS, "int8") | {"c1": "int16"}, c1={"inputs": ("int16", "int8", "int16")})
    assert plain == {"node_config": {"c1": {"qtype": "int16"}}}
    mixed = exported(dict.fromkeys(OPS, "int8"), a1={"inputs": {1: "int16"}})
    assert mixed == {"node_config": {"a1": {"input1": "int16"}}}


def test_calibration_settings_stay() -> None:
    """What a configuration says besides types stays at its level."""
    how = {"activation": {"calibration_type": "kl"}, "layerwise_search": {"metric": "mse"}}
    given = {
        "model_config": {"all_node_type": "int16", **how},
        "op_config": {"softmax": {"qtype": "int16", "activation": {"per_channel": True}}},
        "subgraph_config": {"h": {"inputs": ["c1"], "outputs": ["a1"], "qtype": "int16", "ON": "BPU"}},
        "node_config": {"c1": {"qtype": "int16", "ON": "CPU"}},
    }
    types = dict.fromkeys(OPS, "int8") | {"s": "float16"}
    assert exported(types, QuantConfig.parse(given)) == {
        "model_config": {"all_node_type": "int8", **how},
        "op_config": {"Softmax": {"qtype": "float16", "activation": {"per_channel": True}}},
        "subgraph_config": {"h": {"inputs": ["c1"], "outputs": ["a1"], "ON": "BPU"}},
        "node_config": {"c1": {"ON": "CPU"}},
    }


@given(st.fixed_dictionaries({n: st.sampled_from(["int8", "int16", "float16"]) for n in OPS}))
def test_export_asks_for_the_same(types: dict[str, str]) -> None:
    """Whatever the grid holds, reading the export gives every node its type, with no more rules than nodes and one."""
    written = exported(types)
    quant = QuantConfig.parse(written)
    assert {n: quant.for_node(n, OPS[n]).qtype for n in OPS} == types
    rules = len(written.get("op_config", {})) + len(written.get("node_config", {}))
    assert rules <= sum(t != "int8" for t in types.values())


QTYPE = st.sampled_from(["int8", "int16", "float16", "float32"])
ACTIVATION = st.fixed_dictionaries(
    {},
    optional={
        "calibration_type": st.sampled_from(["max", "kl", ["max", "kl"]]),
        "num_bin": st.integers(129, 9999),
        "max_num_bin": st.integers(258, 99999),
        "max_percentile": st.floats(0.5, 1.0),
        "per_channel": st.sampled_from([True, False, [True, False]]),
        "asymmetric": st.booleans(),
    },
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "qtype": QTYPE,
        "input0": QTYPE,
        "input1": QTYPE,
        "activation": ACTIVATION,
        "ON": st.sampled_from(["CPU", "BPU"]),
    },
)
METRIC = st.fixed_dictionaries({}, optional={"metric": st.sampled_from(["mse", "sqnr"])})
CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "model_config": st.fixed_dictionaries(
            {},
            optional={
                "all_node_type": QTYPE,
                "model_output_type": st.sampled_from(["int8", "int16", "float32"]),
                "activation": ACTIVATION,
                "weight": st.fixed_dictionaries({"bias_correction": METRIC}),
                "modelwise_search": METRIC,
                "layerwise_search": METRIC,
                "search": st.just({"layer": {"topk": 2, "qtype": "int16"}}),
            },
        ),
        "op_config": st.dictionaries(st.sampled_from(["Conv", "Add"]), ENTRY),
        "subgraph_config": st.dictionaries(
            st.text(max_size=3), ENTRY.map(lambda e: {"inputs": ["a"], "outputs": ["b"], **e})
        ),
        "node_config": st.dictionaries(st.text(max_size=5), ENTRY),
    },
)


@given(CONFIG)
def test_round_trip(config: dict[str, Any]) -> None:
    """Whatever can be asked for, the canonical form reads back as the same configuration."""
    quant = QuantConfig.parse(config)
    assert QuantConfig.parse(quant.to_dict()) == quant

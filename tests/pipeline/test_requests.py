"""From quant_config to what placement is asked, and an answer to every request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from core_models import EDGES, FOUR, net, weights
from models import ints, node
from small import compiled

from ptqlab.errors import PtqError


def chain() -> tuple:
    """Conv, Relu, Conv, and a Reshape and a Concat behind."""
    nodes = [
        node("Conv", ["x", "w"], "c", "conv"),
        node("Relu", ["c"], "r", "relu"),
        node("Conv", ["r", "w3"], "d", "conv2"),
        node("Reshape", ["d", "s"], "f", "rs_t"),
        node("Concat", ["f", "f"], "y", "cat_t", axis=1),
    ]
    return net(nodes, ["y"], [*weights(**FOUR), ints("s", 1, 128)])


def run(folder: Path, quant_config: dict[str, Any], **keywords: Any) -> Any:
    return compiled(*chain(), folder, quant_config=quant_config, **keywords)


def granted(found: Any) -> dict[str, str]:
    return {row.node: row.granted for row in found.record.nodes}


def told(found: Any, code: str) -> list[str]:
    return [f.message for f in found.record.findings if f.code == code]


def test_node_beats_op_beats_model(tmp_path: Path) -> None:
    """All int16, Conv int8, conv2 int16: conv int8, conv2 int16, relu int16."""
    found = run(
        tmp_path,
        {
            "model_config": {"all_node_type": "int16"},
            "op_config": {"Conv": {"qtype": "int8"}},
            "node_config": {"conv2": {"qtype": "int16"}},
        },
    )
    assert {n: granted(found)[n] for n in ("conv", "relu", "conv2")} == {
        "conv": "int8",
        "relu": "int16",
        "conv2": "int16",
    }


def test_an_empty_config_is_no_config(tmp_path: Path) -> None:
    """{} gives the thresholds, types and figures of a run without quant_config."""
    first, second = run(tmp_path / "a", {}), compiled(*chain(), tmp_path / "b")
    assert first.record.nodes == second.record.nodes


@pytest.mark.parametrize(
    ("quant_config", "words"),
    [
        ({"node_config": {"conv_typo": {"qtype": "int16"}}}, ("conv_typo", "conv", "conv2")),
        ({"node_config": {"conv": {"qtype": "int12"}}}, ("int12", "int8", "int16")),
        ({"nodes_config": {"conv": {"qtype": "int16"}}}, ("nodes_config", "node_config")),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(
    quant_config: dict, words: tuple[str, ...], tmp_path: Path
) -> None:
    """Unknown node, type or key: the refusal names it and what is allowed or near."""
    with pytest.raises(PtqError) as caught:
        run(tmp_path, quant_config)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_request_without_effect_is_told_with_its_reason(tmp_path: Path) -> None:
    """A type on a passive tail node changes nothing and says so, naming node and rule."""
    found = run(tmp_path, {"node_config": {"cat_t": {"qtype": "int16"}}})
    messages = told(found, "PTQ401")
    assert len(messages) == 1
    assert messages[0].startswith(
        "cat_t: int16 was asked for in node_config and has no effect. CPU: it only moves data"
    )


@pytest.mark.parametrize(
    ("march", "node", "given", "words"),
    [
        ("nash-e", "relu", "float32", "CPU: float16 was asked for and nash-e has no float vector unit"),
        ("nash-p", "conv", "int16", "The TAE computes in integers: int16 features and int8 weights"),
    ],
)
def test_a_float_type_that_is_not_given_is_told(march: str, node: str, given: str, words: str, tmp_path: Path) -> None:
    """float16 becomes float32 on the CPU, or int16 in the TAE, with the reason."""
    found = run(tmp_path, {"node_config": {node: {"qtype": "float16"}}}, march=march)
    assert granted(found)[node] == given
    [message] = told(found, "PTQ402")
    assert message.startswith(f"{node}: asked for float16, given {given}. {words}")
    assert not told(found, "PTQ401")


def test_a_float_type_that_is_given_has_its_effect(tmp_path: Path) -> None:
    """float16 for a vector operator on nash-p: nothing to be told."""
    found = run(tmp_path, {"node_config": {"relu": {"qtype": "float16"}}}, march="nash-p")
    assert granted(found)["relu"] == "float16" and not told(found, "PTQ401") + told(found, "PTQ402")


def test_float32_is_granted_on_the_cpu_without_a_warning(tmp_path: Path) -> None:
    """float32 is what the CPU gives: the request has its effect."""
    found = run(tmp_path, {"node_config": {"relu": {"qtype": "float32"}}})
    assert granted(found)["relu"] == "float32" and not told(found, "PTQ401") + told(found, "PTQ402")


def test_dual_int16_on_a_vector_operator_is_refused(tmp_path: Path) -> None:
    """It is a type of operators with weights only; the refusal says what to write instead."""
    with pytest.raises(PtqError) as caught:
        run(tmp_path, {"node_config": {"relu": {"qtype": "dual-int16"}}})
    assert "dual-int16 for relu, a Relu" in str(caught.value) and "write int16" in str(caught.value)


def test_the_output_type_reaches_the_tail(tmp_path: Path) -> None:
    """model_output_type int8 and the optimization word give the same plan."""
    first = run(tmp_path / "a", {"model_config": {"model_output_type": "int8"}})
    second = compiled(*chain(), tmp_path / "b", optimization="set_model_output_int8")
    types = [{r.node: r.output_data_type for r in f.record.nodes} for f in (first, second)]
    assert types[0] == types[1] and types[0]["conv2"] == "si8"


def test_a_name_of_the_users_file_stands_for_the_node_that_computes_it_now(tmp_path: Path) -> None:
    """A BatchNormalization that was fused away is accepted in node_config for its convolution."""
    from models import MODELS

    found = compiled(*MODELS["conv_bn_relu"](), tmp_path, quant_config={"node_config": {"bn": {"qtype": "int16"}}})
    assert {r.node: r.granted for r in found.record.nodes}["conv"] == "int16"


def test_run_on_cpu_of_a_kind(tmp_path: Path) -> None:
    """ON: CPU in op_config puts every operator of the kind there, and is no request without effect."""
    found = compiled(*EDGES["two_inputs"](), tmp_path, run_on_cpu="add;add2")
    assert [r.node for r in found.record.nodes if r.on == "CPU"] == ["add", "add2"]
    assert not told(found, "PTQ401")


def test_dual_int16_is_given_and_its_tail_is_told(tmp_path: Path) -> None:
    """Both convolutions in dual-int16, si16 as output of the last one, told once; with four times the work of int8."""
    found = run(tmp_path, {"op_config": {"Conv": {"qtype": "dual-int16"}}})
    assert granted(found)["conv"] == granted(found)["conv2"] == "dual-int16"
    assert {r.node: r.output_data_type for r in found.record.nodes}["conv2"] == "si16"
    assert not told(found, "PTQ402")
    assert told(found, "PTQ404") == [
        "conv2: the last operator with weights is dual-int16, which has no int32 output on nash-e; its output is int16 "
        "in place of high precision."
    ]
    assert found.record.perf["macs"]["int16"] > 0 == found.record.perf["macs"]["feature_int16_weight_int8"]

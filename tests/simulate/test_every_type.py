"""Whole networks in every type: the same bits in every executor and file, and near the float model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from core_models import EDGES
from models import MODELS, init, ints, model, node, random, value
from small import all_engines_agree, compiled, engines_agree, planned, stages

import ptqlab
from ptqlab.arith.metrics import Agreement
from ptqlab.examples import digits
from ptqlab.placement import Ask, Asks

Built = tuple[onnx.ModelProto, dict[str, np.ndarray]]
ALL = EDGES | MODELS
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# type: march, quant_config, lowest cosine of an output
TYPES: dict[str, tuple[str, dict[str, Any], float]] = {
    "int8": ("nash-e", {"model_config": {"all_node_type": "int8"}}, 0.99),
    "int16": ("nash-e", {"model_config": {"all_node_type": "int16"}}, 0.999),
    "dual-int16": ("nash-e", {"model_config": {"all_node_type": "int16"},
                              "op_config": {op: {"qtype": "dual-int16"} for op in PRODUCTS}}, 0.9999),
    "float16": ("nash-p", {"model_config": {"all_node_type": "float16"}}, 0.999),
}  # fmt: skip
LOSS = 0.5  # dB that the simulator may lose against its calibrated model


def vit_block() -> Built:
    """LayerNorm, attention with two heads, LayerNorm, Gelu, a residual around each half; 16 tokens of 32."""
    tokens, width, heads = 16, 32, 2
    deep = width // heads

    def linear(x: str, name: str, inputs: int, outputs: int, seed: int) -> list[onnx.NodeProto]:
        weight = random(inputs, outputs, seed=seed, scale=inputs**-0.5)
        inits.extend([init(f"{name}_w", weight), init(f"{name}_b", random(outputs, seed=seed, scale=0.1))])
        return [node("MatMul", [x, f"{name}_w"], f"{name}_m", f"{name}_matmul"),
                node("Add", [f"{name}_m", f"{name}_b"], name, f"{name}_add")]  # fmt: skip

    inits = [
        init("scale", np.float32(deep**-0.5)),
        ints("heads", 1, tokens, heads, deep),
        ints("flat", 1, tokens, width),
    ]
    inits += [init(name, np.float32(number)) for name, number in (("root", 0.5**0.5), ("one", 1), ("half", 0.5))]
    nodes = []
    for index in (1, 2):
        inits += [init(f"g{index}", 1 + random(width, seed=index, scale=0.1)), init(f"h{index}", random(width, seed=9))]
    nodes.append(node("LayerNormalization", ["x", "g1", "h1"], "n1", "norm1", axis=-1))
    for seed, (name, order) in enumerate((("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])), start=3):
        nodes += linear("n1", name, width, width, seed)
        nodes += [node("Reshape", [name, "heads"], f"{name}_r", f"{name}_heads"),
                  node("Transpose", [f"{name}_r"], f"{name}_t", f"{name}_turn", perm=order)]  # fmt: skip
    nodes += [
        node("MatMul", ["q_t", "k_t"], "scores", "scores"), node("Mul", ["scores", "scale"], "scaled", "scale"),
        node("Softmax", ["scaled"], "p", "softmax", axis=-1), node("MatMul", ["p", "v_t"], "mixed", "mix"),
        node("Transpose", ["mixed"], "merged", "merge", perm=[0, 2, 1, 3]),
        node("Reshape", ["merged", "flat"], "m", "flat"),
        *linear("m", "proj", width, width, 6), node("Add", ["x", "proj"], "r1", "residual1"),
        node("LayerNormalization", ["r1", "g2", "h2"], "n2", "norm2", axis=-1),
        *linear("n2", "fc1", width, 4 * width, 7), node("Mul", ["fc1", "root"], "e0", "gelu_scale"),
        node("Erf", ["e0"], "e1", "gelu_erf"), node("Add", ["e1", "one"], "e2", "gelu_add"),
        node("Mul", ["fc1", "e2"], "e3", "gelu_mul"), node("Mul", ["e3", "half"], "act", "gelu_half"),
        *linear("act", "fc2", 4 * width, width, 8), node("Add", ["r1", "fc2"], "y", "residual2"),
    ]  # fmt: skip
    proto = model(nodes, [value("x", [1, tokens, width])], [value("y", None)], inits, opset=19)
    return proto, {"x": random(1, tokens, width, seed=2)}


def digits_logits() -> Built:
    """The digits network without its Softmax, which hides errors."""
    proto = onnx.load(digits.model_path())
    logits = proto.graph.node[-1].input[0]
    del proto.graph.node[-1], proto.graph.output[:]
    proto.graph.output.append(onnx.helper.make_tensor_value_info(logits, onnx.TensorProto.FLOAT, [1, 10]))
    return proto, {"image": digits.heldout()[0][:1].reshape(1, *digits.heldout()[0].shape[-3:])}


NETS: dict[str, Callable[[], Built]] = {
    "digits": digits_logits, "vit_block": vit_block, "mobile_block": MODELS["mobile_block"],
    "residual": EDGES["residual_from_cpu"],
}  # fmt: skip


def agreement(model_file: Path, wanted: ptqlab.Runtime, samples: list[dict[str, np.ndarray]]) -> Agreement:
    runner, found = ptqlab.Runtime(model_file), Agreement()
    for sample in samples:
        name = wanted.output_names[0]
        found.add(wanted.run([name], sample)[0], runner.run([name], sample)[0], distances=True)
    return found


@pytest.mark.parametrize("qtype", TYPES)
@pytest.mark.parametrize("net", NETS)
def test_networks_in_every_type(net: str, qtype: str, tmp_path: Path) -> None:
    """.bc, .hbm, reference and fast path give the same bits; the simulator is as good as its calibrated model."""
    proto, feeds = NETS[net]()
    march, config, cosine = TYPES[qtype]
    run = compiled(proto, feeds, tmp_path, march=march, quant_config=config)
    all_engines_agree(run, feeds)
    if qtype == "dual-int16":
        assert any(n.granted == "dual-int16" for n in run.record.nodes) or net == "residual"
    rng = np.random.default_rng(1)
    samples = [{n: (a * rng.uniform(0.5, 1, a.shape)).astype(a.dtype) for n, a in feeds.items()} for _ in range(3)]
    truth = ptqlab.Runtime(run.artifacts["optimized_float"])
    simulated = agreement(run.artifacts["hbm"], truth, samples)
    calibrated = agreement(run.artifacts["calibrated"], truth, samples)
    assert simulated.cosine >= cosine
    assert simulated.sqnr >= calibrated.sqnr - LOSS, (simulated.sqnr, calibrated.sqnr)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_case_in_dual_int16_agrees_in_every_engine(name: str) -> None:
    """int16 weights wherever an operator has them, with zero points: the same bits in every engine."""
    proto, feeds = ALL[name]()
    graph, _ = planned(proto)
    asks = Asks({str(n.name): Ask("dual-int16", level="node") for n in graph.nodes})
    made = stages(proto, feeds, asks=asks)
    ranges = {
        slot: (min(t.low, 0.0), max(t.high, 0.0))
        for slot, t in made.calibration.thresholds.items() if "all-zero" not in t.tags
    }  # fmt: skip
    engines_agree(stages(proto, feeds, asks=asks, bounds=ranges).integer, feeds)

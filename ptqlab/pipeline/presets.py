"""Recipes by name: quant_config entries that one word stands for, made for the model and platform at hand.

What the user's own quant_config says wins, key by key, on the same level. The result is an ordinary quant_config: the
record holds it, and it can be written out, changed and taken elsewhere.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from ptqlab.config import Config, QuantConfig
from ptqlab.config.quant import Entry
from ptqlab.config.quant_fields import DUAL, TWO_OPERAND_OPS
from ptqlab.errors import Finding
from ptqlab.graph import FloatGraph
from ptqlab.ops.elementwise import same_shape_as_output
from ptqlab.ops.table import spec_of
from ptqlab.pipeline.log_spectrum import around_logarithms
from ptqlab.platforms import Platform

FIRST_CONVS = 3
# families whose ceiling is float16; that of nash-b is int16, though it has float types (documented)
FLOAT_CEILING = ("nash-h", "nash-p")

Preset = Callable[[FloatGraph, Platform], dict[str, Any]]


def asymmetric(graph: FloatGraph, platform: Platform) -> dict[str, Any]:
    """Zero points, ranges of the smallest squared error, biases corrected: the first thing to try when int8 loses too
    much (measured on MobileNetV2: 14 to 18 dB)."""
    return {"model_config": {"activation": {"calibration_type": "mse", "asymmetric": True},
                             "weight": {"bias_correction": {"num_sample": 8, "metric": "mse"}}}}


def asymmetric_search(graph: FloatGraph, platform: Platform) -> dict[str, Any]:
    """Zero points and corrected biases, and for all tensors the better of percentile 0.99995 and mse ranges by the
    SQNR of the outputs: int8 at its best for the price of two runs over the samples (measured on MobileNetV2: 18.3 dB).
    """
    return {"model_config": {
        "activation": {"calibration_type": ["max", "mse"], "max_percentile": 0.99995, "asymmetric": True},
        "weight": {"bias_correction": {"num_sample": 16}}, "modelwise_search": {"metric": "sqnr"},
    }}


def inverted_residual(graph: FloatGraph, platform: Platform) -> dict[str, Any]:
    """`asymmetric`, the first three convolutions in dual-int16, and in int16 the residual Adds and the convolutions
    that read what these and the third one give: for MobileNet-like nets (measured on MobileNetV2: 14 to 22.4 dB,
    EfficientNet-lite0: 18.5 to 27.6 dB)."""
    convs = [n for n in graph.nodes if n.op_type == "Conv"][:FIRST_CONVS]
    adds = [
        n for n in graph.nodes
        if n.op_type == "Add" and same_shape_as_output(n)
        and all(v is not None and v.const_value is None for v in n.inputs)
    ]
    # a type is that of what a node reads: a sum stays in int16 only where its readers ask for that
    fine = [reader for n in (*convs[FIRST_CONVS - 1 :], *adds) for reader in _convolutions_behind(graph, n)]
    nodes = {str(n.name): {"qtype": "int16"} for n in (*adds, *fine)}
    nodes |= {str(n.name): {"qtype": DUAL} for n in convs}
    return asymmetric(graph, platform) | ({"node_config": nodes} if nodes else {})


def _convolutions_behind(graph: FloatGraph, node: ir.Node) -> list[ir.Node]:
    """Convolutions that read a node's result, as it is or through one Relu or Clip."""
    readers = graph.consumers(str(node.outputs[0].name))
    if len(readers) == 1 and readers[0].op_type in ("Relu", "Clip"):
        readers = graph.consumers(str(readers[0].outputs[0].name))
    return [n for n in readers if n.op_type == "Conv"]


def ceiling(graph: FloatGraph, platform: Platform) -> dict[str, Any]:
    """The highest precision the platform has, everywhere: what no mixed precision can exceed. int16, with int16
    weights for operators that multiply two operands; float16 for vector operators of nash-h and nash-p (documented).
    """
    base = "float16" if platform.family in FLOAT_CEILING else "int16"
    present = {n.op_type for n in graph.nodes}
    ops = {op: {"qtype": DUAL} for op in TWO_OPERAND_OPS if op in present}
    return {"model_config": {"all_node_type": base}} | ({"op_config": ops} if ops else {})


def log_spectrum(graph: FloatGraph, platform: Platform) -> dict[str, Any]:
    """Logarithms and the powers they are taken of in float32, on the CPU where the platform has no unit for it, and
    what feeds them in int16, weights too: for sound networks that begin with a spectrum (measured on basic-pitch, F1 of
    its notes: 0.71 in int8, 0.69 in int16, 0.99 so)."""
    floats, feeding = around_logarithms(graph)
    # indices and truth values have no float: a vector unit takes their operands from where they are
    kept = [n for n in floats if not (platform.float_types and spec_of(n).plain_output)]
    nodes = {str(n.name): {"qtype": "float32"} for n in kept}
    nodes |= {str(n.name): {"qtype": DUAL if n.op_type in TWO_OPERAND_OPS else "int16"} for n in feeding}
    return {"node_config": nodes} if nodes else {}


PRESETS: Mapping[str, Preset] = {
    "asymmetric": asymmetric, "asymmetric-search": asymmetric_search, "inverted-residual": inverted_residual,
    "ceiling": ceiling, "log-spectrum": log_spectrum,
}


def with_preset(config: Config, graph: FloatGraph, platform: Platform) -> tuple[Config, list[Finding]]:
    """The configuration with its recipe written out, and the note that says so; as it is where it names none."""
    name = config.calibration.recipe
    if name is None:
        return config, []
    quant, finding = completed(config.calibration.quant, name, graph, platform)
    return replace(config, calibration=replace(config.calibration, quant=quant, recipe=None)), [finding]


def completed(quant: QuantConfig, name: str, graph: FloatGraph, platform: Platform) -> tuple[QuantConfig, Finding]:
    """A quant_config completed by a preset, and what that means in words."""
    preset = QuantConfig.parse(PRESETS[name](graph, platform), f"recipe {name}")
    same_ops = {op.lower(): op for op in quant.ops}
    ops = {same_ops.get(op.lower(), op): entry for op, entry in preset.ops.items()}
    merged = replace(
        quant,
        model=_over(quant.model, preset.model),
        bias_correction=quant.bias_correction or preset.bias_correction,
        modelwise_search=quant.modelwise_search or (None if quant.layerwise_search else preset.modelwise_search),
        ops=_merged(quant.ops, ops),
        nodes=_merged(quant.nodes, preset.nodes),
    )
    first = (PRESETS[name].__doc__ or "").split(":")[0]
    parts = [f"{len(preset.nodes)} node_config entries"] if preset.nodes else []
    parts += [f"op_config for {', '.join(preset.ops)}"] if preset.ops else []
    more = f" ({'; '.join(parts)})" if parts else ""
    return merged, Finding("PTQ445", f"recipe {name}: {' '.join(first.split())}{more}", severity="note")


def _over(own: Entry, lower: Entry) -> Entry:
    """An entry of the user's completed by what only the preset says."""
    return own.over(lower)


def _merged(own: Mapping[str, Entry], preset: Mapping[str, Entry]) -> dict[str, Entry]:
    return {**preset, **{name: _over(entry, preset[name]) if name in preset else entry for name, entry in own.items()}}

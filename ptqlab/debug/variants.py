"""What a type means for one node: which quantizers are on, with which codes, and what is in float16."""
from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.debug.network import Choice, Half, Network, Quantizer
from ptqlab.errors import Problem, shorten
from ptqlab.ops.spec import OpSpec
from ptqlab.ops.table import spec_of
from ptqlab.placement.capability import grant_type
from ptqlab.platforms import PLATFORMS, Platform, platform

TYPES = ("int8", "int16", "dual-int16", "float16")
PARTS = ("node", "weight", "activation")
# rules of a calibrated model by itself, which names no march: those of the march that has every type
ANY_MARCH = PLATFORMS["nash-p"]


def types_of(march: str | None, asked: Sequence[str] | None) -> tuple[tuple[str, ...], Platform]:
    """The types to try, and the platform whose rules say what a node is granted.

    asked  None: int8 and int16, and float16 where the march is known to have it; `type_problems` checks what is asked
    """
    where = platform(march) if march is not None else ANY_MARCH
    if asked is None:
        halves = ("float16",) if march is not None and QType.FLOAT16 in where.float_types else ()
        return ("int8", "int16", *halves), where
    return ((asked,) if isinstance(asked, str) else tuple(dict.fromkeys(asked))), where


def type_problems(words: Sequence[str], where: Platform) -> list[Problem]:
    """Words that are no types, and float16 where the march has none."""
    problems = [Problem("PTQ554", "types", repr(shorten(t)), ", ".join(TYPES)) for t in words if t not in TYPES]
    if "float16" in words and QType.FLOAT16 not in where.float_types:
        have = ", ".join(m for m, p in PLATFORMS.items() if QType.FLOAT16 in p.float_types)
        problems.append(Problem("PTQ554", "types", f"'float16' for {where.march}", f"float16 on {have}",
                                "leave it out, or say march= of another platform"))
    if not words:
        problems.append(Problem("PTQ554", "types", "no type", ", ".join(TYPES)))
    return problems


def variant(network: Network, node: str, part: str, word: str, where: Platform) -> tuple[Choice, str]:
    """What is on when `part` of a node alone is in a type, and the type that the platform grants it.

    part  "node": activations and weights as quant_config means the word (int16: int16 activations and int8 weights,
          dual-int16: both; of a MatMul of two tensors the second one stands where weights do); "weight", "activation":
          these alone, in int8 or int16. float16 is a matter of whole nodes; nothing is on where the part has no meaning
    """
    spec = spec_of(network.graph.node(node))
    if part == "node":
        return _whole(network, node, word, spec, where)
    if word == "float16" or (word == "dual-int16" and not spec.is_tae):
        return {}, ""
    qtype = QType.INT16 if word == "dual-int16" else QType(word)
    chosen = {n: network.quantizers[n].as_type(qtype) for n in network.of_node(node)
              if (network.quantizers[n].kind == "activation") == (part == "activation")}
    return chosen, qtype.value


def _whole(network: Network, node: str, word: str, spec: OpSpec, where: Platform) -> tuple[Choice, str]:
    granted = grant_type(word, spec, where)[0]
    assert granted is not None, f"{where.march} was said to have {word}"
    if granted is QType.FLOAT16:
        half = Half(node, computes=True)
        return {half.name: half}, granted.value
    second = _second_operand(network, spec, node) if word != "dual-int16" else set()
    chosen: dict[str, Quantizer | Half] = {}
    for name in network.of_node(node):
        quantizer = network.quantizers[name]
        weight = quantizer.kind != "activation" or name in second
        wide = word == "dual-int16" and spec.is_tae
        chosen[name] = quantizer.as_type(QType.INT8 if weight and not wide else granted)
    if word == "float16" and spec.is_tae:
        half = Half(node, computes=False)
        chosen[half.name] = half
    return chosen, "dual-int16" if word == "dual-int16" and spec.is_tae else granted.value


def _second_operand(network: Network, spec: OpSpec, node: str) -> set[str]:
    """Quantizers of the second tensor of a product of two, which is int8 unless dual-int16 is asked."""
    made: ir.Node = network.graph.node(node)
    features = spec.feature_indices(made)
    if not spec.is_tae or len(features) != 2:
        return set()
    first, second = (set(network.of_input(node, i)) for i in features)
    return second - first

"""`QuantConfig` back to the vendor's JSON structure: canonical, and with the fewest rules for a grid of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ptqlab.config.quant import Entry, QuantConfig, spread
from ptqlab.config.quant_fields import QTYPES


def to_dict(quant: QuantConfig) -> dict[str, Any]:
    """Canonical structure: parsing it gives an equal `QuantConfig`."""
    model = model_block(quant)
    out: dict[str, Any] = {}
    if model:
        out["model_config"] = model
    if quant.ops:
        out["op_config"] = {name: entry_block(e) for name, e in quant.ops.items()}
    if quant.subgraphs:
        out["subgraph_config"] = {
            n: {"inputs": list(s.inputs), "outputs": list(s.outputs), **entry_block(s.entry)}
            for n, s in quant.subgraphs.items()
        }
    if quant.nodes:
        out["node_config"] = {name: entry_block(e) for name, e in quant.nodes.items()}
    return out


def model_block(quant: QuantConfig) -> dict[str, Any]:
    """model_config alone."""
    block = entry_block(quant.model)
    if "qtype" in block:
        block = {"all_node_type": block.pop("qtype"), **block}
    if quant.model_output_type:
        block["model_output_type"] = quant.model_output_type.value
    weight: dict[str, Any] = {"calibration_type": quant.weight_method.value} if quant.weight_method else {}
    if quant.bias_correction:
        correction = quant.bias_correction
        weight["bias_correction"] = {"num_sample": correction.num_sample, "metric": correction.metric}
        if correction.order != "local":
            weight["bias_correction"]["order"] = correction.order
    if weight:
        block["weight"] = weight
    for key, search in (("modelwise_search", quant.modelwise_search), ("layerwise_search", quant.layerwise_search)):
        if search:
            block[key] = {"metric": search.value}
    if quant.layer_search:
        found = quant.layer_search
        block["search"] = {"layer": {"topk": found.topk, "qtype": found.qtype, "metric": found.metric}}
    return block


def entry_block(entry: Entry) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if entry.qtype:
        out["qtype"] = entry.qtype.value
    for index in sorted(entry.inputs):
        out[f"input{index}"] = entry.inputs[index].value
    if entry.activation:
        out["activation"] = {
            key: s.value[0] if len(s.value) == 1 else list(s.value) for key, s in entry.activation.items()
        }
    if entry.on:
        out["ON"] = entry.on.value
    return out


def export(quant: QuantConfig, nodes: Mapping[str, Mapping[str, Any]], op_types: Mapping[str, str]) -> dict[str, Any]:
    """Fewest rules: one model-wide type, an op_config entry where it saves node entries, node_config for the rest.

    Types come from the requests alone. Calibration settings and ON of `quant` stay at the level where they are,
    unless a node's request has its own.
    """
    asked = {name: node_block(request, op_types[name], quant.nodes.get(name)) for name, request in nodes.items()}
    types = {name: block["qtype"] for name, block in asked.items()}
    by_op: dict[str, list[str]] = {}
    for name in asked:
        by_op.setdefault(op_types[name], []).append(name)
    bases = sorted({t for t in types.values() if t in QTYPES} | {"int8"}, key=QTYPES.index)
    base, rules = min(((b, op_rules(b, by_op, types)) for b in bases), key=lambda found: found[1][1])
    model = model_block(quant)
    model.pop("all_node_type", None)
    if base != "int8" or quant.model.qtype:
        model = {"all_node_type": base, **model}
    typed = {op: {"qtype": t} for op, t in rules[0].items() if t != base}
    ops = merged({op: kept(entry) for op, entry in quant.ops.items()}, typed)
    groups = {
        n: {"inputs": list(s.inputs), "outputs": list(s.outputs), **kept(s.entry)}
        for n, s in quant.subgraphs.items()
        if kept(s.entry)
    }
    own: dict[str, Any] = {}
    for name, block in asked.items():
        if types[name] == typed.get(op_types[name], {"qtype": base})["qtype"]:
            block = {k: v for k, v in block.items() if k != "qtype"}
        if block:
            own[name] = block
    levels = {"model_config": model, "op_config": ops, "subgraph_config": groups, "node_config": own}
    return {key: value for key, value in levels.items() if value}


def fewest_rules(quant: QuantConfig, op_types: Mapping[str, str], aliases: Mapping[str, str]) -> dict[str, Any]:
    """The structure with the fewest rules that asks the same of every node; as it is where subgraphs are in it.

    op_types  node name -> operator type;  aliases  name in the user's file -> name in the optimized graph
    """
    if quant.subgraphs:
        return quant.to_dict()
    asked = {}
    for name, op_type in op_types.items():
        request = quant.for_node(name, op_type, (), 3, aliases)
        asked[name] = {"qtype": request.qtype, "inputs": dict(enumerate(request.inputs))}
    return quant.export(asked, op_types)


def kept(entry: Entry) -> dict[str, Any]:
    """What an entry says besides types."""
    return {k: v for k, v in entry_block(entry).items() if k in ("activation", "ON")}


def merged(blocks: Mapping[str, dict[str, Any]], typed: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Both mappings of operator types joined, whatever the case of the names; empty blocks left out."""
    spelled = {op.lower(): op for op in typed}
    out = {op: dict(block) for op, block in typed.items()}
    for op, block in blocks.items():
        out.setdefault(spelled.get(op.lower(), op), {}).update(block)
    return {op: block for op, block in out.items() if block}


def op_rules(base: str, by_op: Mapping[str, Sequence[str]], types: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Type per operator type, and the number of rules it takes, when everything else is `base`.

    Of equal costs an op_config entry is taken where the whole operator type agrees.
    """
    chosen: dict[str, str] = {}
    cost = int(base != "int8")  # all_node_type is a rule too
    for op, names in by_op.items():
        counts = Counter(types[n] for n in names)
        best = max(sorted(counts), key=lambda t: counts[t])
        plain = len(names) - counts[base]
        rule = 1 + len(names) - counts[best]
        takes = best != base and (rule < plain or (rule == plain and counts[best] == len(names)))
        chosen[op] = best if takes else base
        cost += rule if takes else plain
    return chosen, cost


def node_block(request: Mapping[str, Any], op_type: str, entry: Entry | None) -> dict[str, Any]:
    """A request of the grid as a node_config block; inputs that follow from the type are left out."""
    qtype = request.get("qtype") or "int8"
    given = request.get("inputs") or {}
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    inputs = {int(str(k).removeprefix("input")): v for k, v in pairs if v}
    out: dict[str, Any] = {"qtype": qtype}
    out |= {f"input{k}": v for k, v in sorted(inputs.items()) if v != spread(qtype, op_type, k)}
    for key, value in (kept(entry) if entry else {}).items():
        out[key] = value
    return out | {key: request[key] for key in ("activation", "ON") if request.get(key)}

"""The names of a quant_config against the optimized graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptqlab.config.document import listing
from ptqlab.config.quant import QuantConfig, Setting, asked_type_fits, nearest_names
from ptqlab.config.quant_fields import DUAL, TWO_OPERAND_OPS
from ptqlab.errors import Finding, Problem, shorten


def check_names(
    quant: QuantConfig,
    nodes: Mapping[str, str],
    aliases: Mapping[str, str],
    tensors: Sequence[str],
    n_inputs: Mapping[str, int],
) -> tuple[list[Problem], list[Finding]]:
    """Unknown nodes and unfit types are problems; what matches nothing at a coarser level is a warning."""
    problems: list[Problem] = []
    findings: list[Finding] = []
    known = list(dict.fromkeys([*nodes, *aliases]))

    for name, entry in quant.nodes.items():
        first = next(
            s
            for s in (entry.qtype, *entry.inputs.values(), entry.on, *entry.activation.values(), Setting(None))
            if s is not None
        )
        where = place(first)
        node = name if name in nodes else aliases.get(name, "")
        if node not in nodes:
            problems.append(
                Problem(
                    "PTQ223",
                    where,
                    f"unknown node {shorten(name)}",
                    "a node of the optimized graph, or its name in the original model",
                    nearest_names(name, known) or "the names are in *_optimized_float_model.onnx",
                )
            )
            continue
        if entry.qtype and not asked_type_fits(entry.qtype.value, nodes[node]):
            only = listing(TWO_OPERAND_OPS) if entry.qtype.value == DUAL else "Softmax"
            problems.append(
                Problem(
                    "PTQ222",
                    place(entry.qtype),
                    f"{entry.qtype.value} for {shorten(name)}, a {nodes[node]}",
                    f"{entry.qtype.value} only for {only}",
                    "write int16",
                )
            )
        for index, setting in entry.inputs.items():
            count = n_inputs.get(node)
            if count is not None and index >= count:
                problems.append(
                    Problem(
                        "PTQ207",
                        place(setting),
                        f"input {index} of {shorten(name)}, which has {count} input{'s' if count != 1 else ''}",
                        listing(f"input{i}" for i in range(count)),
                        "inputs are counted from 0",
                    )
                )
            if not asked_type_fits(setting.value, nodes[node]):
                problems.append(
                    Problem(
                        "PTQ222",
                        place(setting),
                        f"{setting.value} for an input of {shorten(name)}, a {nodes[node]}",
                        f"{setting.value} only for Softmax",
                        "write int16",
                    )
                )

    types = {t.lower() for t in nodes.values()}
    for op_type in quant.ops:
        if op_type.lower() not in types:
            near = nearest_names(op_type, sorted(set(nodes.values())))
            findings.append(
                Finding(
                    "PTQ256",
                    f"op_config.{shorten(op_type)} matches no node: the optimized graph has no such operator type",
                    (),
                    near or "see the NodeType column of the node table",
                )
            )
    for name, subgraph in quant.subgraphs.items():
        for end in (*subgraph.inputs, *subgraph.outputs):
            if end not in nodes and end not in aliases and end not in tensors:
                problems.append(
                    Problem(
                        "PTQ223",
                        f"{subgraph.origin.place}  {subgraph.origin.path}".strip(),
                        f"unknown node {shorten(end)} of subgraph {shorten(name)}",
                        "a node of the optimized graph",
                        nearest_names(end, known) or "the names are in *_optimized_float_model.onnx",
                    )
                )
    by_node: dict[str, list[str]] = {}
    for name in quant.nodes:
        target = name if name in nodes else aliases.get(name)
        if target:
            by_node.setdefault(target, []).append(name)
    for target, names in by_node.items():
        if len(names) > 1:
            used = target if target in names else names[0]
            findings.append(
                Finding(
                    "PTQ253",
                    f"{len(names)} node_config entries mean the one node {target}: {listing(names)}; "
                    f"the entry {used} is used",
                    (target,),
                    "keep one of them",
                )
            )
    return problems, findings


def place(setting: Setting) -> str:
    """Place and key path of a setting."""
    return "  ".join(p for p in (setting.origin.place, setting.origin.path) if p) or "quant_config"

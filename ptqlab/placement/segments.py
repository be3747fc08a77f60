"""Numbering the BPU segments of a plan."""
from __future__ import annotations

from collections.abc import Collection

from ptqlab.graph import FloatGraph
from ptqlab.stages.schedule import levels


def number_segments(graph: FloatGraph, on_bpu: Collection[str]) -> dict[str, int]:
    """BPU node -> number of its segment, counted from 0 in order of execution."""
    level = levels(graph.nodes, lambda node: "BPU" if node.name in on_bpu else "CPU")
    here = {str(node.name): value for node, value in level.items() if node.name in on_bpu}
    number = {value: index for index, value in enumerate(sorted(set(here.values())))}
    return {name: number[value] for name, value in here.items()}

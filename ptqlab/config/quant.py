"""quant_config as typed values, and what it asks for a node: the finest level that says something wins, per tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ptqlab.config.document import Origin
from ptqlab.config.quant_fields import ACTIVATION, DUAL, INT32_OPS, TWO_OPERAND_OPS
from ptqlab.errors import Finding, Problem, nearest


@dataclass(frozen=True)
class Setting:
    """A value and its origin; the origin does not count for equality."""

    value: Any
    origin: Origin = field(default=Origin(), compare=False)


@dataclass(frozen=True)
class Entry:
    """What one entry of a level says; None or missing where it says nothing.

    qtype       type of the node
    inputs      type of input N
    activation  key of the activation block -> tuple of candidates (max_num_bin: one)
    on          "BPU" or "CPU"
    """

    qtype: Setting | None = None
    inputs: Mapping[int, Setting] = field(default_factory=dict)
    activation: Mapping[str, Setting] = field(default_factory=dict)
    on: Setting | None = None

    def over(self, lower: Entry) -> Entry:
        """This entry completed by what only `lower`, of the same level but older in form, says."""
        inputs = dict(self.inputs) if self.qtype else {**lower.inputs, **self.inputs}
        return Entry(self.qtype or lower.qtype, inputs, {**lower.activation, **self.activation}, self.on or lower.on)


@dataclass(frozen=True)
class Subgraph:
    """A subgraph_config entry: the nodes between `inputs` and `outputs`, and what it asks for them.

    inputs, outputs hold node or tensor names (our definition: both are accepted).
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    entry: Entry
    origin: Origin = field(default=Origin(), compare=False)


@dataclass(frozen=True)
class BiasCorrection:
    """bias_correction; `order`: "local" corrects every node for itself, "sequential" one after the other."""

    num_sample: int = 1
    metric: str = "cosine-similarity"
    order: str = "local"
    origin: Origin = field(default=Origin(), compare=False)


@dataclass(frozen=True)
class LayerSearch:
    """search.layer: raise the `topk` most sensitive nodes to `qtype`."""

    topk: int
    qtype: str
    metric: str = "cosine-similarity"
    origin: Origin = field(default=Origin(), compare=False)


@dataclass(frozen=True)
class ActivationConfig:
    """Candidates per key; calibration_type is empty where nothing was asked (ptqlab's default recipe)."""

    calibration_type: tuple[str, ...] = ()
    num_bin: tuple[int, ...] = (1024,)
    max_num_bin: int = 16384
    max_percentile: tuple[float, ...] = (1.0,)
    per_channel: tuple[bool, ...] = (False,)
    asymmetric: tuple[bool, ...] = (False,)
    equalization: tuple[bool, ...] = (False,)


@dataclass(frozen=True)
class NodeRequest:
    """What the configuration asks for one node.

    qtype     type of the node as asked ("int8" when nothing is said); both operands in int16 is "dual-int16"
    inputs    type per input; for Conv, ConvTranspose, MatMul, Gemm: int16 means int16 features and int8 weights
    on        "BPU", "CPU" or None
    origins   origin of "qtype", "input0".., "on" and of every activation key
    """

    qtype: str
    inputs: tuple[str, ...]
    activation: ActivationConfig
    on: str | None
    origins: Mapping[str, Origin]

    @property
    def origin(self) -> Origin:
        return self.origins["qtype"]


def spread(qtype: str, op_type: str, index: int) -> str:
    """Type of input `index` of a node that was asked for `qtype`."""
    if qtype == DUAL:
        return "int16"
    if qtype == "int16" and op_type in TWO_OPERAND_OPS and index == 1:
        return "int8"
    return qtype


@dataclass(frozen=True)
class QuantConfig:
    """Canonical form of a quant_config with everything that older keys of the YAML say of precision."""

    model: Entry = field(default_factory=Entry)
    model_output_type: Setting | None = None
    weight_method: Setting | None = None
    bias_correction: BiasCorrection | None = None
    modelwise_search: Setting | None = None
    layerwise_search: Setting | None = None
    layer_search: LayerSearch | None = None
    ops: Mapping[str, Entry] = field(default_factory=dict)
    subgraphs: Mapping[str, Subgraph] = field(default_factory=dict)
    nodes: Mapping[str, Entry] = field(default_factory=dict)
    findings: tuple[Finding, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, source: Mapping[str, Any] | str | Path | None, where: str = "") -> QuantConfig:
        """Read a mapping, the path of a JSON file or JSON text. Raises PtqError with every problem of it."""
        from ptqlab.config.quant_parsing import parse

        return parse(source, where)

    @property
    def search(self) -> str | None:
        """ "layerwise", "modelwise", or None where there is nothing to choose from.

        Layerwise wins when both are asked; modelwise is the default for several candidates (documented). For no
        calibration_type at all the vendor searches, too; here ptqlab's default recipe is used (`quantize.recipe`).
        """
        if self.layerwise_search:
            return "layerwise"
        several = any(len(s.value) > 1 for e in self.entries() for s in e.activation.values())
        return "modelwise" if self.modelwise_search or several else None

    def entries(self) -> list[Entry]:
        """The entries of all levels, coarse to fine."""
        return [self.model, *self.ops.values(), *(s.entry for s in self.subgraphs.values()), *self.nodes.values()]

    @property
    def search_metric(self) -> str:
        """Metric of the search in force."""
        chosen = self.layerwise_search or self.modelwise_search
        return str(chosen.value) if chosen else "cosine-similarity"

    @cached_property
    def ops_by_lower(self) -> dict[str, Entry]:
        return {name.lower(): entry for name, entry in self.ops.items()}

    def node_entry(self, name: str, aliases: Mapping[str, str] | None = None) -> Entry | None:
        """The node_config entry of a node of the optimized graph, by its own name or one of the user's file."""
        if name in self.nodes or not aliases:
            return self.nodes.get(name)
        cached: tuple[Mapping[str, str], dict[str, Entry]] | None = self.__dict__.get("_by_node")
        if cached is None or cached[0] is not aliases:
            by_node: dict[str, Entry] = {}
            for key, entry in self.nodes.items():
                by_node.setdefault(aliases.get(key, key), entry)
            cached = self.__dict__["_by_node"] = (aliases, by_node)
        return cached[1].get(name)

    def for_node(
        self,
        name: str,
        op_type: str,
        subgraphs: Sequence[str] = (),
        n_inputs: int = 1,
        aliases: Mapping[str, str] | None = None,
    ) -> NodeRequest:
        """What is asked for a node: model < op < subgraph < node, for each tensor and each key by itself.

        subgraphs   names of the subgraph_config entries that hold the node; of several the last in the file wins
        aliases     name in the user's file -> name in the optimized graph
        """
        layers = [self.model]
        if op_type.lower() in self.ops_by_lower:
            layers.append(self.ops_by_lower[op_type.lower()])
        layers += [s.entry for key, s in self.subgraphs.items() if key in subgraphs]
        own = self.node_entry(name, aliases)
        if own:
            layers.append(own)

        qtype = Setting("int8")
        inputs = [qtype] * n_inputs
        on: Setting | None = None
        activation: dict[str, Setting] = {}
        for entry in layers:
            if entry.qtype and asked_type_fits(entry.qtype.value, op_type):
                qtype = entry.qtype
                inputs = [replace(qtype, value=spread(qtype.value, op_type, i)) for i in range(n_inputs)]
            for index, setting in entry.inputs.items():
                if index < n_inputs:
                    inputs[index] = setting
            on = entry.on or on
            activation.update(entry.activation)
        origins = {"qtype": qtype.origin, **{f"input{i}": s.origin for i, s in enumerate(inputs)}}
        if on:
            origins["on"] = on.origin
        values: dict[str, Any] = {}
        for row in ACTIVATION:
            setting = activation.get(row.key, Setting(row.default))
            values[row.key] = setting.value if row.is_list else setting.value[0]
            origins[row.key] = setting.origin
        asked = tuple(s.value for s in inputs)
        both = op_type in TWO_OPERAND_OPS and asked[:2] == ("int16", "int16")
        return NodeRequest(
            DUAL if both else qtype.value, asked, ActivationConfig(**values), on.value if on else None, origins
        )

    def check_names(
        self,
        nodes: Mapping[str, str],
        aliases: Mapping[str, str] | None = None,
        tensors: Sequence[str] = (),
        n_inputs: Mapping[str, int] | None = None,
    ) -> tuple[list[Problem], list[Finding]]:
        """Compare every name with the optimized graph.

        nodes     name -> operator type;  aliases  name in the user's file -> name in the optimized graph
        tensors   names that a subgraph's inputs and outputs may also have
        n_inputs  node name -> number of inputs; where given, inputN beyond them is a problem

        Problems: unknown node names; a type that the node's operator cannot have. Findings: op_config entries that
        match no node; several entries for one node.
        """
        from ptqlab.config.quant_names import check_names

        return check_names(self, nodes, aliases or {}, tensors, n_inputs or {})

    def to_dict(self) -> dict[str, Any]:
        """The vendor's JSON structure, canonical: what is not said is left out, a list of one is the value."""
        from ptqlab.config.quant_writing import to_dict

        return to_dict(self)

    def export(self, nodes: Mapping[str, Mapping[str, Any]], op_types: Mapping[str, str]) -> dict[str, Any]:
        """The vendor's structure with the fewest rules for these requests.

        nodes     node name -> {"qtype": .., "inputs": {index: type} or sequence, "activation": {..}, "ON": ..}
        op_types  node name -> operator type
        """
        from ptqlab.config.quant_writing import export

        return export(self, nodes, op_types)


def asked_type_fits(qtype: str, op_type: str) -> bool:
    """False for a type of a coarse level that this operator cannot have (dual-int16 on an Add of a subgraph)."""
    if qtype == DUAL:
        return op_type in TWO_OPERAND_OPS
    return op_type in INT32_OPS if qtype == "int32" else True


def nearest_names(name: str, known: Sequence[str]) -> str:
    """`nearest: conv, conv2`, or an empty text."""
    near = nearest(name, known)
    return f"nearest names: {', '.join(near)}" if near else ""

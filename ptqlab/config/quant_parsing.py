"""quant_config text or mapping to `QuantConfig`: every alias understood, every problem told at once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from os.path import expanduser
from pathlib import Path
from typing import Any

import numpy as np

from ptqlab.config.document import (
    MAX_DEPTH,
    Document,
    KeyPath,
    Ledger,
    did_you_mean,
    in_file_order,
    listing,
    read_text,
    show,
)
from ptqlab.config.json_reader import read_json
from ptqlab.config.quant import BiasCorrection, Entry, LayerSearch, QuantConfig, Setting, Subgraph
from ptqlab.config.quant_fields import (
    ACTIVATION_BY_KEY,
    CLOSED_METHODS,
    CLOSED_QTYPES,
    CORRECTION_ORDERS,
    DEFAULT_METRIC,
    DEVICES,
    DUAL,
    ENTRY_KEYS,
    INT32_OPS,
    LEVEL_KEYS,
    METRICS,
    MODEL_KEYS,
    OUTPUT_TYPES,
    QTYPES,
    SUBGRAPH_KEYS,
    TOP_ALIASES,
    TWO_OPERAND_OPS,
    WEIGHT_METHODS,
    ActivationField,
)
from ptqlab.errors import Problem, PtqError, raise_if, shorten

TITLE = "quant_config cannot be used"
INPUT_KEY = re.compile(r"(?:input|InputType)(\d{1,3})")


def parse(source: Mapping[str, Any] | str | Path | None, where: str = "") -> QuantConfig:
    """`QuantConfig` of a mapping, a path or JSON text. Raises PtqError with all problems."""
    ledger = Ledger(open_quant(source, where))
    quant = read_quant(ledger)
    raise_if(in_file_order(ledger.problems), TITLE)
    return quant


def open_quant(source: Mapping[str, Any] | str | Path | None, where: str = "") -> Document:
    """`Document` of any form of a quant_config. Raises PtqError where it cannot be read at all."""
    if source is None:
        return Document({}, where)
    if isinstance(source, Mapping):
        return Document(plain(source), where)
    if isinstance(source, str) and source.lstrip()[:1] in ("{", "["):
        return read_json(source, where or "quant_config")
    if isinstance(source, str | Path):
        path = Path(expanduser(source))
        return read_json(read_text(path, "quant_config", where), path.name, path.parent)
    raise PtqError(
        Problem("PTQ203", where or "quant_config", show(source), "a mapping, the path of a JSON file or JSON text"),
        TITLE,
    )


def plain(value: Any, depth: int = 0) -> Any:
    """Python values as the readers give them: dicts with text keys, lists, plain values. Raises for a cycle."""
    if depth > MAX_DEPTH:
        raise PtqError(
            Problem("PTQ206", "configuration", f"values nested more than {MAX_DEPTH} deep", "plain values"), TITLE
        )
    if isinstance(value, Mapping):
        return {str(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, depth + 1) for v in value]
    if isinstance(value, Path):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def read_quant(ledger: Ledger, base: KeyPath = ()) -> QuantConfig:
    """Read the structure at `base` of the ledger's document; problems and findings go to the ledger."""
    data = ledger.document.data
    for part in base:
        data = data[part]
    if data is None:
        data = {}
    reader = _Reader(ledger, base)
    if not isinstance(data, dict):
        ledger.refuse("PTQ203", base, show(data), f"a mapping with the keys {listing(LEVEL_KEYS)}")
        return QuantConfig()
    return reader.read(data)


class _Reader:
    def __init__(self, ledger: Ledger, base: KeyPath) -> None:
        self.ledger, self.base = ledger, base

    # ------------------------------------------------------------------ structure
    def read(self, data: dict[str, Any]) -> QuantConfig:
        known = (*LEVEL_KEYS, *TOP_ALIASES)
        for key in data:
            if key in MODEL_KEYS and key not in known:
                self.ledger.refuse(
                    "PTQ204",
                    (*self.base, key),
                    f"the key {key} at the top level",
                    listing(LEVEL_KEYS),
                    f'write it inside model_config: {{"model_config": {{"{key}": ...}}}}',
                )
            elif key not in known:
                self.ledger.refuse(
                    "PTQ204",
                    (*self.base, key),
                    f"unknown top-level key {shorten(key)}",
                    listing(LEVEL_KEYS),
                    did_you_mean(key, known, "remove it"),
                )
        model = self.model_block(data)
        return QuantConfig(
            **model,
            ops=self.entries(data, "op_config", ENTRY_KEYS),
            subgraphs=self.subgraphs(data),
            nodes=self.entries(data, "node_config", ENTRY_KEYS),
            findings=tuple(self.ledger.findings),
        )

    def mapping(self, value: Any, path: KeyPath, what: str) -> dict[str, Any]:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.ledger.refuse("PTQ203", path, show(value), f"a mapping: {what}")
        return {}

    def model_block(self, data: dict[str, Any]) -> dict[str, Any]:
        """model_config with the older placements brought inside: top-level blocks, one level under a free name."""
        where: dict[str, KeyPath] = {}
        values: dict[str, Any] = {}

        def take(key: str, value: Any, path: KeyPath) -> None:
            if key in values:
                self.ledger.refuse(
                    "PTQ210",
                    path,
                    f"{key} stands here and at {self.ledger.document.where(where[key])}",
                    "each setting once",
                    "keep the one inside model_config",
                )
                return
            values[key], where[key] = value, path

        path = (*self.base, "model_config")
        free: str | None = None
        for key, value in self.mapping(data.get("model_config"), path, listing(MODEL_KEYS)).items():
            here = (*path, key)
            if key in MODEL_KEYS:
                take(key, value, here)
            elif isinstance(value, dict) and any(k in MODEL_KEYS for k in value) and free is None:
                free = key
                self.ledger.unknown_keys(here, value, MODEL_KEYS)
                for inner, inner_value in value.items():
                    if inner in MODEL_KEYS:
                        take(inner, inner_value, (*here, inner))
            else:
                self.ledger.unknown_keys(path, [key], MODEL_KEYS)
        for key in TOP_ALIASES:
            if key in data:
                take(key, data[key], (*self.base, key))

        def at(key: str) -> KeyPath:
            return where.get(key, (*path, key))

        if values.get("modelwise_search") is not None and values.get("layerwise_search") is not None:
            self.ledger.note("PTQ253", at("modelwise_search"), "layerwise_search is given too and wins")
        activation = self.activation(values.get("activation"), at("activation"), "model")
        qtype = (
            self.qtype(values["all_node_type"], at("all_node_type"), "model")
            if values.get("all_node_type") is not None
            else None
        )
        weight_method, bias_correction = self.weight(values.get("weight"), at("weight"))
        output_type = None
        if values.get("model_output_type") is not None:
            word = self.choice(values["model_output_type"], at("model_output_type"), OUTPUT_TYPES)
            output_type = Setting(word, self.ledger.origin("model", at("model_output_type"))) if word else None
        return {
            "model": Entry(qtype=qtype, activation=activation),
            "model_output_type": output_type,
            "weight_method": weight_method,
            "bias_correction": bias_correction,
            "modelwise_search": self.search("modelwise_search", values, at),
            "layerwise_search": self.search("layerwise_search", values, at),
            "layer_search": self.layer_search(values.get("search"), at("search")),
        }

    def entries(self, data: dict[str, Any], level_key: str, allowed: tuple[str, ...]) -> dict[str, Entry]:
        path = (*self.base, level_key)
        what = "operator type -> settings" if level_key == "op_config" else "node name -> settings"
        out: dict[str, Entry] = {}
        spelled: dict[str, str] = {}
        for name, value in self.mapping(data.get(level_key), path, what).items():
            here = (*path, name)
            entry = self.entry(value, here, LEVEL_KEYS[level_key], name, allowed)
            if level_key == "op_config":
                if name.lower() in spelled:
                    self.ledger.refuse(
                        "PTQ205",
                        here,
                        f"the operator type {name} stands here again, before as {spelled[name.lower()]}",
                        "each operator type once (case does not count)",
                        "keep one of the two",
                    )
                spelled[name.lower()] = name
            out[name] = entry
        return out

    def subgraphs(self, data: dict[str, Any]) -> dict[str, Subgraph]:
        path = (*self.base, "subgraph_config")
        out: dict[str, Subgraph] = {}
        for name, value in self.mapping(
            data.get("subgraph_config"), path, "free name -> inputs, outputs, settings"
        ).items():
            here = (*path, name)
            block = self.mapping(value, here, listing(SUBGRAPH_KEYS))
            ends = {}
            for key in ("inputs", "outputs"):
                names = block.get(key)
                good = isinstance(names, list) and names and all(isinstance(n, str) and n for n in names)
                if not good and (value is None or isinstance(value, dict)):
                    found = show(names) if key in block else f"no {key}"
                    self.ledger.refuse(
                        "PTQ209" if key not in block else "PTQ203",
                        (*here, key),
                        found,
                        "a list of node names, at least one",
                        'write e.g. "inputs": ["first_node"], "outputs": ["last_node"]',
                    )
                ends[key] = tuple(names) if good and isinstance(names, list) else ()
            rest = {k: v for k, v in block.items() if k not in ("inputs", "outputs")}
            entry = self.entry(rest, here, "subgraph", name, SUBGRAPH_KEYS)
            out[name] = Subgraph(name, ends["inputs"], ends["outputs"], entry, self.ledger.origin("subgraph", here))
        return out

    # ------------------------------------------------------------------ one entry
    def entry(self, value: Any, path: KeyPath, level: str, name: str, allowed: tuple[str, ...]) -> Entry:
        if isinstance(value, str):
            self.ledger.refuse("PTQ203", path, show(value), "a mapping", f'write {{"qtype": "{shorten(value, 20)}"}}')
            return Entry()
        qtype: Setting | None = None
        inputs: dict[int, Setting] = {}
        activation: dict[str, Setting] = {}
        on: Setting | None = None
        op_type = name if level == "op" else None
        seen: dict[int, str] = {}
        block = self.mapping(value, path, listing(allowed))
        for key, item in block.items():
            here = (*path, key)
            match = INPUT_KEY.fullmatch(key)
            if key == "qtype":
                qtype = self.qtype(item, here, level, op_type) or qtype
            elif match:
                index = int(match.group(1))
                if index in seen:
                    self.ledger.refuse(
                        "PTQ210",
                        here,
                        f"{key} beside {seen[index]}",
                        f"one of the two: both mean input {index}",
                        "keep one",
                    )
                seen[index] = key
                asked = self.qtype(item, here, level, op_type, one_input=True)
                if asked:
                    inputs[index] = asked
            elif key == "activation":
                activation = self.activation(item, here, level)
            elif key == "ON":
                device = item.upper() if isinstance(item, str) else item
                if device in DEVICES:
                    on = Setting(device, self.ledger.origin(level, here))
                elif isinstance(item, str) and (item in QTYPES or item in CLOSED_QTYPES or item in (DUAL, "int32")):
                    self.ledger.warn(
                        "PTQ251",
                        here,
                        f'"ON": "{item}" is read as "qtype": "{item}"',
                        "write qtype; ON takes BPU or CPU",
                    )
                    if "qtype" in block:
                        self.ledger.refuse(
                            "PTQ210", here, f'"ON": "{item}" beside qtype', "one of the two", "remove ON"
                        )
                    else:
                        qtype = self.qtype(item, here, level, op_type)
                else:
                    self.ledger.refuse("PTQ202", here, show(item), "BPU or CPU", "the type of a node is its qtype")
            else:
                hint = (
                    "write input0, input1, ... for one input, qtype for all"
                    if key.lower().startswith(("input", "output"))
                    else "remove it"
                )
                self.ledger.refuse(
                    "PTQ204", here, f"unknown key {shorten(key)}", listing(allowed), did_you_mean(key, allowed, hint)
                )
        return Entry(qtype, inputs, activation, on)

    def qtype(
        self, value: Any, path: KeyPath, level: str, op_type: str | None = None, one_input: bool = False
    ) -> Setting | None:
        """A type; `op_type` is known at the op level only, elsewhere `check_names` looks once the graph is known."""
        allowed = listing(QTYPES if one_input or level == "model" else (*QTYPES, DUAL))
        subject = f" for {shorten(path[-2], 60)}" if level in ("op", "node") else ""
        if not isinstance(value, str):
            self.ledger.refuse("PTQ203", path, show(value), allowed)
            return None
        if value in CLOSED_QTYPES:
            self.ledger.refuse(
                "PTQ221",
                path,
                f"{value}{subject}: {CLOSED_QTYPES[value]}",
                allowed,
                "use int16, or float16 / float32 where the platform has it",
            )
            return None
        if value == DUAL:
            if one_input:
                self.ledger.refuse(
                    "PTQ222", path, f"{DUAL} for one input", allowed, f"write int16 here, or qtype: {DUAL} for the node"
                )
                return None
            if level == "model":
                self.ledger.refuse(
                    "PTQ222",
                    path,
                    f"{DUAL} for every node",
                    allowed,
                    f"write all_node_type: int16, and {DUAL} in op_config for each of {listing(TWO_OPERAND_OPS)}",
                )
                return None
            if op_type is not None and not _among(op_type, TWO_OPERAND_OPS):
                self.ledger.refuse(
                    "PTQ222",
                    path,
                    f"{DUAL} for {shorten(op_type, 60)}",
                    f"{DUAL} only for {listing(TWO_OPERAND_OPS)}",
                    "write int16",
                )
                return None
        elif value == "int32":
            if level == "model" or (op_type is not None and not _among(op_type, INT32_OPS)):
                self.ledger.refuse(
                    "PTQ222",
                    path,
                    f"int32{subject}",
                    allowed,
                    "int32 arises by itself (tail Conv, integer inputs, ArgMax with Cast); only Softmax takes it",
                )
                return None
        elif value not in QTYPES:
            self.ledger.refuse(
                "PTQ221", path, f'"{shorten(value)}"{subject}', allowed, did_you_mean(value, (*QTYPES, DUAL), "")
            )
            return None
        return Setting(value, self.ledger.origin(level, path))

    def choice(self, value: Any, path: KeyPath, allowed: tuple[str, ...]) -> str | None:
        if value in allowed and isinstance(value, str):
            return value
        self.ledger.refuse(
            "PTQ202" if isinstance(value, str) else "PTQ203",
            path,
            show(value),
            listing(allowed),
            did_you_mean(value, allowed) if isinstance(value, str) else "",
        )
        return None

    # ------------------------------------------------------------------ activation, weight, searches
    def activation(self, value: Any, path: KeyPath, level: str) -> dict[str, Setting]:
        out: dict[str, Setting] = {}
        for key, item in self.mapping(value, path, listing(ACTIVATION_BY_KEY)).items():
            here = (*path, key)
            row = ACTIVATION_BY_KEY.get(key)
            if row is None:
                self.ledger.unknown_keys(path, [key], ACTIVATION_BY_KEY)
                continue
            if item is None:
                continue
            if isinstance(item, list) and not row.is_list:
                self.ledger.refuse("PTQ203", here, show(item), row.expected)
                continue
            if isinstance(item, list) and not item:
                self.ledger.refuse(
                    "PTQ203", here, "an empty list", row.expected, "remove the key, or name at least one"
                )
                continue
            many = isinstance(item, list)
            good = [
                self.candidate(row, v, (*here, i) if many else here) for i, v in enumerate(item if many else [item])
            ]
            if None in good:
                continue
            unique = tuple(dict.fromkeys(good))
            if len(unique) < len(good):
                self.ledger.warn("PTQ253", here, "the same value stands twice in the list; it is tried once")
            out[key] = Setting(unique, self.ledger.origin(level, here))
        return out

    def candidate(self, row: ActivationField, value: Any, path: KeyPath) -> Any:
        """One value of an activation key, or None after a refusal."""
        if row.kind == "choice":
            if isinstance(value, str) and value in CLOSED_METHODS:
                self.ledger.refuse("PTQ202", path, show(value), row.expected, CLOSED_METHODS[value])
                return None
            if isinstance(value, str) and value in row.allowed:
                return value
            code, hint = ("PTQ202", did_you_mean(value, row.allowed)) if isinstance(value, str) else ("PTQ203", "")
            self.ledger.refuse(code, path, show(value), row.expected, hint)
            return None
        if row.kind == "bool":
            if isinstance(value, bool):
                return value
            self.ledger.refuse("PTQ203", path, show(value), row.expected, "write it without quotes")
            return None
        number = isinstance(value, int if row.kind == "int" else int | float) and not isinstance(value, bool)
        if not number:
            self.ledger.refuse("PTQ203", path, show(value), row.expected)
            return None
        low, high = row.low or 0, row.high or math.inf
        if not low <= value <= high:
            self.ledger.refuse("PTQ207", path, show(value), row.expected)
            return None
        return float(value) if row.kind == "float" else int(value)

    def metric(self, block: dict[str, Any], path: KeyPath) -> str:
        value = block.get("metric")
        return DEFAULT_METRIC if value is None else self.choice(value, (*path, "metric"), METRICS) or DEFAULT_METRIC

    def whole(self, value: Any, path: KeyPath, least: int) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        kind = isinstance(value, int) and not isinstance(value, bool)
        self.ledger.refuse("PTQ207" if kind else "PTQ203", path, show(value), f"a whole number of at least {least}")
        return least

    def weight(self, value: Any, path: KeyPath) -> tuple[Setting | None, BiasCorrection | None]:
        block = self.mapping(value, path, "calibration_type, bias_correction")
        self.ledger.unknown_keys(path, block, ("calibration_type", "bias_correction"))
        method = None
        if block.get("calibration_type") is not None:
            word = self.choice(block["calibration_type"], (*path, "calibration_type"), WEIGHT_METHODS)
            method = Setting(word, self.ledger.origin("model", (*path, "calibration_type"))) if word else None
        return method, self.correction(block.get("bias_correction"), path)

    def correction(self, inner: Any, path: KeyPath) -> BiasCorrection | None:
        if inner is None:
            return None
        here = (*path, "bias_correction")
        settings = self.mapping(inner, here, "num_sample, metric, order")
        self.ledger.unknown_keys(here, settings, ("num_sample", "metric", "order"))
        samples = settings.get("num_sample")
        count = 1 if samples is None else self.whole(samples, (*here, "num_sample"), 1)
        order = settings.get("order")
        word = None if order is None else self.choice(order, (*here, "order"), CORRECTION_ORDERS)
        return BiasCorrection(count, self.metric(settings, here), word or "local", self.ledger.origin("model", here))

    def search(self, key: str, values: dict[str, Any], at: Any) -> Setting | None:
        if values.get(key) is None:
            return None
        path = at(key)
        block = self.mapping(values[key], path, "metric")
        self.ledger.unknown_keys(path, block, ("metric",))
        return Setting(self.metric(block, path), self.ledger.origin("model", path))

    def layer_search(self, value: Any, path: KeyPath) -> LayerSearch | None:
        block = self.mapping(value, path, "layer")
        self.ledger.unknown_keys(path, block, ("layer",))
        if block.get("layer") is None:
            return None
        here = (*path, "layer")
        inner = self.mapping(block["layer"], here, "topk, qtype, metric")
        self.ledger.unknown_keys(here, inner, ("topk", "qtype", "metric"))
        for key in ("topk", "qtype"):
            if inner.get(key) is None:
                self.ledger.refuse(
                    "PTQ209", here, f"no {key}", "topk, qtype, metric", 'write e.g. {"topk": 16, "qtype": "int16"}'
                )
        topk = self.whole(inner["topk"], (*here, "topk"), 1) if inner.get("topk") is not None else 1
        qtype = self.choice(inner["qtype"], (*here, "qtype"), QTYPES) if inner.get("qtype") is not None else None
        return LayerSearch(topk, qtype or "int16", self.metric(inner, here), self.ledger.origin("model", here))


def _among(op_type: str, allowed: tuple[str, ...]) -> bool:
    return op_type.lower() in {a.lower() for a in allowed}

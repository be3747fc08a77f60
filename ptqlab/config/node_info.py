"""Older keys of the YAML that speak of precision, brought into the one `QuantConfig`.

node_info, run_on_cpu and run_on_bpu become node entries; calibration_type, max_percentile and per_channel the model's
activation settings; optimization the model's output type. What quant_config says wins over all of them, node_info wins
over run_on_cpu and run_on_bpu.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ptqlab.config.document import KeyPath, Ledger, did_you_mean, listing, show
from ptqlab.config.fields import MODEL_OUTPUT_INT8, MODEL_OUTPUT_INT16
from ptqlab.config.kinds import split_names
from ptqlab.config.quant import Entry, QuantConfig, Setting
from ptqlab.config.quant_fields import DEVICES, METHODS, NODE_INFO_KEYS, QTYPES

GROUP = "calibration_parameters"
OUTPUT_TYPES = {MODEL_OUTPUT_INT8: "int8", MODEL_OUTPUT_INT16: "int16"}


def read_node_settings(ledger: Ledger, values: dict[str, dict[str, Any]], quant: QuantConfig) -> QuantConfig:
    """`quant` completed by the older keys; problems of theirs go to the ledger."""
    given = values[GROUP]

    nodes: dict[str, Entry] = {}
    for key, device in (("run_on_cpu", "CPU"), ("run_on_bpu", "BPU")):
        for name in given.get(key, ()):
            if name in nodes:
                if key == "run_on_bpu" and name in given.get("run_on_cpu", ()):
                    ledger.refuse(
                        "PTQ210",
                        (GROUP, key),
                        f"{show(name)} also stands in run_on_cpu",
                        "each node in one of the two lists",
                        "remove it from one",
                    )
                continue
            nodes[name] = Entry(on=Setting(device, ledger.origin("node", (GROUP, key))))
    path = ("model_parameters", "node_info")
    for name, entry in read_node_info(ledger, values["model_parameters"].get("node_info"), path).items():
        nodes[name] = entry.over(nodes.get(name, Entry()))
    merged = {**nodes, **{name: entry.over(nodes.get(name, Entry())) for name, entry in quant.nodes.items()}}

    activation: dict[str, Setting] = {}
    if given.get("calibration_type") in METHODS:
        activation["calibration_type"] = Setting(
            (given["calibration_type"],), ledger.origin("model", (GROUP, "calibration_type"))
        )
    for key in ("max_percentile", "per_channel"):
        if key in given:
            activation[key] = Setting((given[key],), ledger.origin("model", (GROUP, key)))
    for key, setting in activation.items():
        own = quant.model.activation.get(key)
        if own and own.value != setting.value:
            ledger.warn(
                "PTQ253",
                (GROUP, key),
                f"{key} is overruled by quant_config ({own.origin.path})",
                "remove one of the two",
            )
    output = quant.model_output_type
    word = OUTPUT_TYPES.get(given.get("optimization", ""))
    if word and output and output.value != word:
        ledger.warn(
            "PTQ253",
            (GROUP, "optimization"),
            f"optimization is overruled by quant_config (model_output_type: {output.value})",
            "remove one of the two",
        )
    if word and not output:
        output = Setting(word, ledger.origin("model", (GROUP, "optimization")))
    model = replace(quant.model, activation={**activation, **quant.model.activation})
    return replace(quant, model=model, nodes=merged, model_output_type=output)


def read_node_info(ledger: Ledger, value: Any, path: KeyPath) -> dict[str, Entry]:
    """node_info as text (`Conv_0:int16;Conv_1:int16`) or mapping. OutputType is read as the node's qtype."""
    out: dict[str, Entry] = {}
    form = 'write "node:int16" per node, separated by ";"'
    if value is None or value == "":
        return out
    if isinstance(value, str):
        for part in split_names(value):
            name, colon, word = part.rpartition(":")  # a node's name may hold colons, a type does not
            if not colon or not name.strip() or not word.strip():
                ledger.refuse("PTQ212", path, show(part), "node:type", form)
                continue
            setting = node_type(ledger, word.strip(), path, name.strip())
            if name.strip() in out:
                ledger.refuse(
                    "PTQ205",
                    path,
                    f"the node {name.strip()} stands here again",
                    "each node once",
                    "keep one of the two",
                )
            elif setting:
                out[name.strip()] = Entry(qtype=setting)
        return out
    if not isinstance(value, dict):
        ledger.refuse("PTQ203", path, show(value), "text or a mapping of nodes", form)
        return out
    for name, block in value.items():
        here = (*path, name)
        if not isinstance(block, dict):
            ledger.refuse("PTQ203", here, show(block), f"a mapping with {listing(NODE_INFO_KEYS)}")
            continue
        out[name] = node_info_entry(ledger, block, here)
    return out


def node_info_entry(ledger: Ledger, block: dict[str, Any], path: KeyPath) -> Entry:
    qtype: Setting | None = None
    all_inputs: Setting | None = None
    inputs: dict[int, Setting] = {}
    on: Setting | None = None
    for key, value in block.items():
        here = (*path, key)
        if key == "ON":
            if isinstance(value, str) and value.upper() in DEVICES:
                on = Setting(value.upper(), ledger.origin("node", here))
            else:
                ledger.refuse("PTQ202" if isinstance(value, str) else "PTQ203", here, show(value), "BPU or CPU")
        elif key == "OutputType":
            qtype = node_type(ledger, value, here)
        elif key == "InputType":
            all_inputs = node_type(ledger, value, here)
        elif key.startswith("InputType") and key[9:].isdecimal() and len(key) <= 12:
            setting = node_type(ledger, value, here)
            if setting:
                inputs[int(key[9:])] = setting
        elif key.startswith("OutputType"):
            ledger.refuse(
                "PTQ204",
                here,
                f"{key} is not supported",
                listing(NODE_INFO_KEYS),
                "write OutputType: it holds for all outputs",
            )
        else:
            ledger.refuse(
                "PTQ204",
                here,
                f"unknown key {key}",
                listing(NODE_INFO_KEYS),
                did_you_mean(key, NODE_INFO_KEYS, "remove it"),
            )
    if all_inputs and not qtype:
        return Entry(all_inputs, inputs, {}, on)
    if (
        all_inputs
    ):  # two types: the output's is the node's, the inputs' stands at each input (three at most: Where, Conv)
        inputs = {**dict.fromkeys(range(3), all_inputs), **inputs}
    return Entry(qtype, inputs, {}, on)


def node_type(ledger: Ledger, value: Any, path: KeyPath, node: str = "") -> Setting | None:
    if isinstance(value, str) and value in QTYPES:
        return Setting(value, ledger.origin("node", path))
    ledger.refuse(
        "PTQ221" if isinstance(value, str) else "PTQ203",
        path,
        show(value) + (f" for {node}" if node else ""),
        listing(QTYPES),
        did_you_mean(value, QTYPES) if isinstance(value, str) else "",
    )
    return None

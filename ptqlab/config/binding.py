"""Second step of a configuration: the checks that need the model's inputs, and the gaps filled from them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptqlab.config.document import Document, Ledger, did_you_mean, listing
from ptqlab.config.image_types import INPUT_SOURCES, default_source
from ptqlab.config.input_checks import check_image
from ptqlab.config.values import Config, InputParameters
from ptqlab.errors import raise_if, shorten

GROUP = "input_parameters"
Dims = Sequence[int | str | None]
TITLE = "the configuration does not fit the model"


def bind(cfg: Config, graph_inputs: Mapping[str, tuple[Dims, str]], *, batchable: bool | None = None) -> Config:
    """`cfg` with one entry per model input, names and shapes filled in, calibration data under the inputs' names.

    graph_inputs  name -> (dims, dtype word); a dim that is no int is dynamic
    batchable     False: the model was tried with a batch and cannot run one

    Raises PtqError with every mismatch. Findings of this step are appended to those of the configuration.
    """
    ledger = Ledger(Document({}, cfg.source.name if cfg.source else ""))
    inputs = match_inputs(ledger, cfg, graph_inputs)
    inputs = [with_shape(ledger, cfg, entry, *graph_inputs[entry.name]) for entry in inputs]
    check_batch(ledger, cfg, inputs, batchable)
    names = [e.name for e in inputs] if inputs else list(graph_inputs)
    inputs = check_sources(ledger, cfg, inputs, names)
    calibration = cfg.calibration
    if not ledger.problems:
        data = by_name(ledger, dict(calibration.data or {}), names)
        folders = by_name(ledger, dict(calibration.folders), names, say=False)
        raw = by_name(ledger, dict(calibration.raw_types), names, say=False)
        calibration = replace(calibration, data=data or None, folders=folders, raw_types=raw)  # type: ignore[arg-type]
    raise_if(ledger.problems, TITLE)
    return replace(cfg, inputs=tuple(inputs), types_given=True, calibration=calibration, findings=(*cfg.findings, *ledger.findings))


def match_inputs(ledger: Ledger, cfg: Config, graph: Mapping[str, tuple[Dims, str]]) -> list[InputParameters]:
    """The configured entries under the model's names; where no types were given, a featuremap for every other input."""
    names = list(graph)
    entries = list(cfg.inputs)
    if len(entries) == 1 and not entries[0].name:
        if len(names) == 1:
            return [replace(entries[0], name=names[0])]
        ledger.refuse("PTQ209", (GROUP, "input_name"), f"no input_name, and the model has {len(names)} inputs", listing(names),
                      f'write input_name: "{shorten(";".join(names), 100)}" and one entry per input in every other list')
        return []
    for entry in entries:
        if entry.name not in graph:
            ledger.refuse("PTQ213", (GROUP, "input_name"), f"unknown input {shorten(entry.name)}", listing(names), did_you_mean(entry.name, names, "names are those of the model's inputs"))
    known = [e for e in entries if e.name in graph]
    missing = [n for n in names if n not in {e.name for e in entries}]
    if not cfg.types_given:
        return known + [InputParameters(n, separate=cfg.separate_batch or n in cfg.separate_name) for n in missing]
    if missing and len(known) == len(entries):
        ledger.refuse("PTQ208", (GROUP, "input_name"), f"{len(entries)} of the model's {len(names)} inputs; missing: {listing(missing)}", listing(names), "list every input, and one entry for each in every other list")
    return known


def with_shape(ledger: Ledger, cfg: Config, entry: InputParameters, dims: Dims, dtype: str) -> InputParameters:
    """The entry with its shape settled, checked against the model and its type."""
    path = (GROUP, "input_shape")
    text = "[" + ",".join(str(d) if d is not None else "?" for d in dims) + "]"
    label = f"input {entry.name}"
    shape = entry.shape
    if shape is None:
        if not all(isinstance(d, int) and d > 0 for d in dims):
            ledger.refuse("PTQ214", path, f"{label} is dynamic: {text}", "input_shape for a dynamic model", f"write e.g. input_shape: {'x'.join(str(d) if isinstance(d, int) and d > 0 else '1' if i == 0 else 'N' for i, d in enumerate(dims))} with numbers")
            return entry
        shape = tuple(d for d in dims if isinstance(d, int))
        check_image(ledger, path, label, entry.type_train, entry.type_rt, entry.layout_train, shape)
    elif len(shape) != len(dims) or any(isinstance(d, int) and d > 0 and d != s for d, s in zip(dims, shape, strict=True)):
        ledger.refuse("PTQ214", path, f"{'x'.join(map(str, shape))} for {label}, which is {text} in the model", f"a shape that fits {text}", "only dynamic dimensions can be chosen")
    if entry.is_image and dtype not in ("float32", "float16", "float64", "bfloat16"):
        ledger.refuse("PTQ215", (GROUP, "input_type_train"), f"{entry.type_train} for {label}, which is {dtype}", "image types for float inputs", "write featuremap: the input is fed as it is")
    return replace(entry, shape=shape)


def check_batch(ledger: Ledger, cfg: Config, inputs: Sequence[InputParameters], batchable: bool | None) -> None:
    if cfg.input_batch is not None:
        for entry in inputs:
            if entry.shape and entry.shape[0] != 1 and not (cfg.input_shapes and entry.name in cfg.input_shapes):
                ledger.refuse("PTQ217", (GROUP, "input_batch"), f"input_batch, and input {entry.name} is {'x'.join(map(str, entry.shape))}", "every first dimension is 1", "leave input_batch out: the batch is in the model already")
        if batchable is False:
            ledger.refuse("PTQ217", (GROUP, "input_batch"), f"input_batch {cfg.input_batch}, and the model cannot run a batch", "a model whose first dimension can grow", "export the model with a dynamic batch, or leave input_batch out")
    names = [e.name for e in inputs]
    for name in cfg.separate_name:
        if name not in names and inputs and not cfg.inputs:
            ledger.refuse("PTQ213", (GROUP, "separate_name"), f"unknown input {shorten(name)}", listing(names), did_you_mean(name, names))
    for entry in inputs:
        if entry.separate and entry.shape and entry.shape[0] * (cfg.input_batch or 1) == 1:
            ledger.warn("PTQ253", (GROUP, "separate_name" if cfg.separate_name else "separate_batch"), f"input {entry.name} has a batch of 1: there is nothing to split", "set input_batch, or remove the key")


def check_sources(ledger: Ledger, cfg: Config, inputs: Sequence[InputParameters], names: Sequence[str]) -> list[InputParameters]:
    """input_source by the model's names."""
    given = cfg.compiler.input_source
    path = ("compiler_parameters", "input_source")
    configured = {e.name for e in cfg.inputs}
    for name in given:
        if name not in names and not (configured - {""}):
            ledger.refuse("PTQ213", (*path, name), f"unknown input {shorten(name)}", listing(names), did_you_mean(name, names))
    out = []
    for entry in inputs:
        source = given.get(entry.name, default_source(entry.type_rt))
        if entry.type_rt not in INPUT_SOURCES[source] and entry.name not in configured:
            ledger.refuse("PTQ216", (*path, entry.name), f"{source} for input {entry.name} of type {entry.type_rt}", listing(s for s, t in INPUT_SOURCES.items() if entry.type_rt in t), f"{source} takes {listing(INPUT_SOURCES[source])}")
        out.append(replace(entry, source=source))
    return out


def by_name(ledger: Ledger, values: dict[str, object], names: Sequence[str], say: bool = True) -> dict[str, object]:
    """Values keyed by "" or by names, keyed by the model's names; refused where that cannot be done."""
    path = ("calibration_parameters", "cal_data_dir")
    if not values:
        return {}
    if list(values) == [""]:
        value = values[""]
        if len(names) == 1:
            inner = value / names[0] if isinstance(value, Path) else None
            if isinstance(inner, Path) and inner.is_dir() and not any(Path(str(value)).glob("*.npy")):
                return {names[0]: inner}
            return {names[0]: value}
        if isinstance(value, Path) and all((value / n).is_dir() for n in names):
            return {n: value / n for n in names}
        if say:
            found = f"one folder {shorten(value)}" if isinstance(value, Path) else "one list of samples" if isinstance(value, list) and all(isinstance(v, np.ndarray) for v in value) else "one value"
            ledger.refuse("PTQ308", path, f"{found} for {len(names)} inputs ({listing(names)})", "data for each input by name", "give {input: folder or arrays}, or one folder that holds a folder of each input's name")
        return {}
    if say:
        for name in values:
            if name not in names:
                ledger.refuse("PTQ308", path, f"data for {shorten(name)}, which is no input", listing(names), did_you_mean(name, names))
        for name in names:
            if name not in values:
                ledger.refuse("PTQ308", path, f"no data for input {name}", f"data for each of {listing(names)}", "data is bound by name")
    return {n: values[n] for n in names if n in values}

"""Second step of a configuration: the checks that need the model's inputs, and the gaps filled from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ptqlab.config.data_binding import bind_sources
from ptqlab.config.document import Document, KeyPath, Ledger, did_you_mean, in_file_order, listing
from ptqlab.config.image_types import default_source
from ptqlab.config.input_checks import check_image, check_source
from ptqlab.config.kinds import joined_names
from ptqlab.config.values import Config, InputParameters
from ptqlab.errors import raise_if, shorten

GROUP = "input_parameters"
Dims = Sequence[int | str | None]
TITLE = "the configuration does not fit the model"
DATA = ("calibration_parameters", "cal_data_dir")


def bind(cfg: Config, graph_inputs: Mapping[str, tuple[Dims, str]], *, batchable: bool | None = None) -> Config:
    """`cfg` with one entry per model input, names and shapes filled in, calibration data under the inputs' names.

    graph_inputs  name -> (dims, dtype word); a dim that is no int is dynamic
    batchable     False: the model was tried with a batch and cannot run one

    Raises PtqError with every mismatch. Findings of this step are appended to those of the configuration.
    """
    source = cfg.source.name if cfg.source else "configuration" if cfg.lines else ""
    ledger = Ledger(Document({}, source, cfg.lines))
    names = list(graph_inputs)
    check_names(ledger, cfg, names)
    inputs = [with_shape(ledger, e, *graph_inputs[e.name]) for e in match_inputs(ledger, cfg, names)]
    inputs = [with_source(ledger, cfg, e) for e in inputs]
    check_batch(ledger, cfg, inputs, batchable)
    calibration = cfg.calibration
    if not ledger.problems:
        order = [e.name for e in inputs]
        data, problems = bind_sources(dict(calibration.data or {}), order, ledger.document.where(DATA))
        ledger.problems += problems
        folders = {n: v for n, v in data.items() if isinstance(v, Path)}
        raw = {(order[0] if n == "" else n): dtype for n, dtype in calibration.raw_types.items()}
        calibration = replace(calibration, data=data or None, folders=folders, raw_types=raw)
    raise_if(in_file_order(ledger.problems), TITLE)
    return replace(
        cfg,
        inputs=tuple(inputs),
        types_given=True,
        calibration=calibration,
        findings=(*cfg.findings, *ledger.findings),
    )


def check_names(ledger: Ledger, cfg: Config, names: Sequence[str]) -> None:
    """Every input that a key names is one of the model's."""
    given: list[tuple[KeyPath, str]] = [((GROUP, "input_name"), e.name) for e in cfg.inputs if e.name]
    given += [((GROUP, "separate_name"), name) for name in cfg.separate_name]
    given += [(("compiler_parameters", "input_source", name), name) for name in cfg.compiler.input_source]
    for path, name in given:
        if name not in names:
            hint = did_you_mean(name, names, "names are those of the model's inputs")
            ledger.refuse("PTQ213", path, f"unknown input {shorten(name)}", listing(names), hint)


def match_inputs(ledger: Ledger, cfg: Config, names: Sequence[str]) -> list[InputParameters]:
    """The configured entries under the model's names; where no types were given, a featuremap for every other input."""
    entries = list(cfg.inputs)
    if len(entries) == 1 and not entries[0].name and len(names) == 1:
        entries = [replace(entries[0], name=names[0])]
    if len(entries) == 1 and not entries[0].name:
        ledger.refuse(
            "PTQ209",
            (GROUP, "input_name"),
            f"no input_name, and the model has {len(names)} inputs",
            listing(names),
            f'write input_name: "{shorten(joined_names(names), 100)}" and one entry per input in every other list',
        )
        return []
    known = [e for e in entries if e.name in names]
    missing = [n for n in names if n not in {e.name for e in entries}]
    if not cfg.types_given:
        known += [InputParameters(n) for n in missing]
    elif missing and len(known) == len(entries):
        ledger.refuse(
            "PTQ208",
            (GROUP, "input_name"),
            f"{len(entries)} of the model's {len(names)} inputs; missing: {listing(missing)}",
            listing(names),
            "list every input, and one entry for each in every other list",
        )
    return [replace(e, separate=cfg.separate_batch or e.name in cfg.separate_name) for e in known]


def with_source(ledger: Ledger, cfg: Config, entry: InputParameters) -> InputParameters:
    """The entry with the source of its data on the board."""
    source = cfg.compiler.input_source.get(entry.name, default_source(entry.type_rt))
    check_source(ledger, f"input {entry.name}", entry.name, entry.type_rt, source)
    return replace(entry, source=source)


def with_shape(ledger: Ledger, entry: InputParameters, dims: Dims, dtype: str) -> InputParameters:
    """The entry with its shape settled, checked against the model and its type."""
    path = (GROUP, "input_shape")
    text = "[" + ",".join(str(d) if d is not None else "?" for d in dims) + "]"
    label = f"input {entry.name}"
    shape = entry.shape
    if shape is None:
        fixed = [isinstance(d, int) and d > 0 for d in dims]
        if not all(fixed):
            words = [str(d) if known else "N" for d, known in zip(dims, fixed, strict=True)]
            example = "x".join(["1" if words[0] == "N" else words[0], *words[1:]])
            ledger.refuse(
                "PTQ214",
                path,
                f"{label} is dynamic: {text}",
                "input_shape for a dynamic model",
                f"write input_shape: {example}{' with a number for each N' if 'N' in example else ''}",
            )
            return entry
        shape = tuple(d for d in dims if isinstance(d, int))
        check_image(ledger, path, label, entry.type_train, entry.type_rt, entry.layout_train, shape)
    elif len(shape) != len(dims) or any(
        isinstance(d, int) and d > 0 and d != s for d, s in zip(dims, shape, strict=True)
    ):
        ledger.refuse(
            "PTQ214",
            path,
            f"{'x'.join(map(str, shape))} for {label}, which is {text} in the model",
            f"a shape that fits {text}",
            "only dynamic dimensions can be chosen",
        )
    if entry.is_image and dtype not in ("float32", "float16", "float64", "bfloat16"):
        ledger.refuse(
            "PTQ215",
            (GROUP, "input_type_train"),
            f"{entry.type_train} for {label}, which is {dtype}",
            "image types for float inputs",
            "write featuremap: the input is fed as it is",
        )
    return replace(entry, shape=shape)


def check_batch(ledger: Ledger, cfg: Config, inputs: Sequence[InputParameters], batchable: bool | None) -> None:
    """What the keys on batches need of the model. Configured shapes were checked before."""
    configured = cfg.input_shapes
    for entry in inputs if cfg.input_batch is not None and not configured else ():
        if entry.shape and entry.shape[0] != 1:
            ledger.refuse(
                "PTQ217",
                (GROUP, "input_batch"),
                f"input_batch, and input {entry.name} is {'x'.join(map(str, entry.shape))}",
                "every first dimension is 1",
                "leave input_batch out: the batch is in the model already",
            )
    if cfg.input_batch is not None and batchable is False:
        ledger.refuse(
            "PTQ217",
            (GROUP, "input_batch"),
            f"input_batch {cfg.input_batch}, and the model cannot run a batch",
            "a model whose first dimension can grow",
            "export the model with a dynamic batch, or leave input_batch out",
        )
    for entry in inputs:
        if entry.separate and entry.shape and entry.shape[0] * (cfg.input_batch or 1) == 1:
            ledger.warn(
                "PTQ253",
                (GROUP, "separate_name" if cfg.separate_name else "separate_batch"),
                f"input {entry.name} has a batch of 1: there is nothing to split",
                "set input_batch, or remove the key",
            )

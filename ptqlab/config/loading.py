"""A YAML file, a mapping of the same structure or keywords to a checked `Config`; all problems in one PtqError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os.path import expanduser
from pathlib import Path
from typing import Any

from ptqlab.config import kinds
from ptqlab.config.checks import check_calibration, check_compiler, check_model
from ptqlab.config.data_binding import arrays_of, safe_child, sources_of
from ptqlab.config.document import Document, Ledger, did_you_mean, in_file_order, listing, read_text, show
from ptqlab.config.fields import EXTRAS_TOLERATED, GROUP_OF, GROUPS, field_of
from ptqlab.config.inputs import read_inputs
from ptqlab.config.kinds import MISSING
from ptqlab.config.node_info import read_node_settings
from ptqlab.config.paths import Paths, beside, exists
from ptqlab.config.quant import QuantConfig
from ptqlab.config.quant_parsing import open_quant, plain, read_quant
from ptqlab.config.values import (
    CalibrationParameters,
    CompilerParameters,
    Config,
    InputParameters,
    ModelParameters,
)
from ptqlab.config.yaml_reader import read_yaml
from ptqlab.errors import Problem, PtqError, nearest, raise_if, shorten

CARRIED = "kept for the vendor's tool; neither the numbers nor the estimate of ptqlab depend on it"
TITLE = "the configuration cannot be used"
KEYWORDS = {"model": "onnx_model", "prefix": "output_model_file_prefix"}  # short names of the Python form
SKIPS = ("export", "convert", "compile")
Values = dict[str, dict[str, Any]]


def load(source: str | Path | Mapping[str, Any] | None = None, **keywords: Any) -> Config:
    """A checked `Config`.

    source    path of a YAML file, a mapping of the same structure, or None
    keywords  model, prefix, calibration_data, skip, and every YAML key by its plain name; they win over `source`.
              calibration_data is a folder, {input: folder}, {input: [array, ...]} or [array, ...];
              input_shape may be {input: (1, 3, 224, 224)}.

    Raises PtqError with every problem of the file and of its quant_config. Relative paths are looked up from the
    current directory first, then from the folder of the YAML; the choice is a note.
    """
    if source is None:
        document = Document({})
    elif isinstance(source, Mapping):
        document = Document(plain(source))
    elif not isinstance(source, str | Path):
        raise PtqError(
            Problem(
                "PTQ203",
                "configuration",
                show(source),
                "the path of a YAML file, a mapping of its structure, or keywords",
            ),
            TITLE,
        )
    elif "\n" in str(source):
        return load_text(str(source), **keywords)
    else:
        path = Path(expanduser(source))
        document = read_yaml(read_text(path, "configuration"), path.name, path.resolve().parent)
        return build(document, keywords, path.resolve())
    return build(document, keywords)


def load_text(text: str, where: str = "cell", **keywords: Any) -> Config:
    """Like `load` for YAML text, e.g. of a notebook cell; `where` stands for the file name in messages."""
    return build(read_yaml(text, where), keywords)


def build(document: Document, keywords: Mapping[str, Any], source: Path | None = None) -> Config:
    """Overlay the keywords, read every key by its kind, check what can be checked without the model."""
    keywords = dict(keywords)
    data = keywords.pop("calibration_data", None)
    skip = keywords.pop("skip", None)
    document, unknown = overlay(document, keywords)
    ledger = Ledger(document)
    for word in unknown:
        names = [*KEYWORDS, "calibration_data", "skip", *GROUP_OF]
        ledger.refuse(
            "PTQ204",
            (word,),
            f"unknown keyword {shorten(word)}",
            listing(names[:4]) + ", or any key of the YAML",
            did_you_mean(word, names),
        )
    if skip is not None and skip not in SKIPS:
        ledger.refuse("PTQ202", ("skip",), show(skip), listing(SKIPS), did_you_mean(str(skip), SKIPS))
    values = read_groups(ledger)

    model = model_parameters(ledger, values["model_parameters"])
    inputs, types_given = read_inputs(
        ledger, values["input_parameters"], values["compiler_parameters"].get("input_source", {})
    )
    calibration = calibration_parameters(ledger, values, inputs, data)
    compiler = compiler_parameters(ledger, values["compiler_parameters"], values["model_parameters"].get("march"))
    title = f"{document.source} cannot be used" if document.source else TITLE
    raise_if(in_file_order(ledger.problems), title)
    given = values["input_parameters"]
    return Config(
        model,
        inputs,
        given.get("input_batch"),
        bool(given.get("separate_batch")),
        given.get("separate_name", ()),
        types_given,
        calibration,
        compiler,
        skip,
        tuple(ledger.findings),
        source,
        document.lines,
    )


def overlay(document: Document, keywords: Mapping[str, Any]) -> tuple[Document, list[str]]:
    """The document with the keywords written over it, and the keywords that are no key."""
    if not isinstance(document.data, dict) or not keywords:
        return document, []
    data = {group: dict(block) if isinstance(block, dict) else block for group, block in document.data.items()}
    lines = dict(document.lines)
    unknown = []
    for word, value in keywords.items():
        key = KEYWORDS.get(word, word)
        group = GROUP_OF.get(key)
        if group is None:
            unknown.append(word)
            continue
        if value is None:
            continue
        block = data.get(group)
        if not isinstance(block, dict):
            block = data[group] = {}
        block[key] = plain(value)
        for path in [p for p in lines if p[:2] == (group, key)]:
            del lines[path]
        if lines:
            lines[(group, key)] = 0
    return replace(document, data=data, lines=lines), unknown


def read_groups(ledger: Ledger) -> Values:
    """Every group as key -> canonical value; keys without a value are left out. Unknown keys are refused here."""
    values: Values = {group: {} for group in GROUPS}
    data = ledger.document.data
    if not isinstance(data, dict):
        found = "an empty file" if data is None else show(data)
        ledger.refuse("PTQ203", (), found, f"the groups {listing(GROUPS)}", "ptqlab.config.template() gives a template")
        raise PtqError(ledger.problems, TITLE)
    for group, block in data.items():
        if group not in GROUPS:
            hint = (
                f"{group} is a key of {GROUP_OF[group]}"
                if group in GROUP_OF
                else did_you_mean(group, GROUPS, "remove it")
            )
            ledger.refuse("PTQ204", (group,), f"unknown group {shorten(group)}", listing(GROUPS), hint)
            ledger.meant.update((near,) for near in nearest(group, GROUPS, 1) if near not in data)
            continue
        if block is None:
            continue
        if not isinstance(block, dict):
            ledger.refuse("PTQ203", (group,), show(block), f"a mapping with keys such as {GROUPS[group][0].key}")
            continue
        read_group(ledger, group, block, values[group])
    return values


def read_group(ledger: Ledger, group: str, block: dict[str, Any], out: dict[str, Any]) -> None:
    known = [f.key for f in GROUPS[group]]
    extras = [k for k in block if k not in known] if group == EXTRAS_TOLERATED else []
    if extras:
        plural = "s" if len(extras) > 1 else ""
        hints = [f"{k} belongs to {GROUP_OF[k]}" for k in extras if k in GROUP_OF]
        hints += [f"{k}: {near}" for k in extras if k not in GROUP_OF and (near := did_you_mean(k, known))]
        found = f"unknown key{plural} {listing(extras)}, ignored as the vendor's tool does in this group"
        ledger.warn("PTQ254", (group, extras[0]), found, "; ".join(hints))
    for key, value in block.items():
        path = (group, key)
        if key not in known:
            if key in GROUP_OF and key not in extras:
                found, hint = f"the key {key} in {group}", f"move it to {GROUP_OF[key]}"
                ledger.refuse("PTQ204", path, found, listing(known), hint)
            elif key not in extras:
                ledger.unknown_keys((group,), [key], known)
            continue
        row = field_of(group, key)
        if row.deprecated:
            if value is not None:
                ledger.warn("PTQ250", path, f"{key} {row.deprecated}", f"remove it ({row.rule})")
            if key != "cal_data_type":
                continue
        parsed = kinds.parse(row, value, path, ledger)
        if parsed is not MISSING:
            out[key] = parsed
            if row.carried and parsed != row.default:
                ledger.note("PTQ257", path, f"{key} is {CARRIED}")


def model_parameters(ledger: Ledger, given: dict[str, Any]) -> ModelParameters:
    paths = Paths(ledger)
    group = "model_parameters"
    keys: list[str] = [k for k in ("onnx_model", "working_dir") if k in given]
    found = {k: p for k in keys if (p := paths.find(given[k], (group, k)))}
    check_model(ledger, given, found)
    debug = given.get("debug_mode", ())
    if given.get("layer_out_dump") and "dump_all_layers_output" not in debug:
        debug = (*debug, "dump_all_layers_output")
        ledger.warn(
            "PTQ251",
            (group, "layer_out_dump"),
            "layer_out_dump is read as debug_mode: dump_all_layers_output",
            "write debug_mode",
        )
    default = Path.cwd() / "model_output"
    return ModelParameters(
        found.get("onnx_model", Path()),
        given.get("march", ""),
        found.get("working_dir", default),
        given.get("output_model_file_prefix", "model"),
        given.get("output_nodes", ()),
        given.get("remove_node_type", ()),
        given.get("remove_node_name", ()),
        debug,
        given.get("enable_vpu", True),
        given.get("enable_spu", True),
    )


def calibration_parameters(
    ledger: Ledger, values: Values, inputs: tuple[InputParameters, ...], data: Any
) -> CalibrationParameters:
    group = "calibration_parameters"
    given = values[group]
    quant = quant_config(ledger, values)
    folders: dict[str, Path] = {}
    sources: dict[str, Any] = {}
    names = values["input_parameters"].get("input_name") or [i.name for i in inputs] or [""]
    if data is not None:
        sources = python_data(ledger, data)
        folders = {name: value for name, value in sources.items() if isinstance(value, Path)}
    elif "cal_data_dir" in given:
        paths = Paths(ledger)
        dirs = [paths.find(d, (group, "cal_data_dir")) for d in given["cal_data_dir"]]
        good = [d for d in dirs if d]
        sources = dict(folders := name_folders(ledger, good, names) if len(good) == len(dirs) else {})
    kind, raw = check_calibration(ledger, given, names, folders, has_data=data is not None or bool(sources))
    return CalibrationParameters(
        sources or None,
        folders,
        raw,
        kind,
        given.get("per_channel", False),
        given.get("max_percentile"),
        given.get("run_on_cpu", ()),
        given.get("run_on_bpu", ()),
        given.get("optimization"),
        given.get("recipe"),
        threshold_file(ledger, given),
        given.get("unit_conv", ()),
        quant,
    )


def threshold_file(ledger: Ledger, given: dict[str, Any]) -> Path | None:
    """The file of thresholds to take, None where there is none to take."""
    if given.get("thresholds") is None:
        return None
    where = ("calibration_parameters", "thresholds")
    path = Paths(ledger).find(given["thresholds"], where)
    if path is not None and not (exists(path) and path.is_file()):
        ledger.refuse("PTQ211", where, f"{shorten(path)}: there is no such file", "a .json or .onnx file",
                      did_you_mean(path.name, beside(path, path.suffix), "check the path"))
        return None
    return path


def name_folders(ledger: Ledger, dirs: Sequence[Path], names: Sequence[str]) -> dict[str, Path]:
    """Folder per input name. One folder for several inputs may hold a folder of each input's name."""
    path = ("calibration_parameters", "cal_data_dir")
    if len(dirs) == len(names):
        return dict(zip(names, dirs, strict=True))
    if len(dirs) == 1 and all(safe_child(dirs[0], name) for name in names):
        ledger.note("PTQ252", path, f"{dirs[0]} holds a folder for each of {listing(names)}")
        return {name: dirs[0] / name for name in names}
    if names == [""]:
        ledger.refuse(
            "PTQ209",
            path,
            f"{len(dirs)} folders, and no input_name",
            "input_name with one name per folder",
            "name the inputs in input_parameters.input_name, in the order of the folders",
        )
    else:
        ledger.refuse(
            "PTQ208",
            path,
            f"{len(dirs)} folder{'s' if len(dirs) != 1 else ''} for {len(names)} inputs ({listing(names)})",
            "one folder per input, or one folder that holds a folder of each input's name",
            'separate the folders by ";"',
        )
    return {}


def python_data(ledger: Ledger, data: Any) -> dict[str, Any]:
    """The keyword calibration_data: folders, or lists of arrays, by input name ("" where none is named)."""
    sources, problems = sources_of(data, "keyword  calibration_data")
    ledger.problems += problems
    for name, value in sources.items():
        if not isinstance(value, Path):
            sources[name], problems = arrays_of(value, f"keyword  calibration_data{f'.{name}' if name else ''}")
            ledger.problems += problems
    return sources


def quant_config(ledger: Ledger, values: Values) -> QuantConfig:
    """quant_config (inline or file) over what node_info and calibration_parameters say of precision."""
    group, key = "calibration_parameters", "quant_config"
    given = values[group].get(key)
    quant = QuantConfig()
    if isinstance(given, Mapping):
        before = len(ledger.findings)
        quant = read_quant(ledger, (group, key))
        quant = replace(quant, findings=quant.findings[before:])
    elif isinstance(given, str):
        try:
            if given.lstrip().startswith("{"):
                inner = Ledger(open_quant(given))
            else:
                inner = Ledger(open_quant(Paths(ledger).find(given, (group, key)), ledger.document.where((group, key))))
            quant = read_quant(inner)
            ledger.problems += inner.problems
            ledger.findings += inner.findings
        except PtqError as error:
            ledger.problems += error.problems
    elif given is not None:
        ledger.refuse("PTQ203", (group, key), show(given), field_of(group, key).expected)
    return read_node_settings(ledger, values, quant)


def compiler_parameters(ledger: Ledger, given: dict[str, Any], march: str | None) -> CompilerParameters:
    found = (
        Paths(ledger).find(given["cache_path"], ("compiler_parameters", "cache_path"))
        if given.get("cache_path")
        else None
    )
    settled = check_compiler(ledger, given, march, found)
    plain_keys = (
        "compile_mode",
        "optimize_level",
        "core_num",
        "max_time_per_fc",
        "jobs",
        "advice",
        "debug",
        "input_source",
        "max_l2m_size",
        "extra_params",
        "ability_entry",
    )
    return CompilerParameters(**{k: given[k] for k in plain_keys if k in given}, cache_path=found, **settled)

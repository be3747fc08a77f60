"""What the keys of a group must agree on, as far as it can be said without the model."""
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptqlab.config.document import Ledger, did_you_mean, listing
from ptqlab.config.fields import field_of
from ptqlab.config.image_types import INPUT_SOURCES, INPUT_TYPES, default_source
from ptqlab.config.input_checks import check_image, check_norm, check_pair
from ptqlab.config.kinds import OTHER_MARCHES
from ptqlab.config.values import InputParameters
from ptqlab.errors import shorten
from ptqlab.platforms import MARCHES, PLATFORMS

PER_INPUT = ("input_type_rt", "input_type_train", "input_layout_train", "input_space_and_range", "input_shape",
             "mean_value", "scale_value", "std_value")
NEEDS_TYPES = ("input_layout_train", "input_space_and_range", "mean_value", "scale_value", "std_value")
L2M_FAMILIES = ("nash-h", "nash-p")  # the platforms with a shared L2 memory (documented)


def check_model(ledger: Ledger, given: dict[str, Any], found: dict[str, Path]) -> None:
    """One model, there, of the right kind; a known march; a prefix that is a file name."""
    group = "model_parameters"
    raw = ledger.document.data.get(group) if isinstance(ledger.document.data, dict) else None
    refused = {k for k, v in (raw if isinstance(raw, dict) else {}).items() if v is not None and k not in given}
    caffe = [k for k in ("caffe_model", "prototxt") if k in given]
    if "onnx_model" in given and caffe:
        ledger.refuse("PTQ210", (group, "onnx_model"), f"onnx_model and {listing(caffe)}", "either onnx_model, or caffe_model with prototxt", "remove the one that is not meant")
    elif caffe:
        ledger.refuse("PTQ209", (group, caffe[0]), "a Caffe model", "onnx_model", "Caffe 1.0 is not read yet: export the network to ONNX")
    elif "onnx_model" not in given and "onnx_model" not in refused:
        ledger.refuse("PTQ209", (group, "onnx_model"), "no model", "the path of an .onnx file", "write onnx_model: ./net.onnx")
    if "onnx_model" in found:
        path = found["onnx_model"]
        if path.suffix.lower() != ".onnx":
            ledger.refuse("PTQ211", (group, "onnx_model"), shorten(path), "a file that ends in .onnx", "artifacts of other stages (.bc, .hbm) are no input of compile")
        elif not path.is_file():
            near = [p.name for p in sorted(path.parent.glob("*.onnx"))][:50] if path.parent.is_dir() else []
            what = "a folder" if path.is_dir() else "there is no such file" if path.parent.is_dir() else f"there is no folder {shorten(path.parent)}"
            ledger.refuse("PTQ211", (group, "onnx_model"), f"{shorten(path)}: {what}", "an existing .onnx file", did_you_mean(path.name, near, "check the path"))
    if "march" not in given and "march" not in refused or ("march" in (raw or {}) and isinstance(raw, dict) and raw.get("march") == ""):
        ledger.refuse("PTQ209", (group, "march"), "no march", listing(MARCHES), f"{OTHER_MARCHES['s100']}, {OTHER_MARCHES['s100p']}, {OTHER_MARCHES['s600']}")
    prefix = given.get("output_model_file_prefix", "model")
    if not prefix:
        ledger.refuse("PTQ209", (group, "output_model_file_prefix"), "an empty prefix", "text, used as first part of file names", 'write e.g. "model", or remove the key')
    elif any(c in prefix for c in '/\\:*?"<>|') or prefix.startswith("."):
        ledger.refuse("PTQ212", (group, "output_model_file_prefix"), f'"{shorten(prefix)}"', "a plain file name without a folder", "the folder is working_dir")
    folder = found.get("working_dir")
    if folder is not None and folder.exists() and not folder.is_dir():
        ledger.refuse("PTQ211", (group, "working_dir"), f"{shorten(folder)} is a file", "a folder, existing or not")


def check_inputs(ledger: Ledger, given: dict[str, Any], compiler: dict[str, Any]) -> tuple[tuple[InputParameters, ...], bool]:
    """The inputs as configured, and whether their types were given."""
    group = "input_parameters"
    raw = ledger.document.data.get(group) if isinstance(ledger.document.data, dict) else None
    said = {k for k, v in (raw if isinstance(raw, dict) else {}).items() if v is not None and v != ""}
    types_given = "input_type_rt" in said or "input_type_train" in said
    needing = [k for k in NEEDS_TYPES if k in given]
    if types_given or needing:
        for key, other in (("input_type_rt", "input_type_train"), ("input_type_train", "input_type_rt")):
            if key not in said:
                row = field_of(group, key)
                why = f"{other if other in said else listing(needing)} is given" if other in said or needing else ""
                ledger.refuse("PTQ209", (group, key), f"no {key}, though {why}", row.expected, "write featuremap for inputs that are no images")
    elif raw is not None or ledger.document.source:
        ledger.warn("PTQ255", (group,), "input_type_rt and input_type_train are not given: every input is a featuremap",
                    "the vendor's tool requires both keys; to_yaml of the bound configuration writes them")
    shapes = given.get("input_shape")
    by_name: dict[str, tuple[int, ...]] = {}
    names: tuple[str, ...] = given.get("input_name", ())
    if isinstance(shapes, dict):
        by_name, given = shapes, {k: v for k, v in given.items() if k != "input_shape"}
        if not names and not types_given:
            names = tuple(by_name)
        unknown = [n for n in by_name if names and n not in names]
        for name in unknown:
            ledger.refuse("PTQ213", (group, "input_shape", name), f"a shape for {shorten(name)}, which input_name does not list", listing(names), did_you_mean(name, names))
    counts = {key: len(given[key]) for key in PER_INPUT if key in given}
    if not check_counts(ledger, names, counts):
        return (), types_given
    count = len(names) or max(counts.values(), default=0)
    if not names and len(by_name) == 1 and count == 1:
        names = tuple(by_name)
    batch_rules(ledger, given, names, by_name)

    def entry(key: str, index: int, default: Any) -> Any:
        return given[key][index] if key in given else default

    if "scale_value" in given and "std_value" in given:
        ledger.refuse("PTQ210", (group, "std_value"), "scale_value and std_value", "one of the two: std divides by what scale multiplies with", "keep scale_value, or std_value")
    out = []
    sources = compiler.get("input_source", {})
    separate = given.get("separate_name", ())
    for i in range(count):
        name = names[i] if names else ""
        rt, train = entry("input_type_rt", i, "featuremap"), entry("input_type_train", i, "featuremap")
        layout, space = entry("input_layout_train", i, ""), entry("input_space_and_range", i, "regular")
        shape = entry("input_shape", i, by_name.get(name))
        scale, std = entry("scale_value", i, None), entry("std_value", i, None)
        mean = entry("mean_value", i, None)
        label = f"input {name}" if name else "the input"
        if "input_type_rt" in given and "input_type_train" in given:
            check_pair(ledger, label, rt, train)
        if space == "bt601_video" and "input_type_rt" in given and rt != "nv12":
            ledger.refuse("PTQ216", (group, "input_space_and_range"), f"bt601_video for {label} of type {rt}", "bt601_video only with input_type_rt: nv12", "write regular")
        if "input_type_train" in given and INPUT_TYPES[train].is_image and not layout and "input_layout_train" not in said:
            ledger.refuse("PTQ209", (group, "input_layout_train"), f"no layout for {label} of type {train}", "NCHW or NHWC", "write the layout of the float model's input")
        check_norm(ledger, label, train if "input_type_train" in given else "", {"mean_value": mean, "scale_value": scale, "std_value": std})
        if shape is not None and "input_type_train" in given:
            check_image(ledger, (group, "input_shape"), label, train, rt, layout, shape)
        if std is not None and all(std):
            scale = tuple(1.0 / s for s in std)
        source = sources.get(name) or default_source(rt)
        if name in sources and "input_type_rt" in given and rt not in INPUT_SOURCES[source]:
            allowed = [s for s, takes in INPUT_SOURCES.items() if rt in takes]
            ledger.refuse("PTQ216", ("compiler_parameters", "input_source", name), f"{source} for {label} of type {rt}", listing(allowed), f"{source} takes {listing(INPUT_SOURCES[source])}")
        out.append(InputParameters(name, rt, train, layout if INPUT_TYPES[train].is_image else "", space, shape, mean, scale,
                                   bool(given.get("separate_batch")) or name in separate, source))
    for name in sources if names else ():
        if name not in names:
            ledger.refuse("PTQ213", ("compiler_parameters", "input_source", name), f"unknown input {shorten(name)}", listing(names), did_you_mean(name, names))
    return tuple(out), types_given


def check_counts(ledger: Ledger, names: Sequence[str], counts: dict[str, int]) -> bool:
    """One entry per input in every list; several inputs have names, each once."""
    group = "input_parameters"
    good = True
    for name in dict.fromkeys(n for n in names if names.count(n) > 1):
        ledger.refuse("PTQ213", (group, "input_name"), f"the name {shorten(name)} stands {names.count(name)} times", "each input once", "remove the repetition")
        good = False
    if not names:
        for key, count in counts.items():
            if count > 1:
                ledger.refuse("PTQ209", (group, key), f"{count} entries, and no input_name", "input_name with one name per entry", 'write input_name: "first;second" in the order of the other lists')
                return False
        return good
    for key, count in counts.items():
        if count != len(names):
            ledger.refuse("PTQ208", (group, key), f"{count} {'entry' if count == 1 else 'entries'} for {len(names)} input{'s' if len(names) > 1 else ''} ({listing(names)})", 'one entry per input, separated by ";"',
                          "write None for an input that has none" if key.endswith("_value") else "give the entries in the order of input_name")
            good = False
    return good


def batch_rules(ledger: Ledger, given: dict[str, Any], names: Sequence[str], by_name: dict[str, tuple[int, ...]]) -> None:
    group = "input_parameters"
    if given.get("separate_batch") and given.get("separate_name"):
        ledger.refuse("PTQ210", (group, "separate_name"), "separate_batch and separate_name", "one of the two", "separate_name splits some inputs, separate_batch all")
    for name in given.get("separate_name", ()):
        if names and name not in names:
            ledger.refuse("PTQ213", (group, "separate_name"), f"unknown input {shorten(name)}", listing(names), did_you_mean(name, names))
    shapes = [*given.get("input_shape", ()), *by_name.values()]
    if given.get("input_batch") is not None:
        bad = [s for s in shapes if s[0] != 1]
        if bad:
            ledger.refuse("PTQ217", (group, "input_batch"), f"input_batch with the input_shape {'x'.join(map(str, bad[0]))}", "every first dimension is 1", "write the shape of one sample, or leave input_batch out: the batch is in the shape already")


def check_calibration(ledger: Ledger, given: dict[str, Any], names: Sequence[str], folders: dict[str, Path],
                      has_data: bool) -> tuple[str, dict[str, str]]:
    """The calibration type in force, and the dtype of raw samples per input."""
    group = "calibration_parameters"
    kind = given.get("calibration_type", "")
    path = (group, "calibration_type")
    if kind in ("default", "mix"):
        ledger.warn("PTQ250", path, f"calibration_type: {kind} is deprecated on J6", "leave it out: the best method is searched, which is also done here")
        kind = ""
    raw = ledger.document.data.get(group) if isinstance(ledger.document.data, dict) else None
    asked = isinstance(raw, dict) and raw.get("cal_data_dir") is not None
    if not has_data and not asked:
        if kind not in ("", "skip"):
            ledger.warn("PTQ255", path, f"calibration_type: {kind} without cal_data_dir becomes skip: random data, accuracy means nothing", "name the folders of calibration samples")
        elif not kind:
            ledger.note("PTQ255", (group, "cal_data_dir"), "no calibration data: calibration_type is skip (random data, accuracy means nothing)")
        kind = "skip"
    elif kind == "skip":
        ledger.note("PTQ255", path, "calibration_type: skip: the samples are not used, random data is")
    for name, folder in folders.items():
        here = (group, "cal_data_dir")
        if not folder.exists():
            ledger.refuse("PTQ211", here, f"{shorten(folder)}: there is no such folder", "an existing folder of samples", did_you_mean(folder.name, sorted(p.name for p in folder.parent.iterdir() if p.is_dir())[:200] if folder.parent.is_dir() else [], "check the path"))
        elif not folder.is_dir():
            ledger.refuse("PTQ211", here, f"{shorten(folder)} is a file", "a folder of samples", f"write {shorten(folder.parent)}" if name in ("", folder.parent.name) else "")
    types = given.get("cal_data_type", ())
    if types and len(types) != len(names):
        ledger.refuse("PTQ208", (group, "cal_data_type"), f"{len(types)} for {len(names)} inputs", 'one entry per input, separated by ";"')
        types = ()
    out = dict(zip(names, types, strict=True)) if types else {}
    for name, folder in folders.items():  # older flows name the folders after the type of their raw samples
        for suffix, dtype in (("_f32", "float32"), ("_uint8", "uint8")):
            if folder.name.endswith(suffix):
                out.setdefault(name, dtype)
    return kind, out


def check_compiler(ledger: Ledger, given: dict[str, Any], march: str | None, cache: Path | None) -> dict[str, Any]:
    """balance_factor and cache_mode in force; everything else is only checked."""
    group = "compiler_parameters"
    mode = given.get("compile_mode", "latency")
    factor = given.get("balance_factor", 0)
    if mode == "balance":
        if "balance_factor" not in given:
            ledger.refuse("PTQ209", (group, "balance_factor"), "compile_mode: balance without balance_factor", "a whole number from 0 to 100", "write e.g. balance_factor: 50")
    else:
        forced = 100 if mode == "latency" else 0
        if factor not in (0, forced):
            ledger.warn("PTQ253", (group, "balance_factor"), f"balance_factor {factor} is ignored: compile_mode: {mode} takes {forced}", "write compile_mode: balance, or remove it")
        factor = forced
    fc = given.get("max_time_per_fc", 0)
    if 0 < fc < 1000:
        ledger.refuse("PTQ207", (group, "max_time_per_fc"), f"the number {fc}", "0, or 1000 to 10000000 microseconds", "write 0 for no limit")
    cache_mode = given.get("cache_mode", "disable")
    if cache is not None:
        if not cache.is_dir():
            ledger.refuse("PTQ211", (group, "cache_path"), f"{shorten(cache)}: there is no such folder", "an existing folder", "create it first")
        if cache_mode == "disable":
            ledger.warn("PTQ253", (group, "cache_mode"), "cache_path is given with cache_mode: disable, which becomes enable", "write cache_mode: enable")
            cache_mode = "enable"
    elif cache_mode != "disable":
        ledger.refuse("PTQ209", (group, "cache_path"), f"cache_mode: {cache_mode} without cache_path", "an existing folder", "write cache_path, or cache_mode: disable")
    if march in PLATFORMS:
        platform = PLATFORMS[march]
        if given.get("core_num", 1) > platform.cores:
            ledger.refuse("PTQ218", (group, "core_num"), f"core_num {given['core_num']} on {march}", f"1 to {platform.cores}" if platform.cores > 1 else "1", f"{march} ({platform.chips}) has {platform.cores} BPU core{'s' if platform.cores > 1 else ''}")
        if given.get("max_l2m_size", 0) != 0 and platform.family not in L2M_FAMILIES:
            ledger.refuse("PTQ218", (group, "max_l2m_size"), f"max_l2m_size on {march}", f"0: only {listing(L2M_FAMILIES)} and their variants share an L2 memory", "remove the key")
    return {"balance_factor": factor, "cache_mode": cache_mode}

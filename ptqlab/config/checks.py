"""What the keys of a group must agree on, as far as it can be said without the model."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

from ptqlab.config.data_binding import NO_SAMPLE
from ptqlab.config.document import Ledger, did_you_mean, listing
from ptqlab.config.kinds import OTHER_MARCHES
from ptqlab.config.paths import beside, listed
from ptqlab.errors import shorten
from ptqlab.platforms import MARCHES, PLATFORMS

# public sources contradict each other: where the manual allows more cores than the compiler's march table lists
CORES_OF_THE_MANUAL = {"nash-h": 4}
L2M_FAMILIES = ("nash-h", "nash-p")  # the platforms with a shared L2 memory (documented)


def check_model(ledger: Ledger, given: dict[str, Any], found: dict[str, Path]) -> None:
    """One model, there, of the right kind; a known march; a prefix that is a file name."""
    group = "model_parameters"
    caffe = [k for k in ("caffe_model", "prototxt") if k in given]
    if "onnx_model" in given and caffe:
        ledger.refuse(
            "PTQ210",
            (group, "onnx_model"),
            f"onnx_model and {listing(caffe)}",
            "either onnx_model, or caffe_model with prototxt",
            "remove the one that is not meant",
        )
    elif caffe:
        ledger.refuse(
            "PTQ209",
            (group, caffe[0]),
            "a Caffe model",
            "onnx_model",
            "Caffe 1.0 is not read yet: export the network to ONNX",
        )
    elif not ledger.said((group, "onnx_model")):
        ledger.refuse(
            "PTQ209", (group, "onnx_model"), "no model", "the path of an .onnx file", "write onnx_model: ./net.onnx"
        )
    if "onnx_model" in found:
        path = found["onnx_model"]
        if path.suffix.lower() != ".onnx":
            ledger.refuse(
                "PTQ211",
                (group, "onnx_model"),
                shorten(path),
                "a file that ends in .onnx",
                "artifacts of other stages (.bc, .hbm) are no input of compile",
            )
        elif not isfile(path):
            what = "there is no such file" if isdir(path.parent) else f"there is no folder {shorten(path.parent)}"
            ledger.refuse(
                "PTQ211",
                (group, "onnx_model"),
                f"{shorten(path)}: {'it is a folder' if isdir(path) else what}",
                "an existing .onnx file",
                did_you_mean(path.name, beside(path, ".onnx"), "check the path"),
            )
    if not ledger.said((group, "march")):
        ledger.refuse(
            "PTQ209",
            (group, "march"),
            "no march",
            listing(MARCHES),
            f"{OTHER_MARCHES['s100']}, {OTHER_MARCHES['s100p']}, {OTHER_MARCHES['s600']}",
        )
    prefix = given.get("output_model_file_prefix", "model")
    if not prefix:
        ledger.refuse(
            "PTQ209",
            (group, "output_model_file_prefix"),
            "an empty prefix",
            "text, used as first part of file names",
            'write e.g. "model", or remove the key',
        )
    elif any(c in prefix for c in '/\\:*?"<>|') or prefix.startswith("."):
        ledger.refuse(
            "PTQ212",
            (group, "output_model_file_prefix"),
            f'"{shorten(prefix)}"',
            "a plain file name without a folder",
            "the folder is working_dir",
        )
    folder = found.get("working_dir")
    if folder is not None and exists(folder) and not isdir(folder):
        ledger.refuse("PTQ211", (group, "working_dir"), f"{shorten(folder)} is a file", "a folder, existing or not")


def check_calibration(
    ledger: Ledger, given: dict[str, Any], names: Sequence[str], folders: dict[str, Path], has_data: bool
) -> tuple[str, dict[str, str]]:
    """The calibration type in force, and the dtype of raw samples per input."""
    group = "calibration_parameters"
    kind = given.get("calibration_type", "")
    path = (group, "calibration_type")
    if kind in ("default", "mix"):
        ledger.warn(
            "PTQ250",
            path,
            f"calibration_type: {kind} is deprecated on J6",
            "leave it out: ptqlab's default, mse with corrected biases, which is also used here",
        )
        kind = ""
    if not has_data and not ledger.said((group, "cal_data_dir")):
        if kind not in ("", "skip"):
            ledger.warn(
                "PTQ255",
                path,
                f"calibration_type: {kind} without cal_data_dir becomes skip: random data, accuracy means nothing",
                "name the folders of calibration samples",
            )
        elif not kind:
            ledger.note(
                "PTQ255",
                (group, "cal_data_dir"),
                "no calibration data: calibration_type is skip (random data, accuracy means nothing)",
            )
        kind = "skip"
    elif kind == "skip":
        ledger.note("PTQ255", path, "calibration_type: skip: the samples are not used, random data is")
    for folder in folders.values():
        here = (group, "cal_data_dir")
        if not exists(folder):
            ledger.refuse(
                "PTQ211",
                here,
                f"{shorten(folder)}: there is no such folder",
                "an existing folder of samples",
                did_you_mean(folder.name, beside(folder), "check the path"),
            )
        elif not isdir(folder):
            found, hint = f"{shorten(folder)} is a file", "name the folder that holds the samples"
            ledger.refuse("PTQ211", here, found, "a folder of samples", hint)
        elif not listed(folder):
            ledger.refuse("PTQ300", here, f"{shorten(folder)}: no sample found", *NO_SAMPLE)
    types = given.get("cal_data_type", ())
    if types and len(types) != len(names):
        ledger.refuse(
            "PTQ208",
            (group, "cal_data_type"),
            f"{len(types)} for {len(names)} inputs",
            'one entry per input, separated by ";"',
        )
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
            ledger.refuse(
                "PTQ209",
                (group, "balance_factor"),
                "compile_mode: balance without balance_factor",
                "a whole number from 0 to 100",
                "write e.g. balance_factor: 50",
            )
    else:
        forced = 100 if mode == "latency" else 0
        if factor not in (0, forced):
            ledger.warn(
                "PTQ253",
                (group, "balance_factor"),
                f"balance_factor {factor} is ignored: compile_mode: {mode} takes {forced}",
                "write compile_mode: balance, or remove it",
            )
        factor = forced
    fc = given.get("max_time_per_fc", 0)
    if 0 < fc < 1000:
        ledger.refuse(
            "PTQ207",
            (group, "max_time_per_fc"),
            f"the number {fc}",
            "0, or 1000 to 10000000 microseconds",
            "write 0 for no limit",
        )
    cache_mode = given.get("cache_mode", "disable")
    if cache is not None:
        if not isdir(cache):
            ledger.refuse(
                "PTQ211",
                (group, "cache_path"),
                f"{shorten(cache)}: there is no such folder",
                "an existing folder",
                "create it first",
            )
        if cache_mode == "disable":
            ledger.warn(
                "PTQ253",
                (group, "cache_mode"),
                "cache_path is given with cache_mode: disable, which becomes enable",
                "write cache_mode: enable",
            )
            cache_mode = "enable"
    elif cache_mode != "disable" and not ledger.said((group, "cache_path")):
        ledger.refuse(
            "PTQ209",
            (group, "cache_path"),
            f"cache_mode: {cache_mode} without cache_path",
            "an existing folder",
            "write cache_path, or cache_mode: disable",
        )
    if march in PLATFORMS:
        platform = PLATFORMS[march]
        cores = given.get("core_num", 1)
        if platform.cores < cores <= CORES_OF_THE_MANUAL.get(platform.family, 0):
            ledger.warn(
                "PTQ258",
                (group, "core_num"),
                f"core_num {cores} on {march}: the manual allows 1 to {CORES_OF_THE_MANUAL[platform.family]}, the "
                f"compiler's march table {platform.cores}; the estimate counts {platform.cores}",
                f"write core_num: {platform.cores} to be safe",
            )
        elif cores > platform.cores:
            ledger.refuse(
                "PTQ218",
                (group, "core_num"),
                f"core_num {given['core_num']} on {march}",
                f"1 to {platform.cores}" if platform.cores > 1 else "1",
                f"{march} ({platform.chips}) has {platform.cores} BPU core{'s' if platform.cores > 1 else ''}",
            )
        if given.get("max_l2m_size", 0) != 0 and platform.family not in L2M_FAMILIES:
            ledger.refuse(
                "PTQ218",
                (group, "max_l2m_size"),
                f"max_l2m_size on {march}",
                f"0: only {listing(L2M_FAMILIES)} and their variants share an L2 memory",
                "remove the key",
            )
    return {"balance_factor": factor, "cache_mode": cache_mode}

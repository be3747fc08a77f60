"""Rules of one input: type pair, normalisation, and the tensor an image needs."""

from __future__ import annotations

from collections.abc import Sequence

from ptqlab.config.document import KeyPath, Ledger, listing
from ptqlab.config.image_types import INPUT_SOURCES, INPUT_TYPES, TRAIN_TYPES

GROUP = "input_parameters"


def check_pair(ledger: Ledger, label: str, rt: str, train: str) -> None:
    """The run-time type can be made into the training type."""
    legal = INPUT_TYPES[train].runs_as
    if rt not in legal:
        takes = [t for t in TRAIN_TYPES if rt in INPUT_TYPES[t].runs_as]
        ledger.refuse(
            "PTQ216",
            (GROUP, "input_type_rt"),
            f"{rt} at run time for {label} trained on {train}",
            f"{listing(legal)} (for a model trained on {train})",
            f"{rt} feeds models trained on {listing(takes)}",
        )


def check_norm(ledger: Ledger, label: str, train: str, values: dict[str, tuple[float, ...] | None]) -> None:
    """mean / scale / std belong to images; a std is not zero."""
    for key, numbers in values.items():
        if numbers is None:
            continue
        if train == "featuremap":
            ledger.refuse(
                "PTQ216",
                (GROUP, key),
                f"{key} for {label} of type featuremap",
                "mean, scale and std for images only",
                "write None for this input, or remove the key",
            )
        elif train:
            channels = INPUT_TYPES[train].channels
            if len(numbers) not in (1, channels):
                ledger.refuse(
                    "PTQ208",
                    (GROUP, key),
                    f"{len(numbers)} numbers for {label} of type {train}",
                    f"1 or {channels}",
                    "one number per channel",
                )
        if key == "std_value" and not all(numbers):
            ledger.refuse(
                "PTQ207",
                (GROUP, key),
                f"0 in std_value of {label}",
                "numbers other than 0",
                "std divides: write 1 for a channel that is not scaled",
            )


def check_image(
    ledger: Ledger, path: KeyPath, label: str, train: str, rt: str, layout: str, shape: Sequence[int]
) -> None:
    """An image type needs 4 dimensions, its channels where the layout says, and for nv12 even height and width."""
    kind = INPUT_TYPES[train]
    if not kind.is_image:
        return
    text = "x".join(map(str, shape))
    if len(shape) != 4:
        ledger.refuse(
            "PTQ215",
            path,
            f"{label} has the shape {text} and the image type {train}",
            "4 dimensions",
            "write featuremap for inputs that are no images",
        )
        return
    if layout not in ("NCHW", "NHWC"):
        return
    channel = shape[1] if layout == "NCHW" else shape[3]
    height, width = (shape[2], shape[3]) if layout == "NCHW" else (shape[1], shape[2])
    if channel != kind.channels:
        other = shape[3] if layout == "NCHW" else shape[1]
        hint = (
            f"the shape looks like {'NHWC' if layout == 'NCHW' else 'NCHW'}: check input_layout_train"
            if other == kind.channels
            else "write featuremap if the input is no such image"
        )
        ledger.refuse(
            "PTQ215",
            path,
            f"{label} has {channel} channels in {text} ({layout}) and the type {train}",
            f"{kind.channels} channel{'s' if kind.channels != 1 else ''}",
            hint,
        )
    elif rt == "nv12" and (height % 2 or width % 2):
        ledger.refuse(
            "PTQ215",
            path,
            f"{label} is {height} high and {width} wide in {text} ({layout})",
            "even height and width for nv12",
            "use another input_type_rt, or a model of even size",
        )


def check_source(ledger: Ledger, label: str, name: str, rt: str, source: str) -> None:
    """The source on the board delivers the run-time type."""
    takes = INPUT_SOURCES[source]
    if rt not in takes:
        allowed = [s for s, types in INPUT_SOURCES.items() if rt in types]
        ledger.refuse(
            "PTQ216",
            ("compiler_parameters", "input_source", name),
            f"{source} for {label} of type {rt}",
            listing(allowed),
            f"{source} takes {listing(takes)}",
        )

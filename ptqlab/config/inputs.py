"""The inputs as configured: lists of the group turned into one value per input, each checked as far as it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptqlab.config.document import Ledger, did_you_mean, listing
from ptqlab.config.fields import GROUPS, field_of
from ptqlab.config.image_types import INPUT_SOURCES, INPUT_TYPES, default_source
from ptqlab.config.input_checks import check_image, check_norm, check_pair, check_source
from ptqlab.config.values import InputParameters
from ptqlab.errors import shorten

GROUP = "input_parameters"
LISTS = (
    "input_type_rt",
    "input_type_train",
    "input_layout_train",
    "input_space_and_range",
    "input_shape",
    "mean_value",
    "scale_value",
    "std_value",
)
NEED_TYPES = ("input_layout_train", "input_space_and_range", "mean_value", "scale_value", "std_value")
Shapes = dict[str, tuple[int, ...]]


def read_inputs(
    ledger: Ledger, given: dict[str, Any], sources: Mapping[str, str]
) -> tuple[tuple[InputParameters, ...], bool]:
    """One `InputParameters` per entry, and whether the types were given.

    given    canonical values of input_parameters;  sources  input_source of compiler_parameters
    """
    said = {f.key for f in GROUPS[GROUP] if ledger.said((GROUP, f.key))}
    types_given = check_types(ledger, given, said)
    given, names, shapes = split_shapes(ledger, given, types_given)
    counts = {key: len(given[key]) for key in LISTS if key in given}
    if not check_counts(ledger, names, counts):
        return (), types_given
    listed = given.get("input_name", ())
    check_batch(ledger, given, listed, [*given.get("input_shape", ()), *shapes.values()])
    if "scale_value" in given and "std_value" in given:
        ledger.refuse(
            "PTQ210",
            (GROUP, "std_value"),
            "scale_value and std_value",
            "one of the two: std divides by what scale multiplies with",
            "keep scale_value, or std_value",
        )
    for name in sources if listed else ():
        if name not in listed:
            path = ("compiler_parameters", "input_source", name)
            hint = did_you_mean(name, listed)
            ledger.refuse("PTQ213", path, f"unknown input {shorten(name)}", listing(listed), hint)
    count = len(names) or max(counts.values(), default=0)
    entries = []
    for index in range(count):
        row = {key: given[key][index] for key in LISTS if key in given}
        name = names[index] if names else ""
        row.setdefault("input_shape", shapes.get(name))
        split = bool(given.get("separate_batch")) or name in given.get("separate_name", ())
        entries.append(one_input(ledger, name, row, said, split, sources))
    return tuple(entries), types_given


def check_types(ledger: Ledger, given: dict[str, Any], said: set[str]) -> bool:
    """Both types, or none of them and nothing that needs them (then every input is a featuremap)."""
    types_given = "input_type_rt" in said or "input_type_train" in said
    needing = [key for key in NEED_TYPES if key in given]
    if not types_given and not needing:
        if ledger.document.source:
            ledger.warn(
                "PTQ255",
                (GROUP,),
                "input_type_rt and input_type_train are not given: every input is a featuremap",
                "the vendor's tool requires both keys; to_yaml of the bound configuration writes them",
            )
        return False
    for key, other in (("input_type_rt", "input_type_train"), ("input_type_train", "input_type_rt")):
        if key not in said:
            reason = other if other in said else listing(needing)
            ledger.refuse(
                "PTQ209",
                (GROUP, key),
                f"no {key}, though {reason} is given",
                field_of(GROUP, key).expected,
                "write featuremap for inputs that are no images",
            )
    return types_given


def split_shapes(
    ledger: Ledger, given: dict[str, Any], types_given: bool
) -> tuple[dict[str, Any], Sequence[str], Shapes]:
    """The group without shapes by name, the input names, and the shapes by name (a form of Python)."""
    names: Sequence[str] = given.get("input_name", ())
    shapes = given.get("input_shape")
    if not isinstance(shapes, dict):
        return given, names, {}
    rest = {key: value for key, value in given.items() if key != "input_shape"}
    if not names and (not types_given or len(shapes) == 1):
        names = tuple(shapes)
    for name in shapes:
        if names and name not in names:
            path = (GROUP, "input_shape", name)
            found = f"a shape for {shorten(name)}, which input_name does not list"
            ledger.refuse("PTQ213", path, found, listing(names), did_you_mean(name, names))
    return rest, names, shapes


def check_counts(ledger: Ledger, names: Sequence[str], counts: dict[str, int]) -> bool:
    """One entry per input in every list; several inputs have names, each once."""
    good = True
    for name in dict.fromkeys(n for n in names if names.count(n) > 1):
        found = f"the name {shorten(name)} stands {names.count(name)} times"
        ledger.refuse("PTQ213", (GROUP, "input_name"), found, "each input once", "remove the repetition")
        good = False
    if not names:
        several = {key: count for key, count in counts.items() if count > 1}
        for key, count in list(several.items())[:1]:
            ledger.refuse(
                "PTQ209",
                (GROUP, key),
                f"{count} entries, and no input_name",
                "input_name with one name per entry",
                'write input_name: "first;second" in the order of the other lists',
            )
        return not several
    for key, count in counts.items():
        if count != len(names):
            entries = "1 entry" if count == 1 else f"{count} entries"
            inputs = f"{len(names)} input{'s' if len(names) > 1 else ''} ({listing(names)})"
            hint = "give the entries in the order of input_name"
            if key.endswith("_value"):
                hint = "write None for an input that has none"
            path = (GROUP, key)
            ledger.refuse("PTQ208", path, f"{entries} for {inputs}", 'one entry per input, separated by ";"', hint)
            good = False
    return good


def check_batch(ledger: Ledger, given: dict[str, Any], names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> None:
    """input_batch, separate_batch and separate_name among themselves."""
    if given.get("separate_batch") and given.get("separate_name"):
        ledger.refuse(
            "PTQ210",
            (GROUP, "separate_name"),
            "separate_batch and separate_name",
            "one of the two",
            "separate_name splits some inputs, separate_batch all",
        )
    for name in given.get("separate_name", ()):
        if names and name not in names:
            path = (GROUP, "separate_name")
            ledger.refuse("PTQ213", path, f"unknown input {shorten(name)}", listing(names), did_you_mean(name, names))
    bad = [s for s in shapes if s[0] != 1]
    if given.get("input_batch") is not None and bad:
        ledger.refuse(
            "PTQ217",
            (GROUP, "input_batch"),
            f"input_batch with the input_shape {'x'.join(map(str, bad[0]))}",
            "every first dimension is 1",
            "write the shape of one sample, or leave input_batch out: the batch is in the shape already",
        )


def one_input(
    ledger: Ledger, name: str, row: dict[str, Any], said: set[str], split: bool, sources: Mapping[str, str]
) -> InputParameters:
    """The value of one input after the checks that need nothing but its own entry of each list."""
    rt, train = row.get("input_type_rt", "featuremap"), row.get("input_type_train", "featuremap")
    layout, space = row.get("input_layout_train", ""), row.get("input_space_and_range", "regular")
    mean, scale, std = row.get("mean_value"), row.get("scale_value"), row.get("std_value")
    shape = row["input_shape"]
    label = f"input {name}" if name else "the input"
    rt_known, train_known = "input_type_rt" in row, "input_type_train" in row
    if rt_known and train_known:
        check_pair(ledger, label, rt, train)
    if rt_known and space == "bt601_video" and rt != "nv12":
        ledger.refuse(
            "PTQ216",
            (GROUP, "input_space_and_range"),
            f"bt601_video for {label} of type {rt}",
            "bt601_video only with input_type_rt: nv12",
            "write regular",
        )
    if rt_known and name in sources:
        check_source(ledger, label, name, rt, sources[name])
    if train_known and INPUT_TYPES[train].is_image and "input_layout_train" not in said:
        ledger.refuse(
            "PTQ209",
            (GROUP, "input_layout_train"),
            f"no layout for {label} of type {train}",
            "NCHW or NHWC",
            "write the layout of the float model's input",
        )
    check_norm(
        ledger, label, train if train_known else "", {"mean_value": mean, "scale_value": scale, "std_value": std}
    )
    if shape is not None and train_known:
        check_image(ledger, (GROUP, "input_shape"), label, train, rt, layout, shape)
    if std is not None and all(std):
        scale = tuple(1.0 / s for s in std)
    source = sources.get(name) or default_source(rt)
    assert source in INPUT_SOURCES
    layout = layout if INPUT_TYPES[train].is_image else ""
    return InputParameters(name, rt, train, layout, space, shape, mean, scale, split, source)

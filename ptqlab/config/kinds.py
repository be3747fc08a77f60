"""A value of the YAML by its kind: text to names, shapes, numbers. One function per kind; refusals go to the ledger."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ptqlab.config.document import KeyPath, Ledger, did_you_mean, listing, show
from ptqlab.config.fields import Field
from ptqlab.config.image_types import CLOSED_TYPES
from ptqlab.errors import shorten

SHAPE = re.compile(r"\d{1,10}(?:[xX*]\d{1,10})*")
MAX_DIM = 2**31 - 1
# Older chips whose march names users bring along, and chip names used instead of marches.
OTHER_MARCHES = {
    "bernoulli2": "bernoulli2 is the X3 generation, which this tool does not model",
    "bayes": "bayes is the J5 generation, which this tool does not model",
    "bayes-e": "bayes-e is the X5 generation, which this tool does not model",
    "j6e": "J6E is nash-e",
    "j6m": "J6M is nash-m",
    "j6b": "J6B is nash-b",
    "j6h": "J6H is nash-h",
    "j6p": "J6P is nash-p",
    "s100": "S100 is nash-e",
    "s100p": "S100P is nash-m",
    "s600": "S600 is nash-p",
    "nash": "name the platform: S100 is nash-e, S100P nash-m, S600 nash-p",
}


class Missing:
    """Stands for "the key says nothing": the default applies."""


MISSING = Missing()


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_plain(value: object) -> bool:
    """True for what a file can hold and compares equal to itself."""
    if isinstance(value, Mapping):
        return all(is_plain(v) for v in value.values())
    if isinstance(value, list):
        return all(is_plain(v) for v in value)
    return value is None or isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value))


def parse(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    """Canonical value of `value`, or MISSING for nothing or after a refusal."""
    if value is None or (row.default is None and isinstance(value, str) and value.strip() in ("None", "")):
        return MISSING
    kind = row.kind
    if kind in ("text", "file", "folder"):
        return text(row, value, path, ledger)
    if kind == "bool":
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        hint = (
            f"write {'true' if word in ('1', 'true', 'yes', 'on') else 'false'} without quotes"
            if word in ("0", "1", "true", "false", "yes", "no", "on", "off")
            else ""
        )
        ledger.refuse("PTQ203", path, show(value), row.expected, hint)
        return MISSING
    if kind in ("int", "float", "auto_int"):
        return number(row, value, path, ledger)
    if kind == "choice":
        return choice(row, value, path, ledger)
    if kind in ("names", "choices", "folders"):
        return words(row, value, path, ledger)
    if kind == "shapes":
        return shapes(row, value, path, ledger)
    if kind == "vectors":
        return vectors(row, value, path, ledger)
    if kind == "mapping":
        return mapping(row, value, path, ledger)
    return value  # node_info and quant_config have readers of their own


def text(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    if not isinstance(value, str):
        hint = f'write it in quotes: "{shorten(value, 40)}"' if is_number(value) else ""
        ledger.refuse("PTQ203", path, show(value), row.expected, hint)
        return MISSING
    if any(not c.isprintable() for c in value):
        ledger.refuse("PTQ212", path, f"{show(value)}, which holds a control character", row.expected, "remove it")
        return MISSING
    return value.strip()


def number(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    if row.kind == "auto_int" and isinstance(value, str) and value.strip().lower() in ("none", "auto"):
        return None
    if not is_number(value) or (row.kind != "float" and isinstance(value, float)):
        several = isinstance(value, str) and ";" in value
        quoted = isinstance(value, str) and re.fullmatch(r"\s*[-+.\deE]+\s*", value)
        hint = "one number holds for all inputs" if several else "write it without quotes" if quoted else ""
        ledger.refuse("PTQ203", path, show(value), row.expected, hint)
        return MISSING
    if (
        not math.isfinite(value)
        or (row.low is not None and value < row.low)
        or (row.high is not None and value > row.high)
    ):
        ledger.refuse("PTQ207", path, show(value), row.expected)
        return MISSING
    return float(value) if row.kind == "float" else value


def choice(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    if isinstance(value, str) and value.strip() in row.allowed:
        return value.strip()
    if isinstance(value, str) and not value.strip():
        return MISSING
    if not isinstance(value, str):
        ledger.refuse("PTQ203", path, show(value), row.expected)
        return MISSING
    ledger.refuse("PTQ202", path, show(value), row.expected, choice_hint(row, value))
    return MISSING


def choice_hint(row: Field, value: str) -> str:
    word = value.strip()
    if row.key == "march" and word.lower() in OTHER_MARCHES:
        return OTHER_MARCHES[word.lower()]
    if row.key == "compile_mode" and word == "throughput":
        return "throughput stands in an older template and is no mode: write bandwidth, or balance with balance_factor"
    if row.key == "optimize_level" and word.upper() == "O3":
        return "O3 was a level of older tools; O2 is the highest"
    if row.key == "calibration_type" and word in ("percentile", "load"):
        return (
            "write max with max_percentile"
            if word == "percentile"
            else "name the file that holds them: calibration_parameters.thresholds"
        )
    if row.key in ("input_type_rt", "input_type_train") and word in CLOSED_TYPES:
        return f"{word} is reserved in the vendor's parser and not open for use"
    if row.key == "input_type_train" and word == "nv12":
        return "no model is trained on nv12: name the colour type of the training images, e.g. rgb"
    return did_you_mean(word, row.allowed)


def split(value: str) -> list[str]:
    """Entries of a ";" list; a trailing ";" is tolerated."""
    parts = [p.strip() for p in value.split(";")]
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def split_names(value: str) -> list[str]:
    r"""Names of a ";" list; "\;" is a ";" inside a name, as TFLite exports have it, and is no separator."""
    return [part.replace(r"\;", ";") for part in (p.strip() for p in _parts(value))]


def _parts(value: str) -> list[str]:
    parts = re.split(r"(?<!\\);", value)
    return parts[:-1] if len(parts) > 1 and not parts[-1].strip() else parts


def joined_names(names: Iterable[str]) -> str:
    """The text that `split_names` reads back."""
    return ";".join(name.replace(";", r"\;") for name in names)


def words(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    """Tuple of entries of names / choices / folders."""
    if isinstance(value, str):
        if not value.strip():
            return MISSING
        parts = split_names(value) if row.kind == "names" else split(value)
    elif isinstance(value, list) and all(isinstance(v, str) for v in value):
        parts = [v.strip() for v in value]
        if ledger.document.line(path):  # in a file the vendor's tool takes text only
            text = joined_names(parts) if row.kind == "names" else ";".join(parts)
            ledger.refuse("PTQ203", path, show(value), row.expected, f'write "{shorten(text, 60)}"')
            return MISSING
        if not parts:
            return MISSING
    else:
        hint = f'write it in quotes: "{shorten(value, 40)}"' if is_number(value) else ""
        ledger.refuse("PTQ203", path, show(value), row.expected, hint)
        return MISSING
    bad = False
    for index, part in enumerate(parts):
        at = f"entry {index + 1} " if len(parts) > 1 else ""
        if not part:
            ledger.refuse(
                "PTQ212",
                path,
                f"{show(value)}: entry {index + 1} is empty",
                row.expected,
                'one ";" between two entries',
            )
            bad = True
        elif ";" in part and row.kind != "names":  # an entry of a Python list
            ledger.refuse("PTQ212", path, f'{show(part)}: ";" separates entries', row.expected, "one name per entry")
            bad = True
        elif row.kind == "choices" and part not in row.allowed:
            ledger.refuse("PTQ202", path, f"{at}{show(part)}", row.expected, choice_hint(row, part))
            bad = True
    return MISSING if bad else tuple(parts)


def one_shape(value: Any) -> tuple[int, ...] | None:
    """`"1x3x8x8"` or a list of whole numbers as a shape; None where it is none."""
    if isinstance(value, str):
        if not SHAPE.fullmatch(value.strip()):
            return None
        dims = [int(d) for d in re.split("[xX*]", value.strip())]
    elif isinstance(value, Sequence) and value and all(isinstance(d, int) and not isinstance(d, bool) for d in value):
        dims = list(value)
    else:
        return None
    return tuple(dims) if all(0 < d <= MAX_DIM for d in dims) else None


def shapes(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    """Tuple of shapes in the order of the inputs, or a mapping name -> shape (Python form)."""
    hint = "every dimension is a whole number from 1 on: write 1x3x224x224, not ?x3x224x224 or -1"
    if isinstance(value, Mapping):
        named = {str(name): one_shape(v) for name, v in value.items()}
        for name, shape in named.items():
            if shape is None:
                ledger.refuse("PTQ212", (*path, name), show(value[name]), "a shape such as 1x3x224x224", hint)
        return MISSING if None in named.values() or not named else named
    parts: Sequence[Any]
    if isinstance(value, str):
        parts = split(value)
    elif isinstance(value, list) and value and all(isinstance(v, list | str) for v in value):
        parts = value
    else:
        parts = [value]
    out = [one_shape(p) for p in parts]
    for part, shape in zip(parts, out, strict=True):
        if shape is None:
            ledger.refuse("PTQ212", path, show(part), row.expected, hint)
    return MISSING if None in out else tuple(out)


def vectors(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    """Tuple with a tuple of floats, or None, per entry."""
    if isinstance(value, str):
        parts: list[Any] = [
            None if p.lower() == "none" else [n for n in re.split(r"[\s,]+", p) if n] for p in split(value)
        ]
        if not value.strip():
            return MISSING
    elif is_number(value):
        if not math.isfinite(value):
            ledger.refuse("PTQ207", path, show(value), row.expected, "a finite number")
            return MISSING
        parts = [[value]]
    elif isinstance(value, list) and value and all(is_number(v) for v in value):
        parts = [value]
    elif isinstance(value, list) and value and all(v is None or isinstance(v, list) for v in value):
        parts = list(value)
    else:
        ledger.refuse("PTQ203", path, show(value), row.expected)
        return MISSING
    out: list[tuple[float, ...] | None] = []
    for index, part in enumerate(parts):
        if part is None:
            out.append(None)
            continue
        numbers = [as_number(p) for p in part]
        bad = [str(p) for p, n in zip(part, numbers, strict=True) if n is None]
        if bad or not numbers:
            found = (
                f"{show(value)}: entry {index + 1} {'holds ' + listing(show(b) for b in bad) if bad else 'is empty'}"
            )
            ledger.refuse(
                "PTQ212",
                path,
                found,
                row.expected,
                "write None where an input has none" if not numbers else "finite numbers only",
            )
            return MISSING
        out.append(tuple(n for n in numbers if n is not None))
    return tuple(out)


def as_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and len(str(value)) <= 40 else None


def mapping(row: Field, value: Any, path: KeyPath, ledger: Ledger) -> Any:
    if isinstance(value, str) and not value.strip():
        return MISSING
    if not isinstance(value, Mapping):
        ledger.refuse("PTQ203", path, show(value), row.expected, "write {name: value}")
        return MISSING
    if not row.allowed:
        for name, word in value.items():
            if not is_plain(word):
                ledger.refuse(
                    "PTQ203", (*path, str(name)), show(word), "a finite number, text, a boolean, or these in lists"
                )
        return dict(value)
    out = {}
    for name, word in value.items():
        if word in row.allowed:
            out[name] = word
        else:
            ledger.refuse(
                "PTQ202" if isinstance(word, str) else "PTQ203",
                (*path, name),
                show(word),
                listing(row.allowed),
                did_you_mean(word, row.allowed) if isinstance(word, str) else "",
            )
    return out

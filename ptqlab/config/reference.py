"""The documentation page of both files as Markdown, made from the tables of fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptqlab.config.fields import GROUPS, Field
from ptqlab.config.image_types import INPUT_TYPES, TRAIN_TYPES
from ptqlab.config.quant_fields import (
    ACTIVATION,
    CLOSED_METHODS,
    CLOSED_QTYPES,
    DUAL,
    LEVEL_KEYS,
    METRICS,
    MODEL_KEYS,
    OUTPUT_TYPES,
    QTYPES,
    TWO_OPERAND_OPS,
)

CARRIED = {
    "en": " (kept for the vendor's tool; the estimate does not depend on it)",
    "zh": "（仅供官方工具使用，不影响预估）",
}
HEADS = {
    "en": ("key", "default", "allowed", "meaning"),
    "zh": ("参数", "默认值", "取值", "说明"),
}


def markdown(language: str = "en") -> str:
    """The page in English ("en") or Chinese ("zh")."""
    head = HEADS[language]
    parts = ["# " + ("Configuration reference" if language == "en" else "配置参考")]
    for group, fields in GROUPS.items():
        parts += [f"## {group}", table(head, [row(f, language) for f in fields])]
    runs = [(train, ", ".join(INPUT_TYPES[train].runs_as)) for train in TRAIN_TYPES]
    parts += ["## input_type_train -> input_type_rt", table(("train", "rt"), runs)]
    parts += ["## quant_config", " < ".join(LEVEL_KEYS)]
    parts.append(table(("key", "allowed"), quant_rows()))
    rows = [(code(f.key), shown(f.default), f.expected, f.rule if language == "en" else f.zh) for f in ACTIVATION]
    parts += ["### activation", table(head, rows)]
    closed = [(code(w), reason) for w, reason in {**CLOSED_QTYPES, **CLOSED_METHODS}.items()]
    parts += ["### " + ("Refused, and why" if language == "en" else "不支持的取值"), table(("", ""), closed)]
    return "\n\n".join(parts) + "\n"


def quant_rows() -> list[tuple[str, str]]:
    return [
        (code("model_config"), ", ".join(MODEL_KEYS)),
        (code("all_node_type"), ", ".join(QTYPES)),
        (code("model_output_type"), ", ".join(OUTPUT_TYPES)),
        (code("qtype"), f"{', '.join(QTYPES)}; {DUAL} ({', '.join(TWO_OPERAND_OPS)}); int32 (Softmax)"),
        (code("input0, input1, ..."), ", ".join(QTYPES)),
        (code("metric"), ", ".join(METRICS)),
    ]


def row(field: Field, language: str) -> tuple[str, str, str, str]:
    meaning = field.rule if language == "en" else field.zh
    if field.deprecated:
        meaning += f" ({field.deprecated})" if language == "en" else ""
    if field.carried:
        meaning += CARRIED[language]
    return code(field.key), shown(field.default), field.expected, meaning


def code(word: str) -> str:
    return f"`{word}`"


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(shown(v) for v in value)
    return "" if value in (None, "") else code(str(value).lower() if isinstance(value, bool) else str(value))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)

"""The definition page, all arithmetic as the code states it: `python -m ptqlab.report.definitions` writes it.

Nothing is written twice: the texts are the docstrings of the modules and functions that compute, the numbers are their
constants, the equations those of the integer operators.
"""
from __future__ import annotations

import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import numpy as np

from ptqlab.arith import requantize, rounding, tables
from ptqlab.arith.formats import QType, widest
from ptqlab.ops import functions, masks, matmul
from ptqlab.ops.integer import DOMAIN, INTEGER_OPS, IntegerOp, accumulate, image, norm, products, scaling, softmax
from ptqlab.ops.integer.movers import MOVERS
from ptqlab.ops.rules import PRODUCTS
from ptqlab.placement import capability, floats
from ptqlab.platforms.march import PLATFORMS
from ptqlab.quantize import image_inputs, lower, means, weights
from ptqlab.stages import calibration

HEAD = f"""# Definitions

Made from the code of ptqlab by `python -m ptqlab.report.definitions`; a test checks that it is current.
Everything that a quantized model computes is defined here, down to the last bit. *Documented* and *log* mean that a
vendor's manual or a published log says so; where nothing is public, the choice is marked as *our definition*. The
plain numpy kernels are the definition; the faster paths and the model-local functions (domain `{DOMAIN}`) that let any
onnxruntime run a `.bc` give the same bits, and tests prove it.
"""
WORDS = """`x >> s` is an arithmetic shift, `clamp` saturates to the range of the output type (and to the bounds of a
Relu or Clip computed inside), `_zp` is a zero point, `m` and `s` are the multiplier and shift of a real ratio,
`G` are the guard bits. `rescale` is defined above. Inputs in brackets; an operator's name begins with the types of its
features, `Add` behind it means a residual operand, `Tail` the accumulator as output.
"""
FLOATS = """
A float16 operator rounds what it reads and what it writes to float16 and computes between in float32, as one standard
ONNX operator each (our definition). For +, -, *, /, square root, comparison and clamping that is exactly float16
arithmetic, since 24 bits of float32 are more than twice the 11 of float16; sums over an axis are float32 sums. There is
no clamp: beyond 65504 is Inf, and the first node where that happens is reported. float32 operators are ONNX's, one by
one. An integer operator that reads a float tensor reads it quantized; a float operator reads codes dequantized.
"""


def definitions_page() -> str:
    """The page as Markdown."""
    sections = [
        HEAD,
        "## Number formats\n\n" + _formats(),
        "## Platforms\n\n" + _platforms(),
        "## Constants\n\n" + _constants(),
        _section("Rounding, quantize, dequantize", rounding, rounding.round_half_away, rounding.quantize,
                 rounding.dequantize),
        _section("Scales of tensors", calibration.symmetric, calibration.asymmetric, masks),
        _section("Weights and biases", weights.channel_scales, weights.encode_weights, means, matmul.constant_codes),
        _section("Requantize", requantize, requantize.fixed_point, requantize.rescale, requantize.clamp,
                 scaling.requantize, scaling.requantize_sum, scaling.saturate32),
        _section("Accumulators", accumulate, accumulate.with_bias, products),
        _section("Tables", tables, functions),
        _section("Softmax", softmax),
        _section("Normalizations", norm),
        _section("Floats of the vector unit", lower.rounded_half, capability.float_type, floats.spread_floats) + FLOATS,
        _section("Images", image, image_inputs) + "\n" + _colours(),
        "## Integer operators\n\n" + WORDS + "\n" + _operators(INTEGER_OPS.values()),
        "## Movers\n\n" + _movers(),
    ]
    return "\n".join(sections)


def _formats() -> str:
    lines = ["| Type | Bits | Codes | In the node table |", "| --- | --- | --- | --- |"]
    for t in QType:
        codes = f"{t.qmin} to {t.qmax}" if t.is_integer else f"IEEE 754 binary{t.bits}"
        lines.append(f"| {t.value} | {t.bits} | {codes} | {t.word} |")
    order = sorted(QType, key=lambda t: sum(widest([t, o]) is t for o in QType))
    wide = " < ".join(t.value for t in order)
    return "\n".join(lines) + f"\n\nA tensor is stored in the widest type that a reader asks for: {wide}.\n"


def _platforms() -> str:
    lines = ["| March | Chips | Float types of the vector unit | High-precision tail | Row stride of nv12 |",
             "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {p.march} | {p.chips} | {', '.join(t.value for t in p.float_types) or 'none'} | {p.tail_type.value} "
        f"| {p.nv12_stride} |" for p in PLATFORMS.values()
    ]
    return "\n".join(lines) + "\n"


def _constants() -> str:
    rows = (
        ("bits of a multiplier m", requantize.MULTIPLIER_BITS),
        ("guard bits G of operators that add", requantize.GUARD_BITS),
        ("ratios below this are 0", f"2^{int(np.log2(requantize.SMALLEST_RATIO))}"),
        ("ratios are held below", f"2^{int(np.log2(requantize.LARGEST_RATIO))}"),
        ("products that one output sums at most, with int8 weights", PRODUCTS),
        ("products that one output sums at most, int16 x int16 or two tensors", accumulate.LONGEST_SUM),
        ("bits that a sum of int16 x int16 loses", accumulate.DROPPED),
        ("largest bias", f"2^{weights.LARGEST_BIAS.bit_length() - 1}"),
        ("stand-ins for minus infinity are held this far below the largest of their row", masks.MASKED),
    )
    return "| | |\n| --- | --- |\n" + "".join(f"| {what} | {value} |\n" for what, value in rows)


def _colours() -> str:
    lines = ["Rows of the colour matrices are Y, U, V, columns R, G, B, in units of 2^-16; from Y "
             f"{image.VIDEO_BLACK} is taken first in video range, from U and V {image.CHROMA_OFFSET}.", "", "```text"]
    for name, matrix in (("full range ", image.FULL_RANGE), ("video range", image.VIDEO_RANGE)):
        lines.append(f"{name}  " + "  ".join(str(row.tolist()) for row in matrix))
    return "\n".join([*lines, "```", ""])


def _operators(ops: Iterable[IntegerOp]) -> str:
    """One line per operator; those with one equation stand together."""
    lines = []
    for _, group in itertools.groupby(ops, key=lambda o: (o.equation, o.inputs)):
        same = list(group)
        lines.append(f"- {', '.join(f'**{o.name}**' for o in same)} ({', '.join(same[0].inputs)})  \n"
                     f"  `{same[0].equation}`")
    return "\n".join(lines) + "\n"


def _movers() -> str:
    text = ("These hand codes on as they are, as ONNX defines them: type, scale and zero point of the output are those "
            "of the input (our definition; documented for most of them).")
    return f"{text}\n\n{', '.join(sorted(MOVERS))}\n"


def _section(title: str, *objects: object) -> str:
    return f"## {title}\n\n" + "\n".join(_entry(o) for o in objects)


def _entry(thing: object) -> str:
    """Name and docstring of a module or function."""
    name = str(getattr(thing, "__name__", ""))
    where = name if isinstance(thing, ModuleType) else f"{thing.__module__}.{name}"
    return f"### `{where.removeprefix('ptqlab.')}`\n\n{markdown(inspect.getdoc(thing) or '')}"


def markdown(text: str) -> str:
    """A docstring as Markdown: indented lines and lists of names are shown as they stand, the others flow."""
    blocks: list[str] = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        # `name  what it is`, with more of it indented below
        listed = re.match(r"\S+  +\S", lines[0]) is not None
        for inset, group in itertools.groupby(lines, key=lambda line: listed or line.startswith(" ")):
            kept = list(group)
            if inset:
                blocks.append("\n".join(["```text", *textwrap.dedent("\n".join(kept)).splitlines(), "```"]))
            else:
                blocks.append("\n".join(line.replace("<", "\\<").replace("*", "\\*") for line in kept))
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    Path("DEFINITIONS.md").write_text(definitions_page(), encoding="utf-8")

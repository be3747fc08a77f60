"""Layer tables: JSON lines, the first a header, each further one a layer.

    {"model": "YOLOv8n", "input": [1, 3, 640, 640], "params": 3151904, "gmacs": 4.37}
    {"op": "Conv", "act": "silu", "in": [[1, 3, 640, 640]], "out": [1, 16, 320, 320], "k": [3, 3], "s": [2, 2], "g": 1,
     "macs": 44236800, "wb": 432, "ib": 1228800, "ob": 1638400, "id": 0, "src": [-1], "cons": [1], "net_out": 0,
     "tail": 0}

wb, ib, ob are elements of weights, inputs and outputs. "add" marks a fused residual, "outs" lists several outputs;
"name", "qtype", "out_qtype" and "weight_qtype" may be given. "src" may name a layer once whose several results are
read: its last entry stands for what is missing. "cons" says the same as "src" and is not read; null means absent.
"""
from __future__ import annotations

import gzip
import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptqlab.arith.formats import QType
from ptqlab.errors import Problem, PtqError, shorten
from ptqlab.perf.layer import TAE_OPS, Layer, Shape, check, linked

MOST_BYTES = 64 << 20
MOST_LAYERS = 100_000
LARGEST = 1 << 50
QTYPES = (QType.INT8, QType.INT16, QType.FLOAT16)
EXPECTED = "a header line with \"model\", then one JSON object for each layer"


@dataclass(frozen=True)
class LayerTable:
    """Layers of one model and the name it goes by."""

    model: str
    layers: tuple[Layer, ...]


def read_layers(path: str | Path) -> LayerTable:
    """Read a layer table, plain or gzipped. Raises PtqError with all problems of the file."""
    path = Path(path)
    lines = [(number, line) for number, line in enumerate(_text(path).splitlines(), 1) if line.strip()]
    if not lines:
        raise PtqError(Problem("PTQ151", str(path), "an empty file", EXPECTED), "layer table")
    if len(lines) > MOST_LAYERS:
        raise PtqError(Problem("PTQ151", str(path), f"{len(lines)} lines", f"at most {MOST_LAYERS}"), "layer table")
    problems: list[Problem] = []
    rows = [(f"{path}:{number}", _object(f"{path}:{number}", line, problems)) for number, line in lines]
    header = rows[0][1]
    if header is not None and not isinstance(header.get("model"), str):
        problems.append(Problem("PTQ151", rows[0][0], "no \"model\" in the first line", EXPECTED))
    layers = [_layer(where, row, index, problems) for index, (where, row) in enumerate(rows[1:]) if row is not None]
    if problems:
        raise PtqError(problems[:20], "layer table")
    assert header is not None
    made = linked(layer for layer in layers if layer is not None)
    check(made, str(path))
    return LayerTable(header["model"], made)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if raw[:2] == b"\x1f\x8b":
            inflate = zlib.decompressobj(wbits=31)
            raw = inflate.decompress(raw, MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise PtqError(Problem("PTQ151", str(path), f"more than {MOST_BYTES >> 20} MiB", EXPECTED), "layer table")
        return raw.decode("utf-8")
    except OSError as error:
        raise PtqError(Problem("PTQ151", str(path), error.strerror or str(error), "a readable file"),
                       "layer table") from None
    except (gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise PtqError(Problem("PTQ151", str(path), f"not readable as text: {error}", EXPECTED),
                       "layer table") from None


def _object(where: str, line: str, problems: list[Problem]) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        problems.append(Problem("PTQ151", where, f"not JSON: {shorten(error)}", EXPECTED))
        return None
    if not isinstance(found, dict):
        problems.append(Problem("PTQ151", where, shorten(repr(found), 60), "a JSON object"))
        return None
    return found


class _Row:
    """Typed access to the object of one line; what is wrong is collected."""

    def __init__(self, where: str, row: dict[str, Any], problems: list[Problem]) -> None:
        self.where, self.row, self.problems = where, row, problems

    def get(self, key: str, default: Any) -> Any:
        value = self.row.get(key)
        return default if value is None else value

    def wrong(self, key: str, expected: str) -> None:
        self.problems.append(Problem("PTQ151", f"{self.where}: {key}", shorten(repr(self.row.get(key)), 60), expected))

    def word(self, key: str, default: str = "") -> str:
        value = self.get(key, default)
        if not isinstance(value, str) or len(value) > 200:
            self.wrong(key, "a short text")
            return default
        return value

    def count(self, key: str, default: int = 0, least: int = 0) -> int:
        value = self.get(key, default)
        if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
            value = int(value)
        if not isinstance(value, int) or not least <= value <= LARGEST:
            self.wrong(key, f"a whole number from {least} to 2^50")
            return max(default, least)
        return value

    def shape(self, key: str, value: Any) -> Shape:
        good = isinstance(value, list) and len(value) <= 16 and all(type(d) is int and 0 < d <= LARGEST for d in value)
        if not good or math.prod(value) > LARGEST:
            self.wrong(key, "a list of positive whole numbers")
            return ()
        return tuple(value)

    def shapes(self, key: str) -> tuple[Shape, ...]:
        value = self.row.get(key)
        if not isinstance(value, list):
            self.wrong(key, "a list of shapes")
            return ()
        return tuple(self.shape(key, v) for v in value)

    def numbers(self, key: str, least: int) -> tuple[int, ...]:
        value = self.get(key, [])
        if not isinstance(value, list) or not all(type(v) is int and least <= v < MOST_LAYERS for v in value):
            self.wrong(key, f"a list of whole numbers from {least}")
            return ()
        return tuple(value)


def _layer(where: str, row: dict[str, Any], index: int, problems: list[Problem]) -> Layer | None:
    known = len(problems)
    read = _Row(where, row, problems)
    op = read.word("op")
    if not op:
        read.wrong("op", "the operator's ONNX type")
    inputs = read.shapes("in")
    outputs = read.shapes("outs") if "outs" in row else (read.shape("out", row.get("out")),)
    words = {key: read.word(key, QType.INT8.value) for key in ("qtype", "out_qtype", "weight_qtype")}
    for key, word in words.items():
        if word not in QTYPES:
            read.wrong(key, ", ".join(QTYPES))
    tail = bool(read.count("tail"))
    numbers = {key: read.count(key) for key in ("macs", "wb", "ib", "ob", "net_out", "add")}
    kernel, stride = (read.shape(key, read.get(key, [])) for key in ("k", "s"))
    group, sources = read.count("g", 1, 1), read.numbers("src", -64)
    sources += sources[-1:] * (len(inputs) - len(sources))
    act = read.word("act")
    if op in ("Conv", "ConvTranspose") and inputs and min(len(inputs[0]), len(outputs[0])) < 3:
        read.wrong("in", "batch, channels and at least one spatial axis")
    if not inputs:
        read.wrong("in", "at least one shape")
    if len(problems) > known:
        return None
    return Layer(
        name=read.word("name") or f"{op}_{index}", op=op, act=act, add=bool(numbers["add"]), inputs=inputs,
        outputs=outputs, sources=sources, kernel=kernel, stride=stride, group=group, macs=numbers["macs"],
        weights=numbers["wb"], reads=numbers["ib"], writes=numbers["ob"], net_out=bool(numbers["net_out"]), tail=tail,
        qtype=QType(words["qtype"]), output_qtype=QType(words["out_qtype"]), weight_qtype=QType(words["weight_qtype"]),
        # behind the last operator with weights nothing but that operator runs on the BPU (the tail rule)
        device="BPU" if not tail or op in TAE_OPS else "CPU",
    )

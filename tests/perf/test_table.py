"""Layer tables: every published one reads, and nothing hostile gets through."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from perf.common import DATA

from ptqlab.arith.formats import QType
from ptqlab.errors import PtqError
from ptqlab.perf.table import read_layers

HEADER = {"model": "net"}
LAYER = {"op": "Conv", "in": [[1, 16, 8, 8]], "out": [1, 32, 8, 8], "k": [1, 1], "s": [1, 1], "g": 1, "macs": 32768,
         "wb": 512, "ib": 1024, "ob": 2048, "id": 0, "src": [-1], "cons": [], "net_out": 1, "tail": 1}  # fmt: skip


def written(tmp_path: Path, *rows: object) -> Path:
    path = tmp_path / "net.jsonl"
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted((DATA / "board_layers").glob("*.gz")), ids=lambda p: p.name.split(".")[0])
def test_published_tables_hold_what_their_headers_say(path: Path) -> None:
    """MACs of the layers are those of the header, and every layer but the tail's followers runs on the BPU."""
    header = json.loads(gzip.decompress(path.read_bytes()).split(b"\n")[0])
    found = read_layers(path)
    assert found.model == header["model"]
    assert sum(layer.macs for layer in found.layers) == pytest.approx(header["gmacs"] * 1e9, rel=1e-9)
    assert all(layer.on_bpu or layer.tail for layer in found.layers)


def test_one_layer_in_full(tmp_path: Path) -> None:
    """Every field of a line arrives; types may be given."""
    row = LAYER | {
        "act": "silu",
        "add": 1,
        "in": [[1, 16, 8, 8], [1, 32, 8, 8]],
        "src": [-1, -2],
        "qtype": "int16",
        "out_qtype": "int16",
        "weight_qtype": "int16",
        "name": "first",
    }
    layer = read_layers(written(tmp_path, HEADER, row)).layers[0]
    assert (layer.name, layer.op, layer.act, layer.add) == ("first", "Conv", "silu", True)
    assert (layer.inputs, layer.output) == (((1, 16, 8, 8), (1, 32, 8, 8)), (1, 32, 8, 8))
    assert (layer.kernel, layer.stride, layer.group, layer.macs) == ((1, 1), (1, 1), 1, 32768)
    assert (layer.weights, layer.reads, layer.writes, layer.sources) == (512, 1024, 2048, (-1, -2))
    assert (layer.net_out, layer.tail, layer.device) == (True, True, "BPU")
    assert {layer.qtype, layer.output_qtype, layer.weight_qtype} == {QType.INT16}


def test_lenient_where_nothing_can_be_mistaken(tmp_path: Path) -> None:
    """null is absent, a whole number may be written with a point, and a layer read twice may be named once."""
    row = LAYER | {"act": None, "wb": None, "macs": 32768.0, "in": [[1, 8, 8, 8], [1, 8, 8, 8]], "cons": None}
    layer = read_layers(written(tmp_path, HEADER, row)).layers[0]
    assert (layer.act, layer.weights, layer.macs, layer.sources) == ("", 0, 32768, (-1, -1))


def test_what_follows_the_tail_is_on_the_cpu(tmp_path: Path) -> None:
    """Behind the last operator with weights the tail rule puts everything onto the CPU."""
    after = {
        "op": "Transpose",
        "in": [[1, 32, 8, 8]],
        "out": [1, 8, 8, 32],
        "ib": 2048,
        "ob": 2048,
        "src": [0],
        "tail": 1,
        "net_out": 1,
    }
    made = read_layers(written(tmp_path, HEADER, LAYER, after)).layers
    assert [layer.device for layer in made] == ["BPU", "CPU"]
    assert made[0].consumers == (1,)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("op", 3),
        ("op", ""),
        ("in", [[1, -16, 8, 8]]),
        ("in", "x"),
        ("in", [[1, 16.5]]),
        ("in", []),
        ("out", [[1]]),
        ("macs", -1),
        ("macs", 1 << 60),
        ("macs", "1"),
        ("macs", 1.5),
        ("g", 0),
        ("src", ["a"]),
        ("src", [-100]),
        ("qtype", "int4"),
        ("weight_qtype", "float32"),
        ("act", []),
        ("k", [0]),
        ("in", [[2**40, 2**40, 1, 1]]),
        ("in", [[16, 8]]),
        ("wb", []),
        ("tail", {}),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, key: str, value: object) -> None:
    """The refusal says line and key."""
    path = written(tmp_path, HEADER, LAYER | {key: value})
    with pytest.raises(PtqError) as caught:
        read_layers(path)
    assert any(f":2: {key}" in p.where for p in caught.value.problems), str(caught.value)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "an empty file"),
        (["{"], "not JSON"),
        (["[1]"], "[1]"),
        ([{"input": [1]}, LAYER], 'no "model"'),
        ([HEADER], "no layer"),
        ([HEADER, LAYER | {"src": [0]}], "comes later"),
        (["[" * 100_000], "not JSON"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, rows: list[object], told: str) -> None:
    """Nothing but layer tables is taken."""
    with pytest.raises(PtqError) as caught:
        read_layers(written(tmp_path, *rows))
    assert told in str(caught.value)


def test_all_problems_of_a_file_at_once(tmp_path: Path) -> None:
    """Two bad lines are two problems of one refusal."""
    with pytest.raises(PtqError) as caught:
        read_layers(written(tmp_path, HEADER, LAYER | {"macs": -1}, "{", LAYER | {"g": 0}))
    assert len(caught.value.problems) == 3


def test_unreadable_files(tmp_path: Path) -> None:
    """A missing file, one that is no text, a broken gzip and one that unpacks to far too much."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x00\x00")
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\n" * (65 << 20)))
    for name, told in (
        ("none", "No such file"),
        ("binary", "not readable"),
        ("broken.gz", "not readable"),
        ("bomb.gz", "more than 64 MiB"),
    ):
        with pytest.raises(PtqError) as caught:
            read_layers(tmp_path / name)
        assert told in str(caught.value)

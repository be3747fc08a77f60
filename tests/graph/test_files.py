"""Files that are no models, and weights that lie beside the model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import init, model, node, random, value

from ptqlab.errors import PtqError
from ptqlab.graph import load, session


def refusal(path: Path | bytes) -> str:
    with pytest.raises(PtqError) as caught:
        load(path)
    return str(caught.value)


def external(folder: Path, location: str = "net.data", size: int = 64) -> Path:
    """A MatMul whose weights lie in a file of their own."""
    nodes = [node("MatMul", ["x", "w"], "y", "mm")]
    proto = model(nodes, [value("x", [1, size])], [value("y", [1, size])], [init("w", random(size, size))])
    path = folder / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def relocate(path: Path, **entries: str) -> None:
    """Change the external data entries of the only weight."""
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        entry.value = entries.get(entry.key, entry.value)
    path.write_bytes(proto.SerializeToString())


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    """No such file, and the models that are there."""
    external(tmp_path)
    assert refusal(tmp_path / "ned.onnx") == (
        "Loading the model: 1 problem\n"
        f"PTQ101  {tmp_path / 'ned.onnx'}\n"
        "    found     no such file\n"
        "    expected  an ONNX model (.onnx)\n"
        "    do        in that folder: net.onnx"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [("net.pt", "suffix '.pt'"), ("net", "suffix ''"), ("net.caffemodel", "a Caffe model")],
)
def test_another_suffix_is_refused(tmp_path: Path, name: str, text: str) -> None:
    """Only .onnx is read, whether the file exists or not."""
    (tmp_path / name).write_bytes(b"x")
    assert f"PTQ102  {tmp_path / name}\n    found     {text}\n" in refusal(tmp_path / name)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04 some zip archive", "bytes that are no protobuf of a model"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\x08\x07", "no graph in it"),
        (b"\x3a" * 300, "bytes that are no protobuf of a model"),
    ],
)
def test_a_file_that_is_no_model_is_refused_without_a_protobuf_error(tmp_path: Path, data: bytes, text: str) -> None:
    """Empty, foreign, truncated and pointer files."""
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    refused = refusal(path)
    assert refused.startswith(f"Loading the model: 1 problem\nPTQ103  {path}\n")
    assert text in refused


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    """Half of a real file."""
    path = external(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    assert "PTQ103" in refusal(path)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    """Bodies inside bodies, 300 deep, built byte by byte: no crash."""

    def field(number: int, payload: bytes) -> bytes:
        size, length = len(payload), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + payload

    graph = b""
    for _ in range(300):
        graph = field(1, field(5, field(6, graph)))  # GraphProto.node, NodeProto.attribute, AttributeProto.g
    assert "PTQ103" in refusal(b"\x08\x08" + field(7, graph))


def test_text_that_is_not_utf8_is_refused() -> None:
    """protobuf lets any bytes through as a name."""
    data = model([node("Relu", ["x"], "y", "AAAA")], [value("x", [1])], [value("y", [1])]).SerializeToString()
    assert "text that is not UTF-8: b'A\\xff\\xfeA'" in refusal(data.replace(b"AAAA", b"A\xff\xfeA"))


def test_external_data_load_from_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the model counts, not the current one, now and later; weights are mapped, not read."""
    (tmp_path / "sub").mkdir()
    external(tmp_path)
    monkeypatch.chdir(tmp_path)
    graph = load("net.onnx")
    monkeypatch.chdir(tmp_path / "sub")
    np.testing.assert_array_equal(graph.array("w"), random(64, 64))
    x = random(1, 64, seed=3)
    np.testing.assert_allclose(session(graph.model).run(None, {"x": x})[0], x @ random(64, 64), rtol=1e-4, atol=1e-4)


def test_a_missing_data_file_names_tensor_and_file(tmp_path: Path) -> None:
    """One problem for one file."""
    path = external(tmp_path)
    (tmp_path / "net.data").unlink()
    assert refusal(path) == (
        "Loading the model: 1 problem\n"
        "PTQ105  tensor 'w'\n"
        f"    found     the data file '{tmp_path / 'net.data'}' does not exist\n"
        "    expected  the data file beside the model\n"
        "    do        put it into the folder of the model"
    )


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../net.data", "a/../../net.data", "..\\net.data", "C:net.data", ""]
)
def test_data_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    """Absolute paths and ways up, in the spelling of any system."""
    path = external(tmp_path)
    relocate(path, location=location)
    assert (
        f"PTQ105  tensor 'w'\n    found     external data in '{location}'\n"
        "    expected  a relative path inside the folder of the model"
    ) in refusal(path)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    """A symbolic link to a file elsewhere, and a hard link."""
    (tmp_path / "net").mkdir()
    path = external(tmp_path / "net")
    data = tmp_path / "net" / "net.data"
    data.rename(tmp_path / "elsewhere.data")
    data.symlink_to(tmp_path / "elsewhere.data")
    assert f"which leads to {tmp_path / 'elsewhere.data'}" in refusal(path)
    data.unlink()
    os.link(tmp_path / "elsewhere.data", data)
    assert "which has 2 hard links" in refusal(path)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"offset": "16384"}, "bytes 16384 to 32768 of 'net.data', which has 16384"),
        ({"length": "100"}, "100 bytes for shape [64, 64] of FLOAT"),
        ({"offset": "-4"}, "offset -4, length 16384"),
        ({"offset": "9" * 30}, "offset 999999999999999999999999999999, length 16384"),
        ({"length": "1e3"}, "offset 0, length 1e3"),
    ],
)
def test_places_outside_the_data_file_are_refused(tmp_path: Path, entries: dict[str, str], text: str) -> None:
    """Offset and length are checked before anything is mapped."""
    path = external(tmp_path)
    relocate(path, **entries)
    assert f"PTQ105  tensor 'w'\n    found     {text}\n" in refusal(path)


def test_external_data_without_a_path_are_refused(tmp_path: Path) -> None:
    """Bytes have no folder beside which data could lie."""
    assert "give the path of the model" in refusal(external(tmp_path).read_bytes())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda t: setattr(t, "raw_data", b"123"), "3 bytes for shape [3, 3, 1, 1] of FLOAT\n    expected  36 bytes"),
        (lambda t: t.dims.__setitem__(0, -3), "shape [-3, 3, 1, 1]"),
        (lambda t: t.dims.__setitem__(0, 2**40), "36 bytes for shape [1099511627776, 3, 1, 1] of FLOAT"),
        (lambda t: setattr(t, "data_type", 99), "element type 99"),
        (lambda t: t.ClearField("raw_data"), "0 values for shape [3, 3, 1, 1] of FLOAT\n    expected  9 values"),
    ],
)
def test_damaged_tensors_are_refused(change: object, text: str) -> None:
    """Stored bytes or values that do not fill the shape."""
    nodes = [node("Conv", ["x", "w"], "y", "conv")]
    proto = model(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)], [init("w", random(3, 3, 1, 1))])
    change(proto.graph.initializer[0])  # type: ignore[operator]
    assert f"PTQ105  tensor 'w'\n    found     {text}" in refusal(proto.SerializeToString())


def test_external_data_of_a_constant_node_are_read(tmp_path: Path) -> None:
    """The exporter put the contents of a Constant into the data file, too."""
    contents = random(600)
    constant = onnx.helper.make_node("Constant", [], ["k"], name="k", value=init("k", contents))
    proto = model([constant, node("Add", ["x", "k"], "y")], [value("x", [600])], [value("y", [600])])
    path = tmp_path / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="net.data", size_threshold=0, convert_attribute=True)
    assert (tmp_path / "net.data").stat().st_size >= contents.nbytes
    graph = load(path)
    np.testing.assert_array_equal(session(graph.model).run(None, {"x": np.zeros(600, np.float32)})[0], contents)

"""Writing models: the same bytes every time, all or nothing, weights beside when they are large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from models import MODELS

from ptqlab.graph import load, save, session, to_proto


@pytest.mark.parametrize("name", MODELS)
def test_saved_models_are_valid_and_compute_the_same(tmp_path: Path, name: str) -> None:
    """onnx's own checker agrees, with full shape inference, inside and beside."""
    proto, feeds = MODELS[name]()
    graph = load(proto)
    expected = session(graph.model).run(None, feeds)
    for limit in (2**31, 0):
        path = save(graph.model, tmp_path / f"net{limit}.onnx", inside_limit=limit)
        onnx.checker.check_model(path, full_check=True)
        again = load(path)
        for found, wanted in zip(session(again.model).run(None, feeds), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert [n.name for n in again.nodes] == [n.name for n in graph.nodes]


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    """Loaded and saved twice, weights inside and beside."""
    proto, _ = MODELS["wide_shared"]()
    for limit in (2**31, 0):
        files = []
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir(exist_ok=True)
            path = save(load(proto).model, tmp_path / folder / "net.onnx", inside_limit=limit)
            files.append([p.read_bytes() for p in sorted(path.parent.iterdir())])
        assert files[0] == files[1]


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails in the middle of writing."""
    graph = load(MODELS["mlp"]()[0])
    path = save(graph.model, tmp_path / "net.onnx")
    before = path.read_bytes()

    def fail(source: object, target: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save(graph.model, path)
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]
    assert path.read_bytes() == before


def test_saving_over_the_file_the_weights_come_from(tmp_path: Path) -> None:
    """A model whose weights are mapped from net.onnx.data is saved over it."""
    proto, feeds = MODELS["wide_shared"]()
    path = save(load(proto).model, tmp_path / "net.onnx", inside_limit=0)
    graph = load(path)
    expected = session(load(proto).model).run(None, feeds)[0]
    save(graph.model, path, inside_limit=0)
    np.testing.assert_array_equal(session(load(path).model).run(None, feeds)[0], expected)
    np.testing.assert_array_equal(session(graph.model).run(None, feeds)[0], expected)


def test_a_model_given_back_as_protobuf_is_whole() -> None:
    """to_proto holds every weight and every inner shape."""
    proto, _ = MODELS["conv_bn_relu"]()
    whole = to_proto(load(proto).model)
    assert {t.name: onnx.numpy_helper.to_array(t).shape for t in whole.graph.initializer}["w"] == (4, 3, 3, 3)
    assert [v.name for v in whole.graph.value_info] == ["c", "b"]

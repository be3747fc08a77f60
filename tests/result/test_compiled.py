"""CompileResult: views, saving, loading."""
import json
from dataclasses import replace
from pathlib import Path

import pytest
from records import HOSTILE, digits_record

import ptqlab
from ptqlab.errors import PtqError
from ptqlab.report import words
from ptqlab.result.compiled import CompileResult, load_result


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setitem(words._state, "language", "en")


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "digits_node_info.csv").write_text("Node\n")
    (folder / "digits_quantized_model.bc").write_bytes(b"integers")
    return CompileResult(digits_record(), folder)


def test_what_it_holds(run):
    """The contract's attributes."""
    assert list(run.nodes["Node"]) == [row.node for row in run.record.nodes]
    assert list(run.outputs["TensorName"]) == ["prob", "label"]
    assert [f.code for f in run.warnings] == ["PTQ503", "PTQ401"]
    assert run.artifacts == {"node_info": run.directory / "digits_node_info.csv",
                             "quantized": run.directory / "digits_quantized_model.bc"}
    assert run.quant_config["op_config"] == {"mul": {"qtype": "int16"}}
    assert run.perf == {}
    assert run.explain(HOSTILE).granted == "int16"
    assert len(run.plot_cosine().data) == 4


def test_the_log_is_an_artifact_when_it_is_there(run):
    """The log beside the artifacts is listed with them."""
    (run.directory / "hb_compile.log").write_text("")
    assert run.artifacts["log"] == run.directory / "hb_compile.log"


def test_repr_and_mimebundle(run):
    """One line for debuggers; text and html for a notebook, both static."""
    assert repr(run) == "CompileResult('digits' on nash-e, 24 nodes, lowest output cosine 0.996900, 1 warnings)"
    bundle = run._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == str(run)
    assert HOSTILE not in bundle["text/html"]


def test_partial_results_say_so(run):
    """In the line, in the text and as an attribute."""
    part = CompileResult(replace(run.record, complete=False), run.directory)
    assert repr(part).endswith(", partial)")
    assert not part.complete
    assert "Partial result" in str(part)
    assert run.complete


def test_nothing_compared(run):
    """A result without an output cosine has a repr."""
    assert "lowest output cosine not compared" in repr(CompileResult(replace(run.record, outputs=()), run.directory))


def test_saved_and_loaded_is_the_same(run, tmp_path):
    """Everything shown of a loaded run equals that of the run, NaN included; the files are copies."""
    target = run.save(tmp_path / "kept")
    assert sorted(p.name for p in target.iterdir()) == [
        "digits_node_info.csv", "digits_quantized_model.bc", "digits_record.json"]
    again = ptqlab.load(target)
    assert again.record.to_json() == run.record.to_json()
    assert str(again).replace(str(target), str(run.directory)) == str(run)
    assert again.artifacts["quantized"].read_bytes() == b"integers"
    assert run.save(target) == target


def test_saving_in_place(run):
    """Saving into the run's own folder adds the record and keeps the rest."""
    run.save(run.directory)
    assert ptqlab.load(run.directory).artifacts["quantized"].read_bytes() == b"integers"


def test_saving_names_what_is_gone(run, tmp_path):
    """A missing artifact is refused before anything is written."""
    run.artifacts["quantized"].unlink()
    with pytest.raises(PtqError, match=r"artifacts\[quantized\]"):
        run.save(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_loading_refuses_with_the_way_out(run, tmp_path):
    """No folder, no record, several records, a broken one."""
    with pytest.raises(PtqError, match="no such folder"):
        load_result(tmp_path / "none")
    with pytest.raises(PtqError, match="no file"):
        load_result(run.directory)
    run.save(run.directory)
    (run.directory / "other_record.json").write_text("{}")
    with pytest.raises(PtqError, match=r"records of 2 models: digits_record.json, other_record.json"):
        load_result(run.directory)
    assert load_result(run.directory / "digits_record.json").record.model == "digits"
    with pytest.raises(PtqError, match="record version None"):
        load_result(run.directory / "other_record.json")
    (run.directory / "other_record.json").write_bytes(b"\xff\xfe")
    with pytest.raises(PtqError, match="cannot be read"):
        load_result(run.directory / "other_record.json")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "", "a\\b", 5])
def test_a_record_cannot_point_outside_its_folder(run, name):
    """A record from elsewhere does not make save() copy files it has no business with."""
    with pytest.raises(PtqError, match="a file inside the folder of the run"):
        CompileResult(replace(run.record, artifacts={"quantized": name}), run.directory)


def test_a_record_with_values_of_the_wrong_kind_is_refused(run, tmp_path):
    """A hand-edited record is refused where it is read, not where it is shown."""
    data = json.loads(run.record.to_json())
    data["nodes"][0]["node"] = 5
    data["nodes"][1]["threshold"] = "high"
    data["outputs"][0]["sqnr"] = []
    path = tmp_path / "digits_record.json"
    path.write_text(json.dumps(data))
    with pytest.raises(PtqError) as caught:
        load_result(path)
    assert [p.where for p in caught.value.problems] == [
        f"{path}: nodes[0].node", f"{path}: nodes[1].threshold", f"{path}: outputs[0].sqnr"]


def test_a_subfolder_artifact_is_saved_too(run, tmp_path):
    """Artifacts below the folder keep their place."""
    (run.directory / "calibration_data").mkdir()
    (run.directory / "calibration_data" / "0.npy").write_bytes(b"x")
    record = replace(run.record, artifacts={"sample": "calibration_data/0.npy"})
    target = CompileResult(record, run.directory).save(tmp_path / "kept")
    assert (Path(target) / "calibration_data" / "0.npy").read_bytes() == b"x"

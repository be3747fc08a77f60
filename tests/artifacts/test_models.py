"""`.bc` and `.hbm`: what is written comes back, what was damaged or made up is refused with a readable text."""

from __future__ import annotations

import json
import random as chance
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from core_models import EDGES
from small import compiled, same_bits, stages

from ptqlab.artifacts.models import FORMAT, read_quantized, write_quantized
from ptqlab.errors import PtqError
from ptqlab.pipeline.runtime import Runtime
from ptqlab.stages.quantized import QuantizedModel

Change = Callable[[onnx.ModelProto], object]


@pytest.fixture(scope="module")
def made() -> tuple[QuantizedModel, dict[str, np.ndarray]]:
    model, feeds = EDGES["residual_from_cpu"]()
    return stages(model, feeds).integer, feeds


@pytest.fixture
def hbm(made: tuple[QuantizedModel, dict[str, np.ndarray]], tmp_path: Path) -> Path:
    path = tmp_path / "net.hbm"
    write_quantized(made[0], path, "hbm", {"march": "nash-e"})
    return path


def changed(path: Path, change: Change) -> Path:
    """The file with a change made to its protobuf."""
    proto = onnx.ModelProto.FromString(path.read_bytes())
    change(proto)
    path.write_bytes(proto.SerializeToString())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(PtqError) as caught:
        read_quantized(path)
    return str(caught.value)


def node(proto: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(n for n in proto.graph.node if n.name == name)


def prop(proto: onnx.ModelProto, key: str) -> onnx.StringStringEntryProto:
    return next(p for p in proto.metadata_props if p.key == f"ptqlab.{key}")


def test_what_is_written_comes_back(made: tuple[QuantizedModel, dict[str, np.ndarray]], hbm: Path) -> None:
    """Schedule, encodings and the block about the run are as they were; the model gives the same bits."""
    from ptqlab.simulate import FastExecutor

    quantized, feeds = made
    back = read_quantized(hbm)
    assert (back.kind, back.about["march"]) == ("hbm", "nash-e")
    assert "not loadable on a board" in back.about["note"]
    assert back.about["schedule"] == [
        {"device": p.device, "segment": p.segment, "nodes": list(p.nodes)} for p in quantized.parts
    ]
    assert back.quantized.parts == quantized.parts
    assert set(back.quantized.integers) == set(quantized.integers)
    for name, info in quantized.integers.items():
        read = back.quantized.integers[name]
        assert (read.name, read.qtype, read.zero_point) == (info.name, info.qtype, info.zero_point)
        same_bits(read.scale, np.asarray(info.scale, np.float32), name)
    same_bits(FastExecutor(back.quantized).run(feeds)["y"], FastExecutor(quantized).run(feeds)["y"], "y")


def test_a_bc_has_no_schedule_and_runs_in_plain_onnxruntime(
    made: tuple[QuantizedModel, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    """The functions in the file let onnxruntime run a .bc as it is, without ptqlab."""
    import onnxruntime

    quantized, feeds = made
    path = tmp_path / "net.bc"
    write_quantized(quantized, path, "bc", {})
    assert "schedule" not in read_quantized(path).about
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )[0]
    same_bits(plain, Runtime(path, engine="reference").run(None, feeds)[0], "y")


def test_the_same_model_gives_the_same_bytes(
    made: tuple[QuantizedModel, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    """Nothing in the file varies from one writing to the next, not even after reading it back."""
    first, second, third = (tmp_path / f"{n}.bc" for n in "abc")
    write_quantized(made[0], first, "bc", {"a": 1})
    write_quantized(made[0], second, "bc", {"a": 1})
    write_quantized(read_quantized(first).quantized, third, "bc", {"a": 1})
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()


@pytest.mark.parametrize("keep", [0, 1, 200, 0.5, 0.98])
def test_a_truncated_file_is_refused(hbm: Path, keep: float) -> None:
    """However little is left of a file, the refusal names it and no traceback comes."""
    data = hbm.read_bytes()
    hbm.write_bytes(data[: int(len(data) * keep) if 0 < keep < 1 else int(keep)])
    assert str(hbm) in refusal(hbm)


def test_a_foreign_onnx_file_is_no_artifact(tmp_path: Path) -> None:
    """A float model in .hbm clothes is told from one that ptqlab wrote."""
    path = tmp_path / "net.hbm"
    onnx.save(EDGES["diamonds"]()[0], path)
    assert refusal(path) == (
        f"1 problem\nPTQ610  {path}\n    found     an ONNX model without ptqlab's block\n"
        "    expected  a .bc or .hbm written by ptqlab\n"
        "    do        a float .onnx runs in ptqlab.Runtime too; a vendor's .bc or .hbm does not"
    )


def test_another_format_is_refused_with_both_numbers(hbm: Path) -> None:
    """A file of a later (or no) format tells which one it has and which one is read."""
    changed(hbm, lambda p: setattr(prop(p, "format"), "value", "99"))
    assert f"found     format 99\n    expected  format {FORMAT}\n    do        compile the model again" in refusal(hbm)
    changed(hbm, lambda p: p.metadata_props.remove(prop(p, "format")))
    assert "found     format missing" in refusal(hbm)


def attribute_of(proto: onnx.ModelProto, name: str, key: str) -> onnx.AttributeProto:
    return next(a for a in node(proto, name).attribute if a.name == key)


def weight_of(proto: onnx.ModelProto) -> onnx.TensorProto:
    return next(t for t in proto.graph.initializer if t.name == "conv_weight")


def outside(tensor: onnx.TensorProto, location: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", "4")):
        tensor.external_data.add(key=key, value=text)


DAMAGES: dict[str, tuple[Change, str]] = {
    "unknown operator": (
        lambda p: setattr(node(p, "conv"), "op_type", "Int4Conv"),
        "unknown integer operator Int4Conv",
    ),
    "missing attribute": (
        lambda p: node(p, "conv").attribute.remove(attribute_of(p, "conv", "strides")),
        "attributes missing or of another type: strides",
    ),
    "attribute of another type": (
        lambda p: setattr(attribute_of(p, "conv", "low"), "type", onnx.AttributeProto.FLOAT),
        "attributes missing or of another type: low",
    ),
    "wrong number of inputs": (
        lambda p: node(p, "conv").input.pop(),
        "4 inputs\n    expected  5: x, weight, bias, multiplier, shift",
    ),
    "empty operand": (lambda p: node(p, "conv").input.__setitem__(1, ""), "missing or computed operands: weight"),
    "computed multiplier": (
        lambda p: node(p, "conv2").input.__setitem__(3, "c_quantized"),
        "missing or computed operands: multiplier",
    ),
    "operator on the BPU that is no mover": (
        lambda p: setattr(
            node(p, "cpu").metadata_props[0 if "device" in node(p, "cpu").metadata_props[0].key else 1], "value", "BPU"
        ),
        "LRN on the BPU",
    ),
    "foreign domain": (
        lambda p: (setattr(node(p, "cpu"), "domain", "evil"), p.opset_import.add(domain="evil", version=1)),
        "operator LRN of domain evil",
    ),
    "integer operator on the CPU": (
        lambda p: [setattr(m, "value", "CPU") for m in node(p, "conv").metadata_props if "device" in m.key],
        "device CPU",
    ),
    "unknown device": (
        lambda p: [setattr(m, "value", "GPU") for m in node(p, "cpu").metadata_props if "device" in m.key],
        "device GPU",
    ),
    "repeated node name": (lambda p: setattr(node(p, "conv2"), "name", "conv"), "a missing or repeated node name"),
    "missing node name": (lambda p: setattr(node(p, "conv2"), "name", ""), "a missing or repeated node name"),
    "missing node": (lambda p: p.graph.node.remove(node(p, "conv")), "c_quantized"),
    "missing constant": (
        lambda p: p.graph.initializer.remove(next(t for t in p.graph.initializer if t.name == "conv_weight")),
        "conv_weight",
    ),
    "wrong order": (lambda p: p.graph.node.append(p.graph.node.pop(0)), "it stands before what makes x_quantized"),
    "no integers": (lambda p: p.metadata_props.remove(prop(p, "integers")), "unreadable metadata"),
    "integers that are none": (lambda p: setattr(prop(p, "integers"), "value", "[1, 2]"), "unreadable metadata"),
    "integers of another type": (
        lambda p: setattr(prop(p, "integers"), "value", prop(p, "integers").value.replace("int8", "int7")),
        "unreadable metadata",
    ),
    "codes that are nowhere": (
        lambda p: setattr(prop(p, "integers"), "value", prop(p, "integers").value.replace('"c_quantized"', '"gone"')),
        "no tensor 'gone'",
    ),
    "another kind": (lambda p: setattr(prop(p, "kind"), "value", "exe"), "unreadable metadata"),
    "about nothing": (lambda p: setattr(prop(p, "about"), "value", "null"), "unreadable metadata"),
    "element type": (
        lambda p: [setattr(v.type.tensor_type, "elem_type", 0) for v in p.graph.value_info],
        "without type or fixed shape",
    ),
    "an input of 96 TiB": (
        lambda p: setattr(p.graph.input[0].type.tensor_type.shape.dim[2], "dim_value", 2**40),
        "input x\n    found     x of shape",
    ),
    "a tensor of a negative size": (
        lambda p: [setattr(v.type.tensor_type.shape.dim[0], "dim_value", -4) for v in p.graph.value_info[:1]],
        "of shape [-4, ",
    ),
    "a weight larger than its bytes": (
        lambda p: weight_of(p).dims.__setitem__(0, 2**40),
        "bytes for shape [1099511627776, ",
    ),
    "weights in a file elsewhere": (
        lambda p: outside(weight_of(p), "/etc/hostname"),
        "external data in '/etc/hostname'",
    ),
    "weights in a folder above": (lambda p: outside(weight_of(p), "../../x"), "external data in '../../x'"),
    "a clamp beyond the type": (
        lambda p: setattr(attribute_of(p, "conv", "high"), "i", 200),
        "a clamp from -128 to 200",
    ),
    "a shift that no ratio has": (
        lambda p: next(t for t in p.graph.initializer if t.name == node(p, "conv").input[4]).CopyFrom(
            onnx.numpy_helper.from_array(np.int32(70), node(p, "conv").input[4])
        ),
        "shift of int32 out of range\n    expected  integers from -6 to 54",
    ),
    "input without a size": (lambda p: p.graph.input[0].type.tensor_type.shape.dim[0].Clear(), "no fixed shape"),
}


@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_damage_is_named(hbm: Path, kind: str) -> None:
    """Each kind of damage: a PtqError whose text says what is wrong and names the file."""
    change, words = DAMAGES[kind]
    text = refusal(changed(hbm, change))
    assert words in text, text
    assert hbm.name in text and "Traceback" not in text


def test_all_damage_is_told_at_once(hbm: Path) -> None:
    """Two wrong nodes are two problems of one refusal."""
    changed(hbm, lambda p: (setattr(node(p, "conv"), "op_type", "Foo"), setattr(node(p, "conv3"), "op_type", "Bar")))
    text = refusal(hbm)
    assert text.startswith("net.hbm is damaged: 2 problems") and "Foo" in text and "Bar" in text


def test_functions_in_the_file_do_not_matter(made: tuple[QuantizedModel, dict[str, np.ndarray]], hbm: Path) -> None:
    """A file whose functions were exchanged or removed gives the same bits in every engine."""
    _, feeds = made
    wanted = Runtime(hbm, engine="reference").run(None, feeds)[0]

    def exchange(proto: onnx.ModelProto) -> None:
        quantize = next(f for f in proto.functions if f.name == "Int8Conv")
        del quantize.node[:]
        quantize.node.append(onnx.helper.make_node("Identity", ["x"], ["y"]))

    for change in (exchange, lambda p: p.functions.__delitem__(slice(None))):
        changed(hbm, change)
        for engine in ("fast", "reference", "onnxruntime"):
            same_bits(Runtime(hbm, engine=engine).run(None, feeds)[0], wanted, engine)


def test_what_reading_cannot_see_is_a_refusal_when_it_is_run(
    made: tuple[QuantizedModel, dict[str, np.ndarray]], hbm: Path
) -> None:
    """A constant of a wrong shape passes every check of names and types; running it names the file, with the cause."""

    def shorten_shift(proto: onnx.ModelProto) -> None:
        index, old = next((i, t) for i, t in enumerate(proto.graph.initializer) if t.name == "conv_shift")
        array = onnx.numpy_helper.to_array(old).ravel()[:0]
        proto.graph.initializer[index].CopyFrom(onnx.numpy_helper.from_array(array, old.name))

    changed(hbm, shorten_shift)
    with pytest.raises(PtqError) as caught:
        Runtime(hbm, engine="reference").run(None, made[1])
    assert "PTQ623" in str(caught.value) and str(hbm) in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_never_shows_a_traceback(
    made: tuple[QuantizedModel, dict[str, np.ndarray]], hbm: Path, seed: int
) -> None:
    """Names, operators, numbers or bytes exchanged at random: the file still runs, or a PtqError says why not."""
    rng = chance.Random(seed)
    if seed % 4 == 0:
        data = bytearray(hbm.read_bytes())
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        hbm.write_bytes(bytes(data))
    else:
        changed(hbm, lambda proto: _mess_up(proto, rng))
    try:
        runtime = Runtime(hbm, engine=rng.choice(["fast", "reference"]))
        feeds = {i.name: np.zeros([max(d, 0) for d in i.shape], i.dtype) for i in runtime.inputs}
        runtime.run(None, made[1] if [(i.name, i.dtype) for i in runtime.inputs] == [("x", "float32")] else feeds)
    except PtqError:
        pass  # any other exception fails the test


def _mess_up(proto: onnx.ModelProto, rng: chance.Random) -> None:
    graph = proto.graph
    victim, other = rng.choice(graph.node), rng.choice(graph.node)
    names = [o for n in graph.node for o in n.output] + [t.name for t in graph.initializer] + ["nowhere"]
    match rng.randrange(6):
        case 0:
            victim.op_type, other.op_type = other.op_type, victim.op_type
        case 1:
            victim.input[rng.randrange(len(victim.input))] = rng.choice(names)
        case 2:
            victim.output[0] = rng.choice(names)
        case 3 if victim.attribute:
            attribute = rng.choice(victim.attribute)
            attribute.i = rng.choice([-1, 0, 99, 2**40])
            attribute.ints[:] = rng.choice([[], [0, 0], [-1, 7], [2] * 4])
        case 4:
            entry = rng.choice(proto.metadata_props)
            entry.value = rng.choice(
                ["", "{}", "7", entry.value[: len(entry.value) // 2], json.dumps({"c": {"name": "x"}})]
            )
        case _:
            tensor = rng.choice(graph.initializer)
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array.ravel()[: rng.randrange(array.size + 1)], tensor.name))


def test_a_wrong_suffix_or_engine_is_refused_with_what_there_is(hbm: Path, tmp_path: Path) -> None:
    """The runtime takes .onnx, .bc and .hbm, and three engines; both mistakes come in one refusal."""
    other = tmp_path / "net.bin"
    other.write_bytes(hbm.read_bytes())
    with pytest.raises(PtqError) as caught:
        Runtime(other, engine="fsat")
    assert str(caught.value) == (
        "Opening a model: 2 problems\n"
        "PTQ620  engine\n    found     'fsat'\n    expected  fast, reference, onnxruntime\n"
        "    do        did you mean fast?\n"
        f"PTQ621  {other}\n    found     suffix '.bin'\n    expected  .onnx, .bc, .hbm"
    )


def test_a_compiled_hbm_says_what_it_was_made_with(tmp_path: Path) -> None:
    """March, settings and versions of the run are in the file."""
    model, feeds = EDGES["diamonds"]()
    about = read_quantized(compiled(model, feeds, tmp_path, march="nash-p").artifacts["hbm"]).about
    assert about["march"] == "nash-p" and "onnxruntime" in about["versions"] and about["settings"]


def test_no_folder_of_the_machine_is_in_the_file(tmp_path: Path) -> None:
    """An artifact is handed on: of model, data and folders its settings hold the last name only, node names whole."""
    model, feeds = EDGES["diamonds"]()
    run = compiled(model, feeds, tmp_path, output_nodes=[model.graph.node[-1].name])
    for key in ("quantized", "hbm"):
        assert str(tmp_path).encode() not in Path(run.artifacts[key]).read_bytes()
        held = read_quantized(Path(run.artifacts[key])).about["settings"]["model_parameters"]
        assert (held["onnx_model"], held["working_dir"]) == ("net.onnx", "out")
    folders = {"calibration_parameters": {"cal_data_dir": "/a/b/one; ./two/", "quant_config": "C:\\x\\q.json"},
               "model_parameters": {"output_nodes": "/head/Conv;/tail"}}  # fmt: skip
    quantized = read_quantized(Path(run.artifacts["hbm"])).quantized
    write_quantized(quantized, tmp_path / "again.hbm", "hbm", {"settings": folders})
    assert read_quantized(tmp_path / "again.hbm").about["settings"] == {
        "calibration_parameters": {"cal_data_dir": "one;two", "quant_config": "q.json"},
        "model_parameters": {"output_nodes": "/head/Conv;/tail"},
    }

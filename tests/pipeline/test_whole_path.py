"""From a float model to `.bc` and `.hbm`: every engine gives the same bits, and the interface stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from core_models import EDGES
from models import MODELS
from small import all_engines_agree, compiled, engines_agree, stages

from ptqlab.arith.formats import QType
from ptqlab.artifacts.models import read_quantized
from ptqlab.graph import load, session
from ptqlab.passes import optimize
from ptqlab.placement import Ask, Asks

ALL = EDGES | MODELS
# far off by nature: next to nothing, not finite, a divisor or a weight whose values int8 rounds to zero, a logarithm
NO_COSINE = {"broken_weights", "tiny_values", "infinities_inside", "masks", "arithmetic", "constant_beside_large",
             "log_spectrum"}


def float_outputs(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    runner = session(model.SerializeToString(), optimise=False)
    return dict(zip(runner.output_names, runner.run(None, {n: feeds[n] for n in runner.input_names}), strict=True))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    size = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / size) if size else float(not x.any() and not y.any())


@pytest.mark.parametrize("name", sorted(ALL))
def test_compiled_files_agree_in_every_engine_and_keep_the_interface(name: str, tmp_path: Path) -> None:
    """.bc and .hbm give the same bits in all engines; outputs keep names, order, dtype and shape."""
    model, feeds = ALL[name]()
    run = compiled(model, feeds, tmp_path)
    outputs, wanted = all_engines_agree(run, feeds), float_outputs(model, feeds)
    assert list(outputs) == list(wanted)
    for output, array in wanted.items():
        assert (outputs[output].dtype, outputs[output].shape) == (array.dtype, array.shape), output
        if array.dtype == np.float32 and array.size and name not in NO_COSINE:
            assert cosine(outputs[output], array) > 0.99, output
    for row in run.record.nodes:
        assert row.reason, row.node
    parts = read_quantized(run.artifacts["hbm"]).quantized.parts
    assert sum(p.device == "BPU" for p in parts) == run.record.segments, "the plan tells the segments that the .hbm has"


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("form", ["int16 with float32 outputs", "int8 with zero points and int8 outputs"])
def test_other_types_and_zero_points_agree_in_every_engine(name: str, form: str) -> None:
    """int16; int8 with zero points and outputs forced onto the BPU: the same bits in every engine."""
    model, feeds = ALL[name]()
    graph = optimize(load(model))
    wide = form.startswith("int16")
    asks = Asks(
        {str(n.name): Ask("int16" if wide else "int8", level="model") for n in graph.nodes},
        None if wide else QType.INT8,
    )
    made = stages(model, feeds, asks=asks)
    if not wide:
        ranges = {
            slot: (min(t.low, 0.0), max(t.high, 0.0))
            for slot, t in made.calibration.thresholds.items()
            if "all-zero" not in t.tags
        }
        made = stages(model, feeds, asks=asks, bounds=ranges)
        zero_points = {e.zero_point for e in made.encodings.slots.values()}
        assert len(zero_points) > 1 or len(ranges) < 2, "the case is about zero points"
    engines_agree(made.integer, feeds)


@pytest.mark.parametrize("march", ["nash-p", "nash-b"])
@pytest.mark.parametrize("name", ["conv_bn_relu", "mobile_block", "residual_from_cpu"])
def test_platforms_with_float_tails_agree_in_every_engine(name: str, march: str, tmp_path: Path) -> None:
    """A float32 tail holds the same bits in every engine, and those of the int32 tail times its scale."""
    model, feeds = ALL[name]()
    here = all_engines_agree(compiled(model, feeds, tmp_path / "here", march=march), feeds)
    there = all_engines_agree(compiled(model, feeds, tmp_path / "there", march="nash-e"), feeds)
    for output, array in here.items():
        assert array.tobytes() == there[output].tobytes()


def test_an_operator_put_on_the_cpu_splits_the_segment(tmp_path: Path) -> None:
    """run_on_cpu cuts the BPU part in two, and every engine still agrees."""
    model, feeds = EDGES["two_inputs"]()
    run = compiled(model, feeds, tmp_path, run_on_cpu="add2")
    all_engines_agree(run, feeds)
    rows = {row.node: row for row in run.record.nodes}
    assert (rows["add2"].on, rows["add2"].subgraph) == ("CPU", "--")
    assert (rows["conv3"].subgraph, rows["conv4"].subgraph) == ("id(0)", "id(1)")


@pytest.mark.parametrize("build", [EDGES["all_zero"]])
def test_an_all_zero_model_has_no_nan_and_says_so(build: Callable, tmp_path: Path) -> None:
    """Zeros stay exactly zero, cosines are 1.0 with the tag, one warning names each tensor."""
    model, feeds = build()
    run = compiled(model, feeds, tmp_path)
    assert all(not array.any() for array in all_engines_agree(run, feeds).values())
    for row in run.record.nodes:
        assert row.calibrated_cosine == row.quantized_cosine == 1.0 and "all-zero" in row.tags
    zero = [f for f in run.record.findings if f.code == "PTQ501"]
    assert len(zero) == len({f.message for f in zero}) == 2, [f.message for f in zero]


def test_names_never_leave_the_working_directory(tmp_path: Path) -> None:
    """Hostile names of nodes and tensors make no file outside of the folder, and are no part of a file name."""
    model, feeds = EDGES["hostile_names"]()
    run = compiled(model, feeds, tmp_path / "inner" / "inner")
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(p.is_relative_to(tmp_path / "inner" / "inner") for p in files)
    assert not any("evil" in p.name or "script" in p.name for p in files)
    assert {r.node for r in run.record.nodes} >= {"../../evil", "conv"}

"""The quant_config grid: one edit until its new output cosine, beside a whole compile run; and 2,000 rows.

    python -m benchmarks.grid [net ...] [--samples 8] [--models DIR] [--cache DIR]

An edit raises one operator with weights to int16; operators all along the graph are taken in turn, each edit from the
configuration before. CPU seconds, and seconds by the clock with two threads. The goal is one second on MobileNetV2
with 8 samples on two idle cores.
"""
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ptqlab
from benchmarks.packages import CACHE, MissingPackageError
from benchmarks.sensitivity import NETS
from ptqlab import config as configuration
from ptqlab.ops.table import spec_of
from ptqlab.pipeline.whatif import WhatIf
from ptqlab.widgets.grid import QuantGrid
from ptqlab.widgets.grid_edits import parsed

EDITS = 12
DEFAULT = ("digits", "mobilenet_v2", "resnet18", "mobilenet_v2_imagenet")


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(CPU seconds, seconds by the clock)."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def bench(name: str, count: int, models: Path, cache: Path) -> None:
    loader, data = NETS[name]
    samples = data(count)
    arrays = {key: [sample[key] for sample in samples] for key in samples[0]}
    with tempfile.TemporaryDirectory() as folder:
        model = loader(models, cache)
        if not isinstance(model, Path):
            onnx.save(model, Path(folder) / "model.onnx")
            model = Path(folder) / "model.onnx"
        settings = {"model": model, "march": "nash-e", "calibration_data": arrays, "working_dir": folder}
        whole = timed(lambda: ptqlab.compile(**settings, skip="compile", progress=False))[0]
        opened: list[WhatIf] = []
        opening = timed(lambda: opened.append(WhatIf(configuration.load(None, **settings), samples=count)))[0]
        whatif = opened[0]
        first = timed(lambda: whatif.outcome(whatif.placed(parsed({}))))[0]
        heavy = [str(n.name) for n in whatif.graph.nodes if spec_of(n).is_tae]
        chosen = heavy[:: max(1, len(heavy) // EDITS)]
        edits = [timed(lambda node=node: whatif.outcome(whatif.placed(parsed(
            {"node_config": {node: {"qtype": "int16"}}})))) for node in chosen]
        placing = median(timed(lambda: whatif.placed(parsed({})))[0] for _ in range(5))
    cpu, wall = [e[0] for e in edits], [e[1] for e in edits]
    print(f"{name}: {len(whatif.graph.nodes)} nodes, {count} samples; a compile run {whole:.2f} CPU s")
    print(f"  opening {opening:.2f}, first figures {first:.2f}; placement and latency of an edit {placing:.3f} CPU s")
    print(f"  {len(edits)} edits until the new output cosine: median {median(cpu):.2f}, longest {max(cpu):.2f} CPU s; "
          f"by the clock {median(wall):.2f} and {max(wall):.2f} s", flush=True)


def chain(nodes: int) -> onnx.ModelProto:
    """Convolutions and sigmoids in turn."""
    x, made = "x", []
    for i in range(nodes // 2):
        made += [helper.make_node("Conv", [x, "w"], [f"c{i}"], name=f"/layer{i}/conv"),
                 helper.make_node("Sigmoid", [f"c{i}"], [f"s{i}"], name=f"/layer{i}/act")]
        x = f"s{i}"
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 8, 8))] for name in ("x", x)]
    weights = [numpy_helper.from_array(np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1), "w")]
    graph = helper.make_graph(made, "chain", *ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def rows(nodes: int = 2000) -> None:
    """How long the kernel needs for the rows of a long chain, and for an edit of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        onnx.save(chain(nodes), path)
        found = ptqlab.check(model=path, march="nash-e", progress=False)
        grids: list[QuantGrid] = []
        run = SimpleNamespace(record=found.record, directory=Path(folder))
        made = timed(lambda: grids.append(QuantGrid(run, lambda *a, **k: run)) or grids[0].rows)
        opening = timed(grids[0].effect)
        edit = timed(lambda: grids[0].set(found.record.nodes[nodes // 2].node, "qtype", "int16"))
    print(f"{nodes} nodes: rows {made[0]:.2f}, model open {opening[0]:.2f}, an edit placed and its rows "
          f"{edit[0]:.2f} CPU s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="net", help=f"of {', '.join(NETS)} (default: {', '.join(DEFAULT)})")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "ptqlab-models")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the archives of the packages lie")
    given = parser.parse_args()
    if unknown := [n for n in given.nets if n not in NETS]:
        parser.error(f"no network named {', '.join(unknown)}; there are {', '.join(NETS)}")
    for net in given.nets or DEFAULT:
        try:
            bench(net, given.samples, given.models, given.cache)
        except (MissingPackageError, ImportError) as missing:
            print(f"{net} left out: {missing}", flush=True)
    if not given.nets:
        rows()
    return 0


if __name__ == "__main__":
    sys.exit(main())

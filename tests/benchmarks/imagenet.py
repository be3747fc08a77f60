"""The two ImageNet nets, end to end: 32 photo crops to calibrate, other crops to score, run by the simulator.

    python -m benchmarks.imagenet [--march nash-e] [--qtype int8] [--scoring 240] [--net NAME] [--cache DIR]

--qtype dual-int16 means dual-int16 for all operators with weights and int16 for the others.

Needs the nets of the extra [models] (`make models`) unless the cache folder holds them already. Prints, per net,
the agreement of calibrated model and simulator with the float model, and whether all executors give the same bits.
"""
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import ptqlab
from benchmarks import nets, photos
from ptqlab.arith.metrics import Agreement
from ptqlab.artifacts.models import read_quantized
from ptqlab.graph import session
from ptqlab.simulate import FastExecutor, ReferenceExecutor

NETS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "efficientnet_lite0": (nets.efficientnet_lite0_imagenet, "lite"),
    "mobilenet_v2": (nets.mobilenet_v2_imagenet, "imagenet"),
}


def same_bits(hbm: Path, sample: dict[str, np.ndarray]) -> tuple[int, int]:
    """(tensors equal to the bit in every executor, tensors compared): reference, fast path (1, 2 threads), `.bc`."""
    quantized = read_quantized(hbm).quantized
    keep = [t.name for t in quantized.integers.values()]
    truth = ReferenceExecutor(quantized, keep=keep).run(sample)
    others = [FastExecutor(quantized, keep=keep, threads=n).run(sample) for n in (1, 2)]
    for threads in (1, 2):
        plain = session(quantized.model, outputs=list(truth), optimise=False, threads=threads)
        others.append(dict(zip(plain.output_names, plain.run(None, sample), strict=True)))
    equal = [all(np.array_equal(other[name], truth[name]) for other in others) for name in truth]
    return sum(equal), len(equal)


def score(run: ptqlab.CompileResult, crops: Sequence[photos.Crop]) -> dict[str, Agreement]:
    """Agreement with the float model on scoring crops: calibrated, simulated, and simulated on object photos."""
    truth = ptqlab.Runtime(run.artifacts["optimized_float"])
    runners = {
        "calibrated": ptqlab.Runtime(run.artifacts["calibrated"]),
        "simulated": ptqlab.Runtime(run.artifacts["hbm"]),
    }
    table = {name: Agreement() for name in ("calibrated", "simulated", "objects")}
    for crop in crops:
        feed = {truth.input_names[0]: crop.image}
        wanted = truth.run(None, feed)[0]
        for name, runner in runners.items():
            got = runner.run(None, feed)[0]
            table[name].add(wanted, got, distances=True)
            if name == "simulated" and crop.object_photo:
                table["objects"].add(wanted, got, distances=True)
    return table


def everywhere(qtype: str) -> dict[str, object]:
    """The quant_config of one type for all nodes; the operators that have no dual-int16 get int16."""
    base = "int16" if qtype == "dual-int16" else qtype
    config: dict[str, object] = {
        "model_config": {"all_node_type": base, "activation": {"calibration_type": "max"}},
    }
    if base != qtype:
        config["op_config"] = {op: {"qtype": qtype} for op in ("Conv", "MatMul", "Gemm")}
    return config


def run_net(name: str, march: str, qtype: str, scoring: int, cache: Path, out: Path) -> None:
    build, normalise = NETS[name]
    started = time.process_time()
    run = ptqlab.compile(
        model=str(build(cache)), march=march, working_dir=str(out / name), progress=False,
        calibration_data={"input": list(photos.calibration_crops(32, normalise=normalise))},
        quant_config=everywhere(qtype),
    )
    spent = time.process_time() - started
    crops = photos.photo_crops("scoring", scoring, normalise)
    table = score(run, crops)
    equal, compared = same_bits(run.artifacts["hbm"], {"input": crops[0].image})
    bpu = int((run.nodes["ON"] == "BPU").sum())
    print(f"{name} on {march}, {qtype}: {bpu} of {len(run.nodes)} nodes on the BPU, compile {spent:.1f} CPU s")
    for label, agreement in table.items():
        print(
            f"  {label:<11} cosine {agreement.cosine:.5f}  SQNR {agreement.sqnr:5.2f} dB  ({agreement.samples} crops)"
        )
    print(
        f"  same bits in reference, fast path (1, 2 threads) and .bc in onnxruntime (1, 2 threads): "
        f"{equal} of {compared} tensors",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--march", default="nash-e")
    parser.add_argument("--qtype", default="int8")
    parser.add_argument("--net", choices=NETS, default=None, help="one of them only")
    parser.add_argument("--scoring", type=int, default=240, help="number of scoring crops")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "ptqlab-models", help="where the nets are kept"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as out:
        for name in [arguments.net] if arguments.net else NETS:
            run_net(name, arguments.march, arguments.qtype, arguments.scoring, arguments.cache, Path(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())

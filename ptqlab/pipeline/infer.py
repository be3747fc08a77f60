"""`infer`: arrays in files go through a model, arrays in files come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ptqlab.arith.rounding import dequantize
from ptqlab.artifacts.files import atomic_path, safe_name
from ptqlab.artifacts.models import read_quantized
from ptqlab.errors import Problem, PtqError, nearest, raise_if, shorten
from ptqlab.pipeline.arrays import read_arrays
from ptqlab.pipeline.runtime import Runtime
from ptqlab.simulate import FastExecutor

FORMS = ("npy", "bin", "txt")


def infer(
    model: str | Path,
    inputs: Mapping[str, str | Path],
    output_dir: str | Path,
    *,
    dump: Sequence[str] = (),
    form: str = "npy",
    integers: bool = False,
) -> dict[str, Path]:
    """Run `model` on one set of input files and write its outputs; returns tensor -> file.

    inputs    input name -> `.npy` file ("" for the single input of a model)
    dump      further tensors of the optimized graph to write (`.bc` and `.hbm`); "all" for every one
    form      "npy", "bin" (raw little-endian) or "txt" (one number a line)
    integers  write dumped tensors as the integers they are, else dequantized
    Raises PtqError for unknown inputs, tensors and forms, and for files that are no arrays; nothing is unpickled.
    """
    problems: list[Problem] = []
    if form not in FORMS:
        problems.append(Problem("PTQ630", "form", repr(form), ", ".join(FORMS)))
    raise_if(problems, "Running the model")
    arrays = read_arrays([Path(file) for file in inputs.values()])
    runtime = Runtime(model)
    only = runtime.input_names[0] if len(runtime.input_names) == 1 else ""
    feeds = {name or only: arrays[Path(file)] for name, file in inputs.items()}
    results = dict(zip(runtime.output_names, runtime.run(None, feeds), strict=True))
    if dump:
        results |= _dumped(Path(model), dump, feeds, integers)
    folder = Path(output_dir)
    return {name: _write(folder, name, array, form) for name, array in results.items()}


def _dumped(model: Path, dump: Sequence[str], feeds: Mapping[str, np.ndarray], integers: bool) -> dict[str, np.ndarray]:
    if model.suffix == ".onnx":
        raise PtqError(
            Problem("PTQ632", str(model), "a float model", "a .bc or .hbm", "only quantized models can dump tensors")
        )
    quantized = read_quantized(model).quantized
    known = quantized.integers
    wanted = list(known) if "all" in dump else list(dump)
    problems = [
        Problem(
            "PTQ633",
            f"tensor '{shorten(n)}'",
            "no such integer tensor",
            f"nearest: {', '.join(nearest(n, known)) or '(none)'}",
        )
        for n in wanted
        if n not in known
    ]
    raise_if(problems, "Dumping tensors")
    codes = FastExecutor(quantized, keep=[known[n].name for n in wanted]).run(feeds)
    if integers:
        return {n: codes[known[n].name] for n in wanted}
    return {n: dequantize(codes[known[n].name], known[n].scale, known[n].zero_point) for n in wanted}


def _write(folder: Path, name: str, array: np.ndarray, form: str) -> Path:
    target = folder / f"{safe_name(name)}.{form}"
    with atomic_path(target) as temporary:
        if form == "npy":
            with temporary.open("wb") as handle:
                np.save(handle, array, allow_pickle=False)
        elif form == "bin":
            temporary.write_bytes(array.astype(array.dtype.newbyteorder("<")).tobytes())
        else:
            temporary.write_text("".join(f"{v!r}\n" for v in array.ravel().tolist()), encoding="utf-8")
    return target

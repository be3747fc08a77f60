"""`verify`: do two artifacts of one model agree? (the vendor's hb_verifier)

onnx-onnx, onnx-bc and bc-bc are compared by cosine; bc-hbm and hbm-hbm must agree in every number: consistency is
|a - b| <= 10^-digits for every element (documented). Where two integer models differ, the first node is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptqlab.arith.metrics import Agreement
from ptqlab.artifacts.models import read_quantized
from ptqlab.errors import Problem, PtqError, raise_if
from ptqlab.pipeline.arrays import read_arrays
from ptqlab.pipeline.runtime import Runtime
from ptqlab.pipeline.runtime_feed import runtime_feed
from ptqlab.simulate import FastExecutor
from ptqlab.stages.quantized import QuantizedModel

DIGITS = 5


@dataclass(frozen=True)
class OutputMatch:
    """Comparison of one output of two models.

    cosine                  of the two (dequantized) arrays over all samples
    consistent              every element within 10^-digits; None in a comparison by cosine
    mismatched, count       elements beyond that, and elements in all
    max_abs, max_rel        largest differences
    node                    node of the first model that puts it out
    """

    name: str
    cosine: float
    consistent: bool | None
    mismatched: int
    count: int
    max_abs: float
    max_rel: float
    node: str = ""


@dataclass(frozen=True)
class Verification:
    """Result of `verify`. mode is "cosine" or "consistency"; `first_difference` names the node where two integer
    models part ("" when they agree or one of them is a float model); `derived` names the model whose inputs were fed
    with what was made from the other one's float data, such as camera bytes ("" for none)."""

    models: tuple[str, str]
    mode: str
    digits: int
    outputs: tuple[OutputMatch, ...]
    first_difference: str = ""
    derived: str = ""

    @property
    def passed(self) -> bool:
        """Consistency: every output agrees. Cosine: nothing to fail, always True."""
        return all(o.consistent is not False for o in self.outputs)


Feed = Mapping[str, np.ndarray]
Sample = Feed | tuple[Feed, Feed]


def verify(models: tuple[str | Path, str | Path], samples: Sequence[Sample], *, digits: int = DIGITS) -> Verification:
    """Run both models on every sample and compare their outputs by name.

    models   two of `.onnx`, `.bc`, `.hbm`
    samples  feeds by input name, of which a model takes the names it has; or two feeds, one for each model, where
             the inputs differ (camera bytes beside the float tensor)
    digits   of the consistency check
    Raises PtqError for models that share no output, feeds that lack an input, and damaged files.
    """
    first, second = (Path(m) for m in models)
    return compare((Runtime(first), Runtime(second)), samples, digits)


def compare(
    runners: tuple[Runtime, Runtime], samples: Sequence[Sample], digits: int, repeats: tuple[int, int] = (1, 1)
) -> Verification:
    """`verify` on two models that are open already; a model's outputs are repeated along the batch where the other one
    was fed with each sample so often."""
    first, second = (runner.path for runner in runners)
    pairs = _paired(runners[0].output_names, runners[1].output_names, (first, second))
    if not samples:
        raise PtqError(
            Problem("PTQ640", "samples", "none", "at least one set of inputs", "give -i FILE.npy"), "Comparing models"
        )
    exact = ".hbm" in (first.suffix, second.suffix)
    agreement = {pair: Agreement() for pair in pairs}
    worst: dict[tuple[str, str], list[float]] = {pair: [0, 0, 0.0, 0.0] for pair in pairs}
    fed = [sample if isinstance(sample, tuple) else (sample, sample) for sample in samples]
    for feeds in fed:
        results = [_run(runner, feed) for runner, feed in zip(runners, feeds, strict=True)]
        for pair in pairs:
            a, b = (
                _repeated(runner.real(name, result[name]), times)
                for runner, name, result, times in zip(runners, pair, results, repeats, strict=True)
            )
            if a.shape != b.shape:
                raise PtqError(
                    Problem("PTQ641", f"output '{pair[0]}'", f"{list(a.shape)} and {list(b.shape)}", "equal shapes"),
                    "Comparing models",
                )
            agreement[pair].add(a, b, distances=True)
            _count(worst[pair], a, b, 10.0**-digits)
    outputs = tuple(
        OutputMatch(
            pair[0],
            float(agreement[pair].cosine),
            (worst[pair][0] == 0) if exact else None,
            int(worst[pair][0]),
            int(worst[pair][1]),
            float(worst[pair][2]),
            float(worst[pair][3]),
            runners[0].output_nodes.get(pair[0], ""),
        )
        for pair in pairs
    )
    parted = ""
    if any(o.mismatched if exact else o.max_abs for o in outputs) and ".onnx" not in (first.suffix, second.suffix):
        pairs_of_runs = [
            both for one, other in fed for both in zip(_parts(runners[0], one), _parts(runners[1], other), strict=False)
        ]
        parted = first_difference(read_quantized(first).quantized, read_quantized(second).quantized, pairs_of_runs)
    return Verification((first.name, second.name), "consistency" if exact else "cosine", digits, outputs, parted)


def _paired(a: Sequence[str], b: Sequence[str], files: tuple[Path, Path]) -> list[tuple[str, str]]:
    """Outputs of the same name; one that lost its Dequantize is called `<name>_quantized`."""
    plain = {name.removesuffix("_quantized"): name for name in b}
    pairs = [(name, plain[name.removesuffix("_quantized")]) for name in a if name.removesuffix("_quantized") in plain]
    if not pairs:
        raise PtqError(
            Problem(
                "PTQ642",
                f"{files[0].name}, {files[1].name}",
                f"outputs {', '.join(a)} and {', '.join(b)}",
                "outputs of the same name",
                "compare artifacts of one model",
            ),
            "Comparing models",
        )
    return pairs


def _repeated(array: np.ndarray, times: int) -> np.ndarray:
    return np.concatenate([array] * times) if times > 1 and array.ndim else array


def _run(runtime: Runtime, feed: Feed) -> dict[str, np.ndarray]:
    """Outputs by name; several samples are run one after the other and joined along the first axis."""
    runs = [runtime.run(None, part) for part in _parts(runtime, feed)]
    arrays = runs[0] if len(runs) == 1 else [np.concatenate(parts) for parts in zip(*runs, strict=True)]
    return dict(zip(runtime.output_names, arrays, strict=True))


def _parts(runtime: Runtime, feed: Feed) -> list[Feed]:
    """The feed of one run of a model, or of as many runs as there are samples in it."""
    raise_if(
        [
            Problem(
                "PTQ643",
                f"{runtime.path.name}: input '{n}'",
                f"data for {', '.join(feed)}",
                "data for every input",
                "give the runtime data of this model too",
            )
            for n in runtime.input_names if n not in feed
        ],
        "Comparing models",
    )
    inputs = runtime.without_padding({n: feed[n] for n in runtime.input_names})
    count = _samples_in(runtime, inputs) or 1
    if count == 1:
        return [inputs]
    split = [np.split(array, count) for array in inputs.values()]
    return [dict(zip(inputs, parts, strict=True)) for parts in zip(*split, strict=True)]


def _samples_in(runtime: Runtime, feed: Feed) -> int | None:
    """How many samples for each that the model takes lie in the arrays' first axis; None where they do not fit."""
    counts: set[float] = set()
    cut = runtime.without_padding(feed)
    for info in runtime.inputs:
        array = cut[info.name]
        if str(array.dtype) != info.dtype or array.ndim != len(info.shape):
            return None
        if all(d in (-1, n) for d, n in zip(info.shape, array.shape, strict=True)):
            counts.add(1)
        elif info.shape and info.shape[0] > 0 and array.shape[1:] == info.shape[1:]:
            counts.add(array.shape[0] / info.shape[0])
        else:
            return None
    [count, *others] = counts or {1}
    return int(count) if not others and count >= 1 and count == int(count) else None


def _count(worst: list[float], a: np.ndarray, b: np.ndarray, tolerance: float) -> None:
    x, y = a.astype(np.float64), b.astype(np.float64)
    difference = np.abs(x - y)
    scale = np.maximum(np.abs(x), np.finfo(np.float32).tiny)
    worst[0] += int(np.count_nonzero(~(difference <= tolerance)))
    worst[1] += x.size
    worst[2] = max(worst[2], float(difference.max(initial=0.0)))
    worst[3] = max(worst[3], float((difference / scale).max(initial=0.0)))


def first_difference(a: QuantizedModel, b: QuantizedModel, samples: Sequence[tuple[Feed, Feed]]) -> str:
    """Name of the first node, in order of execution, whose integers differ between two quantized models."""
    shared = [t for t in a.integers if t in b.integers]
    runs = [FastExecutor(m, keep=[m.integers[t].name for t in shared]) for m in (a, b)]
    producer = {str(o.name): str(n.name) for n in a.model.graph for o in n.outputs}
    order = {str(n.name): i for i, n in enumerate(a.model.graph)}
    for feeds in samples:
        results = [run.run(feed) for run, feed in zip(runs, feeds, strict=True)]
        differing = [
            producer[a.integers[t].name]
            for t in shared
            if not np.array_equal(results[0][a.integers[t].name], results[1][b.integers[t].name])
        ]
        if differing:
            return min(differing, key=order.__getitem__)
    return ""


def verify_files(
    models: tuple[str | Path, str | Path], sets: Sequence[Sequence[tuple[str, Path]]], *, digits: int = DIGITS
) -> Verification:
    """`verify` on arrays in `.npy` files.

    sets  each a list of (input name, file); "" for a file that goes to the next input in order. A model takes the
          first set that fits its inputs in number, type and shape, else the named files of all sets together. Image
          inputs of a quantized model that no set fits are fed with bytes made from the float model's data (documented),
          and those with a batch of their own with the one sample repeated, or with as many samples as the files hold.
    Raises PtqError for files that are no arrays and for a model that no set fits.
    """
    arrays = read_arrays([file for one in sets for _, file in one])
    loaded = [[(name, arrays[file]) for name, file in one] for one in sets]
    named = [(name, array) for one in loaded for name, array in one if name]
    runners = (Runtime(models[0]), Runtime(models[1]))
    feeds = [next((f for one in (*loaded, named) if (f := _bind(runner, one)) is not None), None) for runner in runners]
    derived, repeats = "", [1, 1]
    for index in (0, 1):
        original = feeds[1 - index]
        if feeds[index] is None and original is not None:
            made, times = runtime_feed(runners[index].settings, original) or ({}, 1)
            feeds[index] = _bind(runners[index], list(made.items()))
            if feeds[index] is not None:
                derived, repeats[1 - index] = runners[index].path.name, times
    given = "; ".join(", ".join(f"{n}{'=' if n else ''}{a.dtype} {list(a.shape)}" for n, a in one) for one in loaded)
    raise_if(
        [
            Problem(
                "PTQ643",
                f"{runner.path.name}",
                f"the files hold {given or 'nothing'}",
                ", ".join(f"{i.name} {i.dtype} {list(i.shape)}" for i in runner.inputs),
                "give the data of this model's inputs as a set of its own (a second -i), by NAME=FILE or in order",
            )
            for runner, feed in zip(runners, feeds, strict=True)
            if feed is None
        ],
        "Comparing models",
    )
    assert feeds[0] is not None and feeds[1] is not None
    return replace(compare(runners, [(feeds[0], feeds[1])], digits, (repeats[0], repeats[1])), derived=derived)


def _bind(runtime: Runtime, files: Sequence[tuple[str, np.ndarray]]) -> dict[str, np.ndarray] | None:
    """The arrays by input name, or None when they do not fit the model's inputs."""
    feed = {name: array for name, array in files if name in runtime.input_names}
    rest = [name for name in runtime.input_names if name not in feed]
    unnamed = [array for name, array in files if not name]
    if len(rest) != len(unnamed):
        return None
    feed |= dict(zip(rest, unnamed, strict=True))
    return None if _samples_in(runtime, feed) is None else feed

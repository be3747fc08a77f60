"""PERFORMANCE.md: what the fit found, how well it holds, and what is only guessed."""
from __future__ import annotations

import numpy as np
from perf.mobile import CHECKS
from perf.structures import layers_of

from benchmarks.fit_perf import FREE, NAMES, Judged, Model, Predictor, Rows, baseline, both, mean
from ptqlab.perf.cost import times
from ptqlab.perf.host import CONVERT_US_PER_MILLION, CPU_GMACS, CPU_US_PER_MILLION, CPU_US_PER_OP
from ptqlab.perf.memory import SRAM_BYTES
from ptqlab.perf.parameters import CORE_GAIN, DDR_RATIO, core_ratio
from ptqlab.perf.work import ATTENTION_BYTES, CHANNELS, WEIGHT_BUFFER
from ptqlab.platforms import platform

BOARDS = ((False, "S100 (nash-e)"), (True, "S100P (nash-m)"))
MACS_ONLY, LINEAR = (0,), (0, 1, 2)

HEAD = """# How good the performance estimate is

Made by `PYTHONPATH=tests python -m benchmarks.fit_perf`; do not edit. It reads the published rows and layer tables in
`tests/perf/data`, fits, leaves out one family of networks after the other, and writes this page and
`ptqlab/perf/parameters.json`.
"""

FORM = f"""## The model

    tae     = (spatial MACs / spatial + pointwise MACs / pointwise) * (1 + streaming * share streamed)
              + depthwise MACs / depthwise + MatMul MACs / matmul
    vector  = table bytes * table + plain bytes * plain
    layer   = max(max(tae, vector) + command, weights / ddr) + results / ddr
    latency = sum over layers + input / ddr                       the static figure, BPU only
    board   = latency + runtime + runtime_per_mb * results        one thread
    FPS     = 1 / max(latency, (board + gap) / threads)

Channels are padded to multiples of {CHANNELS} (documented). A layer's weights beyond {WEIGHT_BUFFER >> 10} KiB are
streamed (our definition). Relu, Relu6, Clip and residual Add cost nothing behind a TAE operator; every other activation
is one table look-up. Softmax is one look-up and three passes. Pooling and Resize run in the AAE, which is hidden
(documented: mostly). nash-m computes 1.5 times as fast as nash-e (documented clocks); its DDR and runtime ratios are
fitted.
"""


def page(rows: Rows, judged: Judged) -> str:
    """The whole page."""
    single = rows.only(rows.single)
    parts = [HEAD, _errors(single, rows, judged), _families(single, judged), FORM, _parameters(judged),
             _statics(rows, judged), _order(single, judged), _guesses(), _limits(single, judged)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def table(head: list[str], body: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(line) + " |" for line in body)])


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _errors(single: Rows, rows: Rows, judged: Judged) -> str:
    ways = {
        "within the fit": judged.inside,
        "**left out: family never seen by the fit**": judged.outside,
        "baseline, left out: t0 + GMACs / P": baseline(rows, MACS_ONLY),
        "baseline, left out: t0 + GMACs / P + weight bytes + activation bytes": baseline(rows, LINEAR),
    }
    body = [[name, *(percent(mean(errors[single.fast == fast])) for fast, _ in BOARDS)]
            for name, errors in ways.items()]
    counts = ", ".join(f"{int((single.fast == fast).sum())} on {name}" for fast, name in BOARDS)
    many = rows.only(rows.kind == "threads")
    rate = np.abs(many.ms / Predictor(many)(judged.x) - 1)
    rates = ", ".join(f"{percent(float(rate[many.fast == fast].mean()))} % on {name}" for fast, name in BOARDS)
    return ("## Mean absolute error of the one-thread latency, in percent\n\n"
            f"{table(['', *(n for _, n in BOARDS)], body)}\n\n"
            f"Rows of one thread: {counts}.\nThe fit also sees the rates of two and three threads and two published "
            f"static figures.\nFrames a second with two or three threads are off by {rates},\nmost for networks that "
            "take the BPU less than a third of a millisecond.\n")


def _families(single: Rows, judged: Judged) -> str:
    body = []
    for name in dict.fromkeys(single.family):
        line = [str(name)]
        for fast, _ in BOARDS:
            mine = (single.family == name) & (single.fast == fast)
            errors = judged.outside[mine]
            line.append(f"{percent(mean(errors))} ({100 * errors.mean():+.1f})" if mine.any() else "-")
        mine = single.family == name
        body.append([*line, percent(float(np.abs(judged.outside[mine]).max())), percent(mean(judged.inside[mine]))])
    head = ["family", *(n for _, n in BOARDS), "worst row", "within the fit"]
    return ("## Each family, predicted by a fit without it\n\nMean absolute error in percent (mean error).\n\n"
            f"{table(head, body)}\n")


def _parameters(judged: Judged) -> str:
    fits = np.exp(np.stack([judged.x, *judged.left_out.values()]))
    body = []
    for i, free in enumerate(FREE):
        low, high = fits[:, i].min(), fits[:, i].max()
        prior = f"{free.prior[0]:g} within a factor {np.exp(free.prior[1]):.2g}: {free.prior[2]}" if free.prior else ""
        body.append([free.name, f"{fits[0, i]:.4g}", f"{low:.4g} .. {high:.4g}", free.unit, prior])
    return ("## Fitted numbers\n\nThe range is over the fits that leave a family out: what moves much is not held by "
            f"the rows.\n\n{table(['name', 'value', 'range', 'unit', 'prior'], body)}\n")


def _statics(rows: Rows, judged: Judged) -> str:
    known = rows.only(rows.kind == "static")
    predicted = Predictor(known)(judged.x)
    body = [[known.models[m].name, "weight 0.5", f"{ms:.4g}", f"{found:.4g}", f"{100 * (found / ms - 1):+.1f}"]
            for m, ms, found in zip(known.model, known.ms, predicted, strict=True)]
    rates = both(judged.x)[0]
    for check in CHECKS:
        model = Model(check.name, layers_of(check.build()))
        found = (times(model.work, rates).whole.sum() + model.input_bytes / rates.ddr / 1e3) / 1e3
        published = check.us / 1e3
        body.append([check.name, "no", f"{published:.4g}", f"{found:.4g}", f"{100 * (found / published - 1):+.1f}"])
    return ("## Published static figures (nash-e, BPU part only, ms)\n\n"
            f"{table(['network', 'in the fit', 'published', 'estimate', 'error in percent'], body)}\n")


def _order(single: Rows, judged: Judged) -> str:
    body = []
    for low, high in ((1.05, 1.15), (1.15, 1.5), (1.5, 2.5)):
        right = total = 0
        for fast, _ in BOARDS:
            here = np.flatnonzero((single.fast == fast) & ~single.older)
            for a in here:
                for b in here:
                    if low <= single.ms[b] / single.ms[a] < high:
                        total += 1
                        right += (single.ms[b] * (1 + judged.outside[b])) > (single.ms[a] * (1 + judged.outside[a]))
        body.append([f"{low} .. {high}", str(total), percent(right / total)])
    return ("## Order of pairs of networks, left-out predictions\n\n"
            f"{table(['slower / faster', 'pairs', 'right order, percent'], body)}\n")


def _guesses() -> str:
    marches = ", ".join(f"{m} x{core_ratio(platform(m)):.3g} (DDR x{DDR_RATIO[m][0]:.3g}, {DDR_RATIO[m][1]})"
                        for m in ("nash-b", "nash-h", "nash-p"))
    items = [
        f"Other marches scale nash-e by documented TOPS of one core: {marches}. No published board row backs them.",
        f"Every further core adds {100 * CORE_GAIN:.0f} % of the first one's speed.",
        "int16 features cost twice, dual-int16 four times the MACs of int8; vector work and bytes follow the bits. All "
        "published rows are int8.",
        f"Features stay in an SRAM of {SRAM_BYTES >> 20} MiB (documented for nash-h and nash-p only). The rows speak "
        "against live sets of up to about 12 MB going through DDR; beyond the SRAM bytes are counted, but no time.",
        f"CPU operators: {CPU_GMACS:g} GMAC/s, {CPU_US_PER_MILLION:g} us for a pass over a million elements, "
        f"{CPU_US_PER_OP:g} us each; Quantize and Dequantize around them {CONVERT_US_PER_MILLION:g} us a million; "
        "every segment after the first one more task. Movers behind the tail are free: published latencies have them.",
        f"A matrix of attention beyond {ATTENTION_BYTES >> 20} MiB goes through DDR. No row has a larger one; "
        "larger YOLO12 are known to be slower than an estimate without it.",
        "Images come as nv12, 1.5 bytes a pixel.",
    ]
    return "## Guesses and our definitions\n\n" + "\n".join(f"- {item}" for item in items) + "\n"


def _limits(single: Rows, judged: Judged) -> str:
    worst = np.argsort(-np.abs(judged.inside))[:6]
    listed = ", ".join(f"{single.models[single.model[i]].name} on {dict(BOARDS)[bool(single.fast[i])].split()[0]} "
                       f"{100 * judged.inside[i]:+.1f} %" for i in worst)
    slow = both(judged.x)[0]
    bound = {"TAE": 0.0, "vector": 0.0, "DDR": 0.0}
    for model in single.models:
        spent = times(model.work, slow)
        kinds = np.where(spent.load > spent.compute, "DDR", np.where(spent.tae >= spent.vector, "TAE", "vector"))
        for name in bound:
            bound[name] += float(spent.whole[kinds == name].sum() / spent.whole.sum() / len(single.models))
    shares = ", ".join(f"{100 * v:.0f} % {k}" for k, v in bound.items())
    order = np.array([abs(judged.x[i] - np.log(f.prior[0])) / f.prior[1] if f.prior else 0 for i, f in enumerate(FREE)])
    far = ", ".join(NAMES[i] for i in np.flatnonzero(order > 1)) or "none"
    items = [
        f"Largest errors left within the fit: {listed}.",
        f"What decides a layer's time, averaged over the networks: {shares}. The depthwise rate rests on MobileNetV2, "
        "the MatMul rate on YOLO12s and the attention blocks of YOLO11.",
        f"Parameters further than one spread from their prior: {far}.",
        "One generation of the compiler (OE 3.5 and later) and one of the runtime; MobileNetV2 and ResNet152 were "
        "measured with an older runtime, whose cost is a parameter of its own.",
        "Inputs of 224 x 224 and 640 x 640, batch 1.",
        "The form of the model (what is padded, streamed, hidden, how many passes) was chosen with all families in "
        "view; only its numbers were fitted without the family left out. The four mobile networks above were looked at "
        "when all was done.",
    ]
    return "## Limits\n\n" + "\n".join(f"- {item}" for item in items) + "\n"

"""What an estimate rests on, in sentences that go with every figure."""
from __future__ import annotations

from collections.abc import Mapping

from ptqlab.perf.parameters import BASE_MARCH, CORE_GAIN, DDR_RATIO, core_ratio, data
from ptqlab.platforms import platform

BOARD = {"nash-e": "RDK S100", "nash-m": "RDK S100P"}


def basis(march: str, core_num: int = 1, cpu: bool = False) -> tuple[tuple[str, ...], bool]:
    """(sentences, whether published board rows of this march were fitted)."""
    target = platform(march)
    measured = data()["basis"]
    assert isinstance(measured, Mapping)
    if target.family in measured:
        rows = measured[target.family]
        sentences = [
            f"Fitted to {rows['rows']} published rows of {rows['models']} networks on {BOARD[target.family]}: mean "
            f"error of the latency {rows['error_percent']} %, {rows['left_out_error_percent']} % on families of "
            "networks that the fit had not seen (PERFORMANCE.md)."
        ]
    else:
        ratio, source = DDR_RATIO[target.family]
        sentences = [
            f"No published board row backs {march}: the rates of {BASE_MARCH} times {core_ratio(target):.3g} (TOPS of "
            f"one core, documented), DDR times {ratio:.3g} ({source}). Compare models and types with it; do not "
            "promise it."
        ]
    if target.family != target.march:
        sentences.append(f"{march} is taken for {target.family} (our definition).")
    sentences.append("int16 features cost twice, dual-int16 four times the MACs of int8; bytes and vector work follow "
                     "the bits (our definition: all published rows are int8).")
    if core_num > 1:
        sentences.append(f"Each core after the first adds {100 * CORE_GAIN:.0f} % of its speed (guess).")
    if cpu:
        sentences.append("Times of operators on the CPU, of conversions and of switches between segments are guesses.")
    return tuple(sentences), target.family in measured

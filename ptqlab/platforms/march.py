"""The BPU platforms: one object per march, numbers only, each with its source.

documented  vendor manual or vendor-authored article;  log  published log or measurement;
our definition  nothing is public: a choice made here, so that it can be changed here.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from ptqlab.arith.formats import QType
from ptqlab.errors import Problem, PtqError, nearest


@dataclass(frozen=True)
class Platform:
    """What placement, lowering and the estimate need to know of a march.

    family           the march whose rules apply; variants differ in figures only
    chips            chips and boards that carry it
    cores            BPU cores                                              (documented)
    tops             marketing int8 TOPS, dense                            (documented)
    clock_ghz        None where not published                              (log)
    nv12_stride      alignment of the row stride of nv12 inputs in bytes   (documented)
    float_types      float types of the vector unit                        (documented)
    tail_type        what a high-precision tail operator puts out: int32 accumulator or float32  (documented)
    has_vpu          quantize / dequantize can run in the VPU              (documented)
    """

    march: str
    family: str
    chips: str
    cores: int
    tops: float
    clock_ghz: float | None
    nv12_stride: int
    float_types: tuple[QType, ...]
    tail_type: QType
    has_vpu: bool
    backed_by_board: bool
    note: str = ""

    @property
    def integer_types(self) -> tuple[QType, ...]:
        return (QType.INT8, QType.INT16)


FLOATS = (QType.FLOAT16, QType.FLOAT32)
NASH_B = Platform("nash-b", "nash-b", "J6B", 1, 18, None, 32, FLOATS, QType.FLOAT32, False, False,
                  "no VPU and no SPU (documented)")
NASH_E = Platform("nash-e", "nash-e", "J6E, RDK S100", 1, 80, 1.0, 32, (), QType.INT32, True, True)
NASH_M = Platform("nash-m", "nash-m", "J6M, RDK S100P", 1, 128, 1.5, 32, (), QType.INT32, True, True)
NASH_H = Platform("nash-h", "nash-h", "J6H", 3, 420, None, 64, FLOATS, QType.FLOAT32, True, False)
NASH_P = Platform("nash-p", "nash-p", "J6P, RDK S600", 4, 560, None, 64, FLOATS, QType.FLOAT32, True, False)

VARIANT = "accepted as a variant of {0}; its figures are those of {0} (our definition)"
PLATFORMS: dict[str, Platform] = {
    p.march: p
    for p in (
        NASH_B, NASH_E, NASH_M, NASH_H, NASH_P,
        replace(NASH_B, march="nash-b-lite", note=VARIANT.format("nash-b")),
        replace(NASH_B, march="nash-b-plus", note=VARIANT.format("nash-b")),
        replace(NASH_P, march="nash-starry-p", note=VARIANT.format("nash-p")),
    )
}
MARCHES: tuple[str, ...] = tuple(PLATFORMS)


def platform(march: str, where: str = "march") -> Platform:
    """The platform of a march word such as "nash-e". Raises PtqError for an unknown one."""
    if march not in PLATFORMS:
        near = nearest(march, MARCHES, 1)
        hint = f"did you mean {near[0]}?" if near else "S100 is nash-e, S100P nash-m, S600 nash-p"
        raise PtqError(Problem("PTQ202", where, repr(march), ", ".join(MARCHES), hint))
    return PLATFORMS[march]

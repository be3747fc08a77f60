"""Rates per march: fitted for two, documented ratios for the others."""

from __future__ import annotations

import pytest

from ptqlab.errors import PtqError
from ptqlab.perf.basis import basis
from ptqlab.perf.parameters import core_ratio, parameters
from ptqlab.platforms import platform


def test_nash_m_is_nash_e_at_its_clock() -> None:
    """Everything that computes runs 1.5 times as fast (documented clocks); weights arrive somewhat faster."""
    e, m = parameters("nash-e"), parameters("nash-m")
    assert m.spatial / e.spatial == pytest.approx(1.5) and e.table / m.table == pytest.approx(1.5)
    assert 1.0 <= m.ddr / e.ddr < 1.5 and m.runtime < e.runtime


@pytest.mark.parametrize(("march", "ratio"), [("nash-b", 18 / 80), ("nash-h", 140 / 80), ("nash-p", 140 / 80)])
def test_other_marches_scale_by_tops_of_a_core(march: str, ratio: float) -> None:
    """420 TOPS on three cores, 560 on four, 18 on one, against 80."""
    assert core_ratio(platform(march)) == pytest.approx(ratio)
    assert parameters(march).spatial == pytest.approx(parameters("nash-e").spatial * ratio)


def test_variants_and_unknown_marches() -> None:
    """A variant has the rates of its family and says so; an unknown march is refused."""
    assert parameters("nash-b-lite") == parameters("nash-b")
    assert any("nash-b-lite is taken for nash-b" in s for s in basis("nash-b-lite")[0])
    with pytest.raises(PtqError, match="nash-x"):
        parameters("nash-x")


def test_physics_of_the_fitted_rates() -> None:
    """No rate beats what the chip could do: 80 TOPS are 40 TMAC/s, the bus carries 76.8 GB/s."""
    rates = parameters("nash-e")
    assert 2 < rates.depthwise < rates.spatial < 40 and rates.pointwise < 40 and rates.matmul < 40
    assert 20 < rates.ddr < 76.8 and 0 < rates.streaming < 2
    assert rates.plain < rates.table and 0.5 < rates.command < 5
    assert 250 < rates.runtime < 400 and 150 < rates.older_runtime < 250

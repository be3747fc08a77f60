"""`run.report("report.html")`: what is known of a run, put into one file."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ptqlab.artifacts.files import atomic_write, writing
from ptqlab.errors import PtqError
from ptqlab.report.run_report import Extras, report_html
from ptqlab.result.views import heat_of_result

if TYPE_CHECKING:
    from ptqlab.result.comparing import Comparison
    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.progress import Progress


def write_report(run: CompileResult, path: Path, *, other: Comparison | None = None, sensitivity: bool = True,
                 progress: bool | Progress | None = None) -> Path:
    """As `CompileResult.report`; `other` holds the comparison to show."""
    has_data = sensitivity and can_measure(run)
    known = run.sensitivity(progress=progress) if has_data and run.known_sensitivity is None else run.known_sensitivity
    health = run.doctor(progress=progress) if has_data else None
    drawn = run.artifacts.get("optimized_float")
    extras = Extras(
        heat=None if known is None else heat_of_result(known),
        health=None if health is None else health.page,
        comparison=None if other is None else (other.names[1], other.page),
        graph=run.graph_html() if drawn is not None and drawn.is_file() else "",
    )
    page = report_html(run.record, extras)
    with writing(path):
        atomic_write(path, page)
    return path


def can_measure(run: CompileResult) -> bool:
    """Whether the run has a calibrated model and its samples are still where they were."""
    try:
        run.source()
    except PtqError:
        return False
    return True

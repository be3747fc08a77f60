"""What tuning writes: quant_config.json, final_quant_config.json, tuning_report.md and tuning_report.html."""
from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptqlab.artifacts.files import atomic_write
from ptqlab.artifacts.tables import printable
from ptqlab.errors import Problem, PtqError
from ptqlab.report.still import figure_svg

if TYPE_CHECKING:
    from ptqlab.result.tuning import TuneResult

STYLE = ("body{font:14px/1.5 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#222;"
         "background:#fff}table{border-collapse:collapse}td,th{padding:.2em .7em;border-bottom:1px solid #ccc;"
         "text-align:left}pre{background:#f4f4f4;padding:1em;overflow:auto}.no{color:#777}")


def write(result: TuneResult, final: dict[str, Any], folder: Path) -> None:
    """quant_config.json by the fewest rules, final_quant_config.json node by node, the report twice."""
    try:
        atomic_write(folder / "quant_config.json", json.dumps(result.quant_config, indent=2) + "\n")
        atomic_write(folder / "final_quant_config.json", json.dumps(final, indent=2) + "\n")
        atomic_write(folder / "tuning_report.md", markdown(result))
        atomic_write(folder / "tuning_report.html", html(result))
    except OSError as error:
        raise PtqError(Problem("PTQ604", str(folder), f"cannot write: {error.strerror or error}",
                               "a place that can be written to", "give another save_dir"), "tune") from None


def paragraphs(result: TuneResult) -> list[str]:
    """The words before the table of steps."""
    best = result.best
    done = "reached" if result.reached else "not reached"
    target = f"target {result.metric} {result.target:g}: {done}" if result.target is not None else "no target: the best"
    found = [
        f"Model `{printable(result.config.model.output_model_file_prefix)}`, march {result.config.model.march}, "
        f"{target}" + (" (stopped by the user)." if result.stopped else "."),
        f"Best step {best.number}: cosine {best.cosine:.6f}, SQNR {best.sqnr:.2f} dB, estimated latency "
        f"{best.latency_us:.1f} us; more than as configured: {best.int16} tensors in int16, {best.dual} operators with "
        f"weights in int16, {best.float16} nodes in float16. Figures are those of the worst output of the calibrated "
        "model over the scoring samples.",
    ]
    if best.judged is not None:
        found.append(f"{printable(result.metric)} of that step: {best.judged:.4f}.")
    if result.simulated is not None:
        found.append(
            f"Integer model of that step: cosine {result.simulated[0]:.6f}, SQNR {result.simulated[1]:.2f} dB.")
    if "mse" in json.dumps(result.quant_config):
        found.append("`calibration_type: mse` is ptqlab's own; for the vendor's tool take max or kl in its place.")
    return found


def table(result: TuneResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of the steps, with the mark of the Pareto front."""
    front = {s.number for s in result.pareto}
    rows = [(*row, "yes" if step.number in front else "")
            for step, row in zip(result.steps, result.rows(), strict=True)]
    return (*result.columns, "Pareto"), rows


def markdown(result: TuneResult) -> str:
    """tuning_report.md."""
    columns, rows = table(result)
    lines = ["# Tuning report", ""]
    for paragraph in paragraphs(result):
        lines += [paragraph, ""]
    lines += ["| " + " | ".join(map(_cell, columns)) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    lines += ["", "## quant_config", "", "```json", json.dumps(result.quant_config, indent=2), "```", ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def html(result: TuneResult) -> str:
    """tuning_report.html: the same with the figure, in one file that needs no network."""
    columns, rows = table(result)
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    kept = len(columns) - 2
    body = "".join(f"<tr{'' if row[kept] == 'yes' else ' class=no'}>"
                   + "".join(f"<td>{escape(printable(c))}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Tuning report</title><style>{STYLE}</style>"
        "<h1>Tuning report</h1>" + "".join(f"<p>{escape(p.replace('`', ''))}</p>" for p in paragraphs(result))
        + figure_svg(result.plot())
        + f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><h2>quant_config</h2>"
        f"<pre>{escape(json.dumps(result.quant_config, indent=2))}</pre></html>\n")

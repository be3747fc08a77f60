"""One offline html page for an estimate: nothing fetched, no script, every name escaped, dark and light."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ptqlab.perf.advice import Advice
from ptqlab.perf.estimate import Estimate
from ptqlab.perf.svg import bandwidth_svg, timeline_svg
from ptqlab.perf.vendor import intervals, per_second
from ptqlab.perf.words import LANGUAGES, say

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--quiet:#57606a;--line:#d0d7de;--page:#fff;--soft:#f6f8fa;
--e0:#6e7781;--e1:#0969da;--e2:#1a7f37;--e3:#9a6700;--e4:#8250df;--e5:#bc4c00;--e6:#cf222e}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--quiet:#9198a1;--line:#3d444d;--page:#0d1117;--soft:#151b23;
--e0:#9198a1;--e1:#58a6ff;--e2:#3fb950;--e3:#d29922;--e4:#bc8cff;--e5:#f0883e;--e6:#ff7b72}}
body{margin:0 auto;padding:1.2rem;max-width:70rem;font:14px/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--page)}
h1{font-size:1.3rem;margin:.2em 0}h2{font-size:1.05rem;margin:1.6em 0 .4em}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1.2em;margin:.4em 0}dt{color:var(--quiet)}dd{margin:0}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:12.5px;width:100%}
th,td{border-bottom:1px solid var(--line);padding:.25em .7em .25em 0;text-align:left;vertical-align:top}
th{position:sticky;top:0;background:var(--page)}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.w{overflow-wrap:anywhere;min-width:9rem}ul{padding-left:1.2em;margin:.4em 0}.q{color:var(--quiet)}
svg.perf{width:100%;height:auto;background:var(--soft);border:1px solid var(--line);border-radius:4px}
svg.perf text{font:11px system-ui,sans-serif;fill:var(--ink)}svg.perf .axis{stroke:var(--line)}
svg.perf .e0{fill:var(--e0)}svg.perf .e1{fill:var(--e1)}svg.perf .e2{fill:var(--e2)}svg.perf .e3{fill:var(--e3)}
svg.perf .e4{fill:var(--e4)}svg.perf .e5{fill:var(--e5)}svg.perf .e6{fill:var(--e6)}
svg.perf .step{fill:none;stroke-width:1.5}svg.perf .s0{stroke:var(--e1)}svg.perf .s1{stroke:var(--e2)}
svg.perf .s2{stroke:var(--e5)}
"""


def performance_html(found: Estimate, told: Sequence[Advice] = (), *, lang: str = "en") -> str:
    """The whole page. `told` is what `advice` says, in the same language."""
    lang = lang if lang in LANGUAGES else "en"
    title = escape(say("title", lang, model=found.model, march=found.march))
    body = [
        f"<h1>{title}</h1>", _heading("summary", lang), _summary(found, lang),
        _heading("basis", lang), "<ul>" + "".join(f"<li>{escape(s)}</li>" for s in found.basis) + "</ul>",
        _heading("timeline", lang), timeline_svg(found.timeline, found.latency_us, say("timeline", lang)),
        _heading("bandwidth", lang), bandwidth_svg(intervals(found), lang),
        _heading("advice", lang), _advice(told, lang),
        _heading("cpu", lang), _cpu(found, lang),
        _heading("layers", lang), _layers(found, lang),
    ]
    return (f"<!doctype html><html lang='{lang}'><head><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width,initial-scale=1'>"
            f"<title>{title}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n")


def _heading(key: str, lang: str) -> str:
    return f"<h2>{escape(say(key, lang))}</h2>"


def _summary(found: Estimate, lang: str) -> str:
    memory, macs = found.memory, found.macs
    rows = [
        ("latency", f"{found.latency_us / 1e3:.3f} ms ({found.latency_us:.1f} us), FPS {per_second(found.latency_us)}"),
        ("board", f"{found.board_latency_us / 1e3:.3f} ms"),
        ("runtime", f"{found.runtime_us:.0f} us"),
        ("cpu_part", f"{found.cpu_us:.0f} us"),
        ("fps", f"{found.fps_1_thread:.1f} / {found.fps_2_threads:.1f}"),
        ("segments", f"{len(found.segments_us)} ({', '.join(f'{us:.1f} us' for us in found.segments_us)})"),
        ("ddr", f"{memory.loaded:,} / {memory.stored:,} B"),
        ("memory", f"{memory.static:,} / {memory.dynamic:,} B"),
        ("ops", f"{macs.original_conv_ops:,}"),
        ("macs", f"int8 {macs.int8:,} · int16 x int8 {macs.feature_int16_weight_int8:,} · "
                 f"int8 x int16 {macs.feature_int8_weight_int16:,} · int16 x int16 {macs.int16:,}"),
        ("cores", str(found.core_num)),
    ]
    return "<dl>" + "".join(f"<dt>{escape(say(k, lang))}</dt><dd>{escape(v)}</dd>" for k, v in rows) + "</dl>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """A table of escaped cells; the last `numbers` columns before the very last are numbers."""
    head = "".join(f"<th scope='col'>{escape(c)}</th>" for c in columns)
    last = len(columns) - 1
    body = "".join("<tr>" + "".join(
        f"<td class='{'n' if last - numbers <= i < last else 'w'}'>{escape(cell)}</td>" for i, cell in enumerate(row)
    ) + "</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _layers(found: Estimate, lang: str) -> str:
    keys = ("layer", "op", "qtype", "bound", "period", "computing", "load", "store", "origin")
    columns = [say(key, lang) for key in keys]
    rows = [(c.name, c.op, c.qtype if c.device == "BPU" else "float32", c.bound,
             f"{c.start_us:.1f} - {c.end_us:.1f}", f"{c.computing_us:.1f}", f"{c.load_us:.1f}", f"{c.store_us:.1f}",
             ", ".join(c.nodes)) for c in found.layers]
    return _table(columns, rows, 4)


def _cpu(found: Estimate, lang: str) -> str:
    if not found.cpu:
        return f"<p class='q'>{escape(say('cpu_none', lang))}</p>"
    columns = [say(k, lang) for k in ("layer", "op", "cpu_own", "cpu_convert", "cpu_place")]
    rows = [(c.name, c.op, f"{c.own_us:.1f}", f"{c.convert_us:.1f}",
             say("tail" if c.tail else "head" if c.head else "middle", lang)) for c in found.cpu]
    return _table(columns, rows, 2)


def _advice(told: Sequence[Advice], lang: str) -> str:
    if not told:
        return f"<p class='q'>{escape(say('advice_none', lang))}</p>"
    columns = [say("layer", lang), say("op", lang), "us", say("share", lang), say("why", lang), say("do", lang)]
    rows = [(a.layer, a.op, f"{a.us:.1f}", f"{100 * a.share:.1f} %", "; ".join(a.causes), "; ".join(a.remedies))
            for a in told]
    return _table(columns, rows, 0)

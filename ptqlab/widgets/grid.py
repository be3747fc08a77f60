"""The editable quant_config of a run. Python holds the truth and checks every edit; the page draws and asks."""
from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from ptqlab.artifacts.files import atomic_write, writing
from ptqlab.errors import Interrupted, Problem, PtqError, nearest, shorten
from ptqlab.events import Watch
from ptqlab.pipeline.whatif import SAMPLES
from ptqlab.report.words import say
from ptqlab.widgets import grid_page
from ptqlab.widgets.assets import our
from ptqlab.widgets.grid_edits import Quant, parsed, wrong_request
from ptqlab.widgets.grid_rows import Book, Row, level_rows, node_rows
from ptqlab.widgets.grid_session import Compile, Effect, Listener, Run, Session, beside
from ptqlab.widgets.selection import SelectingView

if TYPE_CHECKING:
    import pandas as pd

HEIGHT = 460


class QuantGrid(SelectingView):
    """The quant_config of a run, node by node, to be changed.

    `set(node, key, value)`, `undo()`, `redo()`, `load(file)`, `export(file)`, `apply()` do what the page does;
    `changes`, `quant_config`, `effect()`, `result`, `selected` tell. Every edit is placed anew before it counts: one
    without effect is refused with the reason.
    """

    _esm = our("assets.js", "grid.js")
    _css = our("grid.css")
    sets = ("tabulator",)
    height = traitlets.Int(HEIGHT).tag(sync=True)

    def __init__(self, run: Run, compile: Compile, data: Any = None, *, samples: int = SAMPLES,
                 sensitivity: Mapping[str, float] | None = None, height: int = HEIGHT) -> None:
        """The model opens beside; what needs it waits.

        compile      makes a run of a `Config`: keywords progress, watch
        data         calibration data, None for that of the run;  samples: how many the effect is measured with
        sensitivity  node -> figure of its column, where it is known;  height: of the table in pixels
        PtqError for a run whose configuration cannot be read any more.
        """
        self._session = Session(run, compile, data, samples, dict(sensitivity or {}),
                                Listener(self._opened, self._moved, self._measured, self._failed))
        self._level = "node"
        self._sent: dict[str, Row] = {}
        self._book = Book()
        self._applying: Watch | None = None
        self._result: Run | None = None
        super().__init__(height=height)
        self._session.open()

    # ------------------------------------------------------------------ what it says

    @property
    def quant_config(self) -> Quant:
        """The quant_config with all changes, in the vendor's JSON structure."""
        return parsed(self._session.history.now).to_dict()

    @property
    def changes(self) -> pd.DataFrame:
        """One row per setting that differs from the run: Level, Name, Key, Before, After (None: not said)."""
        import pandas as pd

        rows = [(c.level, c.name, c.key, c.before, c.after) for c in self._session.changes]
        return pd.DataFrame(rows, columns=["Level", "Name", "Key", "Before", "After"], dtype=object)

    @property
    def result(self) -> Any:
        """The run that `apply` made last; None before."""
        return self._result

    @property
    def rows(self) -> list[Row]:
        """The rows of the level that is shown, as the page has them (`grid_rows`)."""
        session = self._session
        quant, march = parsed(session.history.now), session.run.record.march
        if self._level != "node":
            return level_rows(self._level, session.facts, quant, march, self._book, session.changes)
        graph = session.model.graph if session.placed is not None else None
        return node_rows(session.facts, quant, march, self._book, session.changes, graph, session.placed)

    def effect(self) -> Effect:
        """What the changes do. Waits until it is computed; raises what opening the model raised."""
        self._session.wait()
        return self._session.effect()

    # ------------------------------------------------------------------ what it does

    def set(self, name: str | Sequence[str], key: str, value: Any, *, level: str = "node") -> None:
        """Give a node, or several, a setting; None: what coarser levels say.

        name   of a node, of an operator type for level "op", of an entry for level "subgraph"; "" for level "model"
        key    "qtype", "input0".., "ON", "calibration_type", "per_channel", "asymmetric", "num_bin", ...

        All of it or nothing: PtqError with every node for which the setting has no effect, and why.
        """
        refused = self._session.try_edit([name] if isinstance(name, str) else list(name), key, value, level)
        if refused:
            raise PtqError([Problem("PTQ672", f"{level} {shorten(n)}: {key}", repr(value), "a setting with an effect",
                                    why) for n, why in refused.items()], "grid")

    def undo(self) -> bool:
        """Take the last change back; False where there is none."""
        return self._session.step(-1)

    def redo(self) -> bool:
        """Make the change again that was taken back last; False where there is none."""
        return self._session.step(1)

    def load(self, source: Mapping[str, Any] | str | Path) -> None:
        """Take a quant_config from a mapping, a file or JSON text, as one change. PtqError with every problem."""
        self._session.load(source)

    def export(self, path: str | Path) -> Path:
        """Write the quant_config with the fewest rules that ask the same of every node; returns the path."""
        path = Path(path)
        with writing(path):
            atomic_write(path, self._session.exported())
        return path

    def apply(self, working_dir: str | Path | None = None, *, progress: Any = None, watch: Watch | None = None) -> Any:
        """Compile with the quant_config: the new run, `result` from now on; further changes count from it.

        working_dir  folder for its artifacts; None: one beside that of the run, whose files stay
        progress, watch  as in `ptqlab.compile`

        Raises what compiling raises; the grid stays as it was then.
        """
        self._result = self._session.apply(working_dir, progress, watch)
        return self._result

    @property
    def level(self) -> str:
        """Which rows are shown: "model", "op", "subgraph" or "node"; setting it changes them."""
        return self._level

    @level.setter
    def level(self, level: str) -> None:
        wrong_request(level, (), "qtype", self._session.known())
        self._level = level
        self._send_rows()

    def focus(self, *nodes: str) -> None:
        """Show the level of nodes, select these and scroll to the first. PtqError with the nearest names."""
        there = self._session.facts.rows
        missing = [n for n in nodes if n not in there]
        if missing:
            raise PtqError([Problem("PTQ671", "focus", f"no node {shorten(n)!r}", "a node of the model",
                                    f"nearest names: {', '.join(nearest(str(n), there))}") for n in missing], "grid")
        if self._level != "node":
            self.level = "node"
        self.send({"kind": "focus", "names": list(nodes)})
        self._select(list(nodes))

    # ------------------------------------------------------------------ what the session tells

    def _opened(self) -> None:
        self._send_rows()
        self._status("ok", say("grid_ready"))

    def _moved(self) -> None:
        self._send_changed()

    def _measured(self) -> None:
        session = self._session
        self.send({"kind": "effect", "parts": grid_page.effect_parts(session.effect(), session.model.measured)})

    def _failed(self, error: BaseException) -> None:
        self._status("error", grid_page.in_words(error))

    # ------------------------------------------------------------------ the page

    def _send_rows(self, to: str = "") -> None:
        """All rows, to one view of the page or to all."""
        with self._session.lock:
            rows = self.rows
            self._sent = {row["id"]: row for row in rows}
            about = grid_page.header(self._level, rows, self._session)
            packed = gzip.compress(json.dumps(rows).encode("utf-8"), 6)
            self.send({"kind": "rows", **about, **self._state(), "model_id": self.model_id, "to": to},
                      [packed])

    def _send_changed(self) -> None:
        """The rows that differ from what the page has; all of them where there are others."""
        with self._session.lock:
            rows = self.rows
            if [row["id"] for row in rows] != list(self._sent):
                self._send_rows()
                return
            different = [row for row in rows if self._sent[row["id"]] != row]
            self._sent = {row["id"]: row for row in rows}
            self.send({"kind": "update", "rows": different, **self._state()})

    def _state(self) -> dict[str, Any]:
        session = self._session
        return {
            "options": [list(values) for values in self._book.lists], "editable": session.placed is not None,
            "undo": session.history.can_undo, "redo": session.history.can_redo,
            "applying": self._applying is not None, "selected": self._selected,
        }

    def _status(self, level: str, text: str) -> None:
        self.send({"kind": "status", "level": level, "text": text})

    def heard(self, message: Mapping[str, Any], buffers: list[memoryview]) -> None:
        try:
            self._hear(str(message.get("kind")), message)
        except PtqError as error:
            self._status("error", say("grid_refused", why=grid_page.in_words(error)))
            names = message.get("names")
            self.send({"kind": "revert", "names": names if isinstance(names, list) else []})

    def _hear(self, kind: str, message: Mapping[str, Any]) -> None:
        if kind == "open":
            self._send_rows(view_of(message))
            if self._session.placed is not None:
                self._measured()
                return
            self._status("busy", say("grid_opening"))
        elif kind == "level":
            self.level = str(message.get("level"))
        elif kind == "select":
            names, known = message.get("names"), self._session.facts.rows
            self._select([n for n in names if isinstance(n, str) and n in known] if isinstance(names, list) else [])
        elif kind == "stop" and self._applying is not None:
            self._applying.stop()
        elif kind in ACTIONS:
            if self._session.placed is None:
                self._status("busy", say("grid_opening"))
            else:
                ACTIONS[kind](self, message)

    def _hear_edit(self, message: Mapping[str, Any]) -> None:
        """An edit: where it has no effect at some of the rows it is made at the others."""
        names, key, level = message.get("names"), str(message.get("key")), str(message.get("level"))
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            return
        value = message.get("value")
        refused = self._session.try_edit(names, key, value, level)
        left = [n for n in names if n not in refused]
        if refused and left:
            self._session.try_edit(left, key, value, level)
        if refused:
            self.send({"kind": "revert", "names": list(refused)})
        self._status("error" if refused else "ok", grid_page.edit_words(names, key, value, level, refused))

    def _hear_step(self, message: Mapping[str, Any]) -> None:
        kind = str(message["kind"])
        if not self._session.step(-1 if kind == "undo" else 1):
            self._status("ok", say(f"grid_nothing_{kind}"))

    def _hear_export(self, message: Mapping[str, Any]) -> None:
        name = f"{self._session.run.record.model}_quant_config.json"
        self.send({"kind": "file", "name": name, "text": self._session.exported(), "to": view_of(message)})

    def _hear_load(self, message: Mapping[str, Any]) -> None:
        text = str(message.get("text"))
        if not text.lstrip().startswith("{"):  # else it could be the path of a file that the page has no business with
            raise PtqError(Problem("PTQ673", "load", repr(shorten(text, 40)), "the text of a JSON file: {...}"), "grid")
        self._session.load(text)

    def _hear_apply(self, message: Mapping[str, Any]) -> None:
        if self._applying is not None:
            self._status("busy", say("grid_busy"))
            return
        self._applying = Watch(grid_page.Told(lambda line, share: self.send(
            {"kind": "progress", "text": say("grid_applying", line=line), "share": share})))
        self._send_changed()
        beside(self._apply_beside, self._applying)

    def _apply_beside(self, watch: Watch) -> None:
        """Apply for the page, in a thread."""
        level, said = "ok", ""
        try:
            said = say("grid_applied", folder=self.apply(progress=False, watch=watch).directory)
        except Interrupted:
            said = say("grid_stopped")
        except BaseException as error:
            level, said = "error", grid_page.in_words(error)
        finally:
            self._applying = None
            self.send({"kind": "progress", "text": "", "share": None})
            self._send_changed()
            self._status(level, said)

    def static_html(self) -> str:
        return grid_page.static_html(self._session.run.record, self._static_rows())

    def _static_rows(self) -> list[Row]:
        level, self._level = self._level, "node"
        try:
            return self.rows
        finally:
            self._level = level

    def __repr__(self) -> str:
        session = self._session
        return (f"QuantGrid({shorten(session.run.record.model)!r}, {len(session.facts.rows)} nodes, "
                f"{len(session.changes)} changes)")


def view_of(message: Mapping[str, Any]) -> str:
    """The view of the page that a message came from; an answer names it again."""
    return shorten(message.get("to", ""), 64)


#: what the page may ask of an open model
ACTIONS: dict[str, Callable[[QuantGrid, Mapping[str, Any]], None]] = {
    "edit": QuantGrid._hear_edit, "undo": QuantGrid._hear_step, "redo": QuantGrid._hear_step,
    "export": QuantGrid._hear_export, "load": QuantGrid._hear_load, "apply": QuantGrid._hear_apply,
}

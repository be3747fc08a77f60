"""What widgets draw with: our own small scripts, and third-party files out of installed wheels, sent when asked for.

A page asks for a set of files once (`static/assets.js`), by a custom message; they travel gzipped beside the answer.
Nothing of it is a synced trait, so saved notebooks hold nothing of it, and nothing is fetched from elsewhere.
"""
from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, ClassVar

import anywidget

from ptqlab.errors import Problem, PtqError, told

#: set -> (package, folder in it, files)
SETS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tabulator": ("js_lib_tabulator", "static/tabulator", ("js/tabulator_esm.min.mjs", "css/tabulator.min.css")),
}
# a browser would ask for these when its developer tools are open
_SOURCE_MAP = re.compile(r"^\s*(//|/\*)# sourceMappingURL=.*$", re.MULTILINE)
#: Of a static form and the widget behind it one is seen: the widget where its kernel runs, else the static form.
_ONE_IS_SEEN = (".jp-OutputArea-child:has(.ptqlab-static) + "
                ".jp-OutputArea-child:has(.jupyter-widgets):not(:has(.jupyter-widgets > *)){display:none}")


def our(*names: str) -> str:
    """Text of our own files in `static`, joined in this order."""
    folder = files("ptqlab.widgets") / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def read_wheel(package: str, folder: str, names: Iterable[str]) -> dict[str, str]:
    """name -> text of files of an installed package. PtqError naming each that is not there."""
    problems, found = [], {}
    for name in names:
        try:
            text = files(package).joinpath(*folder.split("/"), *name.split("/")).read_text(encoding="utf-8")
        except (ModuleNotFoundError, FileNotFoundError):
            problems.append(Problem("PTQ710", f"{package}/{folder}/{name}", "not found", "a file of an installed wheel",
                                    "install ptqlab again: pip install --force-reinstall ptqlab"))
        else:
            found[name] = _SOURCE_MAP.sub("", text)
    if problems:
        raise PtqError(problems, "widget")
    return found


@cache
def packed(name: str) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
    """(names, gzipped contents) of a set of files. KeyError for an unknown set, PtqError for a missing wheel."""
    found = read_wheel(*SETS[name])
    return tuple(found), pack(found)


def pack(texts: Mapping[str, str]) -> tuple[bytes, ...]:
    """The texts gzipped, the same bytes every time."""
    return tuple(gzip.compress(text.encode(), 6, mtime=0) for text in texts.values())


class View(anywidget.AnyWidget):
    """A widget that answers requests for sets of files and leaves a static form in saved notebooks.

    Messages of the page have a "kind"; those that are not "assets" go to `heard`. Subclasses give `static_html`.
    """

    sets: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self.on_msg(self._receive)

    def _receive(self, _: Any, message: Mapping[str, Any], buffers: list[memoryview]) -> None:
        if message.get("kind") != "assets":
            self.heard(message, buffers)
        elif message.get("set") in self.sets:
            self.send_assets(str(message["set"]))

    def send_assets(self, name: str) -> None:
        """Send a set of files; the page is told where that fails."""
        try:
            names, contents = packed(name)
        except PtqError as error:
            self.send({"kind": "assets", "set": name, "error": told(error)})
            return
        self.send({"kind": "assets", "set": name, "names": list(names)}, list(contents))

    def heard(self, message: Mapping[str, Any], buffers: list[memoryview]) -> None:
        """A message of the page. The page may be anybody's: nothing of it is trusted."""
        raise NotImplementedError

    def static_html(self) -> str:
        """What a saved notebook shows where no kernel runs: complete html, escaped."""
        raise NotImplementedError

    def _ipython_display_(self, **_: Any) -> None:
        """The static form, then the widget, which hides it (`hideStatic` in assets.js)."""
        display_both(self, self.model_id, self.static_html())


def display_both(widget: Any, model_id: str, static_html: str) -> None:
    """Show the static form, then the widget; the view of the model `model_id` hides the static form."""
    from IPython.display import display

    frame = (f"<style>{_ONE_IS_SEEN}</style><div class='ptqlab-static' data-ptqlab='{escape(model_id)}'>"
             f"{static_html}</div>")
    display({"text/plain": repr(widget), "text/html": frame}, raw=True)
    bundle = widget._repr_mimebundle_()
    display(bundle[0] if isinstance(bundle, tuple) else bundle, raw=True)

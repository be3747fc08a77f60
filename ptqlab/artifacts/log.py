"""`hb_compile.log`: the full story of a run, in the form and under the name users grep for.

The log is a listener of the run's `Watch`. It holds every event; the console shows less. The file rolls at
1 MB with ten older files kept, and is copied beside the artifacts when the run ends, also when it fails.
"""
from __future__ import annotations

import inspect
import logging
import os
from contextlib import ExitStack
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType, TracebackType

from ptqlab import __version__
from ptqlab.artifacts.files import FIXED, atomic_path
from ptqlab.errors import Problem, PtqError
from ptqlab.events import Event

LINE = "%(asctime)s file: %(filename)s func: %(funcName)s line No: %(lineno)d %(message)s"
ROLL_BYTES = 1_000_000
ROLL_FILES = 10

#: stage -> what the log says at its start and at its end (documented markers; other stages get the plain form).
MARKERS: dict[str, tuple[str, str]] = {
    **{verb: (f"Start to {verb} the onnx model.", f"End to {verb} the onnx model.")
       for verb in ("prepare", "optimize", "calibrate", "quantize")},
    "export": ("Start to export model.", "Successfully export model."),
    "convert": ("Start to convert model.", "Successfully convert model."),
    "compile": ("Start to compile model.", "Successfully compile the hbm model"),
}

#: Modules between the caller and the log; the line prefix names the caller.
_BETWEEN = ("events.py", "contextlib.py", "log.py")


def marker(event: Event) -> str:
    """The log's words for the start or end of a stage."""
    start, end = MARKERS.get(event.stage, (f"Start stage {event.stage}.", f"End stage {event.stage}."))
    return start if event.kind == "start" else end


class RunLog:
    """Context manager and listener: `with RunLog(working_dir) as log: Watch(log, ...)`.

    `path` is the rolling `./hb_compile.log` of all runs; what this run wrote is also put whole into `copy_to`
    when the block ends. Where the current folder cannot be written to there is only the copy.
    """

    def __init__(self, copy_to: str | Path, path: str | Path = FIXED["log"]) -> None:
        self.path, self.copy = Path(path), Path(copy_to) / FIXED["log"]
        self.handlers: list[logging.FileHandler] = []
        self._stack = ExitStack()

    def __enter__(self) -> RunLog:
        same = self.copy.resolve() == self.path.resolve()
        with ExitStack() as stack:
            try:
                if not same:
                    temporary = stack.enter_context(atomic_path(self.copy))
                    self._open(stack, logging.FileHandler(temporary, encoding="utf-8", errors="backslashreplace"))
                if os.access(self.path.parent, os.W_OK):
                    self._open(stack, RotatingFileHandler(self.path, maxBytes=ROLL_BYTES, backupCount=ROLL_FILES,
                                                          encoding="utf-8", errors="backslashreplace"))
            except OSError as error:
                raise PtqError(Problem("PTQ604", str(error.filename or self.copy), f"cannot write: {error.strerror}",
                                       "a folder that can be written to", "choose another working_dir")) from None
            self._stack = stack.pop_all()
        self.write(logging.INFO, f"Start hb_compile (ptqlab {__version__}).")
        return self

    def _open(self, stack: ExitStack, handler: logging.FileHandler) -> None:
        handler.setFormatter(logging.Formatter(LINE))
        self.handlers.append(handler)
        stack.callback(handler.close)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is not None:
            self.write(logging.ERROR, f"{type(error).__name__}: {error}")
        else:
            self.write(logging.INFO, "The hb_compile completes running.")
        self.handlers = []
        self._stack.close()

    def __call__(self, event: Event) -> None:
        match event.kind:
            case "start":
                self.write(logging.INFO, marker(event))
            case "step":
                of = f"/{event.total}" if event.total else ""
                self.write(logging.DEBUG, f"{event.stage} {event.done}{of} {event.text}".rstrip())
            case "end":
                self.write(logging.INFO, f"{marker(event)} ({event.seconds:.2f} s)")
            case "finding":
                severity = event.finding.severity if event.finding else "note"
                self.write(logging.WARNING, f"{severity.upper()}: {event.text}")
            case _:
                self.write(logging.INFO, event.text)

    def write(self, level: int, text: str) -> None:
        """Write one entry; the prefix names the code that spoke."""
        frame = _caller(inspect.currentframe())
        code = frame.f_code
        entry = logging.LogRecord("ptqlab", level, code.co_filename, frame.f_lineno, _clean(text), None, None,
                                  func=code.co_name)
        for handler in self.handlers:
            handler.handle(entry)


def _caller(frame: FrameType | None) -> FrameType:
    assert frame is not None
    while frame.f_back is not None and Path(frame.f_code.co_filename).name in _BETWEEN:
        frame = frame.f_back
    return frame


def _clean(text: str) -> str:
    """Line ends stay, other control characters (a node name may hold them) do not."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)

"""A stand-in for configuration and pipeline, so that results, command line and notebook are tested alone."""
from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from records import digits_record

from ptqlab.artifacts.files import Workspace
from ptqlab.artifacts.tables import node_info_csv
from ptqlab.errors import Finding, Problem, PtqError
from ptqlab.events import Watch
from ptqlab.stages.record import Record


@dataclass
class Fake:
    """What was asked of the stand-in, and how it behaves.

    source, keywords   of the last `load`;  skip  of the last compile
    steps              of stage "calibrate";  pause  seconds per step;  started  is set at the first step
    refuse             a PtqError to raise from the pipeline
    """

    folder: Path
    steps: int = 3
    pause: float = 0.0
    refuse: PtqError | None = None
    source: Any = None
    keywords: dict[str, Any] | None = None
    skip: str | None = None
    started: threading.Event | None = None

    def load(self, source: Any, **keywords: Any) -> Any:
        self.source, self.keywords = source, keywords
        if source is None and keywords.get("march") is None:
            raise PtqError(Problem("PTQ210", "model_parameters.march", "nothing", "a march", "set march"),
                           "configuration")
        folder = Path(keywords.get("working_dir", self.folder))
        return SimpleNamespace(model=SimpleNamespace(working_dir=folder), skip=keywords.get("skip"),
                               calibration=SimpleNamespace(folders={}, data=None),
                               findings=(Finding("PTQ299", "a note of the configuration", severity="note"),))

    def load_text(self, text: str, where: str = "cell", **keywords: Any) -> Any:
        return self.load(text, **keywords)

    def compile_model(self, config: Any, *, skip: str | None = None, watch: Watch, executor: Any = None) -> Record:
        self.skip = skip
        record = digits_record()
        with Workspace(config.model.working_dir, record.model) as work:
            with watch.stage("prepare"):
                if self.refuse is not None:
                    raise self.refuse
            with watch.stage("calibrate", self.steps) as stage:
                for index in range(self.steps):
                    if self.started is not None:
                        self.started.set()
                    threading.Event().wait(self.pause)
                    stage.step(f"sample {index}")
            work.path("node_info").write_text(node_info_csv(record), encoding="utf-8")
            work.path("quantized").write_bytes(b"integers")
            files = work.publish()
        return replace(record, artifacts={key: path.name for key, path in files.items()}, complete=skip is None)


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, **behaviour: Any) -> Fake:
    """Put the stand-in in place; artifacts go to `folder`, unless the caller names a working_dir."""
    import ptqlab.config
    import ptqlab.pipeline

    fake = Fake(folder, **behaviour)
    monkeypatch.setattr(ptqlab.config, "load", fake.load)
    monkeypatch.setattr(ptqlab.config, "load_text", fake.load_text)
    monkeypatch.setattr(ptqlab.pipeline, "compile_model", fake.compile_model, raising=False)
    return fake

"""A folder with a model file and calibration folders, and a short way to load a configuration in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ptqlab import config

HEAD = "model_parameters: {onnx_model: net.onnx, march: nash-e}\n"
Loader = Callable[..., config.Config]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of the test: net.onnx, calib/img, calib/state with one (empty) file each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").touch()
    for name in ("img", "state"):
        (tmp_path / "calib" / name).mkdir(parents=True)
        (tmp_path / "calib" / name / "0.npy").touch()
    return tmp_path


@pytest.fixture
def load(folder: Path) -> Loader:
    """Loads a YAML text from config.yaml; `head=True` puts model and march before it."""

    def loader(text: str, head: bool = True, **keywords: object) -> config.Config:
        (folder / "config.yaml").write_text((HEAD if head else "") + text, encoding="utf-8")
        return config.load("config.yaml", **keywords)

    return loader

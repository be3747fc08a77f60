"""Every refusal of bad_configs.txt reads exactly as written there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptqlab import config
from ptqlab.errors import PtqError

GRAPHS = {
    "model": {"img": ((1, 3, 224, 224), "float32"), "state": ((1, 64), "float32")},
    "dynamic": {"x": (("N", 3, "H", "W"), "float32")},
}
TEXT = (Path(__file__).parent / "bad_configs.txt").read_text(encoding="utf-8")
BLOCK = re.compile(r"^=== (\w+): (.*)\n((?:.*\n)*?)--- message\n((?:.+\n)*)", re.MULTILINE)
CASES = [pytest.param(*match, id=f"{match[0]}: {match[1]}") for match in BLOCK.findall(TEXT)]


def test_the_table_is_read_whole() -> None:
    """No block of the file is lost by the pattern that reads it, and there are many."""
    assert len(CASES) == TEXT.count("\n=== ") >= 60


def read(kind: str, name: str) -> None:
    if kind == "json":
        config.QuantConfig.parse(name)
    else:
        config.bind(config.load(name), GRAPHS.get(kind, {}))


@pytest.mark.parametrize(("kind", "title", "body", "expected"), CASES)
def test_bad_config(
    kind: str, title: str, body: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole text of the refusal: code, file:line, key path, value, what is allowed, what to do."""
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").touch()
    for name in ("calib", "empty"):
        Path(name).mkdir()
    Path("calib/0.npy").touch()
    name = "quant_config.json" if kind == "json" else "config.yaml"
    Path(name).write_text(body, encoding="utf-8")
    with pytest.raises(PtqError) as refusal:
        read(kind, name)
    assert str(refusal.value).replace(str(tmp_path.resolve()), "<cwd>") == expected.rstrip("\n")

"""Names that hold a ";", as TFLite exports have them: they can be given wherever names are listed."""
from __future__ import annotations

import pytest

from ptqlab import config
from ptqlab.config.kinds import joined_names, split_names

from .conftest import Loader

ODD = ["a;b", ";", r"c\d;e", "f g"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (r"conv1\;bn1;relu", ["conv1;bn1", "relu"]),
        (r"a ; b\;c ;", ["a", "b;c"]),
        (r"C:\net\conv;x", [r"C:\net\conv", "x"]),
        (r"\;", [";"]),
        ("a;;b", ["a", "", "b"]),
    ],
)
def test_escaped_separators(text: str, names: list[str]) -> None:
    r"""`\;` stands for a ";" inside a name; any other backslash is one."""
    assert split_names(text) == names


def test_joined_names_are_read_back() -> None:
    """What is written into a YAML is read as the same names."""
    assert split_names(joined_names(ODD)) == ODD


def test_run_on_cpu_takes_such_names_from_a_file_and_from_python(load: Loader) -> None:
    """The file escapes them, a Python list has them as they are; both are written and read again the same."""
    filed = load('calibration_parameters: {run_on_cpu: "conv1\\\\;bn1;relu"}\n')
    given = load("", run_on_cpu=["conv1;bn1", "relu"])
    for cfg in (filed, given):
        assert cfg.calibration.run_on_cpu == ("conv1;bn1", "relu")
        assert {"conv1;bn1", "relu"} <= set(cfg.calibration.quant.nodes)
        assert config.load(cfg.to_dict()).calibration.run_on_cpu == cfg.calibration.run_on_cpu
    assert load(filed.to_yaml(), head=False) == filed


def test_node_info_takes_such_names(load: Loader) -> None:
    """The text form of node_info escapes them too."""
    text = r"a\\;b:int16;c:int16"
    cfg = load(f'model_parameters: {{onnx_model: net.onnx, march: nash-e, node_info: "{text}"}}\n', head=False)
    assert set(cfg.calibration.quant.nodes) == {"a;b", "c"}

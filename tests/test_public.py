"""The public names of the package and what importing it costs."""
import json
import subprocess
import sys

import pytest

import ptqlab

HEAVY = ["pandas", "plotly", "onnx", "onnxruntime", "onnx_ir", "ipywidgets", "yaml", "netron"]


def modules_after(code: str) -> dict:
    """Runs `code` in a fresh interpreter; returns its CPU seconds, which a busy machine stretches little, and the heavy
    modules that it imported."""
    script = f"""
import json, sys, time
import IPython.core.interactiveshell as base
shell = base.InteractiveShell.instance()
before = set(sys.modules)
start = time.process_time()
{code}
spent = time.process_time() - start
print(json.dumps({{"seconds": spent, "heavy": [m for m in {HEAVY!r} if m in sys.modules and m not in before]}}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_is_light():
    """`import ptqlab` loads nothing heavy, in well under 0.15 s."""
    told = modules_after("import ptqlab")
    assert told["heavy"] == []
    assert told["seconds"] < 0.15


def test_loading_the_extension_is_light():
    """`%load_ext ptqlab` loads nothing heavy and takes less than half a second."""
    told = modules_after("shell.run_line_magic('load_ext', 'ptqlab')")
    assert told["heavy"] == []
    assert told["seconds"] < 0.5


def test_every_public_name_is_there():
    """What __all__ lists can be had, and dir() shows it."""
    for name in ptqlab.__all__:
        assert getattr(ptqlab, name) is not None
    assert set(ptqlab.__all__) <= set(dir(ptqlab))


def test_an_unknown_name_is_answered_with_the_known_ones():
    """A verb that does not exist yet is an AttributeError that says what exists."""
    with pytest.raises(AttributeError, match=r"ptqlab has no 'compyle'; it has CheckResult, .*compile, .*estimate"):
        _ = ptqlab.compyle


def test_submodules_are_importable_as_usual():
    """`from ptqlab import errors` still means the module."""
    from ptqlab import errors

    assert errors.PtqError is ptqlab.PtqError

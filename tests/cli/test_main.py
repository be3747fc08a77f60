"""The command line as a user sees it."""
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from fake_pipeline import install

from ptqlab.cli.main import main
from ptqlab.errors import Problem, PtqError
from ptqlab.report import words


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(words._state, "language", "en")
    return install(monkeypatch, tmp_path / "model_output")


def test_compile_prints_tables_on_stdout_and_stages_on_stderr(fake, capsys):
    """The node table and the summary can be piped; progress does not mix with them."""
    assert main(["compile", "-c", "c.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("The main quantized node information:\n+---")
    assert "Artifacts in" in out
    assert "calibrate: done in" in err and "calibrate: done" not in out


def test_explain_and_cosine(fake, capsys, tmp_path):
    """Both read the run in ./model_output; cosine writes a page on request."""
    main(["compile", "-c", "c.yaml"])
    capsys.readouterr()
    assert main(["explain", "head/softmax"]) == 0
    assert "follows the 32-bit output" in capsys.readouterr().out
    assert main(["cosine"]) == 0
    assert "Quantized Cosine" in capsys.readouterr().out
    assert main(["cosine", "-o", "c.html"]) == 0
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "plotly" in page and '<script src="http' not in page


def test_a_place_that_cannot_be_written_is_a_refusal(fake, capsys, tmp_path):
    """A demo folder or a page below a file: exit code 1, the place, no traceback."""
    (tmp_path / "file").write_text("")
    assert main(["demo", "--working-dir", "file/demo"]) == 1
    assert "PTQ604  file/demo" in capsys.readouterr().err
    main(["compile", "-c", "c.yaml"])
    assert main(["cosine", "-o", "file/c.html"]) == 1
    assert "PTQ604  file/c.html" in capsys.readouterr().err


def test_demo_says_what_comes_next(fake, capsys, tmp_path):
    """Tables, where the artifacts are, how to open the notebook."""
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "make lab" in out and "demo_output" in out and "The quantized model output:" in out


def test_a_refusal_is_a_block_on_stderr(fake, capsys):
    """Exit code 1, the whole block, nothing on standard output."""
    fake.refuse = PtqError(Problem("PTQ101", "net.onnx", "no ONNX", "an ONNX model", "export again"), "model")
    assert main(["compile", "-c", "c.yaml"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("""\
model: 1 problem
PTQ101  net.onnx
    found     no ONNX
    expected  an ONNX model
    do        export again
""")


def test_usage_errors_are_two(fake, capsys):
    """Unknown options and missing sources."""
    assert main(["compile"]) == 2
    assert main(["compile", "--nonsense"]) == 2
    assert main([]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_language(fake, capsys):
    """--lang zh changes the words, not the columns."""
    assert main(["--lang", "zh", "compile", "-c", "c.yaml"]) == 0
    out = capsys.readouterr().out
    assert "校准样本" in out and "| TensorName | Calibrated Cosine |" in out


def script(tmp_path, body):
    """Runs main in its own process with the stand-in pipeline."""
    here = os.path.dirname(os.path.dirname(__file__))
    text = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {here!r})
        import pathlib, pytest, threading
        from fake_pipeline import install
        fake = install(pytest.MonkeyPatch(), pathlib.Path("model_output"))
        {body}
        from ptqlab.cli.main import main
        sys.exit(main(["compile", "-c", "c.yaml"]))
    """)
    return subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def test_ctrl_c_is_one_line_and_130(tmp_path):
    """SIGINT in the middle of a run: exit code 130, one line that says where it stopped, no traceback."""
    process = script(tmp_path, "fake.steps, fake.pause = 1000, 0.01")
    line = process.stderr.readline()
    while "calibrate ..." not in line:
        assert line, process.stderr.read()
        line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1].startswith("stopped in stage 'calibrate' after ")
    assert "Traceback" not in err
    assert [p.name for p in (tmp_path / "model_output").iterdir()] == ["hb_compile.log"]


def test_python_m_ptqlab(tmp_path):
    """`python -m ptqlab --version` works from any folder; an unknown verb exits 2."""
    done = subprocess.run([sys.executable, "-m", "ptqlab", "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (0, "ptqlab")
    done = subprocess.run([sys.executable, "-m", "ptqlab", "nothing"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_traceback(tmp_path):
    """`ptqlab compile ... | head -1` ends quietly."""
    process = script(tmp_path, "")
    process.stdout.close()
    err = process.stderr.read()
    process.wait(timeout=20)
    assert "Traceback" not in err and "BrokenPipe" not in err

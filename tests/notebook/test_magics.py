"""The %ptq magic in a real IPython shell."""
import _thread
import threading

import pytest
from fake_pipeline import install
from IPython.core.interactiveshell import InteractiveShell

from ptqlab.errors import Problem, PtqError
from ptqlab.report import words
from ptqlab.result.compiled import CompileResult


@pytest.fixture
def shell(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(words._state, "language", "en")
    made = InteractiveShell()
    made.run_line_magic("load_ext", "ptqlab")
    yield made
    made.run_line_magic("unload_ext", "ptqlab")


@pytest.fixture
def fake(monkeypatch, tmp_path):
    return install(monkeypatch, tmp_path / "out")


def test_compile_returns_and_remembers_the_result(shell, fake):
    """The cell's value is the result, which is also ptq_result and the run that explain and cosine speak of."""
    result = shell.run_cell("run = %ptq compile -c net.yaml --skip compile\nrun").result
    assert isinstance(result, CompileResult)
    assert shell.user_ns["ptq_result"] is result
    assert fake.skip == "compile"
    assert shell.run_cell("%ptq explain head/softmax").result.granted == "float32"
    assert len(shell.run_cell("%ptq cosine").result.data) == 4


def test_variables_are_substituted(shell, fake):
    """{name} in the line is the notebook's variable."""
    shell.run_cell("config = 'a folder/net.yaml'")
    shell.run_cell('%ptq compile -c "{config}"')
    assert str(fake.source) == "a folder/net.yaml"


def test_a_cell_holds_the_configuration(shell, fake):
    """%%ptq compile takes YAML; {name} is substituted, other braces are YAML's own."""
    shell.run_cell("model = 'net.onnx'; bins = 1024")
    result = shell.run_cell("%%ptq compile --skip compile\n"
                            "model_parameters:\n  onnx_model: '{model}'\n  march: nash-e\n"
                            "calibration_parameters:\n  quant_config: {model_config: {activation: {num_bin: {bins}}}}\n"
                            "compiler_parameters:\n  input_source: {unknown}\n").result
    assert isinstance(result, CompileResult)
    assert fake.source == (
        "model_parameters:\n  onnx_model: 'net.onnx'\n  march: nash-e\n"
        "calibration_parameters:\n  quant_config: {model_config: {activation: {num_bin: 1024}}}\n"
        "compiler_parameters:\n  input_source: {unknown}\n")


def test_a_bad_cell_names_its_line(shell, capsys):
    """A YAML slip is one readable block with the line of the cell."""
    result = shell.run_cell("%%ptq compile\nmodel_parameters:\n  march: nash-e\n  march: nash-m\n")
    assert isinstance(result.error_in_exec, PtqError)
    shown = "".join(capsys.readouterr())
    assert "cell:" in shown and "march" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(("cell", "part"), [
    ("%ptq compil -c x", "did you mean 'compile'"), ("%ptq", "choose a verb"), ("%ptq compile", "give -c FILE"),
    ("%ptq compile --march nash-x -m y", "invalid choice"), ("%ptq explain 'open", "quote a value"),
    ("%%ptq cosine\nx", "takes a cell"), ("%%ptq compile -c x\ny: 1", "leave out -c")])
def test_a_bad_line_is_one_block_without_traceback(shell, fake, capsys, cell, part):
    """Usage errors say what is wrong and nothing else."""
    result = shell.run_cell(cell)
    assert not result.success
    shown = "".join(capsys.readouterr())
    assert part in shown
    assert "Traceback" not in shown


def test_a_refusal_is_one_block_without_traceback(shell, fake, capsys):
    """PtqError shows its block."""
    fake.refuse = PtqError(Problem("PTQ101", "net.onnx", "no ONNX", "an ONNX model", "export again"), "model")
    shell.run_cell("%ptq compile -c net.yaml")
    shown = "".join(capsys.readouterr())
    assert "PTQ101  net.onnx\n    found     no ONNX" in shown
    assert "Traceback" not in shown


def test_stop_leaves_one_line_and_the_last_result(shell, fake, capsys, tmp_path):
    """The stop button: one line, artifacts and ptq_result are those of the run before."""
    first = shell.run_cell("%ptq compile -c net.yaml").result
    files = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir() if p.name != "hb_compile.log"}
    capsys.readouterr()
    fake.steps, fake.pause, fake.started = 1000, 0.01, threading.Event()
    threading.Thread(target=lambda: (fake.started.wait(), _thread.interrupt_main()), daemon=True).start()
    result = shell.run_cell("%ptq compile -c net.yaml")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    out, err = capsys.readouterr()
    assert out.strip().startswith("stopped in stage 'calibrate' after ")
    assert out.strip().endswith("artifacts of earlier runs are untouched")
    assert "Traceback" not in out + err
    assert shell.user_ns["ptq_result"] is first
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir() if p.name != "hb_compile.log"} == files


def test_help_is_the_command_lines(shell, capsys):
    """-h prints the options under the magic's name, and is no error."""
    result = shell.run_cell("%ptq compile -h")
    assert result.success
    assert capsys.readouterr().out.startswith("usage: %ptq compile [-h] [-c FILE.yaml]")


def test_defaults_of_the_session(shell, fake):
    """%config sets march for lines with a model; an option in the line wins; quiet silences the progress."""
    shell.run_cell("%config PtqMagics.march = 'nash-m'")
    shell.run_cell("%ptq compile -m net.onnx --calibration-data d")
    assert fake.keywords["march"] == "nash-m"
    shell.run_cell("%ptq compile -m net.onnx --calibration-data d --march nash-e")
    assert fake.keywords["march"] == "nash-e"
    shell.run_cell("%ptq compile -c net.yaml")
    assert "march" not in fake.keywords
    shell.run_cell("%config PtqMagics.language = 'zh'")
    assert "校准样本" in str(shell.run_cell("%ptq compile -c net.yaml").result)


def test_demo_and_a_saved_run(shell, fake, tmp_path):
    """%ptq demo compiles the built-in network; --run speaks of a saved one."""
    run = shell.run_cell("%ptq demo").result
    assert isinstance(run, CompileResult)
    run.save(tmp_path / "kept")
    assert shell.run_cell("%ptq explain pool --run kept").result.row.node == "pool"
    shell.run_cell("%ptq cosine -o c.html")
    assert (tmp_path / "c.html").stat().st_size > 1_000_000


def test_the_verbs_that_draw_show_their_figure(shell, tmp_path, monkeypatch):
    """sensitivity and compare show the figure above their page; report and doctor speak of the last run."""
    shown = []
    monkeypatch.setattr("ptqlab.notebook.magics.display", shown.append)
    run = shell.run_cell("run = %ptq demo\nrun").result
    for line, name in (("%ptq sensitivity -p [node] -d 1", "SensitivityResult"),
                       (f'%ptq compare "{run.directory}"', "Comparison")):
        assert type(shell.run_cell(line).result).__name__ == name
    assert [len(figure.data) for figure in shown] == [1, 2]
    assert run.known_sensitivity is not None
    shell.run_cell("%ptq report -o made.html")
    assert "<h2 id='sensitivity'>" in (tmp_path / "made.html").read_text(encoding="utf-8")
    assert type(shell.run_cell("%ptq doctor").result).__name__ == "DoctorResult"


def test_the_display_of_a_result_is_static(shell, fake):
    """A result shows text and html, no widget, so that a saved notebook can be reopened."""
    run = shell.run_cell("%ptq compile -c net.yaml").result
    data, _ = shell.display_formatter.format(run)
    assert set(data) == {"text/plain", "text/html"}

"""%load_ext and %unload_ext."""
import pytest
from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def shell():
    made = InteractiveShell()
    yield made
    made.run_line_magic("unload_ext", "ptqlab")


def test_load_and_unload_may_be_repeated(shell, capsys):
    """Loading twice gives one matcher and one configurable; unloading twice takes everything back."""
    def state():
        return (len(shell.Completer.custom_matchers), sum(type(c).__name__ == "PtqMagics" for c in shell.configurables),
                "ptq" in shell.magics_manager.magics["line"], "ptq" in shell.magics_manager.magics["cell"])

    assert state() == (0, 0, False, False)
    shell.run_line_magic("load_ext", "ptqlab")
    shell.run_line_magic("load_ext", "ptqlab")
    shell.run_line_magic("reload_ext", "ptqlab")
    assert state() == (1, 1, True, True)
    shell.run_line_magic("unload_ext", "ptqlab")
    shell.run_line_magic("unload_ext", "ptqlab")
    assert state() == (0, 0, False, False)


def test_defaults_by_config(shell, caplog):
    """%config PtqMagics.march sets the platform, and refuses one that does not exist."""
    shell.run_line_magic("load_ext", "ptqlab")
    shell.run_line_magic("config", 'PtqMagics.march = "nash-m"')
    (magics,) = [c for c in shell.configurables if type(c).__name__ == "PtqMagics"]
    assert magics.march == "nash-m"
    shell.run_line_magic("config", 'PtqMagics.march = "nash-x"')
    assert magics.march == "nash-m"
    assert "expected any of" in caplog.text

"""Fixtures of the browser tests: a server per test file, a page per test."""
import pytest
from lab import browse, serve


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab server on a folder of its own; gives (address, folder)."""
    with serve(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="module")
def notebook7(tmp_path_factory):
    """A Notebook 7 server on a folder of its own; gives (address, folder)."""
    with serve(tmp_path_factory.mktemp("notebook"), "notebook") as server:
        yield server


@pytest.fixture
def page(lab):
    """A page for the lab; `page.outside` are its requests to elsewhere, `page.complaints` its errors."""
    with browse(lab) as made:
        yield made

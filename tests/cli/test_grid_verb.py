"""The verb `grid`: a widget in a notebook, a sentence elsewhere."""
from __future__ import annotations

import pytest

from ptqlab.cli.parser import Usage, build, parse
from ptqlab.cli.verbs import VERBS, Session


class Run:
    """A run that keeps what it is asked."""

    def grid(self, **asked):
        self.asked = asked
        return "the grid"


def test_in_a_notebook_it_is_the_grid_of_the_last_run():
    """The number of samples is handed on."""
    run = Run()
    args = parse(build(), ["grid", "--samples", "3"])
    assert VERBS["grid"](args, Session(run, notebook=True)) == "the grid"
    assert run.asked == {"samples": 3}


def test_in_a_shell_it_says_that_it_needs_a_notebook():
    """No widget can be shown there; the sentence names the magic."""
    with pytest.raises(Usage, match=r"^grid: a widget, which needs a notebook: %ptq grid$"):
        VERBS["grid"](parse(build(), ["grid"]), Session(Run()))

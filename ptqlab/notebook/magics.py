"""`%ptq VERB ...` and `%%ptq compile` with the YAML in the cell: the verbs of the command line, in a notebook."""
from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.display_functions import display
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from traitlets import Bool, Enum

from ptqlab.cli.help import language_in
from ptqlab.cli.parser import LANGUAGES, MARCHES, Done, Parser, Usage, build, parse
from ptqlab.errors import told
from ptqlab.report.words import set_language, spoken

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.sensitivity import SensitivityResult

RESULT_NAME = "ptq_result"


def heatmap(found: SensitivityResult) -> go.Figure:
    """The heatmap of what the verb `sensitivity` found."""
    from ptqlab.report.heatmap import sensitivity_figure
    from ptqlab.result.views import heat_of_result

    return sensitivity_figure(heat_of_result(found))


#: verb -> figure that a cell shows above the result's page
FIGURES: dict[str, Callable[[Any], Any]] = {"sensitivity": heatmap, "compare": lambda found: found.plot()}


@magics_class
class PtqMagics(Magics):
    """Defaults of the `%ptq` magic; set with `%config PtqMagics.march = "nash-e"`."""

    march = Enum(("", *MARCHES), default_value="",
                 help="platform for lines that give a model without --march").tag(config=True)
    language = Enum(("", *LANGUAGES), default_value="", help="language of tables and views").tag(config=True)
    quiet = Bool(False, help="show no progress").tag(config=True)

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.parser: Parser = build("%ptq")
        self.last: CompileResult | None = None

    @line_cell_magic
    def ptq(self, line: str, cell: str | None = None) -> Any:
        """Quantize models for the BPU: `%ptq -h` lists the verbs, `%ptq VERB -h` the options of one."""
        try:
            words = shlex.split(line)
            if chosen := language_in(words) or self.language:
                set_language(chosen)
            args = parse(self.parser, words)
            if cell is not None and args.verb != "compile":
                raise Usage("only `%%ptq compile` takes a cell")
            return self._run(args, cell)
        except Done:
            return None
        except Usage as error:
            raise UsageError(told(error)) from None
        except ValueError as error:
            if isinstance(error, UnicodeError) or "quotation" not in str(error):
                raise
            raise UsageError(spoken(f"%ptq: {error}; quote a value that holds spaces: \"...\"")) from None

    def _run(self, args: argparse.Namespace, cell: str | None) -> Any:
        """The result of a line; the last compile run is kept for the lines that speak of one."""
        from ptqlab.cli.verbs import VERBS, Session
        from ptqlab.result.compiled import CompileResult

        text = None if cell is None else substituted(cell, self.shell.user_ns)
        session = Session(self.last, False if self.quiet else None, text, self.march, notebook=True)
        result = VERBS[args.verb](args, session)
        if args.verb == "cosine":
            return result.plot_cosine()
        if args.verb in FIGURES:
            display(FIGURES[args.verb](result))
        if isinstance(result, CompileResult):
            self.last = result
            self.shell.user_ns[RESULT_NAME] = result
        return result


def substituted(cell: str, names: Mapping[str, Any]) -> str:
    """The text of a cell with `{name}` replaced by the notebook's variable of that name, when it is a text, a
    path or a number; any other use of braces is YAML's own."""
    def value(found: re.Match[str]) -> str:
        held = names.get(found[1])
        return str(held) if isinstance(held, str | int | float | Path) and not isinstance(held, bool) else found[0]

    return re.sub(r"\{([A-Za-z_]\w*)\}", value, cell)

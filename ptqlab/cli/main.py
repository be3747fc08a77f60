"""`ptqlab VERB ...`: exit code 0 when done, 1 for a refusal or a comparison that failed, 2 for a line it does not
take, 130 for Ctrl-C."""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from ptqlab.cli.help import language_in
from ptqlab.cli.parser import Done, Usage, build, parse
from ptqlab.errors import PtqError, fatal, told
from ptqlab.report.words import say, set_language


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line; prints its results on standard output, everything else on standard error."""
    try:
        words = sys.argv[1:] if words is None else words
        if chosen := language_in(words):
            set_language(chosen)
        args = parse(build(), words)
        from ptqlab.cli.verbs import VERBS, Session

        result = VERBS[args.verb](args, Session(progress=True))
        print(shown(args, result))
        sys.stdout.flush()
        # only a comparison can fail after all
        return 1 if getattr(result, "passed", True) is False else 0
    except Done:
        return 0
    except Usage as error:
        fatal(error)
        return 2
    except PtqError as error:
        fatal(error)
        return 1
    except BrokenPipeError:
        # who read our output has closed it; the interpreter's own flush at exit must not complain either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as error:
        print(told(error) or say("stopped"), file=sys.stderr)
        return 130


def shown(args: argparse.Namespace, result: Any) -> str:
    """What the terminal shows of a result: of a compile run the node table as well, as the vendor's log does."""
    from ptqlab.artifacts.tables import node_table
    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.shown import FastPerfResult

    if not isinstance(result, CompileResult) or isinstance(result, FastPerfResult):
        return str(result)
    if args.verb == "cosine":
        return str(args.output) if args.output is not None else node_table(result.record)
    text = f"{node_table(result.record)}\n\n{result}"
    if args.verb == "demo":
        text += f"\n\n{say('demo_next', folder=args.working_dir, artifacts=result.directory)}"
    return text

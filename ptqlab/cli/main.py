"""`ptqlab VERB ...`: exit code 0 when done, 1 for a refusal, 2 for a line it does not take, 130 for Ctrl-C."""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from ptqlab.cli.parser import Done, Usage, build, parse
from ptqlab.errors import PtqError, fatal
from ptqlab.report.words import say, set_language


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line; prints its results on standard output, everything else on standard error."""
    try:
        args = parse(build(), sys.argv[1:] if words is None else words)
        if args.lang:
            set_language(args.lang)
        _VERBS[args.verb](args)
        sys.stdout.flush()
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
        print(str(error) or say("stopped"), file=sys.stderr)
        return 130
    return 0


def _compile(args: argparse.Namespace) -> None:
    from ptqlab.artifacts.tables import node_table
    from ptqlab.cli.verbs import run_compile

    run = run_compile(args, progress=True)
    print(node_table(run.record), end="\n\n")
    print(run)


def _demo(args: argparse.Namespace) -> None:
    from ptqlab.artifacts.tables import node_table
    from ptqlab.cli.verbs import run_demo

    run = run_demo(args, progress=True)
    print(node_table(run.record), end="\n\n")
    print(run, end="\n\n")
    print(say("demo_next", folder=args.working_dir, artifacts=run.directory))


def _explain(args: argparse.Namespace) -> None:
    from ptqlab.cli.verbs import chosen_run

    print(chosen_run(args, None).explain(args.node))


def _cosine(args: argparse.Namespace) -> None:
    from ptqlab.artifacts.tables import node_table
    from ptqlab.cli.verbs import chosen_run, write_page

    run = chosen_run(args, None)
    if args.output is None:
        print(node_table(run.record))
    else:
        write_page(run, args.output)
        print(args.output)


_VERBS: dict[str, Callable[[argparse.Namespace], None]] = {
    "compile": _compile, "demo": _demo, "explain": _explain, "cosine": _cosine,
}

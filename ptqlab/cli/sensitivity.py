"""The verb `sensitivity`: each node in each type, of a run or of a calibrated model file."""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ptqlab.artifacts.files import atomic_write, writing
from ptqlab.cli.debugging import texts
from ptqlab.cli.parser import Parser, Usage


def add_sensitivity(parser: Parser) -> None:
    """Arguments of `sensitivity`, those of --run and --march aside."""
    parser.add_argument("model", nargs="?", type=Path, metavar="MODEL",
                        help="calibrated model: <prefix>_calibrated_model.onnx; without it a run is taken")
    parser.add_argument("data", nargs="?", type=Path, metavar="DIR",
                        help="folder of samples (default: those that the run was calibrated with)")
    parser.add_argument("-t", "--types", metavar="LIST",
                        help="of int8, int16, dual-int16, float16 (default: int8, int16, and float16 if any)")
    parser.add_argument("-p", "--parts", default="[node,weight,activation]", metavar="LIST",
                        help="of node, weight, activation (default: all)")
    parser.add_argument("-m", "--metrics", default="[cosine-similarity,sqnr]", metavar="LIST",
                        help="cosine-similarity, mse, mre, sqnr, chebyshev; the first one sorts")
    parser.add_argument("-d", "--data-num", "--data_num", type=int, default=4, metavar="N", help="samples (default: 4)")
    parser.add_argument("-q", "--quick", action="store_true",
                        help="a first look: the worse half goes on to more samples, again and again")
    parser.add_argument("--workers", metavar="N", default="threads",
                        help="threads (default), processes, or a number of threads")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder that keeps results, to go on after a stop")
    parser.add_argument("-o", "--output", metavar="FILE.html", type=Path, help="write the heatmap as one html page")


def run_sensitivity(args: argparse.Namespace, session: Any) -> Any:
    """Verb `sensitivity`: the SensitivityResult; with -o the heatmap is written."""
    options: dict[str, Any] = {
        "parts": texts(args.parts), "metrics": texts(args.metrics), "data_num": args.data_num, "quick": args.quick,
        "executor": int(args.workers) if args.workers.isdigit() else args.workers, "progress": session.progress,
    }
    if args.types is not None:
        options["types"] = texts(args.types)
    if args.march is not None:
        options["march"] = args.march
    if args.cache is not None:
        options["cache"] = args.cache
    if args.model is not None and args.run is not None:
        raise Usage("sensitivity: give a calibrated MODEL, or --run")
    if args.model is not None:
        from ptqlab.result.sensitivity import sensitivity

        found = sensitivity(args.model, args.data, **options)
    else:
        from ptqlab.cli.verbs import chosen_run

        found = chosen_run(args, session).sensitivity(**options)
    if args.output is not None:
        with writing(args.output):
            atomic_write(args.output, found.heatmap().to_html(include_plotlyjs=True))
    return found

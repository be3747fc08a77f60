"""The verbs `debug` (sub-commands and flags of hmct-debugger) and `tune`."""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ptqlab.cli.parser import Parser, Usage
from ptqlab.cli.values import folders
from ptqlab.errors import Problem, PtqError, shorten
from ptqlab.report.words import spoken

# those of ptqlab.debug.raising, which would be slow to import for a line of help
QTYPES = ("float32", "int16", "dual-int16", "float16")
TRUTH = {"true": True, "false": False}


def add_debug(parser: Parser) -> None:
    """Arguments of `debug`."""
    subs = parser.add_subparsers(dest="sub", metavar="SUB", required=True, parser_class=Parser)

    def sub(name: str, help: str) -> Parser:
        made = subs.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.add_argument("model", type=Path, metavar="MODEL", help="calibrated model: <prefix>_calibrated_model.onnx")
        made.add_argument("data", type=Path, metavar="DIR", help="folder of calibration samples")
        return made

    found = sub("get-sensitivity-of-nodes", "each node alone quantized: how far the outputs move, worst first")
    found.add_argument("-m", "--metrics", default="cosine-similarity", metavar="LIST",
                       help="cosine-similarity, mse, mre, sqnr, chebyshev; a list [a,b] sorts by the first")
    found.add_argument("-o", "--output-node", "--output_node", metavar="NODE", help="compare at this node's output")
    found.add_argument("-n", "--node-type", "--node_type", default="node", choices=("node", "weight", "activation"),
                       help="what is quantized alone: all that a node reads, or one quantizer (default: node)")
    found.add_argument("-d", "--data-num", "--data_num", type=int, default=1, metavar="N", help="samples (default: 1)")
    found.add_argument("-v", "--verbose", nargs="?", const="True", default="False", metavar="BOOL",
                       help="taken for the sake of scripts: the table is always printed")
    found.add_argument("-i", "--interested-nodes", "--interested_nodes", metavar="LIST",
                       help="only these: [a,b], or [[a,b],[c]] to quantize a and b together")
    found.add_argument("-s", "--save-dir", "--save_dir", type=Path, metavar="DIR", help="folder for the log")
    _cache(found)

    error = sub("plot-acc-error", "error that adds up along the graph when some nodes are quantized")
    error.add_argument("-q", "--quantize-node", "--quantize_node", metavar="LIST",
                       help="nodes to quantize, weight or activation; [a,b] one curve each, [[a,b],[c]] one per list")
    error.add_argument("-nq", "--non-quantize-node", "--non_quantize_node", metavar="LIST", help="all nodes but these")
    error.add_argument("-m", "--metric", default="cosine-similarity", metavar="NAME",
                       help="cosine-similarity (default), mse, mre, sqnr or chebyshev")
    error.add_argument("-a", "--average-mode", "--average_mode", nargs="?", const="True", default="False",
                       metavar="BOOL", help="running mean along the graph")
    error.add_argument("-s", "--save-dir", "--save_dir", type=Path, default=Path("debug_result"), metavar="DIR",
                       help="folder for the figure (default: ./debug_result)")

    for name, help in (("plot-distribution", "histograms of weights, activations and outputs of nodes"),
                       ("get-channelwise-data-distribution", "a box plot per channel of weights and activations"),
                       ("tensor-analysis", "a table of figures of weights, activations and outputs of nodes")):
        plots = sub(name, help)
        plots.add_argument("-n", "--nodes-list", "--nodes_list", required=True, metavar="LIST",
                           help="nodes, or HzCalibration nodes for a weight or an activation")
        plots.add_argument("-s", "--save-dir", "--save_dir", type=Path, default=Path("debug_result"), metavar="DIR",
                           help="folder for the files (default: ./debug_result)")
        if name == "get-channelwise-data-distribution":
            plots.add_argument("-a", "--axis", type=int, metavar="N",
                               help="axis of the channels (default: that of the scales; 1 for activations)")
        if name == "tensor-analysis":
            plots.add_argument("-np", "--num-processes", "--num_processes", type=int, default=16, metavar="N",
                               help="taken for the sake of scripts: one process does it")

    analysis = sub("sensitivity-analysis", "the model's score when sensitive nodes get a better type, one by one")
    analysis.add_argument("-m", "--metric", default="cosine-similarity", metavar="NAME",
                          help="cosine-similarity (default), mse, mre, sqnr or chebyshev")
    analysis.add_argument("-p", "--pick-threshold", "--pick_threshold", type=float, default=0.999, metavar="X",
                          help="nodes whose sensitivity is worse are taken (default: 0.999)")
    analysis.add_argument("-d", "--data-num", "--data_num", type=int, default=1, metavar="N",
                          help="samples (default: 1)")
    analysis.add_argument("-sn", "--sensitive-nodes", "--sensitive_nodes", metavar="LIST", help="these nodes, in order")
    analysis.add_argument("-q", "--qtype", default="float32", choices=QTYPES,
                          help="type they get (default: float32, not quantized)")
    analysis.add_argument("-sd", "--save-dir", "--save_dir", type=Path, metavar="DIR", help="folder for the figure")
    runall = sub("runall", "sensitivity, distributions, accumulated error and analysis, into one folder")
    _add_runall(runall)
    _cache(runall)

    worst = sub("select-sensitive-samples", "the samples on which quantization hurts most")
    worst.add_argument("-m", "--metric", default="cosine-similarity", metavar="NAME",
                       help="cosine-similarity (default), mse, mre, sqnr or chebyshev")
    worst.add_argument("-n", "--num-sample", "--num_sample", type=int, default=1, metavar="N",
                       help="how many (default: 1)")
    worst.add_argument("-s", "--save-dir", "--save_dir", type=Path, metavar="DIR",
                       help="also write them there, a folder per input, to be calibrated or debugged with")

    causes = sub("diagnose", "why the worst quantizers hurt, and what to do")
    causes.add_argument("-w", "--worst", type=int, default=5, metavar="N", help="how many (default: 5)")
    causes.add_argument("-d", "--data-num", "--data_num", type=int, default=4, metavar="N", help="samples (default: 4)")


def _cache(parser: Parser) -> None:
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder that keeps results, to go on after a stop")


def _add_runall(parser: Parser) -> None:
    """Arguments of `debug runall`; their names are those of the Python function."""
    lists = "LIST"
    rows: dict[tuple[str, ...], dict[str, Any]] = {
        ("-s", "--save-dir", "--save_dir"): {"type": Path, "default": Path("debug_result"), "metavar": "DIR",
                                             "help": "folder for everything (default: ./debug_result)"},
        ("-nm", "--ns-metrics", "--ns_metrics"): {"default": "cosine-similarity", "metavar": lists,
                                                  "help": "metrics of the sensitivity"},
        ("-o", "--output-node", "--output_node"): {"metavar": "NODE", "help": "compare at this node's output"},
        ("-nt", "--node-type", "--node_type"): {"default": "[weight,activation]", "metavar": lists,
                                                "help": "node, weight, activation, or a list (default: the last two)"},
        ("-dn", "--data-num", "--data_num"): {"type": int, "default": 1, "metavar": "N",
                                              "help": "samples (default: 1)"},
        ("-v", "--verbose"): {"nargs": "?", "const": "True", "default": "False", "metavar": "BOOL",
                              "help": "print the sensitivity tables"},
        ("-i", "--interested-nodes", "--interested_nodes"): {"metavar": lists, "help": "only these nodes"},
        ("-dnl", "--dis-nodes-list", "--dis_nodes_list"): {"metavar": lists, "help": "nodes of the histograms"},
        ("-cn", "--cw-nodes-list", "--cw_nodes_list"): {"metavar": lists, "help": "nodes of the box plots"},
        ("-a", "--axis"): {"type": int, "metavar": "N", "help": "axis of the channels"},
        ("-qn", "--quantize-node", "--quantize_node"): {"metavar": lists, "help": "nodes to quantize"},
        ("-nqn", "--non-quantize-node", "--non_quantize_node"): {"metavar": lists, "help": "all nodes but these"},
        ("-am", "--ae-metric", "--ae_metric"): {"default": "cosine-similarity", "metavar": "NAME",
                                                "help": "metric of the accumulated error"},
        ("-avm", "--average-mode", "--average_mode"): {"nargs": "?", "const": "True", "default": "False",
                                                       "metavar": "BOOL", "help": "running mean along the graph"},
        ("-pt", "--pick-threshold", "--pick_threshold"): {"type": float, "default": 0.999, "metavar": "X",
                                                          "help": "of the analysis (default: 0.999)"},
        ("-sn", "--sensitive-nodes", "--sensitive_nodes"): {"metavar": lists, "help": "nodes of the analysis"},
    }
    for flags, how in rows.items():
        parser.add_argument(*flags, **how)


def _run_plots(args: argparse.Namespace, session: Any) -> str:
    """The sub-commands that leave files: what they did, as text."""
    from ptqlab.events import Watch
    from ptqlab.result import inspecting
    from ptqlab.result.api import watched

    if args.sub == "plot-distribution":
        found = inspecting.plot_distribution(args.model, args.data, args.nodes_list, args.save_dir)
        return f"{len(found)} pages in {args.save_dir}"
    if args.sub == "get-channelwise-data-distribution":
        found = inspecting.get_channelwise_data_distribution(
            args.model, args.data, args.nodes_list, args.axis, args.save_dir)
        return f"{len(found)} pages in {args.save_dir}"
    if args.sub == "tensor-analysis":
        rows = inspecting.tensor_analysis(args.model, args.data, args.nodes_list, args.save_dir)
        return "\n".join(f"{name}: " + ", ".join(f"{k} {v:g}" for k, v in row.items()) for name, row in rows.items())
    if args.sub == "sensitivity-analysis":
        scores = inspecting.sensitivity_analysis(
            args.model, args.data, args.metric, args.pick_threshold, args.data_num, args.sensitive_nodes, args.qtype,
            args.save_dir)
        return "\n".join(f"{name}  {value}" for name, value in scores.items()) or "no node is that sensitive"
    names = ("save_dir", "ns_metrics", "output_node", "node_type", "data_num", "interested_nodes", "dis_nodes_list",
             "cw_nodes_list", "axis", "quantize_node", "non_quantize_node", "ae_metric", "pick_threshold",
             "sensitive_nodes", "cache")
    keywords = {name: getattr(args, name) for name in names}
    keywords |= {"ns_metrics": texts(args.ns_metrics), "verbose": truth(args.verbose, "--verbose"),
                 "average_mode": truth(args.average_mode, "--average-mode")}
    watch = Watch()
    watched(lambda: inspecting.runall(args.model, args.data, **keywords, watch=watch), watch, session.progress)
    return f"everything in {args.save_dir}"


def _run_select(args: argparse.Namespace) -> str:
    """`select-sensitive-samples`: a line per sample; with -s they are written as .npy."""
    import numpy as np

    from ptqlab.artifacts.files import atomic_path, safe_name
    from ptqlab.debug.select import ranked_samples
    from ptqlab.debug.source import folder_of

    samples, order = ranked_samples(args.model, args.data, args.metric, args.num_sample)
    if args.save_dir is not None:
        for place, (number, _) in enumerate(order):
            for name, array in samples[number].items():
                file = f"{place:04}_{safe_name(samples.names[number])}.npy"
                with atomic_path(folder_of(args.save_dir / safe_name(name)) / file) as path, path.open("wb") as handle:
                    np.save(handle, array)
    return "\n".join(f"{samples.names[number]}  {args.metric} {value:.6f}" for number, value in order)


def texts(words: str) -> list[str]:
    """A list of names from text."""
    from ptqlab.debug.arguments import flat, listed

    return flat(listed(words), "debug")


def run_debug(args: argparse.Namespace, session: Any) -> Any:
    """Verb `debug`."""
    from ptqlab.result.shown import Text

    if args.sub == "diagnose":
        from ptqlab.debug.diagnosis import diagnose

        told = diagnose(args.model, args.data, worst=args.worst, data_num=args.data_num)
        return Text("\n".join(spoken(str(one)) for one in told) or spoken("no quantizer costs more than -60 dB"))
    if args.sub not in ("plot-acc-error", "get-sensitivity-of-nodes"):
        return Text(_run_select(args) if args.sub == "select-sensitive-samples" else _run_plots(args, session))
    from ptqlab.result import debugging

    if args.sub == "plot-acc-error":
        figure = debugging.plot_acc_error(
            args.model, args.data, args.quantize_node, args.non_quantize_node, args.metric,
            truth(args.average_mode, "--average-mode"), args.save_dir)
        return Text(f"{len(figure.data)} curves: {args.save_dir / 'accumulated_error.html'}")
    truth(args.verbose, "--verbose")
    from ptqlab.events import Watch
    from ptqlab.result.api import watched

    watch = Watch()
    return watched(lambda: debugging.sensitivity_table(
        args.model, args.data, metrics=texts(args.metrics), output_node=args.output_node, node_type=args.node_type,
        data_num=args.data_num, interested_nodes=args.interested_nodes, save_dir=args.save_dir, cache=args.cache,
        watch=watch,
    ), watch, session.progress)


def truth(word: str, where: str) -> bool:
    """True or False, as the vendor's command line writes them."""
    if word.lower() not in TRUTH:
        raise PtqError(Problem("PTQ552", where, shorten(word), "True or False"), "debug")
    return TRUTH[word.lower()]


def add_tune(parser: Parser) -> None:
    """Arguments of `tune`."""
    parser.add_argument("-c", "--config", type=Path, metavar="FILE.yaml", help="YAML configuration")
    parser.add_argument("-m", "--model", type=Path, metavar="FILE.onnx", help="ONNX model, when there is no YAML")
    parser.add_argument("--calibration-data", action="append", metavar="[NAME=]DIR",
                        help="folder of calibration samples; NAME= for a model with several inputs, repeatable")
    parser.add_argument("--quant-config", type=Path, metavar="FILE.json", help="quant_config to start from")
    parser.add_argument("--target", default="0.99", metavar="X",
                        help="of the worst output (default: 0.99); none: as accurate as the limits allow")
    parser.add_argument("--metric", choices=("cosine-similarity", "sqnr"), default="cosine-similarity",
                        help="of the target; sqnr in dB (default: cosine-similarity)")
    parser.add_argument("--max-tensors", type=int, metavar="N",
                        help="most tensors, weights and nodes to get wider types")
    parser.add_argument("--max-latency-us", type=float, metavar="US", help="most estimated latency of the BPU part")
    parser.add_argument("--save-dir", type=Path, metavar="DIR", help="folder for the results (default: working_dir)")


def run_tune(args: argparse.Namespace, session: Any) -> Any:
    """Verb `tune`."""
    from ptqlab.result.tuning import tune

    if (args.config is None) == (args.model is None):
        raise Usage("tune: give -c FILE (a YAML configuration), or -m FILE with --march and --calibration-data")
    keywords: dict[str, Any] = {}
    for name in ("model", "march", "quant_config", "max_tensors", "max_latency_us", "save_dir"):
        if (value := getattr(args, name)) is not None:
            keywords[name] = value
    if args.calibration_data:
        keywords["calibration_data"] = folders(args.calibration_data)
    if args.config is None and session.march:
        keywords.setdefault("march", session.march)
    try:
        target = None if args.target.lower() == "none" else float(args.target)
    except ValueError:
        raise Usage(f"tune: --target takes a number or none, not {shorten(args.target)!r}") from None
    return tune(args.config, target=target, metric=args.metric, progress=session.progress, **keywords)

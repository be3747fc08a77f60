"""The argparse tree."""
from pathlib import Path

import pytest

from ptqlab.cli.parser import Done, Usage, build, endings, parse


def usage(*words):
    with pytest.raises(Usage) as caught:
        parse(build(), words)
    return str(caught.value)


def test_the_vendors_flags():
    """Every flag of hb_compile that we take, by its long and short name."""
    args = parse(build(), ["compile", "-m", "a.onnx", "--march", "nash-e", "-i", "x", "1x3", "--input-shape", "y", "2",
                           "--skip", "convert", "--fast-perf", "--core-num", "2", "--proto", "p"])
    assert (str(args.model), args.march, args.input_shape, args.skip) == (
        "a.onnx", "nash-e", [["x", "1x3"], ["y", "2"]], "convert")
    assert (args.fast_perf, args.core_num, str(args.proto)) == (True, 2, "p")
    assert str(parse(build(), ["compile", "--config", "c.yaml"]).config) == "c.yaml"
    args = parse(build(), ["config", "--full-yaml", "-m", "a.onnx", "-p", "p", "--march", "nash-e"])
    assert (args.full_yaml, args.simple_yaml, str(args.model), str(args.proto)) == (True, False, "a.onnx", "p")
    args = parse(build(), ["verify", "-m", "a,b", "-i", "x.npy", "-c", "4"])
    assert (args.models_option, args.input, args.compare_digits) == ("a,b", ["x.npy"], 4)
    assert parse(build(), ["verify", "a,b", "-i", "x.npy", "--compare_digits", "3"]).compare_digits == 3
    assert str(parse(build(), ["info", "a.bc", "-n", "net"]).model) == "a.bc"


def test_language_before_and_after_the_verb():
    """--lang may stand in either place; without it there is none."""
    assert parse(build(), ["--lang", "zh", "explain", "n"]).lang == "zh"
    assert parse(build(), ["explain", "n", "--lang", "zh"]).lang == "zh"
    assert parse(build(), ["explain", "n"]).lang is None


@pytest.mark.parametrize(("words", "end"), [
    (["compil"], "did you mean 'compile'?"),
    (["compile", "--march", "nash_e"], "did you mean 'nash-e'?"),
    (["compile", "--skip", "compiler"], "did you mean 'compile'?"),
    (["compile", "--confg", "x"], "did you mean '--config'?"),
    ([], "ops, perf, debug, tune, demo, completion"),
    (["compile", "--mar", "nash-e"], "did you mean '--march'?"),
])
def test_a_slip_is_answered_with_the_nearest(words, end):
    """Usage, what is wrong, and the word that was meant."""
    text = usage(*words)
    assert text.startswith("usage: ptqlab")
    assert text.endswith(end)


def test_help_and_version(capsys):
    """Printed, then done; nothing ends the process."""
    with pytest.raises(Done):
        parse(build("%ptq"), ["compile", "-h"])
    assert capsys.readouterr().out.startswith("usage: %ptq compile")
    with pytest.raises(Done):
        parse(build(), ["--version"])
    import ptqlab

    assert capsys.readouterr().out == f"ptqlab {ptqlab.__version__}\n"


def test_every_path_is_completed():
    """An argument that takes a path says so in its metavar, so that completion knows; and every option has a help."""
    for verb, parser in build().verbs().items():
        for action in {id(a): a for a in [*parser.options().values(), *parser.positionals()]}.values():
            assert action.help, (verb, action.dest)
            if action.type is Path and action.dest != "proto":
                assert endings(action) is not None, (verb, action.dest)

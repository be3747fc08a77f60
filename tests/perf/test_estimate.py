"""The estimate as a whole: its parts add up, and published networks come out right."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from perf.common import DATA, chain, conv, other, table, with_types

from ptqlab.arith.formats import QType
from ptqlab.errors import PtqError
from ptqlab.perf import estimate, read_layers
from ptqlab.perf.host import switch_us
from ptqlab.perf.layer import linked
from ptqlab.perf.parameters import parameters
from ptqlab.platforms import MARCHES


def test_parts_add_up() -> None:
    """Segments make the latency, latency and runtime the board latency; layers follow each other without a gap."""
    found = estimate(chain(), "nash-e", model="chain")
    assert sum(found.segments_us) == pytest.approx(found.latency_us)
    assert found.board_latency_us == pytest.approx(found.latency_us + found.runtime_us + found.cpu_us)
    assert all(a.end_us == pytest.approx(b.start_us) for a, b in pairwise(found.layers))
    assert found.layers[-1].end_us == pytest.approx(found.latency_us)
    assert found.fps_1_thread < 1e6 / found.board_latency_us < found.fps_2_threads <= 1e6 / found.latency_us
    assert (found.model, found.march, found.core_num, found.backed_by_board) == ("chain", "nash-e", 1, True)


def test_every_layer_is_there_and_says_what_decides() -> None:
    """Engines, devices and the reason of each layer's time."""
    found = estimate(chain(), "nash-e")
    assert [c.segment for c in found.layers] == [0, 0, 0, 0, 0, 0, None]
    assert found.layers[0].nodes == ("stem",) and found.layers[-1].period_us == 0
    large = (1, 64, 128, 128)
    net = linked(
        [
            conv("macs", -1, side=128),
            conv("table", 0, side=128, kernel=1, act="silu"),
            other("sum", "Add", (1, 0), large),
            other("pool", "MaxPool", (2,), large),
            conv("tiny", 3, 16, 16, 4),
            conv("weights", 4, 512, 512, 4),
            conv("result", 5, side=64, kernel=1, tail=True),
            other("sin", "Sin", (6,), device="CPU"),
        ]
    )
    assert [c.bound for c in estimate(net, "nash-e").layers] == [
        "TAE",
        "vector",
        "vector",
        "AAE",
        "commands",
        "DDR",
        "DDR",
        "CPU",
    ]


def test_the_timeline_holds_all_work() -> None:
    """Bars of an engine never overlap, and sum up to what the per-layer table says."""
    found = estimate(table("YOLO11n").layers, "nash-e")
    for engine in {b.engine for b in found.timeline}:
        bars = sorted((b for b in found.timeline if b.engine == engine), key=lambda b: b.start_us)
        assert all(a.start_us + a.working_us <= b.start_us + 1e-6 for a, b in pairwise(bars)), engine
        assert bars[-1].start_us + bars[-1].working_us <= found.latency_us + 1e-6
    total = {e: sum(b.working_us for b in found.timeline if b.engine == e) for e in ("TAE", "AAE", "STORE")}
    assert total["TAE"] == pytest.approx(sum(c.tae_us for c in found.layers))
    assert total["AAE"] == pytest.approx(sum(c.aae_us for c in found.layers))
    assert total["STORE"] == pytest.approx(sum(c.store_us for c in found.layers))


def test_macs_by_type() -> None:
    """MACs are counted without padding, by features and weights; operations of convolutions are twice the MACs."""
    a, b, c = conv("a", -1), with_types(conv("b", 0), QType.INT16), with_types(conv("c", 1), QType.INT16, QType.INT16)
    found = estimate(linked([a, b, c]), "nash-e").macs
    assert (found.int8, found.feature_int16_weight_int8, found.int16) == (a.macs, b.macs, c.macs)
    assert found.original_conv_ops == 2 * (a.macs + b.macs + c.macs)
    assert estimate(table("MobileNetV2").layers, "nash-e").macs.original_conv_ops == 601_548_544
    assert estimate(table("ResNet152").layers, "nash-e").macs.original_conv_ops == 22_564_831_232


@pytest.mark.parametrize(("name", "published_ms"), [("MobileNetV2", 0.2013), ("ResNet152", 2.23)])
def test_published_static_figures(name: str, published_ms: float) -> None:
    """The BPU part agrees with the two published static figures of nash-e within 12 %."""
    assert estimate(table(name).layers, "nash-e").latency_us / 1e3 == pytest.approx(published_ms, rel=0.12)


@pytest.mark.parametrize("march", ["nash-e", "nash-m"])
def test_published_board_latencies(march: str) -> None:
    """Mean error of the one-thread latency within 3 %, and no network off by more than 10 %."""
    errors = {}
    with (DATA / "board_latency_fit.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["march"] == march and line["threads"] == "1" and line["kind"] == "measured":
                older = "Ultralytics" not in line["source"]
                found = estimate(table(line["model"]).layers, march, older_runtime=older)
                errors[line["model"]] = abs(found.board_latency_us / 1e3 / float(line["latency_ms"]) - 1)
    assert len(errors) >= 31
    assert sum(errors.values()) / len(errors) < 0.03 and max(errors.values()) < 0.1, errors


def test_more_cores_and_other_marches() -> None:
    """Cores help where a march has them, and are refused where it has not; every march answers and says on what."""
    layers = table("YOLOv8n").layers
    one, four = (estimate(layers, "nash-p", core_num=n) for n in (1, 4))
    assert one.latency_us / 4 < four.latency_us < one.latency_us
    with pytest.raises(PtqError, match="1 to 1 on nash-e"):
        estimate(layers, "nash-e", core_num=2)
    for march in MARCHES:
        found = estimate(layers, march)
        assert found.latency_us > 0
        backed = march in ("nash-e", "nash-m")
        assert found.backed_by_board is backed
        assert ("No published board row" in found.basis[0]) is not backed


def test_the_basis_names_guesses() -> None:
    """Cores and operators on the CPU are guesses and are called so."""
    layers = linked([conv("a", -1), other("sin", "Sin", (0,), device="CPU"), conv("b", 1, segment=1, tail=True)])
    said = " ".join(estimate(layers, "nash-p", core_num=2).basis)
    assert "Each core after the first adds 80 % of its speed (guess)." in said
    assert "operators on the CPU" in said and "guesses" in said
    assert "operators on the CPU" not in " ".join(estimate(table("YOLOv8n").layers, "nash-e").basis)


def test_segments_and_the_cpu_between() -> None:
    """An island on the CPU makes two segments, and costs its own time, conversions and one task more."""
    layers = linked([conv("a", -1), other("sin", "Sin", (0,), device="CPU"), conv("b", 1, segment=1, tail=True)])
    found = estimate(layers, "nash-e")
    assert len(found.segments_us) == 2
    island = found.cpu[0]
    assert found.cpu_us == pytest.approx(island.total_us + switch_us(parameters("nash-e")))
    assert island.convert_us > 0 and island.own_us > 0
    whole = estimate(linked([layers[0], replace(layers[1], device="BPU"), replace(layers[2], segment=None)]), "nash-e")
    assert whole.cpu_us == 0 and whole.board_latency_us < found.board_latency_us


def test_a_model_without_bpu() -> None:
    """Nothing on the BPU: no latency of the BPU, no runtime, and frames still take their time."""
    found = estimate(linked([other("sin", "Sin", (-1,), device="CPU", net_out=True)]), "nash-e")
    assert found.segments_us == () and found.runtime_us == 0
    assert found.latency_us < 5 and found.fps_2_threads > 0


def test_it_is_plain_json(tmp_path: object) -> None:
    """The whole estimate goes through JSON without loss."""
    found = estimate(table("MobileNetV2").layers, "nash-e").to_dict()
    assert json.loads(json.dumps(found))["latency_us"] == found["latency_us"]


def test_the_same_file_gives_the_same_estimate() -> None:
    """No state between estimates."""
    path = DATA / "board_layers" / "YOLOv8n.jsonl.gz"
    assert estimate(read_layers(path).layers, "nash-m") == estimate(table("YOLOv8n").layers, "nash-m")

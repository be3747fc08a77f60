"""What the host adds around the BPU."""

from __future__ import annotations

from perf.common import chain, conv, other

from ptqlab.perf.host import CONVERT_US_PER_MILLION, CPU_US_PER_OP, cpu_costs, runtime_us
from ptqlab.perf.layer import linked
from ptqlab.perf.parameters import parameters


def test_head_middle_and_tail() -> None:
    """Where a layer on the CPU stands against the BPU."""
    layers = linked(
        [
            other("h", "Sin", (-1,), device="CPU"),
            conv("a", 0),
            other("m", "Sin", (1,), device="CPU"),
            conv("b", 2, tail=True),
            other("t", "Sigmoid", (3,), device="CPU"),
            other("u", "Exp", (4,), device="CPU"),
        ]
    )
    found = cpu_costs(layers)
    assert [(c.name, c.head, c.tail) for c in found] == [
        ("h", True, False),
        ("m", False, False),
        ("t", False, True),
        ("u", False, True),
    ]
    million = CONVERT_US_PER_MILLION * 65536 / 1e6
    assert [round(c.convert_us / million, 6) for c in found] == [1, 2, 0, 0]


def test_movers_behind_the_tail_are_free() -> None:
    """Published latencies include them; a computing operator there is not free."""
    layers = linked(
        [
            conv("a", -1, tail=True),
            other("t", "Transpose", (0,), device="CPU", tail=True),
            other("s", "Softmax", (1,), device="CPU", tail=True),
        ]
    )
    move, softmax = cpu_costs(layers)
    assert move.total_us == 0 and softmax.own_us > CPU_US_PER_OP


def test_macs_on_the_cpu_are_dear() -> None:
    """A convolution that falls to the CPU costs far more than all the rest."""
    layers = linked([conv("a", -1), conv("b", 0, device="CPU"), conv("c", 1)])
    assert cpu_costs(layers)[0].own_us > 1000


def test_the_runtime_grows_with_the_results() -> None:
    """So much for a task, so much for a MB; the older runtime costs the same for all."""
    rates = parameters("nash-e")
    assert runtime_us(rates, 2.0) - runtime_us(rates, 1.0) > 5
    assert runtime_us(rates, 2.0, older=True) == runtime_us(rates, 0.0, older=True) < runtime_us(rates, 0.0)


def test_the_chain_has_one_layer_on_the_cpu() -> None:
    """Layers on the BPU cost the CPU nothing."""
    assert [c.name for c in cpu_costs(chain())] == ["probabilities"]

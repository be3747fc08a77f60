"""Sensitivity analysis: sensitive nodes get a better type one after the other, and the whole model is scored."""
from __future__ import annotations

from collections.abc import Sequence

from ptqlab.arith.formats import QType
from ptqlab.arith.metrics import Agreement, Metric
from ptqlab.debug.network import Half, Network, Quantizer, partial_model
from ptqlab.debug.variants import ANY_MARCH, variant
from ptqlab.errors import Problem, PtqError
from ptqlab.events import Watch
from ptqlab.graph import session
from ptqlab.quantize.parallel import SampleSet

QTYPES = ("float32", "int16", "dual-int16", "float16")


def raised_scores(
    network: Network, nodes: Sequence[str], qtype: str, metric: Metric, samples: SampleSet, watch: Watch
) -> dict[str, dict[str, float]]:
    """node -> {output: metric} of the calibrated model with this node and all before it in `qtype` ("float32": not
    quantized; the others as quant_config means them). PtqError for a type that is none."""
    if qtype not in QTYPES:
        raise PtqError(Problem("PTQ554", "qtype", repr(qtype), ", ".join(QTYPES)), "debug")
    outputs = [str(v.name) for v in network.graph.outputs]
    reference = session(network.graph.model)
    truth = [reference.run(None, sample) for sample in samples]
    chosen: dict[str, Quantizer | Half] = dict(network.quantizers)
    found: dict[str, dict[str, float]] = {}
    with watch.stage("sensitivity analysis", len(nodes)) as stage:
        for node in nodes:
            for name in network.resolve([node], "sensitive_nodes"):
                chosen.pop(name, None)
                if qtype != "float32" and node in network.quantizers:
                    chosen[name] = network.quantizers[name].as_type(QType.INT16)
            if qtype != "float32" and node in network.graph:
                chosen |= variant(network, node, "node", qtype, ANY_MARCH)[0]
            runner = session(partial_model(network, chosen))
            sums = [Agreement() for _ in outputs]
            for sample, wanted in zip(samples, truth, strict=True):
                for total, a, b in zip(sums, wanted, runner.run(None, sample), strict=True):
                    total.add(a, b, distances=True)
            found[node] = {name: float(metric.of(total)) for name, total in zip(outputs, sums, strict=True)}
            stage.step()
    return found

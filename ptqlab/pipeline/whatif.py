"""What another quant_config would do to a run: placement and latency at once, the outputs in a fraction of a second.

The graph, float outputs, statistics of calibration, and what the integer model computes between cuts of the graph are
kept. An edit is placed anew, thresholds are taken from the kept statistics, and the integer model runs from the
changed node on. The figures are those that a whole compile run with the same samples gives.
"""
from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from ptqlab.arith.metrics import Agreement
from ptqlab.config import Config, QuantConfig
from ptqlab.errors import Finding, Problem, PtqError
from ptqlab.events import Watch
from ptqlab.perf import Estimate
from ptqlab.pipeline import requests
from ptqlab.pipeline.presets import with_preset
from ptqlab.pipeline.subgraphs import memberships
from ptqlab.pipeline.workbench import Workbench
from ptqlab.placement import Asks
from ptqlab.platforms import platform
from ptqlab.quantize.lower import SOURCE, lower
from ptqlab.quantize.pieces import Map
from ptqlab.quantize.recipe import Recipe
from ptqlab.simulate.memo import Memo, MemoExecutor
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import QuantizedModel
from ptqlab.stages.schedule import split

SAMPLES = 8
PIECES = 12
WORKERS = 2


@dataclass(frozen=True)
class Placed:
    """A quant_config placed: what is asked and granted, what calibration is asked, and the estimated speed.

    findings  what there is to say of it;  held: node -> subgraph_config entries that hold it
    """

    quant: QuantConfig
    config: Config
    asks: Asks
    plan: Plan
    recipe: Recipe
    findings: tuple[Finding, ...]
    held: Mapping[str, list[str]]
    estimate: Estimate


@dataclass(frozen=True)
class Outcome:
    """Agreement of each model output with the float model, over `samples` samples, in the order of the graph.

    ran, parts  parts of the integer model that were computed for it, of how many; over all samples
    """

    outputs: Mapping[str, Agreement]
    samples: int
    ran: int
    parts: int

    @property
    def cosine(self) -> float:
        """Of the worst output; NaN where one is."""
        return float(np.min([a.cosine for a in self.outputs.values()]))


def edited(config: Config, quant: QuantConfig) -> Config:
    """The configuration with another quant_config. Keys of the YAML that say the same in an older way are left out."""
    kept = "skip" if config.calibration.calibration_type == "skip" else ""
    calibration = replace(
        config.calibration, quant=quant, calibration_type=kept, per_channel=False, max_percentile=None, run_on_cpu=(),
        run_on_bpu=(), recipe=None,
    )
    return replace(config, calibration=calibration)


class WhatIf:
    """One model and its samples under changing quant_configs.

    config  as configured, its recipe written out, and bound to the model;  measured: whether there are samples at all
    """

    def __init__(self, config: Config, watch: Watch | None = None, samples: int = SAMPLES) -> None:
        """Raises PtqError with every problem of an input, as compiling does."""
        if samples < 1:
            raise PtqError(Problem("PTQ554", "samples", repr(samples), "a whole number from 1"), "what-if")
        self.bench = Workbench(config, samples, watch or Watch())
        self.graph = self.bench.graph
        self.config, _ = with_preset(self.bench.config, self.graph, platform(config.model.march))
        self.measured = config.calibration.data is not None and config.calibration.calibration_type != "skip"
        self.samples = list(self.bench.scored)
        self.memo = Memo()
        self._known: dict[str, Outcome] = {}
        cuts = Map(self.graph, PIECES).cuts
        bounds = [cut.position for cut in cuts]
        self._pieces = {str(n.name): bisect_left(bounds, i) for i, n in enumerate(self.graph.nodes)}

    def placed(self, quant: QuantConfig) -> Placed:
        """Where everything goes under a quant_config. PtqError for names of nodes that are none."""
        config, asks, plan, told = self.bench.placed(quant)
        recipe = requests.make_recipe(self.graph, plan, config)
        findings = (*told, *requests.without_effect(plan, asks), *recipe.findings)
        held = memberships(self.graph, quant)
        return Placed(quant, edited(config, quant), asks, plan, recipe, findings, held, self.bench.estimate(plan))

    def outcome(self, placed: Placed, watch: Watch | None = None) -> Outcome:
        """How near the outputs of the integer model come. Interrupted when the watch is stopped.

        PtqError where there are no samples to measure with.
        """
        if not self.measured:
            raise PtqError(Problem("PTQ553", "calibration data", "none", "samples to measure the outputs with",
                                   "give the samples: run.grid(data=...)"), "what-if")
        key = json.dumps(placed.quant.to_dict(), sort_keys=True)
        if key not in self._known:
            self._known[key] = self._measured(placed, watch or Watch())
        return self._known[key]

    def _measured(self, placed: Placed, watch: Watch) -> Outcome:
        encodings = self.bench.encoded(placed.config, placed.plan, watch)
        executor = MemoExecutor(self._split(lower(self.graph, placed.plan, encodings)), self.memo)
        outputs = {name: Agreement() for name in self.bench.output_names}
        with watch.stage("what-if", len(self.samples)) as stage, ThreadPoolExecutor(WORKERS) as pool:
            def run(index: int) -> dict[str, np.ndarray]:
                stage.check()
                return executor.run_known(self.samples[index], str(index))

            for truth, got in zip(self.bench.truth, pool.map(run, range(len(self.samples))), strict=True):
                for (name, total), expected in zip(outputs.items(), truth, strict=True):
                    total.add(expected, got[name], distances=True)
                stage.step()
        return Outcome(outputs, len(self.samples), executor.ran, len(executor.quantized.parts) * len(self.samples))

    def _split(self, quantized: QuantizedModel) -> QuantizedModel:
        """The same model in parts that end at the cuts of the float graph."""
        return replace(quantized, parts=split(quantized.parts, quantized.model.graph, self._piece))

    def _piece(self, node: ir.Node) -> int | None:
        sources = json.loads(node.metadata_props.get(SOURCE, "[]"))
        return max((self._pieces[name] for name in sources), default=None)

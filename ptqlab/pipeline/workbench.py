"""One model and its samples, compiled to the calibrated form again and again under changing quant_configs.

What does not depend on the quant_config - the optimized graph, float outputs, statistics of tensors - is made once.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptqlab import config as configuration
from ptqlab import perf
from ptqlab.arith.metrics import Agreement
from ptqlab.config import Config, QuantConfig
from ptqlab.errors import Finding
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph, load, session
from ptqlab.pipeline import requests
from ptqlab.pipeline.prepared import prepared
from ptqlab.placement import Asks, place
from ptqlab.platforms import platform
from ptqlab.quantize.calibrate import calibrate
from ptqlab.quantize.calibrated import calibrated_model, with_folded_weights
from ptqlab.quantize.encode import encode
from ptqlab.quantize.lower import lower
from ptqlab.quantize.samples import Samples, load_samples, random_samples
from ptqlab.simulate import FastExecutor
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import CalibratedModel


@dataclass(frozen=True)
class Candidate:
    """A model under one quant_config.

    outputs     agreement of each output of the calibrated model with the float model, over the scoring samples
    latency_us  estimate of the BPU part;  judged: mean of the user's own measure over them, None without one
    """

    quant: QuantConfig
    plan: Plan
    encodings: Encodings
    calibrated: CalibratedModel
    outputs: tuple[Agreement, ...]
    latency_us: float
    judged: float | None = None

    @property
    def cosine(self) -> float:
        """Of the worst output; NaN where one is."""
        return float(np.min([a.cosine for a in self.outputs]))

    @property
    def sqnr(self) -> float:
        """Of the worst output, in dB."""
        return float(np.min([a.sqnr for a in self.outputs]))


class Workbench:
    """Graph, samples and float outputs of a configuration.

    config    bound to the inputs of the model;  samples: all calibration samples, random numbers where there are none
    scored    those that candidates are scored on
    judge     the user's own measure, (outputs by name, number of the sample) -> number; None: there is none
    """

    def __init__(self, config: Config, scored: int, watch: Watch, *, scoring: Any = None,
                 judge: Callable[[Mapping[str, np.ndarray], int], float] | None = None) -> None:
        """`scored`: how many samples candidates are scored on, of the calibration samples or of those in `scoring`.

        Raises PtqError with every problem of an input, as compiling does.
        """
        self.judge = judge
        model = config.model
        graph = load(model.onnx_model, config.input_shapes, output_nodes=model.output_nodes)
        inputs = {str(v.name): (graph.shape(str(v.name)), str(graph.dtype(str(v.name)))) for v in graph.inputs}
        self.config = configuration.bind(config, inputs)
        self.graph: FloatGraph = prepared(graph, self.config, Watch())
        arrays = {n: (shape, self.graph.dtype(n)) for n, (shape, _) in inputs.items()}
        calibration = self.config.calibration
        self.samples: Samples = (
            random_samples(arrays, 1) if calibration.data is None
            else load_samples(calibration.data, arrays, watch, calibration.raw_types)
        )
        others = self.samples if scoring is None else load_samples(scoring, arrays, watch, calibration.raw_types)
        self.scored = others.first(min(scored, len(others)))
        self.output_names = tuple(str(v.name) for v in self.graph.outputs)
        runner = session(self.graph.model)
        self.truth = [runner.run(None, sample) for sample in self.scored]
        self.store = requests.store(self.config)

    def placed(self, quant: QuantConfig) -> tuple[Config, Asks, Plan, list[Finding]]:
        """The configuration with another quant_config, what it asks, the plan, and what there is to say of the asking.

        Raises PtqError for names that are none.
        """
        config = replace(self.config, calibration=replace(self.config.calibration, quant=quant))
        asks, findings = requests.make_asks(self.graph, config)
        return config, asks, place(self.graph, platform(config.model.march), asks), findings

    def encoded(self, config: Config, plan: Plan, watch: Watch) -> Encodings:
        """What calibration gives a plan; statistics that were taken before are not taken again."""
        recipe = requests.make_recipe(self.graph, plan, config)
        quiet = Watch()  # what is calibrated again and again is not told, but can be stopped
        quiet.listeners.append(lambda _: quiet.stop() if watch.stopped else None)
        found = calibrate(self.graph, plan, self.samples, len(self.samples), quiet, recipe, None, self.store)
        return encode(self.graph, plan, found)

    def candidate(self, quant: QuantConfig, watch: Watch) -> Candidate:
        """The calibrated model under a quant_config, and how near it comes. Raises PtqError for names that are none."""
        config, _, plan, _ = self.placed(quant)
        encodings = self.encoded(config, plan, watch)
        calibrated = calibrated_model(self.graph, plan, encodings)
        runner = session(with_folded_weights(calibrated, encodings))
        outputs = tuple(Agreement() for _ in self.output_names)
        judged = []
        for number, (sample, truth) in enumerate(zip(self.scored, self.truth, strict=True)):
            got = runner.run(None, sample)
            for total, a, b in zip(outputs, truth, got, strict=True):
                total.add(a, b, distances=True)
            if self.judge is not None:
                judged.append(float(self.judge(dict(zip(self.output_names, got, strict=True)), number)))
        return Candidate(quant, plan, encodings, calibrated, outputs, self.estimate(plan).latency_us,
                         float(np.mean(judged)) if judged else None)

    def estimate(self, plan: Plan) -> perf.Estimate:
        """The static estimate of a plan, as a compile run makes it."""
        march = self.config.model.march
        cores = min(self.config.compiler.core_num, platform(march).cores)
        return perf.estimate(perf.from_plan(self.graph, plan), march, core_num=cores)

    def simulated(self, candidate: Candidate, watch: Watch) -> tuple[Agreement, ...]:
        """Agreement of each output of the integer model with the float model, over the scoring samples."""
        executor = FastExecutor(lower(self.graph, candidate.plan, candidate.encodings))
        outputs = tuple(Agreement() for _ in self.output_names)
        with watch.stage("simulate", len(self.scored)) as stage:
            for sample, truth in zip(self.scored, self.truth, strict=True):
                got = executor.run(sample)
                for total, name, a in zip(outputs, self.output_names, truth, strict=True):
                    total.add(a, got[name], distances=True)
                stage.step()
        return outputs

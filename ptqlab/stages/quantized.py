"""Models made of a plan: the calibrated float model and the integer model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.errors import Finding
from ptqlab.stages.schedule import Part


@dataclass(frozen=True)
class CalibratedModel:
    """Float model with quantize-dequantize nodes; onnxruntime runs it as it is.

    names  tensor of the optimized graph -> tensor here that holds what the BPU would hold
    """

    model: ir.Model
    names: Mapping[str, str]


@dataclass(frozen=True)
class IntegerTensor:
    """An integer tensor of a quantized model: x = (q - zero_point) * scale.

    scale is float32: a scalar, or shaped to broadcast per channel for an accumulator.
    """

    name: str
    qtype: QType
    scale: np.ndarray
    zero_point: int


@dataclass(frozen=True)
class QuantizedModel:
    """Integer model: what `.bc` and `.hbm` hold.

    integers  tensor of the optimized graph -> its integer form here (absent for tensors that stay float)
    parts     the schedule: BPU segments and CPU parts in order of execution
    findings  what lowering noticed; empty for a model read from a file
    """

    model: ir.Model
    integers: Mapping[str, IntegerTensor]
    parts: tuple[Part, ...]
    findings: tuple[Finding, ...] = ()

    def verify(self) -> QuantizedModel:
        names = [n for part in self.parts for n in part.nodes]
        assert len(names) == len(set(names)) == len(self.model.graph), "every node is in one part of the schedule"
        return self

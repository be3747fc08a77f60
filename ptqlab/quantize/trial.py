"""A calibrated model whose thresholds are inputs: one session tries any number of thresholds.

Weights are quantized beforehand, for the encodings the trial was made with.
"""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ptqlab.arith.formats import QType
from ptqlab.graph import FloatGraph
from ptqlab.ops.calibration_node import DOMAIN
from ptqlab.ops.emit import FLOAT
from ptqlab.ops.spec import Encoding
from ptqlab.quantize.calibrated import QTYPE, SLOT, calibrated_model, with_folded_weights
from ptqlab.quantize.parallel import PortableSession
from ptqlab.quantize.pieces import PARTS, insert_quantizer, quantizer_names
from ptqlab.quantize.store import digest_of
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.plan import Plan


def numbers_of(names: Mapping[str, str], e: Encoding, steps: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The numbers of a quantizer as feeds; `names` from `quantizer_names`, `steps` factors per channel."""
    scale = e.scale if steps is None else e.scale * steps
    given = (scale, e.zero_point, e.zero_point + 0.5, e.low + 0.5, e.high + 0.5)
    return {names[p]: np.asarray(v, np.float32) for p, v in zip(PARTS, given, strict=True)}


class Trial:
    """Runs the calibrated model of a plan for encodings of the moment."""

    def __init__(self, graph: FloatGraph, plan: Plan, encodings: Encodings) -> None:
        model = with_folded_weights(calibrated_model(graph, plan, encodings), encodings)
        self.digest = digest_of(*(w for e in encodings.weights.values() for w in (e.codes, e.scale, e.bias)))
        self.output_names = tuple(str(v.name) for v in model.graph.outputs)
        self._names: dict[tuple[str, QType], dict[str, str]] = {}
        self._values: dict[str, ir.Value] = {}
        for node in list(model.graph):
            if node.domain == DOMAIN and SLOT in node.metadata_props:
                self._open(model.graph, node)
        if not any(node.domain == DOMAIN for node in model.graph):
            model.functions.clear()
            del model.graph.opset_imports[DOMAIN]
        self._session = PortableSession(model)
        self._values.clear()

    def _open(self, graph: ir.Graph, node: ir.Node) -> None:
        """Replace a HzCalibration node by operators that read its numbers from inputs of the model."""
        key = (node.metadata_props[SLOT], QType(node.metadata_props[QTYPE]))
        if key not in self._names:
            self._names[key] = quantizer_names(str(len(self._names)))
            for given in self._names[key].values():
                self._values[given] = ir.Value(name=given, type=ir.TensorType(FLOAT))
                graph.inputs.append(self._values[given])
        numbers = {part: self._values[given] for part, given in self._names[key].items()}
        old = node.outputs[0]
        assert node.inputs[0] is not None
        x = insert_quantizer(graph, node.inputs[0], numbers, node, str(old.name))
        name = old.name
        for user, index in list(old.uses()):
            user.replace_input_with(index, x)
        for index, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[index] = x
        old.name = f"{name}/before"
        x.name = name
        graph.remove(node, safe=True)

    def numbers(self, encodings: Encodings) -> dict[str, np.ndarray]:
        """The inputs that stand for these encodings."""
        feeds: dict[str, np.ndarray] = {}
        for (slot, qtype), names in self._names.items():
            feeds |= numbers_of(names, encodings.view(slot, qtype), encodings.channels.get(slot))
        return feeds

    def run(self, sample: Mapping[str, np.ndarray], numbers: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs of the model in order."""
        return self._session.run(None, {**sample, **numbers})

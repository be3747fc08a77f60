"""The definition: every integer operator by its plain numpy kernel."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ptqlab.ops.integer import DOMAIN, INTEGER_OPS
from ptqlab.ops.integer.movers import STANDARD
from ptqlab.simulate.executor import Executor
from ptqlab.stages.schedule import Part


class ReferenceExecutor(Executor):
    """Slow and readable; what it gives is what the BPU gives."""

    def _run_bpu(self, part: Part, live: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        local: dict[str, np.ndarray] = {}
        for name in part.nodes:
            node = self._nodes[name]
            arrays = [_array(v, local, live) for v in node.inputs]
            result = np.asarray(run_node(node, arrays))  # numpy makes scalars of rank 0, onnxruntime takes arrays only
            expected = node.outputs[0].shape
            assert expected is None or tuple(result.shape) == tuple(expected.numpy()), (
                f"{name} gave {result.shape}, not {expected}"
            )
            local[str(node.outputs[0].name)] = result
        return {name: local[name] for name in self.wanted(part)}


def run_node(node: ir.Node, arrays: list[np.ndarray | None]) -> np.ndarray:
    """Result of one integer operator or mover."""
    attributes = {
        a.name: (list(a.value) if isinstance(a.value, (tuple, list)) else a.value) for a in node.attributes.values()
    }
    if node.domain == DOMAIN:
        return INTEGER_OPS[node.op_type].reference(attributes, *arrays)
    return STANDARD[node.op_type](attributes, *arrays)


def _array(
    value: ir.Value | None, local: Mapping[str, np.ndarray], live: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy()
    name = str(value.name)
    return local[name] if name in local else live[name]

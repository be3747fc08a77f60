"""Which nodes quantization hurts, and why: what hmct-debugger does, on a calibrated model or a compile result.

    from ptqlab import debug
    debug.get_sensitivity_of_nodes(run, metrics=["cosine-similarity", "mse"])
    debug.plot_acc_error("out/net_calibrated_model.onnx", "calibration", quantize_node=["weight", "activation"])

The functions are imported when they are first asked for: those that draw live where figures may be made.
"""
from __future__ import annotations

import importlib
from typing import Any

#: public name -> module that defines it.
_HOME = {
    "compare_runs": "ptqlab.result.sensitivity",
    "concat_losses": "ptqlab.debug.branches",
    "diagnose": "ptqlab.debug.diagnosis",
    "get_channelwise_data_distribution": "ptqlab.result.inspecting",
    "get_sensitivity_of_nodes": "ptqlab.result.debugging",
    "layer_errors": "ptqlab.result.layers",
    "plot_acc_error": "ptqlab.result.debugging",
    "plot_distribution": "ptqlab.result.inspecting",
    "runall": "ptqlab.result.inspecting",
    "select_sensitive_samples": "ptqlab.debug.select",
    "sensitivity": "ptqlab.result.sensitivity",
    "sensitivity_analysis": "ptqlab.result.inspecting",
    "tensor_analysis": "ptqlab.result.inspecting",
}

__all__ = [
    "compare_runs", "concat_losses", "diagnose", "get_channelwise_data_distribution", "get_sensitivity_of_nodes",
    "layer_errors", "plot_acc_error", "plot_distribution", "runall", "select_sensitive_samples", "sensitivity",
    "sensitivity_analysis", "tensor_analysis",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"ptqlab.debug has no {name!r}; it has {', '.join(sorted(__all__))}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value

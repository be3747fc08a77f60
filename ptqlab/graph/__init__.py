"""ONNX models behind one door: load, check, repair, infer shapes, run, save.

In memory a model is an `onnx_ir.Model`; protobuf and onnxruntime are met only here.

Codes of this package (PTQ10x to PTQ12x refuse, PTQ13x tell):
    PTQ101 no such file            PTQ102 wrong suffix              PTQ103 not an ONNX model
    PTQ104 too large for protobuf  PTQ105 external data or tensor   PTQ106 opset or ir_version
    PTQ107 custom domain           PTQ108 operator or attribute     PTQ109 input that nothing produces
    PTQ110 tensor produced twice   PTQ111 cycle                     PTQ112 type that cannot be quantized
    PTQ113 quantized already       PTQ114 dynamic input             PTQ115 input_shape
    PTQ116 shape inference         PTQ117 onnxruntime refuses       PTQ118 output_nodes
    PTQ119 model-local function    PTQ120 data fed to a model
    PTQ121 insert_transpose        PTQ122 reduce_periods           PTQ123 remove_quantization
    PTQ130 ir_version lowered      PTQ131 nodes sorted              PTQ132 nodes, outputs named
    PTQ133 unused input            PTQ134 stated shape overruled    PTQ135 shape taken from a run
    PTQ136 half precision widened  PTQ137 written out              PTQ138 meaning fixed for inference
    PTQ139 cut at output_nodes
"""

from __future__ import annotations

from ptqlab.graph.loading import load
from ptqlab.graph.model import FloatGraph, bodies, outer_values, verify
from ptqlab.graph.saving import save, to_proto
from ptqlab.graph.session import Session, save_runnable, session
from ptqlab.graph.shapes import ShapeInferenceError

__all__ = [
    "FloatGraph",
    "Session",
    "ShapeInferenceError",
    "bodies",
    "load",
    "outer_values",
    "save",
    "save_runnable",
    "session",
    "to_proto",
    "verify",
]

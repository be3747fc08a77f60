"""Hand-made records for tests of views, results, command line and notebook: no model needed."""
from __future__ import annotations

import math
from dataclasses import replace

from ptqlab.errors import Finding
from ptqlab.stages.record import NodeRow, OutputRow, Record, TensorInfo

HOSTILE = "<script>alert(1)</script>"
CLIMBER = "../../evil"
NAN_NODE = "mask_where"
WHY_BPU = "runs on the BPU: convolution with constant weights"


def _rows() -> list[NodeRow]:
    rows: list[NodeRow] = []
    quality = 0.99997
    for block in range(1, 8):
        conv, relu = f"/block{block}/conv/Conv", f"/block{block}/relu/Relu"
        rows.append(NodeRow(conv, "Conv", "BPU", "id(0)", 1.5 + block, quality, quality - 0.00002 * block, "si8",
                            "int8", "int8", WHY_BPU, rule="conv_weights", output=f"t{block}"))
        rows.append(NodeRow(relu, "Relu", "BPU", "id(0)", None, quality, quality - 0.00002 * block, "si8",
                            "int8", "int8", f"computed in the requantization of {conv}", rule="fused_relu",
                            fused_into=conv, output=f"r{block}"))
        quality -= 0.0004 * block
    rows += [
        NodeRow("/block4/add/Add", "Add", "BPU", "id(0)", 7.25, 0.9932, 0.9918, "si8", "int8", "int8",
                "runs on the BPU: elementwise addition", rule="elementwise", output="a4"),
        NodeRow(HOSTILE, "Mul", "BPU", "id(0)", 0.5, 0.97, 0.942, "si16", "int16", "int16",
                "runs on the BPU: elementwise <b>product</b>", rule="elementwise", output="m1"),
        NodeRow(CLIMBER, "Concat", "BPU", "id(0)", None, 0.9921, 0.9911, "si8", "int16", "int8",
                "a passive operator takes the type of its neighbours", rule="passive", output="c1"),
        NodeRow(NAN_NODE, "Where", "BPU", "id(0)", 0.0, math.nan, math.nan, "si8", "int8", "int8",
                "runs on the BPU: selection", rule="where", tags=("all-zero",), output="w1"),
        NodeRow("pool", "GlobalAveragePool", "BPU", "id(0)", 6.02, 0.9951, 0.9939, "si8", "int8", "int8",
                "runs on the BPU: pooling", rule="pool", output="p"),
        NodeRow("head/reshape", "Reshape", "BPU", "id(0)", None, 0.9951, 0.9939, "si8", "int8", "int8",
                "moves data only", rule="passive", output="flat"),
        NodeRow("检测头/fc", "Gemm", "BPU", "id(0)", 3.75, 0.9962, 0.9948, "si32", "int8", "int8",
                "last operator: keeps its 32-bit sums", rule="tail_high_precision", output="logits_q"),
        NodeRow("head/dequantize", "Dequantize", "CPU", "--", None, None, None, "float32", "", "float32",
                "the output is float, the conversion runs on the CPU", rule="output_dequantize", output="logits"),
        NodeRow("head/softmax", "Softmax", "CPU", "--", None, 0.9975, 0.9969, "float32", "int8", "float32",
                "follows the 32-bit output, so it runs on the CPU", rule="tail_cpu", output="prob"),
        NodeRow("head/argmax", "ArgMax", "CPU", "--", None, None, None, "int64", "int8", "int64",
                "the index has no cosine", rule="index", output="label"),
    ]
    return rows


def digits_record() -> Record:
    """A record like that of a small classifier: fused relus, a CPU tail, a NaN, hostile and Chinese names."""
    return Record(
        model="digits", march="nash-e", nodes=tuple(_rows()),
        outputs=(OutputRow("prob", 0.9975, 0.9969, 22.5, 0.0021, 0.00013, 0.043),
                 OutputRow("label", None, None, None, None, None, None)),
        findings=(
            Finding("PTQ503", f"all values of {NAN_NODE} are zero in every sample", (NAN_NODE,),
                    "check the mask that feeds it"),
            Finding("PTQ401", f"quant_config asks int16 of {CLIMBER}, which moves data only", (CLIMBER,),
                    "ask it of the operators around it", "note"),
        ),
        inputs=(TensorInfo("input", "float32", (1, 1, 8, 8)),),
        output_infos=(TensorInfo("prob", "float32", (1, 10)), TensorInfo("label", "int64", (1,))),
        samples=50,
        settings={"model_parameters": {"march": "nash-e"}},
        quant_config={"model_config": {"all_node_type": "int8"}, "op_config": {"mul": {"qtype": "int16"}},
                      "node_config": {CLIMBER: {"qtype": "int16"}}},
        calibration={"method": "max"},
        artifacts={"node_info": "digits_node_info.csv", "quantized": "digits_quantized_model.bc"},
        timings={"prepare": 0.1, "optimize": 0.2, "calibrate": 1.0, "quantize": 0.5},
        versions={"ptqlab": "0.1.0"},
    )


def clean_record() -> Record:
    """The same without the NaN node and without findings."""
    record = digits_record()
    return replace(record, nodes=tuple(r for r in record.nodes if r.node != NAN_NODE), findings=())

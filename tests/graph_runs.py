"""Folders of runs with a model that viewers can open: made from records, nothing is computed."""
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from records import digits_record

from ptqlab.stages.record import NodeRow, Record

SHAPE = [1, 4, 8, 8]


def chain(rows, *, weights=1000):
    """A model with one node per row, each reading the one before; an Add also reads the fourth before it.

    Every Conv has a weight of `weights` numbers; a Where holds its constant in an attribute.
    """
    nodes, constants, before = [], [], "input"
    for index, row in enumerate(rows):
        reads, attributes = [before], {}
        if row.node_type == "Conv":
            constants.append(numpy_helper.from_array(np.ones(weights, np.float32), f"{row.output}_w"))
            reads.append(f"{row.output}_w")
        elif row.node_type == "Add":
            reads.append(rows[max(index - 4, 0)].output)
        elif row.node_type == "Where":
            attributes["value"] = numpy_helper.from_array(np.ones(2000, np.float32), "constant")
        nodes.append(helper.make_node(row.node_type, reads, [row.output], name=row.node, **attributes))
        before = row.output
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("input", before)]
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    helper.set_model_props(model, {"ptqlab.about": '{"config": "/somewhere/private/config.yaml"}'})
    return model


def write_run(folder, record=None, *, stages=("optimized_float",), weights=1000):
    """A folder with the record (default: that of `digits_record`) and its model under the names of `stages`."""
    record = record or digits_record()
    names = {stage: f"{record.model}_{stage}.onnx" for stage in stages}
    record = replace(record, artifacts=names)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names.values():
        onnx.save(chain(record.nodes, weights=weights), folder / name)
    (folder / f"{record.model}_record.json").write_text(record.to_json(), encoding="utf-8")
    return record


def long_record(count=2000):
    """A record of `count` nodes in blocks of five with a sum around each, cosines from 0.9 to 0.99999."""
    types = ("Conv", "Relu", "Conv", "Clip", "Add")
    rows = []
    for index in range(count):
        cosine = 1 - 10 ** -(1 + 4 * (math.sin(index) + 1) / 2)
        rows.append(NodeRow(f"/layer{index // 5}/{types[index % 5]}{index % 5}", types[index % 5], "BPU", "id(0)", 1.0,
                            cosine, cosine, "si8", "int8", "int8", "the default type", output=f"t{index}"))
    return Record(model="long", march="nash-e", nodes=tuple(rows), outputs=(), findings=())

"""The frames have the contract's columns and types."""
from dataclasses import replace

import pandas as pd
from records import HOSTILE, digits_record

from ptqlab.report.frames import nodes_frame, outputs_frame


def test_columns_and_values():
    """Exactly the documented columns, rows in graph order, numbers as numbers."""
    record = digits_record()
    nodes, outputs = nodes_frame(record), outputs_frame(record)
    assert list(nodes.columns) == ["Node", "NodeType", "ON", "Subgraph", "Threshold", "Calibrated Cosine",
                                   "Quantized Cosine", "Output Data Type", "Asked", "Granted", "Reason"]
    assert list(outputs.columns) == ["TensorName", "Calibrated Cosine", "Quantized Cosine", "SQNR", "L1", "L2",
                                     "Chebyshev"]
    assert list(nodes["Node"]) == [row.node for row in record.nodes]
    assert nodes["Quantized Cosine"].dtype == "float64"
    assert nodes["Quantized Cosine"].min() == 0.942
    assert nodes.set_index("Node")["Threshold"].isna()["head/softmax"]
    assert list(outputs["SQNR"].dropna()) == [22.5]


def test_an_empty_record_has_the_columns():
    """Also a run that compared nothing gives frames that can be filtered."""
    record = replace(digits_record(), nodes=(), outputs=())
    assert len(nodes_frame(record)) == 0
    assert isinstance(outputs_frame(record)["SQNR"], pd.Series)


def test_the_frames_own_html_is_escaped():
    """What a notebook shows of the frame cannot run a script."""
    page = nodes_frame(digits_record()).to_html()
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page

"""The record as pandas frames, with the vendor's column names."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ptqlab.report.words import spoken
from ptqlab.stages.record import Record

if TYPE_CHECKING:
    import pandas as pd

#: column -> field of NodeRow.
NODE_FIELDS = {
    "Node": "node", "NodeType": "node_type", "ON": "on", "Subgraph": "subgraph", "Threshold": "threshold",
    "Calibrated Cosine": "calibrated_cosine", "Quantized Cosine": "quantized_cosine",
    "Output Data Type": "output_data_type", "Asked": "asked", "Granted": "granted", "Reason": "reason",
}
#: column -> field of OutputRow.
OUTPUT_FIELDS = {
    "TensorName": "tensor", "Calibrated Cosine": "calibrated_cosine", "Quantized Cosine": "quantized_cosine",
    "SQNR": "sqnr", "L1": "l1", "L2": "l2", "Chebyshev": "chebyshev",
}
_NUMBERS = {"Threshold", "Calibrated Cosine", "Quantized Cosine", "SQNR", "L1", "L2", "Chebyshev"}


def nodes_frame(record: Record) -> pd.DataFrame:
    """One row per node in graph order; columns NODE_FIELDS; numbers are float64, NaN where not compared.

    Reason is in the language of views; `record.nodes` and csv have it in English.
    """
    return _frame(NODE_FIELDS, record.nodes)


def outputs_frame(record: Record) -> pd.DataFrame:
    """One row per output tensor; columns OUTPUT_FIELDS; SQNR in dB, distances of the quantized output."""
    return _frame(OUTPUT_FIELDS, record.outputs)


def _frame(columns: dict[str, str], rows: tuple[object, ...]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({
        column: pd.Series([spoken(getattr(row, name)) if column == "Reason" else getattr(row, name) for row in rows],
                          dtype="float64" if column in _NUMBERS else "str")
        for column, name in columns.items()
    })

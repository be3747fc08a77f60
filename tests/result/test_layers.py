"""Errors of nodes alone and accumulated."""
from __future__ import annotations

from debug_nets import network

from ptqlab import debug


def test_both_errors_side_by_side():
    """Alone is the sensitivity, accumulated the curve of the whole model; page and figure hold both."""
    apart, samples = network()
    found = debug.layer_errors(apart, samples, metric="mse", data_num=2, progress=False)
    frame = found.frame.set_index("Node")
    assert list(frame.index) == apart.nodes and list(frame.columns) == ["NodeType", "Alone", "Accumulated"]
    alone = debug.get_sensitivity_of_nodes(apart, samples, "mse", data_num=2)
    assert {n: repr(v) for n, v in frame["Alone"].items()} == {n: row["mse"] for n, row in alone.items()}
    curve = debug.plot_acc_error(apart, samples, [["weight", "activation"]], metric="mse", save_dir=None, data_num=2)
    whole = dict(zip(curve.data[0].text, curve.data[0].y, strict=True))
    assert frame["Accumulated"].to_dict() == {n: whole[n] for n in apart.nodes}
    assert [t.name for t in found.plot().data] == ["alone", "accumulated"] and "alone and accumulated" in str(found)

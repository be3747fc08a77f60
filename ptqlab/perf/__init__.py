"""Static performance estimate: how long a model takes on a board, and why, without a board."""
from ptqlab.perf.estimate import Estimate, estimate
from ptqlab.perf.layer import Layer
from ptqlab.perf.layers import from_plan
from ptqlab.perf.table import LayerTable, read_layers

__all__ = ["Estimate", "Layer", "LayerTable", "estimate", "from_plan", "read_layers"]

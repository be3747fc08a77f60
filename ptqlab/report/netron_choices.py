"""What can be chosen for a graph; a module of its own, since the command line names it before anything is loaded."""
from __future__ import annotations

#: stage -> key of its artifact.
STAGES = {"original": "original_float", "optimized": "optimized_float", "calibrated": "calibrated",
          "quantized": "quantized", "hbm": "hbm"}
#: Measures by colour.
COLORS = ("cosine", "qtype", "on", "latency")

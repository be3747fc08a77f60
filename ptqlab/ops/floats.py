"""Operators that run in float on the CPU in this version, each with the reason."""
from __future__ import annotations

from ptqlab.ops.spec import Engine, OpSpec, Role

SPECS = (
    OpSpec("Softmax", Role.FLOAT, Engine.CPU,
           note="Softmax runs in float on the CPU: ptqlab has no integer kernel for it yet"),
)

UNKNOWN_OPERATOR = "{op} runs in float on the CPU: ptqlab has no integer kernel for it yet"

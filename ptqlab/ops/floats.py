"""Operators that run in float on the CPU in this version, each with the reason."""
from __future__ import annotations

from ptqlab.ops.spec import OpSpec

SPECS: tuple[OpSpec, ...] = ()

UNKNOWN_OPERATOR = "{op} runs in float on the CPU: ptqlab has no integer kernel for it yet"

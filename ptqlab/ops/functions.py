"""Functions of one operand, as numpy sees them: one list from ONNX operator to real function.

All in float64. Outside of its domain a function is held at the edge of it, so that no table ever holds a NaN:
Sqrt of a negative number is Sqrt(0), Log(0) is -Inf and becomes the lowest code, Acos(1.01) is Acos(1).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from ptqlab.ops.node import attribute, constant

INF = math.inf
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
Real = Callable[[np.ndarray, ir.Node], np.ndarray]


@dataclass(frozen=True)
class RealFunction:
    """y = real(x, node); `domain` is the closed interval of x for which it is defined."""

    real: Real
    domain: tuple[float, float] = (-INF, INF)

    def at(self, x: np.ndarray, node: ir.Node) -> np.ndarray:
        """Values at real x (float64): finite, or infinite where the function has a pole or overflows; never NaN."""
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            y = self.real(np.clip(x, *self.domain), node)
        assert not np.isnan(y).any(), f"{node.op_type} is NaN inside of its domain"
        return y


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x)


def erf(x: np.ndarray) -> np.ndarray:
    return np.fromiter((math.erf(v) for v in x.ravel()), np.float64, x.size).reshape(x.shape)


def elu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0.0)), x)


def gelu(x: np.ndarray, node: ir.Node) -> np.ndarray:
    """x * P(X <= x) of the normal distribution, or its tanh form where the node says approximate = "tanh"."""
    if attribute(node, "approximate", "none") == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def shrink(x: np.ndarray, node: ir.Node) -> np.ndarray:
    bias, lambd = attribute(node, "bias", 0.0), attribute(node, "lambd", 0.5)
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0))


def thresholded(x: np.ndarray, node: ir.Node) -> np.ndarray:
    return np.where(x > attribute(node, "alpha", 1.0), x, 0.0)


def power(x: np.ndarray, node: ir.Node) -> np.ndarray:
    """x^c or c^x, by which operand is constant. A fraction as exponent has no negative numbers in its domain."""
    exponent = constant(node.inputs[1])
    if exponent is None:
        base = constant(node.inputs[0])
        assert base is not None, "one operand of Pow is constant by rule"
        return np.power(float(base.reshape(())), x)
    c = float(exponent.reshape(()))
    return np.power(x if c == np.floor(c) else np.maximum(x, 0.0), c)


def _of(function: Callable[[np.ndarray], Any], low: float = -INF, high: float = INF) -> RealFunction:
    return RealFunction(lambda x, node: function(x), (low, high))


def _alpha(function: Callable[[np.ndarray, float], np.ndarray], default: float = 1.0) -> RealFunction:
    return RealFunction(lambda x, node: function(x, attribute(node, "alpha", default)))


def _selu(x: np.ndarray, node: ir.Node) -> np.ndarray:
    return attribute(node, "gamma", SELU_GAMMA) * elu(x, attribute(node, "alpha", SELU_ALPHA))


# every function that becomes a table; the attributes have ONNX's defaults
FUNCTIONS: dict[str, RealFunction] = {
    "Acos": _of(np.arccos, -1.0, 1.0),
    "Acosh": _of(np.arccosh, 1.0),
    "Asin": _of(np.arcsin, -1.0, 1.0),
    "Asinh": _of(np.arcsinh),
    "Atan": _of(np.arctan),
    "Atanh": _of(np.arctanh, -1.0, 1.0),
    "Celu": _alpha(lambda x, a: np.maximum(x, 0.0) + np.minimum(a * np.expm1(np.minimum(x / a, 0.0)), 0.0)),
    "Cos": _of(np.cos),
    "Cosh": _of(np.cosh),
    "Elu": _alpha(elu),
    "Erf": _of(erf),
    "Exp": _of(np.exp),
    "Gelu": RealFunction(gelu),
    "HardSwish": _of(lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)),
    "Log": _of(np.log, 0.0),
    "Mish": _of(lambda x: x * np.tanh(softplus(x))),
    "Pow": RealFunction(power),
    "Reciprocal": _of(lambda x: 1.0 / x),
    "Selu": RealFunction(_selu),
    "Shrink": RealFunction(shrink),
    "Sigmoid": _of(sigmoid),
    "Sign": _of(np.sign),
    "Sin": _of(np.sin),
    "Sinh": _of(np.sinh),
    "Softplus": _of(softplus),
    "Softsign": _of(lambda x: x / (1.0 + np.abs(x))),
    "Sqrt": _of(np.sqrt, 0.0),
    "Swish": _alpha(lambda x, a: x * sigmoid(a * x)),
    "Tan": _of(np.tan),
    "Tanh": _of(np.tanh),
    "ThresholdedRelu": RealFunction(thresholded),
}

"""Runs as lists of stages: `compile_model`."""

from ptqlab.pipeline.compile import compile_model

__all__ = ["compile_model"]

"""The BPU simulator: runs integer models, by the reference kernels or by an equal fast path."""
from ptqlab.simulate.fast import FastExecutor
from ptqlab.simulate.reference import ReferenceExecutor

__all__ = ["FastExecutor", "ReferenceExecutor"]

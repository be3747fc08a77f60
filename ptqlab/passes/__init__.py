"""From the float graph as it was loaded to the optimized float graph: an explicit, ordered list of small passes.

The result computes the same within float tolerance, is standard ONNX of opset 19, and keeps the names of nodes, inputs
and outputs; names that were fused away are aliases of the node that computes them now.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptqlab.events import Watch
from ptqlab.graph.model import FloatGraph, verify
from ptqlab.passes.adapt import Adapt
from ptqlab.passes.base import Pass, Work
from ptqlab.passes.contract import ReplaceEinsum, SplitGemm
from ptqlab.passes.eliminate import MergeReshapes, MergeTransposes, RemoveDeadNodes, RemoveNoOps
from ptqlab.passes.fold import ConstantsToInitializers, FoldConstants, FoldShapes
from ptqlab.passes.fuse import FuseAffine, FuseMatMulBias, FusePad
from ptqlab.passes.patterns import FuseHardActivation, FuseNormalization, FuseSoftmax
from ptqlab.passes.recurrent import SplitRecurrent
from ptqlab.passes.replace import (
    ReplaceArithmetic,
    ReplaceFlatten,
    ReplaceReduceMean,
    SplitBatchNormalization,
    UnifyClip,
    UnifyGemm,
)

__all__ = ["PIPELINE", "Pass", "Work", "adapt", "optimize"]

# Each group runs until it changes nothing any more; then the next begins.
PIPELINE: tuple[tuple[str, tuple[Pass, ...]], ...] = (
    # constants first: every later pass asks "is this input a constant?"
    ("constant_folding", (ConstantsToInitializers(), FoldShapes(), FoldConstants(), RemoveDeadNodes())),
    # what computes nothing would hide neighbours from each other
    ("eliminate", (RemoveNoOps(), MergeTransposes(), MergeReshapes(), RemoveDeadNodes())),
    # one spelling, so that fusing knows one pattern each; pads and factors then go into the weights
    (
        "fuse",
        (
            SplitRecurrent(),
            ReplaceEinsum(),
            UnifyGemm(),
            SplitGemm(),
            FuseMatMulBias(),
            FusePad(),
            FuseAffine(),
            RemoveDeadNodes(),
        ),
    ),
    # what is still there in a form the BPU does not have; after fusing, which wants BatchNormalization whole.
    # Clip in one spelling, then patterns, so that they need not know every spelling of arithmetic.
    (
        "replace",
        (
            SplitBatchNormalization(),
            UnifyClip(),
            FuseNormalization(),
            FuseSoftmax(),
            FuseHardActivation(),
            ReplaceArithmetic(),
            ReplaceFlatten(),
            ReplaceReduceMean(),
            RemoveNoOps(),
            MergeTransposes(),
            MergeReshapes(),
            RemoveDeadNodes(),
        ),
    ),
)
# a group that still changes after so many rounds works against itself
MOST_ROUNDS = 100


def adapt(graph: FloatGraph, watch: Watch | None = None) -> FloatGraph:
    """The same model in opset 19. PtqError when an old form has no equal there."""
    work = Work(graph, watch or Watch())
    Adapt()(work)
    result = work.done()
    verify(result)
    return result


def optimize(graph: FloatGraph, watch: Watch | None = None) -> FloatGraph:
    """The optimized float graph; `graph` (of any opset `load` takes) is left as it is."""
    watch = watch or Watch()
    work = Work(graph, watch)
    Adapt()(work)
    for name, group in PIPELINE:
        run_group(work, name, group)
    result = work.done()
    verify(result)
    return result


def _apply(work: Work, name: str, one: Pass) -> int:
    changes = one(work)
    if changes:
        places = "1 place" if changes == 1 else f"{changes} places"
        work.watch.log(f"{name}: {type(one).__name__} changed {places}.")
    return changes


def run_group(work: Work, name: str, group: Sequence[Pass]) -> None:
    """Run passes in turn until a whole round changes nothing."""
    before = work.graph.num_nodes()
    for _ in range(MOST_ROUNDS):
        if not sum(_apply(work, name, one) for one in group):
            break
    else:
        raise AssertionError(f"passes of group {name!r} do not come to rest")
    after = work.graph.num_nodes()
    if after != before:
        work.watch.log(f"After {name}, the number of nodes has changed from {before} to {after}.")

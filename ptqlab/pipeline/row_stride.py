"""nv12 planes with padded rows, as a board wants them: each row begins at a multiple of the platform's stride."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from ptqlab.errors import Problem, raise_if, shorten
from ptqlab.ops.integer import DOMAIN
from ptqlab.platforms import PLATFORMS

PLANES = ("Nv12ToYuv",)


def plane_inputs(graph: ir.Graph) -> frozenset[str]:
    """The inputs that are planes of an nv12 image: `<name>_y` [N, H, W, 1] and `<name>_uv` [N, H/2, W/2, 2]."""
    return frozenset(
        str(v.name) for v in graph.inputs if any(n.domain == DOMAIN and n.op_type in PLANES for n, _ in v.uses())
    )


def nv12_alignment(march: str) -> int:
    """Of the rows of nv12 planes in bytes; for a march that is not known, the one that suits every platform."""
    return PLATFORMS[march].nv12_stride if march in PLATFORMS else max(p.nv12_stride for p in PLATFORMS.values())


def row_stride(shape: tuple[int, ...], alignment: int) -> int:
    """Bytes from one row of a plane [N, H, W, C] to the next on a board: W * C, up to a multiple of `alignment`."""
    return -(-shape[2] * shape[3] // alignment) * alignment


def without_padding(
    feeds: Mapping[str, np.ndarray], planes: Mapping[str, tuple[int, ...]], alignment: int
) -> dict[str, np.ndarray]:
    """The feeds, planes whose rows are longer than the image cut to its width.

    planes     input -> shape [N, H, W, C] of the image's plane
    alignment  of the row stride in bytes: 32 or 64 (documented)
    Raises PtqError for rows that are longer than the image and no multiple of the alignment, with the numbers.
    What fits in no other way is left as it is, for the check of types and shapes.
    """
    out, problems = dict(feeds), []
    for name, (n, h, w, c) in planes.items():
        given = feeds.get(name)
        if not isinstance(given, np.ndarray) or given.ndim != 4 or given.dtype != np.uint8:
            continue
        if (given.shape[0], given.shape[1], given.shape[3]) != (n, h, c) or given.shape[2] <= w:
            continue
        stride = given.shape[2] * c
        if stride % alignment:
            problems.append(
                Problem(
                    "PTQ625",
                    f"input '{shorten(name)}'",
                    f"uint8 {list(given.shape)}: {stride} bytes from row to row",
                    f"{w * c} bytes, {[n, h, w, c]}, or padded to a multiple of {alignment}: "
                    f"{row_stride((n, h, w, c), alignment)} or more",
                    "pad each row at its end; the padding is not read",
                )
            )
        else:
            out[name] = given[:, :, :w]
    raise_if(problems, "Running the model")
    return out

"""The input types of a model: what they mean, which run-time type may feed which training type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputType:
    """One word of input_type_rt / input_type_train.

    channels   size of the C axis; None where the type says nothing of the tensor
    layout_rt  layout of the data at run time that the type implies, "" for none (documented)
    runs_as    legal run-time types of a model trained on this type; () where no model is trained on it
    """

    word: str
    channels: int | None
    layout_rt: str
    runs_as: tuple[str, ...]

    @property
    def is_image(self) -> bool:
        return self.word != "featuremap"


INPUT_TYPES: dict[str, InputType] = {
    t.word: t
    for t in (
        InputType("nv12", 3, "", ()),
        InputType("yuv444", 3, "NHWC", ("yuv444", "nv12")),
        InputType("rgb", 3, "NHWC", ("rgb", "bgr", "nv12", "yuv444")),
        InputType("bgr", 3, "NHWC", ("bgr", "rgb", "nv12", "yuv444")),
        InputType("gray", 1, "NCHW", ("gray",)),
        InputType("featuremap", None, "NCHW", ("featuremap",)),
    )
}
RT_TYPES = tuple(INPUT_TYPES)
TRAIN_TYPES = tuple(w for w, t in INPUT_TYPES.items() if t.runs_as)
# Words of the vendor's parser that are not open to users (documented): refused with that reason.
CLOSED_TYPES = ("yuv444_128", "yuv_bt601_full", "yuv_bt601_video", "yuv420sp_bt601_video")
# Where an input's data comes from on the board, and the run-time types each source accepts (documented).
INPUT_SOURCES: dict[str, tuple[str, ...]] = {
    "pyramid": ("nv12", "gray"),
    "resizer": ("nv12", "gray"),
    "ddr": ("rgb", "bgr", "yuv444", "gray", "featuremap"),
}


def default_source(type_rt: str) -> str:
    """`pyramid` for nv12 and gray, else `ddr` (documented)."""
    return "pyramid" if type_rt in ("nv12", "gray") else "ddr"

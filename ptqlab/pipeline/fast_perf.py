"""`fast-perf`: the speed ceiling of a model - everything in int8 on the BPU, superfluous nodes at both ends removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ptqlab.artifacts.files import atomic_write, writing
from ptqlab.config import Config
from ptqlab.config.templates import infer_input
from ptqlab.errors import Problem, PtqError
from ptqlab.events import Watch
from ptqlab.graph import load
from ptqlab.graph.peek import batches_of_one
from ptqlab.pipeline.check import batch_finding
from ptqlab.pipeline.compile import compile_model
from ptqlab.quantize.removal import REMOVABLE_TYPES
from ptqlab.stages.record import Record

FOLDER = Path(".fast_perf")
HEADER = (
    "# Written by fast-perf: the speed ceiling, with random calibration data. For accuracy give cal_data_dir, set the\n"
    "# input types to what the application feeds, and take `optimization: run_fast` out.\n"
    "# fast-perf 生成：性能上限（随机校准数据）。调精度时请填写 cal_data_dir 与输入类型，\n"
    "# 并删除 optimization: run_fast。\n"
)


def fast_perf_model(config: Config, *, watch: Watch | None = None, folder: Path | None = None) -> Record:
    """Compile for speed alone and write `<folder>/<model>_config.yaml` (default folder `.fast_perf`).

    Input types are inferred (an image of even size with 3 channels: bgr fed as nv12; all else featuremap). A dynamic
    batch becomes 1; other dynamic sizes need input_shape. Accuracy means nothing here and is not measured.
    """
    model = config.model.onnx_model
    _refuse_data(config)
    shapes, opened = batches_of_one(model, config.input_shapes)
    loaded = load(model, shapes)
    if opened:
        (watch := watch or Watch()).finding(batch_finding(opened))
    inputs = tuple(infer_input(str(v.name), loaded.shape(str(v.name))) for v in loaded.inputs)
    config = replace(
        config,
        inputs=inputs,
        types_given=True,
        model=replace(config.model, remove_node_type=REMOVABLE_TYPES, remove_node_name=()),
        calibration=replace(config.calibration, optimization="run_fast", calibration_type="skip"),
    )
    record = compile_model(config, watch=watch, kind="fast-perf")
    where = (FOLDER if folder is None else folder) / f"{model.stem}_config.yaml"
    with writing(where):
        atomic_write(where, HEADER + config.to_yaml())
    return record


def _refuse_data(config: Config) -> None:
    if config.calibration.data is not None:
        raise PtqError(
            Problem(
                "PTQ440",
                "calibration_data",
                "calibration data for fast-perf",
                "no data: fast-perf uses random numbers",
                "use compile for figures of accuracy",
            ),
            "fast-perf measures speed only",
        )

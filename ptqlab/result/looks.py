"""The calls behind the verbs that do not compile: check, fast_perf, info, infer, verify, operators, estimate."""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptqlab.events import Watch
from ptqlab.result.api import logged, watched
from ptqlab.result.progress import Progress
from ptqlab.result.shown import (
    CheckResult,
    FastPerfResult,
    InferResult,
    InfoResult,
    OperatorsResult,
    SpeedResult,
    VerifyResult,
)


def check(config: str | Path | Mapping[str, Any] | None = None, /, *, model: Any = None, march: str | None = None,
          input_shape: Any = None, quant_config: Any = None, progress: bool | Progress | None = None,
          watch: Watch | None = None, **more: Any) -> CheckResult:
    """Where every node of a model runs on a platform and why, and what would help. Needs no data, quantizes nothing.

    config        path of a YAML file, a mapping of its structure, or None
    model, march  ONNX file and platform, such as "nash-e"
    input_shape   {input: shape} for a model with dynamic inputs; an open batch alone becomes 1
    more          any key of the YAML by its plain name

    Writes `.check/<model>_config.yaml` in the current folder, a configuration to go on with.
    Raises PtqError with every problem of the model and the configuration.
    """
    from ptqlab import config as configuration
    from ptqlab.pipeline.check import FOLDER, check_model

    settings = configuration.load(config, **_given(model=model, march=march, input_shape=input_shape,
                                                   quant_config=quant_config), **more)
    watch = watch or Watch()
    record = watched(lambda: check_model(settings, watch=watch), watch, progress)
    return CheckResult(record, FOLDER / record.artifacts["config"])


def fast_perf(*, model: Any, march: str, input_shape: Any = None, working_dir: str | Path | None = None,
              prefix: str | None = None, progress: bool | Progress | None = None, watch: Watch | None = None,
              **more: Any) -> FastPerfResult:
    """The speed ceiling of a model: everything in int8 on the BPU, superfluous nodes at both ends removed.

    model, march  ONNX file and platform;  input_shape  as in `check`
    working_dir   where the artifacts go;  prefix  how their names begin (default: the name of the model file)
    more          any key of the YAML by its plain name, such as core_num

    Input types are inferred: an image of even size with 3 channels becomes nv12, all else featuremap. Accuracy is
    not measured. Writes `.fast_perf/<model>_config.yaml` in the current folder. Raises PtqError with every problem.
    """
    from ptqlab import config as configuration
    from ptqlab.pipeline.fast_perf import FOLDER, fast_perf_model

    if prefix is None and isinstance(model, str | Path):
        prefix = re.sub(r'[/\\:*?"<>|]', "_", Path(model).stem).lstrip(".") or None
    settings = configuration.load(None, **_given(model=model, march=march, input_shape=input_shape,
                                                 working_dir=working_dir, prefix=prefix), **more)
    record = logged(settings, lambda watch: fast_perf_model(settings, watch=watch), progress=progress, watch=watch)
    name = f"{settings.model.onnx_model.stem}_config.yaml"
    return FastPerfResult(record, settings.model.working_dir, FOLDER / name)


def info(path: str | Path, *, name: str | None = None, encodings: bool = False) -> InfoResult:
    """What an `.onnx`, `.bc` or `.hbm` says of itself.

    name       of the model in the file; refused when it holds another one
    encodings  also show type, scale and zero point of every integer tensor
    Raises PtqError for a file that is missing, damaged or of another kind.
    """
    from ptqlab.errors import Problem, PtqError, shorten
    from ptqlab.pipeline.info import model_info

    model = model_info(path)
    held = model.settings.get("model_parameters", {}).get("output_model_file_prefix") or model.path.stem
    if name is not None and name not in (held, model.path.stem):
        raise PtqError(Problem("PTQ624", "--name", repr(shorten(name)), f"{held}, the one model in {model.path.name}",
                               "leave it out"), "info")
    return InfoResult(model, encodings=encodings)


def infer(model: str | Path, inputs: Mapping[str, str | Path] | str | Path, output_dir: str | Path, *,
          dump: Sequence[str] = (), form: str = "npy", integers: bool = False) -> InferResult:
    """Run `model` on arrays in `.npy` files and write its outputs into `output_dir`.

    inputs    {input: file}, or the one file of a model with one input
    dump      further tensors of the optimized graph (`.bc`, `.hbm`); "all" for every one
    form      "npy", "bin" (raw) or "txt";  integers  dumped tensors as integers, else dequantized
    Raises PtqError with every problem of the files, names and forms.
    """
    from ptqlab.pipeline.infer import infer as run

    named = inputs if isinstance(inputs, Mapping) else {"": inputs}
    return InferResult(run(model, named, output_dir, dump=dump, form=form, integers=integers))


def verify(first: str | Path, second: str | Path, samples: Any, *, digits: int = 5) -> VerifyResult:
    """Compare two artifacts of one model, output by output: `.hbm` number by number, all else by cosine.

    samples  feeds {input: array}; a list of them; pairs of them where the two models have other inputs
    digits   numbers agree when |a - b| <= 10^-digits
    Raises PtqError for models that share no output and feeds that do not fit.
    """
    from ptqlab.pipeline.verify import verify as compare

    listed = samples if isinstance(samples, list) else [samples]
    return VerifyResult(compare((first, second), listed, digits=digits))


def operators(march: str | None = None, op: str | None = None) -> OperatorsResult:
    """The operator table: what the BPU has, in which types, under which rules. PtqError for unknown names."""
    from ptqlab.report.operators import operator_rows

    return OperatorsResult(operator_rows(march, op), march)


def estimate(layers: str | Path | Sequence[str | Path], march: str, *, core_num: int = 1) -> SpeedResult:
    """Estimated latency of layer tables (JSON lines, also gzipped). PtqError for files that are none."""
    from ptqlab.perf import cli_rows

    files = [layers] if isinstance(layers, str | Path) else list(layers)
    return SpeedResult([{"march": march, **row} for row in cli_rows(files, march, core_num=core_num)])


def _given(**keywords: Any) -> dict[str, Any]:
    return {key: value for key, value in keywords.items() if value is not None}

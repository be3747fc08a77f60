"""The calls that make a result: `ptqlab.compile` and `ptqlab.load`."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ptqlab.artifacts.files import artifact_name, atomic_write
from ptqlab.artifacts.log import RunLog
from ptqlab.artifacts.tables import node_table, output_table
from ptqlab.events import Event, Watch
from ptqlab.result.compiled import CompileResult, load_result
from ptqlab.result.progress import Progress, suited
from ptqlab.result.worker import run_stoppable

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ptqlab.config import Config
    from ptqlab.stages.record import Record

T = TypeVar("T")


def compile(config: str | Path | Mapping[str, Any] | None = None, /, *, model: Any = None, march: str | None = None,
            calibration_data: Any = None, quant_config: Any = None, working_dir: str | Path | None = None,
            input_shape: Any = None, prefix: str | None = None, skip: str | None = None,
            executor: Executor | None = None, progress: bool | Progress | None = None, watch: Watch | None = None,
            **more: Any) -> CompileResult:
    """Quantize a model and simulate it; the result shows what that did to every node.

    config            path of a YAML file, or a mapping of the same structure; None: keywords only
    model, march      ONNX file and platform, such as "nash-e"; needed where `config` does not give them
    calibration_data  a folder, {input: folder}, {input: list of arrays}, or a list of arrays for a single input
    quant_config      a mapping, or the path of a JSON file
    working_dir       where the artifacts go; prefix: how their names begin
    input_shape       {input: shape}, for a model with dynamic inputs
    skip              stop before this stage: "export", "convert" or "compile"; the result is then partial
    executor          concurrent.futures executor for the parts that can run side by side
    progress          True: always told, False: never, None: told where somebody watches
    watch             the caller's own Watch: its listeners hear the run, its `stop()` ends it
    more              any key of the YAML by its plain name; keywords win over `config`

    Raises PtqError with every problem found, and Interrupted when the user stops the run; both leave the
    artifacts of earlier runs as they were. `hb_compile.log` tells the whole story.
    """
    from ptqlab import config as configuration

    keywords = {"model": model, "march": march, "calibration_data": calibration_data, "quant_config": quant_config,
                "working_dir": working_dir, "input_shape": input_shape, "prefix": prefix, "skip": skip}
    settings = configuration.load(config, **{k: v for k, v in keywords.items() if v is not None}, **more)
    return run(settings, executor=executor, progress=progress, watch=watch)


def run(settings: Config, *, executor: Executor | None = None, progress: bool | Progress | None = None,
        watch: Watch | None = None) -> CompileResult:
    """Compile a configuration that is loaded already; else as `compile`."""
    from ptqlab.pipeline import compile_model

    record = logged(settings, lambda watch: compile_model(settings, skip=settings.skip, watch=watch, executor=executor),
                    progress=progress, watch=watch)
    result = CompileResult(record, settings.model.working_dir)
    # folders are in the record; arrays would be gone, and with them every view that measures
    data = None if settings.calibration.folders else settings.calibration.data
    result.data = data[""] if data is not None and "" in data else data
    return result


def logged(settings: Config, work: Callable[[Watch], Record], *, progress: bool | Progress | None,
           watch: Watch | None) -> Record:
    """The record of `work`, which writes artifacts into the working directory; told on screen and in hb_compile.log."""
    watch = watch or Watch()
    folder = settings.model.working_dir
    with RunLog(folder) as log:
        for finding in watch.findings:  # told before the log was open
            log(Event("finding", text=str(finding), finding=finding))
        watch.listeners.append(log)
        try:
            for finding in settings.findings:
                watch.finding(finding)
            record = watched(lambda: work(watch), watch, progress)
            watch.log(node_table(record))
            watch.log(output_table(record))
            if "record" not in record.artifacts:
                atomic_write(folder / artifact_name("record", record.model), record.to_json())
        finally:
            watch.listeners[:] = [listener for listener in watch.listeners if listener is not log]
    return record


def watched(work: Callable[[], T], watch: Watch, progress: bool | Progress | None) -> T:
    """The value of `work()`, done in a thread that can be stopped, with its progress shown."""
    display = progress if isinstance(progress, Progress) else suited(progress)
    watch.listeners.append(display)
    ok = False
    try:
        value = run_stoppable(work, watch, display.draw, display.stopping)
        ok = True
    finally:
        display.close(ok=ok)
        watch.listeners[:] = [listener for listener in watch.listeners if listener is not display]
    return value


def load(directory: str | Path) -> CompileResult:
    """The result that a compile run left in `directory`, or `run.save(directory)` put there; also one record
    file. Needs no model and computes nothing. Raises PtqError when there is none."""
    return load_result(directory)

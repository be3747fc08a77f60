"""The pages at the top level say what is true: verbs, packages, links, examples."""
from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ptqlab.cli.parser import build
from ptqlab.examples import digits

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh.md")
PAGES = sorted(path.name for path in ROOT.glob("*.md"))


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", READMES)
def test_the_table_of_verbs_is_the_parser(name: str) -> None:
    """The README's table of verbs lists the verbs that exist, and no other."""
    heading = "## Verbs" if name == "README.md" else "## 命令"
    section = page(name).split(heading)[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(build().verbs()), f"bring the table of verbs in {name} up to date"


def test_the_readmes_have_the_same_parts() -> None:
    """The Chinese README has the sections, tables and examples of the English one."""
    def shape(name: str) -> list[str]:
        return re.findall(r"^(?:#+|\||```\w*|- )", page(name), re.MULTILINE)

    assert shape("README.zh.md") == shape("README.md")


@pytest.mark.parametrize("name", READMES)
def test_python_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python example of a README runs in a folder where `ptqlab demo` has run."""
    monkeypatch.chdir(tmp_path)
    digits.write_config(tmp_path / "demo_output")
    examples = blocks(name, "python")
    assert examples
    for example in examples:
        exec(compile(example, name, "exec"), {})
    assert (tmp_path / "out16" / "digits_quantized_model.bc").is_file()


def test_the_map_names_the_packages() -> None:
    """The map in ARCHITECTURE.md has every package but examples, and none that the import rules do not know."""
    drawn = next(block for block in blocks("ARCHITECTURE.md", "") if "| placement |" in block)
    named = set()
    for line in drawn.splitlines():
        named |= {word.strip() for word in re.split(r"\s{2,}", line)[0].split("|")}
    project = tomllib.loads(page("pyproject.toml"))
    layers = " ".join(project["tool"]["importlinter"]["contracts"][0]["layers"])
    packages = {path.parent.name for path in (ROOT / "ptqlab").glob("*/__init__.py")} - {"examples"}
    assert packages <= named <= set(re.findall(r"ptqlab\.(\w+)", layers)), "bring the map in ARCHITECTURE.md up to date"


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    """Relative links of a page name files of the project."""
    targets = re.findall(r"\]\(([^)#\s]+)", page(name))
    assert [t for t in targets if "://" not in t and not (ROOT / t).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_files_and_make_targets_named_in_a_page_exist(name: str) -> None:
    """`make x` names a target of the Makefile, and a module path names a module."""
    text, makefile = page(name), page("Makefile")
    targets = set(re.findall(r"`make (?:[A-Z]+=\S+ )*([a-z]+)`", text))
    assert [t for t in sorted(targets) if not re.search(rf"^{t}:", makefile, re.MULTILINE)] == []
    paths = set(re.findall(r"\b((?:ptqlab|tests)/[\w/]+\.py)\b", text))
    assert [p for p in sorted(paths) if not (ROOT / p).is_file()] == []

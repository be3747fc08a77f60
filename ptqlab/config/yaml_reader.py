"""YAML to `Document`: the plain part of YAML, with line numbers, no duplicate keys, no surprises.

Unlike PyYAML's SafeLoader: `1e-3` is a number; keys are text as written (`ON` stays ON); base-60 numbers, dates and
octal `010` are text; a tag or a structure deeper or larger than any configuration is refused. Booleans are those of
the vendor's parser (true, yes, on and their opposites).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ptqlab.config.document import MAX_DEPTH, MAX_NODES, Document, KeyPath, key_path
from ptqlab.errors import Problem, PtqError, shorten

BOOL, INT, FLOAT, NULL, MERGE = (f"tag:yaml.org,2002:{t}" for t in ("bool", "int", "float", "null", "merge"))
STANDARD = {f"tag:yaml.org,2002:{t}" for t in ("bool", "int", "float", "null", "merge", "str", "map", "seq")}
TRUE = {"true", "yes", "on"}
# Numbers longer than 40 characters stay text: no configuration has them and int() of a million digits takes minutes.
RESOLVERS = (
    (BOOL, r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    (
        FLOAT,
        r"(?!.{41})[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)"
        r"|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    (INT, r"(?!.{41})[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)", "-+0123456789"),
    (NULL, r"~|null|Null|NULL|", "~nN\0"),
    (MERGE, r"<<", "<"),
)


class _Refused(Exception):
    def __init__(self, code: str, line: int, found: str, hint: str) -> None:
        self.code, self.line, self.found, self.hint = code, line, found, hint


class _Loader(yaml.SafeLoader):
    """Composes nodes with the resolvers above; refuses depth before Python's recursion limit does."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (PyYAML's own form)
    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Refused(
                "PTQ206",
                self.peek_event().start_mark.line + 1,
                f"values nested more than {MAX_DEPTH} deep",
                "no key needs such a structure",
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


for _tag, _pattern, _first in RESOLVERS:
    _compiled = re.compile(rf"(?:{_pattern})\Z")
    for _char in _first:
        _Loader.yaml_implicit_resolvers.setdefault("" if _char == "\0" else _char, []).append((_tag, _compiled))


class _Dumper(yaml.SafeDumper):
    """Puts text in quotes that either reader would take for something else: `1e3` here, `010` and dates in YAML 1.1."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (PyYAML's own form)
        char: yaml.SafeDumper.yaml_implicit_resolvers.get(char, []) + _Loader.yaml_implicit_resolvers.get(char, [])
        for char in {*yaml.SafeDumper.yaml_implicit_resolvers, *_Loader.yaml_implicit_resolvers}
    }


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Text with a line break of any kind stands in double quotes: other styles fold it."""
    breaks = any(c in text for c in "\n\x85\u2028\u2029")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if breaks else None)


_Dumper.add_representer(str, _text)


class _Builder:
    """Nodes to plain data; gathers lines and duplicate keys, counts what aliases unfold to."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[Problem] = []
        self.count = 0

    def build(self, node: Node, path: KeyPath) -> Any:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > MAX_NODES or len(path) > MAX_DEPTH:
            raise _Refused("PTQ206", line, "aliases that unfold to an unbounded structure", "write the values out")
        if node.tag not in STANDARD:
            raise _Refused("PTQ206", line, f"the YAML tag {shorten(node.tag)}", "write plain values without tags")
        self.lines.setdefault(path, line)
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return scalar(node.tag, node.value)

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        out: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                raise _Refused("PTQ201", line, "a key that is a list or a mapping", "keys are plain words")
            if key_node.tag == MERGE:
                parts = value_node.value if isinstance(value_node, SequenceNode) else [value_node]
                for part in parts:
                    if not isinstance(part, MappingNode):
                        raise _Refused("PTQ201", line, "<< with something that is no mapping", "write the keys out")
                    for key, value in self.mapping(part, path).items():
                        merged.setdefault(key, value)
                continue
            key = key_node.value
            here = (*path, key)
            if key in out:
                first = self.lines[here]
                self.problems.append(
                    Problem(
                        "PTQ205",
                        f"{self.source}:{line}  {key_path(here)}",
                        f"the key {shorten(key)} stands here again",
                        "each key once",
                        f"keep one of the two (the first is in line {first})",
                    )
                )
                continue
            self.lines[here] = line
            out[key] = self.build(value_node, here)
        return {**merged, **out}


def scalar(tag: str, text: str) -> Any:
    """Value of a scalar whose tag was resolved; a tag forced on other text (`!!int x`) leaves the text."""
    try:
        if tag == BOOL:
            return text.lower() in TRUE
        if tag == INT:
            return int(text, 16 if "0x" in text.lower() else 10)
        if tag == FLOAT:
            return float(
                text.replace(".inf", "inf")
                .replace(".Inf", "inf")
                .replace(".INF", "inf")
                .replace(".nan", "nan")
                .replace(".NaN", "nan")
                .replace(".NAN", "nan")
            )
    except ValueError:
        return text
    return None if tag == NULL else text


def write_yaml(data: Any) -> str:
    """YAML text of plain data, which `read_yaml` and the vendor's parser both read back as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)


def read_yaml(text: str, source: str, folder: Path | None = None) -> Document:
    """`Document` of a YAML text. Raises PtqError where it is no YAML; duplicate keys are problems of the result."""
    builder = _Builder(source)
    loader: _Loader | None = None
    title = f"{source} cannot be read"
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        data = None if node is None else builder.build(node, ())
    except _Refused as refused:
        raise PtqError(
            Problem(
                refused.code,
                f"{source}:{refused.line}",
                refused.found,
                "plain YAML: mappings, lists, text, numbers, booleans",
                refused.hint,
            ),
            title,
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        shown = text.splitlines()[line - 1] if line <= len(text.splitlines()) else ""
        hint = (
            "indent with spaces, not tabs" if "\t" in shown else "check indentation, quotes and brackets near this line"
        )
        found = f"{error.problem or error.context or 'broken YAML'}" + (
            f' in "{shorten(shown.strip(), 80)}"' if shown.strip() else ""
        )
        raise PtqError(Problem("PTQ201", f"{source}:{line}", found, "valid YAML", hint), title) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        position = getattr(error, "position", 0)
        line = text.count("\n", 0, position) + 1
        raise PtqError(
            Problem(
                "PTQ201",
                f"{source}:{line}",
                "a character that YAML does not allow",
                "a text file",
                "remove the control character",
            ),
            title,
        ) from None
    finally:
        if loader is not None:
            loader.dispose()
    return Document(data, source, builder.lines, folder, tuple(builder.problems))

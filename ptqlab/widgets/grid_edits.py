"""The quant_config that a grid edits: one value per change, so that undo and redo are a step in a list."""
from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptqlab.config import QuantConfig
from ptqlab.config.quant_fields import ACTIVATION_BY_KEY, LEVEL_KEYS
from ptqlab.errors import Problem, PtqError, nearest, shorten

Quant = dict[str, Any]
#: level -> key of the quant_config, coarse to fine
BLOCKS = {level: key for key, level in LEVEL_KEYS.items()}
LEVELS = tuple(BLOCKS)
#: settings of an entry beside those of its activation block
PLAIN = ("qtype", "ON")
_INPUT = re.compile(r"input\d")


@dataclass(frozen=True)
class Change:
    """One setting that differs from where the editing began; None: the entry does not say it.

    level "model", "op", "subgraph" or "node";  name of the entry, "" for the model
    """

    level: str
    name: str
    key: str
    before: Any
    after: Any


def is_setting(key: object) -> bool:
    """Whether the word is a setting that a row of the grid can have."""
    return isinstance(key, str) and (key in PLAIN or key in ACTIVATION_BY_KEY or _INPUT.fullmatch(key) is not None)


def settings_of(block: Mapping[str, Any], level: str) -> dict[str, Any]:
    """setting -> value of an entry of a quant_config, the keys of its activation block beside the others."""
    qtype = "all_node_type" if level == "model" else "qtype"
    found = {"qtype": block[qtype]} if qtype in block else {}
    found |= {k: v for k, v in block.items() if k == "ON" or _INPUT.fullmatch(k)}
    return found | dict(block.get("activation", {}))


def with_setting(quant: Mapping[str, Any], level: str, name: str, key: str, value: Any) -> Quant:
    """The quant_config with one setting of one entry changed, None: taken out; what is left empty goes.

    A type for the whole entry takes the types of its single inputs out, which would overrule it.
    """
    made: Quant = copy.deepcopy(dict(quant))
    entries = made.setdefault(BLOCKS[level], {})
    block = entries if level == "model" else entries.setdefault(name, {})
    if key in ACTIVATION_BY_KEY:
        _put(block.setdefault("activation", {}), key, value)
        if not block["activation"]:
            del block["activation"]
    else:
        _put(block, "all_node_type" if level == "model" and key == "qtype" else key, value)
        if key == "qtype" and value is not None:
            for other in [k for k in block if _INPUT.fullmatch(k)]:
                del block[other]
    if level != "model" and not block:
        del entries[name]
    if not made[BLOCKS[level]]:
        del made[BLOCKS[level]]
    return made


def _put(block: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        block.pop(key, None)
    else:
        block[key] = value


def entry_names(quant: Mapping[str, Any], level: str, name: str, aliases: Mapping[str, str]) -> str:
    """The name under which an entry for `name` stands or would stand: one of the user's file, or in another case."""
    entries = quant.get(BLOCKS[level], {})
    if level == "op":
        return next((k for k in entries if k.lower() == name.lower()), name)
    if level == "node" and name not in entries:
        return next((k for k in entries if aliases.get(k) == name), name)
    return name


def parsed(quant: Mapping[str, Any], where: str = "grid") -> QuantConfig:
    """The typed form. PtqError with every problem."""
    return QuantConfig.parse(copy.deepcopy(dict(quant)), where)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Settings that differ, coarse levels first, in the order of the entries."""
    found = []
    for level, key in BLOCKS.items():
        old, new = before.get(key, {}), after.get(key, {})
        if level == "model":
            old, new = {"": old}, {"": new}
        for name in dict.fromkeys([*old, *new]):
            was, now = settings_of(old.get(name, {}), level), settings_of(new.get(name, {}), level)
            found += [Change(level, name, k, was.get(k), now.get(k)) for k in dict.fromkeys([*was, *now])
                      if was.get(k) != now.get(k)]
    return found


class History:
    """The quant_configs of an editing session: `now` is the truth, `base` where it began."""

    def __init__(self, base: Mapping[str, Any]) -> None:
        self.base: Quant = copy.deepcopy(dict(base))
        self._steps: list[Quant] = [self.base]
        self._at = 0

    @property
    def now(self) -> Quant:
        return self._steps[self._at]

    @property
    def can_undo(self) -> bool:
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        return self._at < len(self._steps) - 1

    def do(self, quant: Mapping[str, Any]) -> None:
        """Make a quant_config the truth; what was undone before can no longer be redone."""
        if quant == self.now:
            return
        self._steps[self._at + 1:] = [dict(quant)]
        self._at += 1

    def step(self, by: int) -> bool:
        """Back (-1) or forth (1); False where there is nothing."""
        if not 0 <= self._at + by < len(self._steps):
            return False
        self._at += by
        return True

    def rebase(self, base: Mapping[str, Any]) -> None:
        """Count changes from another quant_config on; the steps stay."""
        self.base = copy.deepcopy(dict(base))


def wrong_request(level: object, names: Sequence[object], key: object, known: Mapping[str, Iterable[str]]) -> None:
    """Refuse words that are no level, no entry of it or no setting, all at once, with the nearest names."""
    problems = []
    if level not in LEVELS:
        problems.append(Problem("PTQ670", "level", repr(shorten(level)), ", ".join(LEVELS)))
    if not is_setting(key):
        words = (*PLAIN, "input0", *ACTIVATION_BY_KEY)
        near = nearest(str(key), words, 1)
        problems.append(Problem("PTQ670", "setting", repr(shorten(key)), ", ".join(words),
                                f"did you mean {near[0]!r}?" if near else ""))
    if level in LEVELS and level != "model":
        there = set(known[str(level)])
        for name in names:
            if name not in there:
                near = nearest(str(name), there)
                problems.append(Problem("PTQ671", str(level), repr(shorten(name)), f"a {level} of the model",
                                        f"nearest names: {', '.join(near)}" if near else ""))
    if problems:
        raise PtqError(problems, "grid")

"""The selection that every view of nodes has: asked and set in Python, told to whoever listens."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ptqlab.widgets.assets import View

T = TypeVar("T")


class Listeners(Generic[T]):
    """Functions that are called with what was selected, in the order in which they came."""

    def __init__(self) -> None:
        self._held: list[Callable[[T], object]] = []

    def change(self, callback: Callable[[T], object], remove: bool) -> None:
        """Add a function once, or take it out."""
        if remove:
            self._held = [held for held in self._held if held != callback]
        elif callback not in self._held:
            self._held.append(callback)

    def tell(self, value: T) -> None:
        """Call those that listen now; what they change counts from the next time on."""
        for callback in list(self._held):
            callback(value)


class SelectingView(View):
    """A widget with a selection of nodes. Subclasses give `focus`, which selects nodes on the page."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self._selected: list[str] = []
        self._listeners: Listeners[list[str]] = Listeners()

    @property
    def selected(self) -> list[str]:
        """Names of the selected nodes; setting it selects them on the page."""
        return list(self._selected)

    @selected.setter
    def selected(self, names: Sequence[str]) -> None:
        self.focus(*names)

    def focus(self, *nodes: str) -> None:
        """Select these nodes and show the first. PtqError with the nearest names for an unknown one."""
        raise NotImplementedError

    def on_select(self, callback: Callable[[list[str]], object], *, remove: bool = False) -> None:
        """Call `callback(names)` whenever the selection changes, from either side; `remove`: no longer."""
        self._listeners.change(callback, remove)

    def _select(self, names: list[str]) -> None:
        if names != self._selected:
            self._selected = names
            self._listeners.tell(list(names))

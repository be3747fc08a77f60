"""`%load_ext ptqlab` and `%unload_ext ptqlab`; both may be repeated."""
from __future__ import annotations

from typing import Any

_KEY = "_ptqlab_magics"


def load_ipython_extension(shell: Any) -> None:
    """Give `shell` (an InteractiveShell) the `%ptq` magic, its completion and its `%config`."""
    from ptqlab.notebook.complete import matcher_for
    from ptqlab.notebook.magics import PtqMagics

    if getattr(shell, _KEY, None) is not None:
        return
    magics = PtqMagics(shell)
    shell.register_magics(magics)
    matcher = matcher_for(magics)
    shell.Completer.custom_matchers.append(matcher)
    setattr(shell, _KEY, (magics, matcher))


def unload_ipython_extension(shell: Any) -> None:
    """Take everything back; the variable `ptq_result` stays."""
    held = getattr(shell, _KEY, None)
    if held is None:
        return
    magics, matcher = held
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("ptq", None)
    shell.magics_manager.registry.pop(type(magics).__name__, None)
    if magics in shell.configurables:
        shell.configurables.remove(magics)
    if matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(matcher)
    setattr(shell, _KEY, None)

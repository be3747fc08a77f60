"""ptqlab: post-training quantization for the Horizon BPU, from a notebook.

    import ptqlab
    run = ptqlab.compile("config.yaml")     # or keywords: model=, march=, calibration_data=, ...
    run.nodes, run.outputs, run.explain("conv1"), run.plot_cosine()

In a notebook: `%load_ext ptqlab`, then `%ptq compile -c config.yaml`.
Everything below is imported when it is first asked for, so that `import ptqlab` costs next to nothing.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: public name -> module that defines it.
_HOME = {
    "CompileResult": "ptqlab.result.compiled",
    "Finding": "ptqlab.errors",
    "Problem": "ptqlab.errors",
    "PtqError": "ptqlab.errors",
    "Runtime": "ptqlab.pipeline.runtime",
    "compile": "ptqlab.result.api",
    "load": "ptqlab.result.api",
    "load_ipython_extension": "ptqlab.notebook.extension",
    "set_language": "ptqlab.report.words",
    "unload_ipython_extension": "ptqlab.notebook.extension",
}

__all__ = [
    "CompileResult", "Finding", "Problem", "PtqError", "Runtime", "__version__", "compile", "load",
    "load_ipython_extension", "set_language", "unload_ipython_extension",
]

if TYPE_CHECKING:
    from ptqlab.errors import Finding, Problem, PtqError
    from ptqlab.notebook.extension import load_ipython_extension, unload_ipython_extension
    from ptqlab.pipeline.runtime import Runtime
    from ptqlab.report.words import set_language
    from ptqlab.result.api import compile, load
    from ptqlab.result.compiled import CompileResult


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"ptqlab has no {name!r}; it has {', '.join(sorted(__all__))}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

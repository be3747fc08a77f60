"""ptqlab: post-training quantization for the Horizon BPU, from a notebook.

    import ptqlab
    run = ptqlab.compile("config.yaml")     # or keywords: model=, march=, calibration_data=, ...
    run.nodes, run.outputs, run.explain("conv1"), run.plot_cosine(), run.plot_sensitivity(), run.report("run.html")

In a notebook: `%load_ext ptqlab`, then `%ptq compile -c config.yaml`.
Everything below is imported when it is first asked for, so that `import ptqlab` costs next to nothing.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: public name -> module that defines it.
_HOME = {
    "CheckResult": "ptqlab.result.shown",
    "CompileResult": "ptqlab.result.compiled",
    "SensitivityResult": "ptqlab.result.sensitivity",
    "TuneResult": "ptqlab.result.tuning",
    "FastPerfResult": "ptqlab.result.shown",
    "Finding": "ptqlab.errors",
    "Problem": "ptqlab.errors",
    "PtqError": "ptqlab.errors",
    "Runtime": "ptqlab.pipeline.runtime",
    "Comparison": "ptqlab.result.comparing",
    "DoctorResult": "ptqlab.result.doctor",
    "check": "ptqlab.result.looks",
    "compile": "ptqlab.result.api",
    "doctor": "ptqlab.result.doctor",
    "estimate": "ptqlab.result.looks",
    "fast_perf": "ptqlab.result.looks",
    "infer": "ptqlab.result.looks",
    "info": "ptqlab.result.looks",
    "insert_transpose": "ptqlab.graph.layout",
    "insert_unit_conv": "ptqlab.passes.unit_conv",
    "load": "ptqlab.result.api",
    "load_ipython_extension": "ptqlab.notebook.extension",
    "operators": "ptqlab.result.looks",
    "reduce_periods": "ptqlab.graph.periods",
    "remove_quantization": "ptqlab.graph.unquantize",
    "sensitivity": "ptqlab.result.sensitivity",
    "set_language": "ptqlab.report.words",
    "tune": "ptqlab.result.tuning",
    "verify": "ptqlab.result.looks",
    "unload_ipython_extension": "ptqlab.notebook.extension",
}

__all__ = [
    "CheckResult", "Comparison", "CompileResult", "DoctorResult", "FastPerfResult", "Finding", "Problem",
    "PtqError", "Runtime", "SensitivityResult", "TuneResult", "__version__",
    "check", "compile", "doctor", "estimate", "fast_perf", "infer", "info", "insert_transpose",
    "insert_unit_conv", "load", "load_ipython_extension", "operators", "reduce_periods",
    "remove_quantization", "sensitivity", "set_language", "tune", "unload_ipython_extension", "verify",
]

if TYPE_CHECKING:
    from ptqlab import debug as debug
    from ptqlab.errors import Finding, Problem, PtqError
    from ptqlab.graph.layout import insert_transpose
    from ptqlab.graph.periods import reduce_periods
    from ptqlab.graph.unquantize import remove_quantization
    from ptqlab.notebook.extension import load_ipython_extension, unload_ipython_extension
    from ptqlab.passes.unit_conv import insert_unit_conv
    from ptqlab.pipeline.runtime import Runtime
    from ptqlab.report.words import set_language
    from ptqlab.result.api import compile, load
    from ptqlab.result.comparing import Comparison
    from ptqlab.result.compiled import CompileResult
    from ptqlab.result.doctor import DoctorResult, doctor
    from ptqlab.result.looks import check, estimate, fast_perf, infer, info, operators, verify
    from ptqlab.result.sensitivity import SensitivityResult, sensitivity
    from ptqlab.result.shown import CheckResult, FastPerfResult
    from ptqlab.result.tuning import TuneResult, tune


def __getattr__(name: str) -> Any:
    if name == "debug":  # a module with functions of its own
        return importlib.import_module("ptqlab.debug")
    if name not in _HOME:
        raise AttributeError(f"ptqlab has no {name!r}; it has {', '.join(sorted(__all__))}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

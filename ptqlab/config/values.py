"""The configuration as typed, frozen values: what a run is given after every check has passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptqlab.config.document import KeyPath
from ptqlab.config.image_types import INPUT_TYPES
from ptqlab.config.quant import QuantConfig
from ptqlab.errors import Finding

CalibrationData = Mapping[str, Path] | Mapping[str, Sequence[np.ndarray]]


@dataclass(frozen=True)
class ModelParameters:
    """Group model_parameters. Paths are absolute; lists are tuples, empty where nothing was given."""

    onnx_model: Path
    march: str
    working_dir: Path
    output_model_file_prefix: str = "model"
    output_nodes: tuple[str, ...] = ()
    remove_node_type: tuple[str, ...] = ()
    remove_node_name: tuple[str, ...] = ()
    debug_mode: tuple[str, ...] = ()
    enable_vpu: bool = True
    enable_spu: bool = True


@dataclass(frozen=True)
class InputParameters:
    """One input of the model.

    name              "" until `bind` when the configuration names none
    shape             as configured; filled from the model by `bind`; None before
    mean, scale       per channel (one number: all channels); a configured std is held as scale = 1 / std
    separate          the batch is split into separate inputs
    source            "pyramid", "resizer" or "ddr"
    """

    name: str
    type_rt: str = "featuremap"
    type_train: str = "featuremap"
    layout_train: str = ""
    space_and_range: str = "regular"
    shape: tuple[int, ...] | None = None
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    separate: bool = False
    source: str = "ddr"

    @property
    def is_image(self) -> bool:
        return INPUT_TYPES[self.type_train].is_image


@dataclass(frozen=True)
class CalibrationParameters:
    """Group calibration_parameters.

    data               folders or arrays per input name ("" where the one input has no name yet); None: random data
    raw_types          numpy dtype of raw .bin samples per input name ("" as above)
    calibration_type   "" (search), "max", "kl", "mse" or "skip"
    unit_conv          nodes that a unit conv is put beside
    recipe             word that stands for quant_config entries (`pipeline.presets`)
    thresholds         file of thresholds to be taken as they are
    quant              everything on precision and thresholds, of this group, node_info and quant_config, in one value
    """

    data: CalibrationData | None = field(default=None, compare=False)
    folders: Mapping[str, Path] = field(default_factory=dict)
    raw_types: Mapping[str, str] = field(default_factory=dict)
    calibration_type: str = ""
    per_channel: bool = False
    max_percentile: float | None = None
    run_on_cpu: tuple[str, ...] = ()
    run_on_bpu: tuple[str, ...] = ()
    optimization: str | None = None
    recipe: str | None = None
    thresholds: Path | None = None
    unit_conv: tuple[str, ...] = ()
    quant: QuantConfig = field(default_factory=QuantConfig)


@dataclass(frozen=True)
class CompilerParameters:
    """Group compiler_parameters; balance_factor and cache_mode are those in force."""

    compile_mode: str = "latency"
    balance_factor: int = 100
    optimize_level: str = "O2"
    core_num: int = 1
    max_time_per_fc: int = 0
    jobs: int = 16
    advice: float = 0.0
    debug: bool = True
    input_source: Mapping[str, str] = field(default_factory=dict)
    cache_mode: str = "disable"
    cache_path: Path | None = None
    max_l2m_size: int | None = 0
    extra_params: Mapping[str, Any] = field(default_factory=dict)
    ability_entry: str | None = None


@dataclass(frozen=True)
class Config:
    """A checked configuration.

    inputs       one per entry of the configuration, in its order; empty where it says nothing of inputs (then `bind`
                 makes every input a featuremap)
    types_given  input_type_rt and input_type_train were configured
    skip         stage before which a run stops: "export", "convert", "compile" or None
    findings     deprecations, aliases used, chosen paths
    source       the YAML file, None for the Python forms
    lines        line of every key path in it, for messages of later steps
    """

    model: ModelParameters
    inputs: tuple[InputParameters, ...] = ()
    input_batch: int | None = None
    separate_batch: bool = False
    separate_name: tuple[str, ...] = ()
    types_given: bool = False
    calibration: CalibrationParameters = field(default_factory=CalibrationParameters)
    compiler: CompilerParameters = field(default_factory=CompilerParameters)
    skip: str | None = None
    findings: tuple[Finding, ...] = field(default=(), compare=False)
    source: Path | None = field(default=None, compare=False)
    lines: Mapping[KeyPath, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Configured shapes by input name; the key is "" where the one input has no name."""
        return {i.name: i.shape for i in self.inputs if i.shape is not None}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The configuration in the structure of the YAML: required keys and everything that is not the default.

        Calibration arrays given in Python cannot be written and are left out.
        """
        from ptqlab.config.writing import as_dict

        return as_dict(self)

    def to_yaml(self) -> str:
        """`to_dict` as YAML text; `load` of it gives an equal configuration."""
        from ptqlab.config.writing import as_yaml

        return as_yaml(self)

"""The compile YAML and quant_config of the vendor's tool: read, checked, completed, written back."""

from ptqlab.config.binding import bind
from ptqlab.config.document import Origin
from ptqlab.config.loading import load, load_text
from ptqlab.config.quant import ActivationConfig, NodeRequest, QuantConfig
from ptqlab.config.schema import config_schema, quant_config_schema
from ptqlab.config.templates import infer_input, template
from ptqlab.config.values import (
    CalibrationParameters,
    CompilerParameters,
    Config,
    InputParameters,
    ModelParameters,
)

__all__ = [
    "ActivationConfig",
    "CalibrationParameters",
    "CompilerParameters",
    "Config",
    "InputParameters",
    "ModelParameters",
    "NodeRequest",
    "Origin",
    "QuantConfig",
    "bind",
    "config_schema",
    "infer_input",
    "load",
    "load_text",
    "quant_config_schema",
    "template",
]

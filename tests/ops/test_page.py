"""The published operator table: current, complete, and true to the table it is made from."""
from __future__ import annotations

from pathlib import Path

import pytest

from ptqlab.ops import (
    activation,
    compare,
    conv,
    elementwise,
    floats,
    gather,
    grid_sample,
    layout,
    matmul,
    norm,
    pool,
    reduce,
    resize,
    select,
    softmax,
)
from ptqlab.ops.page import operator_rows, operators_page, sentences
from ptqlab.ops.spec import Role
from ptqlab.ops.table import OPERATORS, spec_of
from ptqlab.platforms import platform

# every operator that public lists name for Nash or the older X5, in ONNX's names
PUBLIC = (
    "Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Celu Clip "
    "Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Div Dropout "
    "Elu Equal Erf Exp Expand Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool "
    "GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HardSigmoid HardSwish Identity "
    "InstanceNormalization LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max MaxPool Min "
    "Mish Mod Mul Neg Not OneHot Or PRelu Pad Pow QuantizeLinear RNN Range Reciprocal ReduceL1 ReduceL2 "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize "
    "ReverseSequence RoiAlign Round ScatterElements ScatterND Selu Shape Sigmoid Sign Sin Sinh Size Slice Softmax "
    "Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose "
    "Unsqueeze Where Xor "
)


def test_the_page_is_current() -> None:
    """OPERATORS.md says what the table says; `python -m ptqlab.ops.page` writes it again."""
    page = Path(__file__).parents[2] / "OPERATORS.md"
    assert page.read_text(encoding="utf-8") == operators_page()


@pytest.mark.parametrize("op", sorted(set(PUBLIC.split(" ")) - {""}))
def test_every_public_operator_is_in_the_table(op: str) -> None:
    """With a source, and with a reason where it runs on the CPU."""
    assert op in OPERATORS
    assert OPERATORS[op].source in ("documented", "log", "our definition")
    if OPERATORS[op].role is Role.FLOAT:
        assert op in OPERATORS[op].note and len(OPERATORS[op].note) > len(op) + 20


def test_operators_of_the_bpu_can_be_lowered() -> None:
    """What may run on the BPU has a way to become integers, and every rule is a sentence."""
    for op, spec in OPERATORS.items():
        assert (spec.lower is None) == (spec.role is Role.FLOAT), op
    assert all(text.endswith(".") and len(text) > 15 for text in sentences(OPERATORS.values()).values())


def test_no_operator_is_listed_twice() -> None:
    """A later entry would hide an earlier one: a reason for the CPU must leave when a kernel comes."""
    families = (activation, compare, conv, elementwise, floats, gather, grid_sample, layout, matmul, norm, pool,
                reduce, resize, select, softmax)
    names = [spec.op_type for family in families for spec in family.SPECS]
    assert sorted(names) == sorted(OPERATORS)


def test_rows() -> None:
    """Those of the BPU first; on nash-e Resize has no int16."""
    rows = operator_rows(platform("nash-e"))
    assert [r.on for r in rows] == sorted(r.on for r in rows)
    assert {r.op_type: r.types for r in rows}["Resize"] == ("int8",)
    assert {r.op_type: r.types for r in operator_rows(platform("nash-b"))}["Resize"] == ("int8", "int16")
    assert "unknown" not in operators_page() and spec_of("Unheard").note.startswith("Unheard runs in float on the CPU")

"""Is this a float model that can be worked with? All answers that need no shapes, gathered in one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]

from ptqlab.errors import Finding, Problem, nearest, shorten
from ptqlab.graph.model import NEWEST_IR, NEWEST_OPSET, OLDEST_OPSET

QUANTIZED = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
    }
)
# operators whose tensors are no plain arrays: sequences, optionals, text
NOT_TENSORS = frozenset(
    {
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceInsert",
        "SequenceErase",
        "SequenceAt",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
        "ConcatFromSequence",
        "Optional",
        "OptionalGetElement",
        "OptionalHasElement",
        "StringNormalizer",
        "StringConcat",
        "StringSplit",
        "RegexFullMatch",
        "TfIdfVectorizer",
        "LabelEncoder",
        "ImageDecoder",
    }
)


def node_label(node: onnx.NodeProto) -> str:
    """How a message names a node: its name, or its operator and output when it has none."""
    if node.name:
        return f"node '{shorten(node.name)}'"
    output = next((o for o in node.output if o), "")
    return f"node of {shorten(node.op_type)} that gives '{shorten(output)}'"


def walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Every node, those inside bodies of If, Loop and Scan included."""
    for node in nodes:
        yield node
        for body in proto_bodies(node):
            yield from walk(body.node)


def proto_bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def default_opset(proto: onnx.ModelProto) -> int | None:
    return next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), None)


def check_text(proto: onnx.ModelProto) -> list[Problem]:
    """Names that are no text (protobuf lets any bytes through) would fail anywhere later."""
    bad: list[bytes] = []

    def look(message: Message) -> None:
        for field, content in message.ListFields():
            values = [content] if isinstance(content, (str, bytes, Message)) else content
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                for inner in values:
                    look(inner)
            elif field.type == FieldDescriptor.TYPE_STRING:
                bad.extend(v for v in values if isinstance(v, bytes))

    look(proto)
    shown = ", ".join(repr(b[:40]) for b in bad[:3])
    expected = "names in UTF-8"
    return [Problem("PTQ103", "the model", f"text that is not UTF-8: {shown}", expected)] if bad else []


def check_versions(proto: onnx.ModelProto) -> tuple[list[Problem], list[Finding]]:
    """Opset 10 to 19; an ir_version above 9 alone is lowered in memory."""
    opset, ir_version = default_opset(proto), proto.ir_version
    if opset is None or not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        found = "no opset given" if opset is None else f"opset {opset}"
        newer = opset is not None and opset > NEWEST_OPSET
        hint = (
            f"export again with opset_version={NEWEST_OPSET}"
            if newer
            else f"export again with opset_version={OLDEST_OPSET} or above, or lift it with onnx.version_converter"
        )
        return [
            Problem(
                "PTQ106",
                "the model",
                f"{found}, ir_version {ir_version}",
                f"opset {OLDEST_OPSET} to {NEWEST_OPSET} and ir_version {NEWEST_IR} or less "
                "(a higher ir_version alone is lowered)",
                hint,
            )
        ], []
    if ir_version > NEWEST_IR:
        return [], [
            Finding(
                "PTQ130",
                f"ir_version {ir_version} was lowered to {NEWEST_IR} in memory; the file is untouched.",
                hint=f"export with ir_version {NEWEST_IR} or less for the vendor's tool",
            )
        ]
    return [], []


def check_nodes(proto: onnx.ModelProto) -> list[Problem]:
    """Domains, operators, attributes and the number of inputs of every node; a model that is quantized already."""
    opset = default_opset(proto)
    assert opset is not None
    problems: list[Problem] = []
    quantized = [n for n in walk(proto.graph.node) if n.op_type in QUANTIZED and n.domain in ("", "ai.onnx")]
    if quantized:
        shown = ", ".join(f"{node_label(n)} ({n.op_type})" for n in quantized[:3])
        more = f" and {len(quantized) - 3} more" if len(quantized) > 3 else ""
        problems.append(
            Problem(
                "PTQ113",
                "the model",
                f"quantized already: {shown}{more}",
                "a float model",
                "give the float model from before quantization, or what ptqlab.remove_quantization makes of this one "
                "(thresholds: this file keeps its ranges)",
            )
        )
    for node in walk(proto.graph.node):
        if node.domain not in ("", "ai.onnx"):
            problems.append(
                Problem(
                    "PTQ107",
                    node_label(node),
                    f"operator {shorten(node.op_type)} of domain {shorten(node.domain)}",
                    "operators of the ONNX standard, or model-local functions of them",
                    "export it as standard operators, or cut the model before it with output_nodes",
                )
            )
        elif node.op_type in NOT_TENSORS:
            problems.append(
                Problem(
                    "PTQ112",
                    node_label(node),
                    f"operator {node.op_type}, which works on sequences, optionals or text",
                    "operators on tensors",
                    "cut the model before it with output_nodes",
                )
            )
        else:
            problems.extend(_check_against_schema(node, opset))
    return problems


def _check_against_schema(node: onnx.NodeProto, opset: int) -> Iterator[Problem]:
    where = node_label(node)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        yield _unknown_operator(node, opset)
        return
    if schema.deprecated and node.op_type != "GroupNormalization":  # deprecated only in favour of opset 21
        found = f"operator {node.op_type} was removed from opset {schema.since_version} on"
        hint = "use Resize" if node.op_type == "Upsample" else "export the model again"
        yield Problem("PTQ108", where, found, f"an operator of opset {opset}", hint)
        return
    counts = (
        (node.input, schema.min_input, schema.max_input, "input"),
        (node.output, schema.min_output, schema.max_output, "output"),
    )
    for given, low, high, what in counts:
        if not low <= len(given) <= high:
            yield Problem("PTQ108", where, f"{_count(len(given), what)} for {node.op_type}", _span(low, high, what))
    option = onnx.defs.OpSchema.FormalParameterOption
    for index, name in enumerate(node.input if schema.inputs else ()):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if not name and formal.option != option.Optional:
            yield Problem(
                "PTQ108", where, f"input {index} ({formal.name}) of {node.op_type} is left out", "a tensor there"
            )
    for attribute in node.attribute:
        expected = schema.attributes.get(attribute.name)
        if expected is None:
            near = nearest(attribute.name, schema.attributes)
            yield Problem(
                "PTQ108",
                where,
                f"attribute '{shorten(attribute.name)}' of {node.op_type} in opset {opset}",
                f"one of {', '.join(sorted(schema.attributes)) or 'none'}",
                f"did you mean {near[0]}?" if near else "",
            )
        elif attribute.type != expected.type.value:
            kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
            yield Problem(
                "PTQ108", where, f"attribute '{attribute.name}' of {node.op_type} is {kind}", f"{expected.type.name}"
            )
    present = {a.name for a in node.attribute}
    for name, formal_attribute in schema.attributes.items():
        if formal_attribute.required and name not in present:
            yield Problem(
                "PTQ108", where, f"attribute '{name}' of {node.op_type} is missing", f"{formal_attribute.type.name}"
            )


def _unknown_operator(node: onnx.NodeProto, opset: int) -> Problem:
    versions: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions[schema.name] = min(schema.since_version, versions.get(schema.name, schema.since_version))
    expected = f"an operator of opset {opset}"
    if node.op_type in versions:
        found = f"operator {node.op_type} does not exist in opset {opset}"
        hint = f"it came with opset {versions[node.op_type]}; opsets up to {NEWEST_OPSET} are taken"
        return Problem("PTQ108", node_label(node), found, expected, hint)
    near = nearest(node.op_type, versions)
    found = f"operator '{shorten(node.op_type)}', which ONNX does not know"
    return Problem("PTQ108", node_label(node), found, expected + (f"; nearest: {', '.join(near)}" if near else ""))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _span(low: int, high: int, what: str) -> str:
    if high > 1000:
        return f"at least {_count(low, what)}"
    return _count(low, what) if low == high else f"{low} to {_count(high, what)}"

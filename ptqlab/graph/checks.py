"""Is this a float model that can be worked with? All answers that need no shapes, gathered in one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

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
ARRAY_TYPES = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.UINT64: "uint64",
}
ALLOWED_TYPES = "a tensor of float, integer or bool elements"


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
                "give the float model from before quantization; quantize-dequantize models are not taken yet",
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
        known = {s.name for s in onnx.defs.get_all_schemas()}
        if node.op_type in known:
            later = onnx.defs.get_schema(node.op_type).since_version
            yield Problem(
                "PTQ108",
                where,
                f"operator {node.op_type} does not exist in opset {opset}",
                f"an operator of opset {opset}",
                f"it came later (version {later}); export with a higher opset, at most {NEWEST_OPSET}",
            )
        else:
            near = nearest(node.op_type, known)
            yield Problem(
                "PTQ108",
                where,
                f"operator '{shorten(node.op_type)}', which ONNX does not know",
                f"an operator of opset {opset}" + (f"; nearest: {', '.join(near)}" if near else ""),
            )
        return
    if schema.deprecated and node.op_type != "GroupNormalization":  # deprecated only in favour of opset 21
        yield Problem(
            "PTQ108",
            where,
            f"operator {node.op_type} was removed from opset {schema.since_version} on",
            f"an operator of opset {opset}",
            "use Resize" if node.op_type == "Upsample" else "export the model again",
        )
        return
    given = len(node.input)
    if not schema.min_input <= given <= schema.max_input:
        yield Problem(
            "PTQ108", where, f"{given} inputs for {node.op_type}", _span(schema.min_input, schema.max_input, "inputs")
        )
    if not schema.min_output <= len(node.output) <= schema.max_output:
        yield Problem(
            "PTQ108",
            where,
            f"{len(node.output)} outputs for {node.op_type}",
            _span(schema.min_output, schema.max_output, "outputs"),
        )
    required = onnx.defs.OpSchema.FormalParameterOption.Single
    for index, formal in enumerate(schema.inputs):
        if formal.option == required and index < given and not node.input[index]:
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


def _span(low: int, high: int, what: str) -> str:
    if high > 1000:
        return f"at least {low} {what}"
    return f"{low} {what}" if low == high else f"{low} to {high} {what}"


def check_types(proto: onnx.ModelProto) -> list[Problem]:
    """Inputs and stored tensors are arrays of numbers."""
    problems = []
    stored = {t.name for t in proto.graph.initializer}
    for value in proto.graph.input:
        if value.name in stored:
            continue
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            problems.append(
                Problem(
                    "PTQ112",
                    f"input '{shorten(value.name)}'",
                    kind.removesuffix("_type") if kind else "no type",
                    ALLOWED_TYPES,
                    "cut the model behind it, or export it with a tensor there",
                )
            )
        elif value.type.tensor_type.elem_type not in ARRAY_TYPES:
            problems.append(
                Problem(
                    "PTQ112",
                    f"input '{shorten(value.name)}'",
                    f"tensor of {_type_name(value.type.tensor_type.elem_type)}",
                    ALLOWED_TYPES,
                )
            )
    for tensor in proto.graph.initializer:
        if tensor.data_type not in ARRAY_TYPES:
            problems.append(
                Problem("PTQ112", f"tensor '{shorten(tensor.name)}'", _type_name(tensor.data_type), ALLOWED_TYPES)
            )
    for sparse in proto.graph.sparse_initializer:
        problems.append(
            Problem("PTQ112", f"tensor '{shorten(sparse.values.name)}'", "sparse", ALLOWED_TYPES, "store it densely")
        )
    for node in walk(proto.graph.node):
        for attribute in node.attribute:
            text = attribute.HasField("t") and attribute.t.data_type not in ARRAY_TYPES
            if (
                text
                or attribute.HasField("sparse_tensor")
                or (node.op_type == "Constant" and attribute.name.startswith("value_string"))
            ):
                problems.append(
                    Problem("PTQ112", node_label(node), "a constant of text or sparse elements", ALLOWED_TYPES)
                )
    return problems


def _type_name(code: int) -> str:
    return (
        onnx.TensorProto.DataType.Name(code).lower() if code in onnx.TensorProto.DataType.values() else f"type {code}"
    )


def check_topology(proto: onnx.ModelProto) -> list[Problem]:
    """Every tensor that is read is produced, and produced once; outputs exist."""
    problems: list[Problem] = []
    graph = proto.graph
    outer: dict[str, str] = {}
    for name in [*(v.name for v in graph.input), *(t.name for t in graph.initializer)]:
        outer[name] = f"input '{shorten(name)}'"
    _check_scope(graph, outer, problems)
    twice = _repeated(v.name for v in graph.input) | _repeated(t.name for t in graph.initializer)
    problems.extend(
        Problem("PTQ110", f"tensor '{shorten(n)}'", "listed twice among the inputs or constants", "one of that name")
        for n in sorted(twice)
    )
    repeated = _repeated(v.name for v in graph.output)
    problems.extend(
        Problem("PTQ110", f"output '{shorten(n)}'", "listed twice among the outputs", "one output of that name")
        for n in sorted(repeated)
    )
    if not graph.output:
        problems.append(Problem("PTQ109", "the model", "no output", "at least one output"))
    return problems


def _check_scope(graph: onnx.GraphProto, outer: dict[str, str], problems: list[Problem]) -> None:
    here = dict(outer)
    for node in graph.node:
        for name in node.output:
            if not name:
                continue
            if name in here:
                problems.append(
                    Problem(
                        "PTQ110",
                        f"tensor '{shorten(name)}'",
                        f"produced by {node_label(node)} and by {here[name]}",
                        "one producer for each tensor",
                    )
                )
            here.setdefault(name, node_label(node))
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name and name not in here:
                problems.append(
                    Problem(
                        "PTQ109",
                        node_label(node),
                        f"input {index} reads tensor '{shorten(name)}', which nothing produces",
                        "an input, a constant or the output of a node",
                        _near(name, here),
                    )
                )
        for body in proto_bodies(node):
            inner = dict(here)
            for name in [*(v.name for v in body.input), *(t.name for t in body.initializer)]:
                inner.setdefault(name, f"input '{shorten(name)}' of a body")
            _check_scope(body, inner, problems)
    for value in graph.output:
        if value.name not in here:
            problems.append(
                Problem(
                    "PTQ109",
                    f"output '{shorten(value.name)}'",
                    "nothing produces it",
                    "an input, a constant or the output of a node",
                    _near(value.name, here),
                )
            )


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"nearest names: {', '.join(shorten(n) for n in near)}" if near else ""


def _repeated(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {n for n in names if n in seen or seen.add(n)}  # type: ignore[func-returns-value]

"""The quantized model as it meets the world: batch, image inputs, debug outputs, nodes removed at head and tail."""

from __future__ import annotations

from dataclasses import dataclass

from ptqlab import config as configuration
from ptqlab.config import Config, InputParameters
from ptqlab.errors import Finding, PtqError
from ptqlab.events import Watch
from ptqlab.graph import FloatGraph
from ptqlab.graph.batch import runs_a_batch, with_batch
from ptqlab.ops.table import spec_of
from ptqlab.pipeline.prepared import prepared
from ptqlab.placement import Asks, place
from ptqlab.platforms import Platform
from ptqlab.quantize.batch_inputs import separated_names, with_separate_batch
from ptqlab.quantize.dump_outputs import with_tensor_outputs
from ptqlab.quantize.image_inputs import with_image_inputs
from ptqlab.quantize.lower import lower
from ptqlab.quantize.removal import Removed, remove_nodes
from ptqlab.stages.calibration import Encodings
from ptqlab.stages.interface import ImageInput
from ptqlab.stages.plan import Plan
from ptqlab.stages.quantized import QuantizedModel

DUMP_ALL = "dump_all_layers_output"
DUMP_DATA = "dump_calibration_data"


@dataclass(frozen=True)
class Interface:
    """The model for `.bc`, the one with nodes removed (None: nothing was), and what was removed."""

    quantized: QuantizedModel
    removed: QuantizedModel | None
    nodes: tuple[Removed, ...]


def batched_graph(graph: FloatGraph, config: Config) -> FloatGraph | None:
    """The optimized graph with the configured batch; None for batch 1. PtqError where the model cannot run a batch."""
    batch = config.input_batch or 1
    if batch == 1:
        return None
    try:
        batched = with_batch(graph, batch)
        fits = runs_a_batch(graph, batched, batch)
    except PtqError:
        fits = False
    if not fits:
        inputs = {str(v.name): (graph.shape(str(v.name)), str(graph.dtype(str(v.name)))) for v in graph.inputs}
        configuration.bind(config, inputs, batchable=False)
        raise AssertionError("bind refuses a model that cannot run a batch")
    return prepared(batched, config)


def build_interface(
    config: Config,
    graph: FloatGraph,
    plan: Plan,
    asks: Asks,
    encodings: Encodings,
    base: QuantizedModel,
    batched: FloatGraph | None,
    target: Platform,
    watch: Watch,
) -> Interface:
    """Everything the configuration says of inputs and outputs, applied to the integer model of batch 1 `base`.

    Order (documented): split the batch, then preprocess, then remove nodes.
    """
    quantized = base if batched is None else lower(batched, place(batched, target, asks), encodings)
    batch = config.input_batch or 1
    separate = [i.name for i in config.inputs if i.separate] if batch > 1 else []
    if separate:
        quantized = with_separate_batch(quantized, separate)
    images = [
        image
        for i in config.inputs
        if i.type_rt != "featuremap"
        for image in _images(i, batch if i.name in separate else 1)
    ]
    quantized = with_image_inputs(quantized, images)
    model = config.model
    removed, nodes, missed = remove_nodes(quantized, model.remove_node_type, model.remove_node_name)
    for reason in missed:
        severity = "warning" if model.remove_node_name else "note"
        watch.finding(Finding("PTQ420", f"nothing was removed for {reason}", severity=severity))
    for node in nodes:
        watch.log(f"removed {node}")
    # debug outputs come last: they are there to be looked at, not to be removed
    if DUMP_ALL in model.debug_mode:
        tensors = [g.output for g in plan.groups.values() if spec_of(graph.node(g.main)).is_tae]
        quantized = with_tensor_outputs(quantized, tensors)
        removed = with_tensor_outputs(removed, tensors)
    return Interface(quantized, removed if nodes else None, tuple(nodes))


def _images(entry: InputParameters, batch: int) -> list[ImageInput]:
    names = separated_names(entry.name, batch) if batch > 1 else [entry.name]
    return [
        ImageInput(
            name,
            entry.type_rt,
            entry.type_train,
            entry.layout_train or "NCHW",
            entry.mean or (0.0,),
            entry.scale or (1.0,),
            entry.space_and_range == "bt601_video",
        )
        for name in names
    ]


def removed_text(nodes: tuple[Removed, ...]) -> str:
    """Contents of deleted_nodes_info.txt: one removed node a line."""
    return "".join(f"{node}\n" for node in nodes)

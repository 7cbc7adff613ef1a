"""What of a model decides whether its test counts: element types, other types, randomness and training."""

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

HELD = {
    getattr(TensorProto, name)
    for name in "FLOAT DOUBLE FLOAT16 BFLOAT16 INT64 INT32 INT16 INT8 UINT8 BOOL COMPLEX64 COMPLEX128".split()
}
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Attributes that name the element type of a result.
TYPE_ATTRIBUTES = {"to", "dtype", "output_dtype"}
TRAINING = "training"


def nodes_of(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes, of subgraphs and functions as well."""
    yield from nodes_in(model.graph.node)
    for function in model.functions:
        yield from nodes_in(function.node)


def nodes_in(nodes) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from nodes_in(graph.node)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def graphs_of(model: ModelProto) -> Iterator[GraphProto]:
    yield model.graph
    for node in nodes_of(model):
        yield from subgraphs(node)


def is_random(model: ModelProto) -> bool:
    return any(node.op_type in RANDOM for node in nodes_of(model))


def operators(model: ModelProto) -> list[str]:
    """The operators of a model, with their domain unless it is ONNX's own."""
    return sorted({f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in nodes_of(model)})


def outside(model: ModelProto, trains: bool = False) -> str:
    """What a model has that Ixion has no type for, or that it trains; empty if there is no such thing."""
    if trains or any(is_training(node) for node in nodes_of(model)):
        return TRAINING
    lacking = {lack for graph in graphs_of(inferred(model)) for lack in lacks(graph)}
    lacking |= {lack for node in nodes_of(model) for lack in node_lacks(node)}
    return ", ".join(sorted(lacking))


def inferred(model: ModelProto) -> ModelProto:
    """The model with the types of what its nodes compute, as far as they can be inferred."""
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception:  # Models of the tests are valid; inference has gaps for the newest operators.
        return model


def is_training(node: NodeProto) -> bool:
    if node.domain == "ai.onnx.preview.training":
        return True
    return any(attribute.name == "training_mode" and attribute.i == 1 for attribute in node.attribute)


def lacks(graph: GraphProto) -> Iterator[str]:
    for info in [*graph.input, *graph.output, *graph.value_info]:
        yield from type_lacks(info.type)
    for tensor in graph.initializer:
        yield from element_lacks(tensor.data_type)
    if graph.sparse_initializer:
        yield "sparse tensors"


def type_lacks(of: TypeProto) -> Iterator[str]:
    kind = of.WhichOneof("value")
    if kind == "tensor_type":
        yield from element_lacks(of.tensor_type.elem_type)
    elif kind is not None:
        yield {"sparse_tensor_type": "sparse tensors"}.get(kind, kind.removesuffix("_type") + "s")


def node_lacks(node: NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            yield from element_lacks(attribute.t.data_type)
        elif attribute.type == AttributeProto.INT and attribute.name in TYPE_ATTRIBUTES:
            yield from element_lacks(attribute.i)
        elif attribute.name.startswith("value_string"):
            yield "string"
        elif attribute.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS):
            yield "sparse tensors"


def element_lacks(data_type: int) -> Iterator[str]:
    if data_type not in HELD and data_type != TensorProto.UNDEFINED:
        yield TensorProto.DataType.Name(data_type).lower()

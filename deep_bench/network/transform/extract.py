"""``extract``: the part of a network between named values."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.prune import needs, prune
from deep_bench.network.transform.draft import Draft


def extract(network: NetworkLike, inputs: Sequence[str], outputs: Sequence[str]) -> Network:
    """The part of a network that computes some of its values from others.

    All values keep their names. What depends on no input of the network stays inside.

    Args:
        network: Any network, or its file.
        inputs: Names of the values to start from: inputs, initializers, or what nodes give.
        outputs: Names of the values to give.

    Raises:
        InvalidArgument: A value that the outermost graph does not have; an output that is an input; or an input of the
            network that the part needs and ``inputs`` does not have.
        InvalidNetwork: The type of one of these values is unknown before a run.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> first = network.nodes[0].outputs[0].name
        >>> head = extract(network, [first], ["logits"])
        >>> [spec.name for spec in head.inputs] == [first], len(network.nodes) - len(head.nodes)
        (True, 1)
    """
    network = as_network(network)
    for kind, names in (("inputs", inputs), ("outputs", outputs)):
        if not names or len(set(names)) != len(names):
            raise InvalidArgument(f"{kind} {list(names)}", "at least one name, and none twice")
    draft = Draft(network, "extracted", oldest=0)
    fed = [_fed(draft, name) for name in inputs]
    results = [draft.value(name) for name in outputs]
    for value in results:
        if value.producer() is None:
            raise InvalidArgument(
                f"the output {value.name!r} is an input or a constant of the part", "what a node of it gives"
            )
        _declare(draft, value)
    draft.graph.outputs[:] = results
    originals = [v for v in draft.graph.inputs if v not in fed]
    draft.graph.inputs[:] = [*fed, *originals]
    prune(draft.graph)
    used = {v for n in draft.graph for v in needs(n)}
    missing = [str(v.name) for v in originals if v in used and v.name not in draft.graph.initializers]
    if missing:
        raise InvalidArgument(
            f"{', '.join(outputs)} of {network.name} needs, besides {', '.join(inputs)}, its input {missing[0]!r}",
            "inputs between which and the outputs lies all that the outputs need",
            f"add {', '.join(map(repr, missing))} to the inputs, or start further back",
        )
    draft.graph.inputs[:] = [v for v in draft.graph.inputs if v in fed or v.name in draft.graph.initializers]
    part = f"{network.name} from {', '.join(inputs)} to {', '.join(outputs)}"
    return Network(draft.network.model, name=part, source=None)


def _fed(draft: Draft, name: str) -> ir.Value:
    """The input that stands for a value."""
    value = draft.value(name)
    if value.is_graph_input() and name not in draft.graph.initializers:
        return value
    _declare(draft, value)
    if isinstance(value.type, ir.TensorType) and value.shape is None:
        draft.dims(value)  # raises: a network must say how many dimensions its inputs have
    stand_in = ir.Value(name=name, type=value.type, shape=value.shape)
    if value.is_graph_output():
        draft.graph.outputs[:] = [v for v in draft.graph.outputs if v is not value]
    value.replace_all_uses_with(stand_in)
    if name in draft.graph.initializers:
        del draft.graph.initializers[name]
        draft.graph.inputs[:] = [v for v in draft.graph.inputs if v is not value]
    value.name = draft.names.fresh(f"{name}.inside")
    draft.graph.inputs.append(stand_in)
    return stand_in


def _declare(draft: Draft, value: ir.Value) -> None:
    """State the type and the dimensions of a value, as inference knows them."""
    value_type = draft.knowledge.type_of(value)
    if value_type is None:
        raise InvalidNetwork(
            f"the type of {value.name!r} in {draft.source.name} is unknown before a run",
            "values whose types follow from the inputs",
            "choose a value beside it",
        )
    value.type = ir.serde.deserialize_type_proto_for_type(value_type)
    value.shape = ir.serde.deserialize_type_proto_for_shape(value_type) or value.shape

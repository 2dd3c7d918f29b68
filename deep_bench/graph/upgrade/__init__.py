"""From an older opset to the newest: what an operator meant then, written as it is written now."""

from __future__ import annotations

import functools

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, RemoveInitializersFromInputsPass

from deep_bench.errors import InvalidArgument, InvalidNetwork, Unsupported
from deep_bench.graph import runtime
from deep_bench.graph.load import OLDEST_OPSET
from deep_bench.graph.network import OPSET, Network
from deep_bench.graph.node import is_standard, operator_name
from deep_bench.graph.upgrade.edit import Edit, Names, Types
from deep_bench.graph.upgrade.rules import RULES

_OLDEST_TARGET = 21

__all__ = ["inline_functions", "newest_schema", "upgrade", "upgrade_nodes"]


def upgrade(network: Network, to: int = OPSET) -> Network:
    """The network in version ``to`` of the default operator set, with the same results.

    Nodes and values keep their names, so that results can be compared by name. Nodes and initializers that an older form
    needs in addition get new names. Functions that the file defines are inlined. Inputs with an initializer, as all
    initializers were before IR version 4, are initializers only.

    Args:
        network: A network in any opset up to `OPSET`; it is not changed. If it uses no operator of the default operator
            set, it counts as written in `OPSET`.
        to: The version to bring it to, at least 21: rules write forms that are the same from then on.

    Returns:
        A new network, or the same one if it is in that version already and defines no functions.

    Raises:
        Unsupported: A node has no exact equivalent; the message names it and says why. Or the opset is newer.

    Example:
        >>> import deep_bench as db
        >>> upgrade(db.load("digits-cnn")).opset == OPSET
        True

    Source:
        The ONNX operators' changelog (``onnx.defs.get_all_schemas_with_history``).
    """
    if network.opset == to and not network.model.functions:
        return network
    if to < _OLDEST_TARGET:
        raise InvalidArgument(f"an upgrade to opset {to}", f"opset {_OLDEST_TARGET} to {OPSET}")
    if not OLDEST_OPSET <= network.opset <= to:
        raise Unsupported(f"{network.name} is written in opset {network.opset}", f"opset {OLDEST_OPSET} to {to}")
    changed = inline_functions(network)
    RemoveInitializersFromInputsPass()(changed.model)
    names, types = Names(changed), Types(changed)
    for node in list(changed.all_nodes()):
        if is_standard(node):
            _upgrade_node(node, node.version or network.opset, names, types, to)
            node.version = None
    _declare(changed.model, to)
    return Network(changed.model, name=network.name, source=None)


def upgrade_nodes(graph: ir.Graph, opset: int, names: Names) -> None:
    """Bring the nodes of a graph that belongs to no network (an operator's body) to version `OPSET`, in place.

    Args:
        graph: Its nodes are in version ``opset``.
        opset: The version they are written in.
        names: Where new names come from.
    """
    if opset < OPSET:
        for node in list(graph.all_nodes()):
            if is_standard(node):
                _upgrade_node(node, opset, names, Types(None))


def inline_functions(network: Network) -> Network:
    """A copy of the network in which the functions that its file defines are replaced by their bodies.

    Raises:
        InvalidNetwork: A function calls itself.
        Unsupported: A function takes a graph as an attribute.
    """
    changed = network.copy()
    model = changed.model
    if not model.functions:
        return changed
    for function in model.functions.values():
        # A function may be written in another version than the network: each node remembers its own.
        version = function.opset_imports.get("", function.opset_imports.get("ai.onnx", network.opset))
        for node in function.all_nodes():
            node.version = version if is_standard(node) else node.version
        function.opset_imports.clear()
        function.opset_imports.update(model.opset_imports)
    try:
        InlinePass()(model)
    except ir.passes.PreconditionError as error:
        raise InvalidNetwork(f"a function of {network.name} calls itself: {error}", "functions without a cycle") from error
    except ValueError as error:
        raise Unsupported(f"a function of {network.name} cannot be inlined: {error}") from error
    return Network(model, name=network.name, source=None)


def _upgrade_node(node: ir.Node, opset: int, names: Names, types: Types, to: int = OPSET) -> None:
    if node.op_type == runtime.NAME:
        return  # it has one version
    edit = Edit(node, opset, names, types)
    if not onnx.defs.has(node.op_type, opset):
        raise edit.unsupported(f"the standard has no such operator in opset {opset}")
    for version, rule in RULES.get(node.op_type, ()):
        if opset < version <= to:
            rule(edit)
    schema = newest_schema(node.op_type, to)
    if schema is None or schema.deprecated:
        raise edit.unsupported(f"opset {to} has no such operator")
    unknown = sorted(set(node.attributes) - set(schema.attributes))
    if unknown:
        raise edit.unsupported(f"opset {to} has no attribute {unknown[0]!r} for {operator_name(node)}")


@functools.cache
def newest_schema(op_type: str, opset: int = OPSET) -> onnx.defs.OpSchema | None:
    """The standard's schema of an operator of the default domain, the newest up to a version."""
    try:
        return onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return None


def _declare(model: ir.Model, opset: int) -> None:
    imports = model.graph.opset_imports
    imports.pop("ai.onnx", None)
    imports[""] = opset
    needed = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    model.ir_version = max(model.ir_version, needed)

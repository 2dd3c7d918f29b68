"""Fewer nodes, fewer outputs, nodes bypassed."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from deep_bench.graph import operator_name
from deep_bench.network.reduction.candidate import Candidate, finished, keep_nodes
from deep_bench.network.reduction.search import Search, minimise
from deep_bench.network.suspect import quiet


def fewer_nodes(search: Search) -> None:
    """Keep as few nodes as will do, fed with the oracle's values where the others were."""
    whole = search.best

    def still(names: Sequence[str]) -> bool:
        chosen = keep_nodes(whole, names)
        return search.offer(chosen, f"{len(names)} of {len(whole.nodes)} nodes kept, the oracle's values fed to them")

    minimise(whole.nodes, still)


def fewer_outputs(search: Search) -> None:
    """Return as few values as will do, without the nodes that only served the others."""
    whole = search.best

    def still(names: Sequence[str]) -> bool:
        chosen = keep_nodes(whole, whole.nodes, outputs=names)
        return search.offer(chosen, f"{len(names)} of {len(whole.network.outputs)} outputs kept")

    minimise([spec.name for spec in whole.network.outputs], still)


def bypass(search: Search) -> None:
    """Let what reads a node read one of its inputs of the same shape and type instead."""
    tried: set[str] = set()
    while len(search.best.nodes) > 1:
        node = next((n for n in search.best.network.nodes if n.op_type != "Constant" and n.name not in tried), None)
        if node is None:
            return
        search.check()
        tried.add(str(node.name))
        for place, source in enumerate(node.inputs):
            if source is not None and _alike(search.best, source, node):
                description = f"node {node.name!r} ({operator_name(node)}) bypassed"
                if search.offer(_without(search.best, str(node.name), place), description):
                    break


def _alike(candidate: Candidate, source: ir.Value, node: ir.Node) -> bool:
    arrays = {**candidate.values, **candidate.network.initializers, **candidate.inputs}
    a, b = arrays.get(str(source.name)), arrays.get(str(node.outputs[0].name))
    return a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype and len(node.outputs) == 1


def _without(candidate: Candidate, name: str, place: int) -> Candidate | None:
    """The candidate with readers of a node's output reading one of its inputs; ``None`` if it returns that output."""
    changed = candidate.network.copy()
    node = next(n for n in changed.nodes if n.name == name)
    (output,), source = node.outputs, node.inputs[place]
    if source is None or output.is_graph_output():
        return None
    ir.convenience.replace_all_uses_with(output, source)
    changed.graph.remove(node, safe=True)
    result = finished(changed, candidate.inputs, {}, keep_values=False)
    return with_declared_outputs(result) if candidate.comparable else result


def with_declared_outputs(candidate: Candidate) -> Candidate | None:
    """The candidate with its outputs declared as the oracle gives them; ``None`` where the reference cannot run it."""
    try:
        with quiet():
            values = candidate.values
    except Exception:  # the change made a network that means nothing: the reference may fail in any way
        return None
    return finished(candidate.network.copy(), candidate.inputs, values)

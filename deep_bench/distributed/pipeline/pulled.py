"""A stage with a loss whose gradient with respect to what leaves it is what came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from deep_bench.graph import Network
from deep_bench.network.transform.draft import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Pulled:
    r"""A network with the further output :math:`\sum_k \langle y_k, g_k \rangle` of some outputs :math:`y_k`.

    Its gradient is the product of the :math:`g_k` with the network's Jacobian, so that anything which differentiates a
    scalar can take a stage's backward pass.

    Args:
        network: With the :math:`g_k` as further inputs.
        loss: Name of the sum.
        seeds: Name of each :math:`y_k` to that of :math:`g_k`.
    """

    network: Network
    loss: str
    seeds: Mapping[str, str]


def pulled(network: Network, outputs: Sequence[str]) -> Pulled:
    """Such a network; sizes stay open.

    Args:
        network: A stage.
        outputs: Which; at least one, of real numbers.

    Example:
        >>> import deep_bench as db
        >>> [str(spec) for spec in pulled(db.load("digits-cnn"), ["logits"]).network.inputs]
        ['image: float32[batch, 1, 8, 8]', 'logits.gradient: float32[batch, 10]']
    """
    draft = Draft(network, "pulled")
    seeds: dict[str, str] = {}
    total: ir.Value | None = None
    for name in outputs:
        value = draft.value(name)
        seed = ir.Value(name=draft.names.fresh(f"{name}.gradient"), type=value.type, shape=value.shape)
        draft.graph.inputs.append(seed)
        seeds[name] = str(seed.name)
        product = _appended(draft, "Mul", value, seed)
        term = _appended(draft, "ReduceSum", product, keepdims=0)
        if value.dtype != draft.value(outputs[0]).dtype:
            term = _appended(draft, "CastLike", term, draft.value(outputs[0]))
        total = term if total is None else _appended(draft, "Add", total, term)
    assert total is not None
    total.name = draft.names.fresh("pulled")
    total.type, total.shape = draft.value(outputs[0]).type, ir.Shape([])
    draft.graph.outputs.append(total)
    return Pulled(draft.finish(), str(total.name), seeds)


def _appended(draft: Draft, operator: str, *inputs: ir.Value, **attributes: int) -> ir.Value:
    settings = [ir.AttrInt64(name, value) for name, value in attributes.items()]
    output = ir.Value(name=draft.names.fresh(f"pulled.{operator}"))
    draft.graph.append(
        ir.Node("", operator, inputs, settings, outputs=[output], name=draft.names.fresh(f"pulled.{operator}"))
    )
    return output

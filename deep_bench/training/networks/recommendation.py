"""Networks that say whether a user will like an item."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.graph import Network
from deep_bench.training.networks.build import Build, check_sizes, whole


def ncf(
    users: int = 943,
    items: int = 1682,
    *,
    factors: int = 8,
    hidden: Sequence[int] = (32, 16, 8),
    seed: int = 0,
) -> Network:
    r"""Neural collaborative filtering (NeuMF): a product of two embeddings beside a network of two others.

    .. math::
        \mathrm{logit} = h^T [\, p_u \odot q_i, \; \mathrm{MLP}([p'_u, q'_i]) \,]

    Args:
        users: Number of users.
        items: Number of items.
        factors: Size of the embeddings that are multiplied.
        hidden: Width of each layer of the network; its embeddings are half as wide as the first layer.
        seed: Of `deep_bench.training.initial.initialize`.

    Returns:
        From ``user`` and ``item``, int64 [batch], to ``logit``, float32 [batch]. Its loss is ``BinaryCrossEntropy``
        (`deep_bench.training.networks.with_loss`).

    Raises:
        InvalidArgument: A size below 1.

    Example:
        >>> [str(spec) for spec in ncf().inputs], [str(spec) for spec in ncf().outputs]
        (['user: int64[batch]', 'item: int64[batch]'], ['logit: float32[batch]'])

    Source:
        He, Liao, Zhang, Nie, Hu and Chua, *Neural collaborative filtering*, WWW 2017, section 3.4.
    """
    check_sizes("ncf", users=users, items=items, factors=factors, hidden=hidden)
    build = Build("ncf", whole("user", "batch"), whole("item", "batch"))
    user, item = build["user"], build["item"]
    product = build.embedded("gmf.user", user, users, factors) * build.embedded("gmf.item", item, items, factors)
    half = max(hidden[0] // 2, 1) if hidden else factors
    x = build.tape.concat(
        [build.embedded("mlp.user", user, users, half), build.embedded("mlp.item", item, items, half)], axis=1
    )
    for number, width in enumerate(hidden, 1):
        x = build.activated(f"mlp.layer{number}", build.linear(f"mlp.layer{number}", x, width), "Relu")
    logit = build.linear("head", build.tape.concat([product, x], axis=1), 1, bias=False)
    return build.finish({"logit": logit.squeeze(1)}, seed=seed)

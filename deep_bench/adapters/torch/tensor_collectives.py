"""Collective operations on tensors that lie on a device, where NumPy cannot look into them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from deep_bench.distributed.communicators.checks import check_reduction
from deep_bench.errors import InvalidArgument, Unsupported

OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class TensorCollectives:
    """Those of one group. What they return is ready in the order of the device's stream; the host may have to wait for that.

    Args:
        group: torch's.
        world: The ranks of the world, in the order of ours.
    """

    def __init__(self, group: Any, world: tuple[int, ...]) -> None:
        self._group, self._world = group, world
        self._in_order = list(world) == sorted(world)

    def allreduce(self, x: torch.Tensor, op: str, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.allreduce`."""
        return self.begun(x, op, out)[0]

    def begun(self, x: torch.Tensor, op: str, out: torch.Tensor | None, *, later: bool = False) -> tuple[torch.Tensor, Any]:
        """An allreduce, and torch's request for it if its end is waited for ``later``."""
        check_reduction(op)
        self._check(x.numel(), x, out)
        target = x.contiguous().clone() if out is None else out
        if out is not None and out is not x:
            out.copy_(x.view(out.shape))
        return target, dist.all_reduce(target, OPS[op], group=self._group, async_op=later)

    def reduce(self, x: torch.Tensor, op: str, root: int) -> torch.Tensor:
        """See `Communicator.reduce`; what other ranks than the root get is of no use."""
        check_reduction(op)
        total = x.contiguous().clone()
        dist.reduce(total, self._world[root], OPS[op], group=self._group)
        return total

    def broadcast(self, x: torch.Tensor, root: int) -> torch.Tensor:
        """See `Communicator.broadcast`."""
        self._check(x.numel(), x, x)
        dist.broadcast(x, self._world[root], group=self._group)
        return x

    def allgather(self, x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.allgather`, without counts."""
        size = len(self._world)
        self._check(x.numel() * size, x, out)
        rows = x.new_empty((size, *x.shape)) if out is None else out
        sorted_rows = [row for _, row in sorted(zip(self._world, rows.view(size, *x.shape), strict=True), key=_first)]
        dist.all_gather(sorted_rows, x.contiguous(), group=self._group)
        return rows

    def reduce_scatter(self, x: torch.Tensor, op: str, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.reduce_scatter`, without counts."""
        check_reduction(op)
        size, rank = len(self._world), self._world.index(dist.get_rank())
        if x.ndim == 0 or len(x) != size:
            raise InvalidArgument(f"{x.dtype}{list(x.shape)} for {size} ranks", f"a tensor of shape ({size}, …)")
        self._check(x.numel() // size, x, out)
        if not self._in_order:
            row = self.begun(x, op, None)[0][rank]
            return row.clone() if out is None else out.copy_(row.view(out.shape))
        row = x.new_empty(x.shape[1:]) if out is None else out
        single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        single(row, x.contiguous(), OPS[op], group=self._group)
        return row

    def alltoall(self, x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.alltoall`."""
        if not self._in_order:
            raise Unsupported("alltoall of tensors in a group with another order of ranks", "arrays in host memory")
        self._check(x.numel(), x, out)
        rows = torch.empty_like(x) if out is None else out
        dist.all_to_all_single(rows, x.contiguous(), group=self._group)
        return rows

    @staticmethod
    def _check(elements: int, x: torch.Tensor, out: torch.Tensor | None) -> None:
        if out is not None and (out.numel() != elements or out.dtype != x.dtype or not out.is_contiguous()):
            raise InvalidArgument(
                f"out: {out.dtype}{list(out.shape)}{'' if out.is_contiguous() else ', not contiguous'}",
                f"{elements} elements of {x.dtype} one after the other",
            )


def _first(pair: tuple[int, torch.Tensor]) -> int:
    return pair[0]

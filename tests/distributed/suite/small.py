"""Distributed optimizers of a few lines, right ones and ones that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.optimizer import DistributedOptimizer

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Small(DistributedOptimizer):
    """An optimizer with a fault that has a name, or none."""

    fault: str = ""

    def init(self, parameters, xp):
        return {"inner": self.inner.init(parameters, xp)}

    def share(self, samples: int | None) -> float:
        if samples is None or self.fault == "unweighted":
            return 1 / self.comm.size
        return samples / int(self.comm.allreduce(np.array([samples]))[0])

    def mean(self, gradients: Arrays, samples: int | None) -> dict[str, np.ndarray]:
        weight = 1 if self.fault == "sum" else self.share(samples)
        if self.fault == "rank 0 dropped" and self.comm.rank == 0 and self.comm.size > 1:
            weight = 0
        return {name: self.comm.allreduce(np.asarray(g * g.dtype.type(weight))) for name, g in gradients.items()}

    def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        if self.fault == "state reset":
            state = self.init(parameters, xp)
        new, inner = self.inner.update(self.mean(gradients, samples), state["inner"], parameters, xp)
        return new, {"inner": inner}


@dataclass(frozen=True)
class Careless(Small):
    """Faults of memory and of agreement, around a right mean."""

    def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        new, state = super().update(gradients, state, parameters, xp, samples=samples)
        if self.fault == "gradients overwritten":
            gradients["bias"][...] = 0
        if self.fault == "memory used again":
            for name, x in parameters.items():
                x[...] = new[name]
            new = parameters
        if self.fault == "last bit" and self.comm.rank == self.comm.size - 1 and self.comm.size > 1:
            new = {name: np.nextafter(x, x.dtype.type(9)) for name, x in new.items()}
        if self.fault == "float64":
            new = {name: x.astype(np.float64) for name, x in new.items()}
        if self.fault == "other names":
            new = {f"{name}'": x for name, x in new.items()}
        return new, state


@dataclass(frozen=True)
class Ring(Small):
    """D-PSGD on a ring, or what averages gradients instead."""

    promise = "contracting"

    def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        if self.fault.startswith("gradients averaged"):
            first = self.fault.endswith("for good") and state["inner"]["steps"] == 0
            parameters = {n: x + x.dtype.type(self.comm.rank) for n, x in parameters.items()} if first else parameters
            new, inner = self.inner.update(self.averaged(gradients), state["inner"], parameters, xp)
            return new, {"inner": inner}
        if self.fault == "step from the average":
            parameters = self.averaged(parameters)
            new, inner = self.inner.update({n: 2 * g for n, g in gradients.items()}, state["inner"], parameters, xp)
            return new, {"inner": inner}
        new, inner = self.inner.update(gradients, state["inner"], parameters, xp)
        average = self.averaged(parameters) if self.fault != "not averaged" else parameters
        return {n: np.asarray(average[n] + (new[n] - x)) for n, x in parameters.items()}, {"inner": inner}

    def averaged(self, arrays: Arrays) -> dict[str, np.ndarray]:
        rank, size = self.comm.rank, self.comm.size
        near = sorted({(rank - 1) % size, (rank + 1) % size} - {rank})
        found = {}
        for name, x in arrays.items():
            terms = [x, *self.comm.exchange(x, near, near).values()]
            found[name] = np.asarray(sum(terms) / x.dtype.type(len(terms)), x.dtype)
        return found


@dataclass(frozen=True)
class Largest(Small):
    """Top-k with error feedback, or without."""

    k: float = 0.1

    def init(self, parameters, xp):
        residual = np.zeros(sum(x.size for x in parameters.values()), next(iter(parameters.values())).dtype)
        return {**super().init(parameters, xp), "residual": residual}

    def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        weight = self.share(samples)
        vector = state["residual"] + np.concatenate([gradients[n].reshape(-1) * weight for n in reversed(list(gradients))])
        count = int(np.ceil(self.k * vector.size))
        left_out = np.argsort(-np.abs(vector), kind="stable")[count:]
        sent = vector.copy()
        sent[left_out] = 0
        residual = np.zeros_like(vector) if self.fault == "no error feedback" else vector - sent
        whole, found, begin = self.comm.allreduce(sent), {}, 0
        for name in reversed(list(gradients)):
            size = gradients[name].size
            found[name] = whole[begin : begin + size].reshape(gradients[name].shape)
            begin += size
        new, inner = self.inner.update(found, state["inner"], parameters, xp)
        return new, {"inner": inner, "residual": residual}


@dataclass(frozen=True)
class Sharded(Small):
    """ZeRO-1 parameter by parameter, each cut into as many parts as there are ranks."""

    def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        mean = self.mean(gradients, samples)
        new, inner = self.inner.update(mean, state["inner"], parameters, xp)
        for name, x in new.items():
            edges = [x.size * rank // self.comm.size for rank in range(self.comm.size + 1)]
            begin, end = edges[self.comm.rank], edges[self.comm.rank + 1]
            part = parameters[name].reshape(-1).copy()
            part[begin : end - (self.fault == "off by one")] = x.reshape(-1)[begin : end - (self.fault == "off by one")]
            counts = np.diff(edges).tolist()
            new[name] = self.comm.allgather(part[begin:end].copy(), counts).reshape(x.shape)
        return new, {"inner": inner}


def broadcast(comm: Communicator, x: dict[str, np.ndarray]) -> dict[str, Any]:
    """Rank 0's parameters for all."""
    return {name: comm.broadcast(array, 0) for name, array in x.items()}


def no_broadcast(comm: Communicator, x: dict[str, np.ndarray]) -> dict[str, Any]:
    """Each rank its own."""
    return x

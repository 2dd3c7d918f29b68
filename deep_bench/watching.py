"""An executor that tells a callback what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from time import perf_counter_ns
from typing import Any, TypeVar

from deep_bench.errors import Stopped, Unsupported
from deep_bench.events import Callback, Moment, NodeEvent
from deep_bench.framework import Executor
from deep_bench.node_profile import NodeProfile

A = TypeVar("A")
_NODES = frozenset({Moment.BEFORE_NODE, Moment.AFTER_NODE})


class Watched(Executor[A]):
    """Another executor, with a callback told of some of its moments.

    It holds the other one, which knows nothing of it: what nobody watches costs what it always did.

    Args:
        executor: What runs.
        callback: Told of each moment; when it returns ``True`` the run ends with `Stopped`.
        moments: Those to tell of.

    Raises:
        Unsupported: A moment that the executor cannot report.
    """

    def __init__(self, executor: Executor[A], callback: Callback, moments: Iterable[Moment]) -> None:
        requested = frozenset(moments)
        if unknown := requested - executor.events:
            raise Unsupported(
                f"{type(executor).__name__} cannot report {', '.join(sorted(m.value for m in unknown))}",
                f"some of {', '.join(sorted(m.value for m in executor.events))}",
                "watch fewer moments; the reference reports every node",
            )
        self.device, self.inputs, self.output_names = executor.device, executor.inputs, executor.output_names
        self.parameters, self.forms, self.network = executor.parameters, executor.forms, executor.network
        self._executor, self._callback, self._moments = executor, callback, requested
        self._calls = count()

    def forward(self, inputs: Mapping[str, A]) -> dict[str, A]:
        """Run the network and report."""
        if self._moments & _NODES:
            return self._call(lambda: self._executor.walk(inputs, self._numbered()))
        return self._call(lambda: self._executor.forward(inputs))

    def bind(self, inputs: Mapping[str, A]) -> Callable[[], dict[str, A]]:
        """A call that runs the network on these inputs and reports."""
        if self._moments & _NODES:
            return lambda: self.forward(inputs)
        return self._told(self._executor.bind(inputs))

    def gradients(
        self,
        inputs: Mapping[str, A],
        loss: str,
        *,
        wrt: Sequence[str] | None = None,
        on_ready: Callable[[str, A], None] | None = None,
    ) -> tuple[dict[str, A], dict[str, A]]:
        """Run and differentiate the network, and report the call.

        Raises:
            Unsupported: Nodes are watched: those of the way back are no nodes of the network.
        """
        if self._moments & _NODES:
            raise Unsupported("nodes are not reported while gradients are computed", "moments of calls only")
        return self._call(lambda: self._executor.gradients(inputs, loss, wrt=wrt, on_ready=on_ready))

    def profile(
        self, inputs: Mapping[str, A], *, repeat: int = 20, loss: str | None = None, wrt: Sequence[str] | None = None
    ) -> NodeProfile:
        """The profile of the executor itself, without the callback."""
        return self._executor.profile(inputs, repeat=repeat, loss=loss, wrt=wrt)

    def algorithms(self, inputs: Mapping[str, A]) -> Mapping[str, tuple[str, ...] | str]:
        """That of the executor that is watched; the callback is not told of it."""
        return self._executor.algorithms(inputs)

    def _told(self, run: Callable[[], dict[str, A]]) -> Callable[[], dict[str, A]]:
        """A call that does the same as `_call`, with everything at hand that it needs: it is timed."""
        tell, numbers, clock = self._callback, self._calls, perf_counter_ns
        before, after = (moment if moment in self._moments else None for moment in (Moment.BEFORE_CALL, Moment.AFTER_CALL))

        def call() -> dict[str, A]:
            index = next(numbers)
            if before is not None and tell(before, index, clock(), None) is True:
                raise _stopped(before, index)
            result = run()
            if after is not None and tell(after, index, clock(), None) is True:
                raise _stopped(after, index)
            return result

        return call

    def _call(self, run: Callable[[], Any]) -> Any:
        index = next(self._calls)
        self._tell(Moment.BEFORE_CALL, index, None)
        result = run()
        self._tell(Moment.AFTER_CALL, index, None)
        return result

    def _numbered(self) -> Callable[[Moment, NodeEvent], None]:
        """What a walk tells: nodes are numbered as they begin; a subgraph's lie between those of the node around it."""
        numbers, begun = count(), list[int]()

        def tell(moment: Moment, event: NodeEvent) -> None:
            if moment is Moment.BEFORE_NODE:
                begun.append(next(numbers))
            self._tell(moment, begun[-1] if moment is Moment.BEFORE_NODE else begun.pop(), event)

        return tell

    def _tell(self, moment: Moment, index: int, data: NodeEvent | None) -> None:
        if moment in self._moments and self._callback(moment, index, perf_counter_ns(), data) is True:
            raise _stopped(moment, index, data)


def _stopped(moment: Moment, index: int, data: NodeEvent | None = None) -> Stopped:
    where = f"node {data.node!r}" if data is not None else f"call {index}"
    return Stopped(f"a callback stopped the run at {moment.value}, {where}")

"""A checkpoint of another scheme is refused with both names and a way out, whatever is allowed to have changed."""

from __future__ import annotations

from typing import Any

import pytest

from deep_bench.distributed.communicators.local import run_local
from deep_bench.errors import InvalidArgument
from tests.distributed.training.ranks import together


@pytest.mark.parametrize("size", [2, 3])
def test_another_scheme_is_named_and_there_is_a_way_out(size: int) -> None:
    def written(comm: Any) -> Any:
        trainer = together(comm, "averaging")
        trainer.run(steps=2)
        return trainer.snapshot()

    snapshot = run_local(2, written)[0]

    def refused(comm: Any, scheme: str, changed: bool) -> str:
        try:
            together(comm, scheme).restore(snapshot if comm.rank == 0 else None, changed=changed)
        except InvalidArgument as error:
            return str(error)
        return ""

    for changed in (False, True):
        for told in run_local(size, lambda comm, changed=changed: refused(comm, "allreduce", changed)):
            assert "Averaging(inner=Momentum(" in told.partition("What to do: ")[0]
            assert "AllReduce(inner=Momentum(" in told.partition("What to do: ")[0]
            assert "'From the parameters of another run'" in told.partition("What to do: ")[2]
            assert "lacks" not in told


def test_a_scheme_whose_state_fits_goes_on_if_that_is_wanted() -> None:
    def written(comm: Any) -> Any:
        trainer = together(comm, "allreduce")
        trainer.run(steps=2)
        return trainer.snapshot()

    snapshot = run_local(2, written)[0]

    def on_rank(comm: Any) -> int:
        trainer = together(comm, "hierarchical")
        with pytest.raises(InvalidArgument, match="another optimizer: AllReduce"):
            trainer.restore(snapshot if comm.rank == 0 else None)
        trainer.restore(snapshot if comm.rank == 0 else None, changed=True)
        return trainer.run(steps=3).steps

    assert run_local(2, on_rank) == [3, 3]

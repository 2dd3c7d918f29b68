"""A rank that fails ends the others."""

import sys

import pytest

from deep_bench.distributed import end_all_on_exception, guarded, run_local
from deep_bench.errors import CommunicationFailed, InvalidArgument


def test_a_failure_ends_all_ranks():
    def fails(comm):
        with guarded(comm):
            if comm.rank == 1:
                raise InvalidArgument("a step of 0")
            comm.barrier()

    with pytest.raises(CommunicationFailed, match="rank 1 ended the run: InvalidArgument: a step of 0"):
        run_local(3, fails)


@pytest.mark.parametrize("code", [None, 0])
def test_a_good_end_is_an_end(code):
    def leaves(comm):
        with guarded(comm):
            raise SystemExit(code)

    with pytest.raises(SystemExit):
        run_local(1, leaves)


def test_a_status_ends_all_ranks():
    def leaves(comm):
        with guarded(comm):
            sys.exit(3)

    with pytest.raises(CommunicationFailed, match="SystemExit: 3"):
        run_local(1, leaves)


def test_exceptions_that_nobody_catches(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def fails(comm):
        end_all_on_exception(comm)
        sys.excepthook(InvalidArgument, InvalidArgument("a step of 0"), None)

    with pytest.raises(CommunicationFailed, match="ended the run: InvalidArgument: a step of 0"):
        run_local(1, fails)

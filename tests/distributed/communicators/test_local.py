"""Ranks as threads: the conformance suite, and what is told when they wait for each other for ever."""

import numpy as np
import pytest

import deep_bench as db
from deep_bench.distributed import ANY, run_local
from deep_bench.errors import CommunicationFailed, InvalidArgument
from deep_bench.testing.communicators import RANKS, check_communicator, check_in_threads, main


@pytest.mark.parametrize("ranks", RANKS)
def test_conforms(ranks):
    assert run_local(ranks, check_communicator) == [{}] * ranks


def test_conforms_whatever_rank_goes_on():
    assert run_local(3, check_communicator, order=5) == [{}] * 3


def test_conforms_when_counted():
    assert check_in_threads(db.communicators["counting"], 3) == {}


def test_the_suite_on_the_command_line(capsys):
    assert main(["local", "--ranks", "2"]) == 0
    assert capsys.readouterr().out == "local: all in order\n"


def test_a_deadlock_is_told_as_itself_with_what_each_rank_waits_for():
    def both_receive(comm):
        if comm.rank < 2:
            comm.recv(np.zeros(1), 1 - comm.rank, tag=comm.rank)

    with pytest.raises(CommunicationFailed) as caught:
        run_local(3, both_receive)
    assert caught.value.came == (
        "no rank can go on: rank 0 waits for a message from rank 1 with tag 0; "
        "rank 1 waits for a message from rank 0 with tag 1"
    )


def test_the_rank_that_raised_first_is_told():
    def fails(comm):
        if comm.rank == 1:
            raise ValueError("no such sample")
        comm.barrier()

    with pytest.raises(ValueError, match="no such sample") as caught:
        run_local(3, fails)
    assert caught.value.__notes__ == ["on rank 1 of 3"]


def test_a_drawn_order_can_be_repeated():
    def who_comes_first(comm):
        if comm.rank:
            return comm.send(np.array([comm.rank]), 0)
        return [comm.recv(np.zeros(1, np.int64), ANY).source for _ in range(comm.size - 1)]

    orders = set()
    for seed in range(8):
        choices = []
        first = run_local(4, who_comes_first, order=seed, choices=choices)[0]
        assert run_local(4, who_comes_first, order=choices)[0] == first
        orders.add(tuple(first))
    assert len(orders) > 1
    with pytest.raises(InvalidArgument, match="cannot be followed"):
        run_local(4, who_comes_first, order=[0])


def test_a_message_that_is_too_long_or_of_another_type_is_refused():
    def too_long(comm):
        if comm.rank:
            comm.send(np.zeros(3), 0)
        else:
            comm.recv(np.zeros(2), 1)

    with pytest.raises(CommunicationFailed, match="3 elements of float64"):
        run_local(2, too_long)


def test_made_alone_it_is_one_rank():
    comm = db.communicators["local"]()
    assert (comm.rank, comm.size) == (0, 1)
    assert check_communicator(comm) == {}


def test_registry_names_what_there_is():
    assert {"counting", "local", "mpi", "torch"} <= set(db.communicators)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda comm, x: comm.broadcast(x, comm.rank), r"rank 1 calls broadcast\(.*root=1\), and rank 0 broadcast"),
        (lambda comm, x: comm.allreduce(x, ("sum", "max")[comm.rank]), "op=max.*op=sum"),
        (lambda comm, x: comm.allgather(x, [(2, 3), (2, 2)][comm.rank]), "counts"),
        (lambda comm, x: comm.allgather(x[: comm.rank + 1]), "2 elements of float64.*1 elements of float64"),
        (lambda comm, x: comm.allreduce(x.astype(("f4", "f8")[comm.rank])), "float64.*float32"),
        (lambda comm, x: comm.barrier() if comm.rank else comm.reduce(x), "allreduce.*reduce"),
        (
            lambda comm, x: comm.send(x, 0, 7) if comm.rank else None,
            "2 elements of float64 with tag 7 from rank 1 to rank 0",
        ),
    ],
)
def test_ranks_that_do_not_match_are_told(call, told):
    with pytest.raises(CommunicationFailed, match=told):
        run_local(2, lambda comm: call(comm, np.zeros(2)))

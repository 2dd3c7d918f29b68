"""The messages of few ranks as those of many: what generalises, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deep_bench.distributed.scaling.pattern import (
    PEERS,
    CallSlot,
    DoesNotGeneralise,
    Form,
    Pattern,
    check_pattern,
    fitted_form,
    generalised,
    groups,
    learned_pattern,
)
from deep_bench.distributed.scaling.trace import CallPhase, RunTrace, TracedCall, scheme_to_trace, traced
from deep_bench.distributed.schemes.neighbours import TOPOLOGIES
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.recipes import load_recipe

SMALL = load_recipe(str(Path(__file__).with_name("small.yaml")))
PARAMETERS = 4 * (64 * 8 + 8 + 8 * 10 + 10)
ALL = ("all ranks", groups(2)["all ranks"])


def of(pattern: Pattern, ranks: int, steps: int = 6) -> RunTrace:
    """The trace that a pattern would give."""
    return RunTrace(ranks, tuple(tuple(pattern.step(ranks, r, t) for t in range(1, steps + 1)) for r in range(ranks)))


def with_call(trace: RunTrace, rank: int, step: int, call: TracedCall) -> RunTrace:
    """A trace whose last call of a rank in a step is another."""
    rows = [list(steps) for steps in trace.steps]
    rows[rank][step] = (*rows[rank][step][:-1], call)
    return RunTrace(trace.ranks, tuple(map(tuple, rows)))


def one_slot(slot: CallSlot) -> Pattern:
    return Pattern((((slot,),),), ("all ranks alike", lambda _: 0), ())


def exchange(to: str, sources: str) -> Pattern:
    size = Form("80", lambda _: 80)
    return one_slot(CallSlot("exchange", CallPhase.UPDATING, size, to=(to, PEERS[to]), sources=(sources, PEERS[sources])))


EXCHANGES = {
    name: exchange(name, back)
    for name, back in (
        ("both beside on a ring", "both beside on a ring"),
        ("the four beside on a torus", "the four beside on a torus"),
        ("those 1, 2, 4 … further", "those 1, 2, 4 … before"),
        ("one of those 1, 2, 4 … further, in turn", "one of those 1, 2, 4 … before, in turn"),
        ("all others", "all others"),
    )
}  # fmt: skip


@pytest.mark.parametrize("name", EXCHANGES)
def test_known_exchanges_are_found_again_and_hold_for_other_numbers(name: str) -> None:
    true = EXCHANGES[name]
    found = generalised([of(true, ranks) for ranks in (2, 3, 4, 5, 8)])
    for ranks in (6, 7, 16, 64):
        check_pattern(found, of(true, ranks))
    assert found.steps[0][0][0].to[0] == name


@pytest.mark.parametrize(("form", "topology"), [
    ("both beside on a ring", "ring"), ("the four beside on a torus", "torus"), ("those 1, 2, 4 … further", "exponential"),
    ("all others", "complete"),
])  # fmt: skip
def test_forms_are_those_of_the_topologies(form: str, topology: str) -> None:
    for ranks in (2, 3, 12, 16, 17):
        graph = TOPOLOGIES[topology](ranks)
        assert [tuple(sorted(PEERS[form](ranks, rank, 0))) for rank in range(ranks)] == list(graph.to)


def test_sizes_that_follow_a_form() -> None:
    for form in (lambda p: 7, lambda p: 7 * p, lambda p: 12 * (p - 1), lambda p: round(12000 / p), lambda p: 5 + 3 * p):
        found = fitted_form({p: form(p) for p in (2, 3, 4)})
        assert found is not None
        assert [found.at(p) for p in (2, 12, 64)] == [form(p) for p in (2, 12, 64)]


def test_a_pattern_that_fits_but_is_not_that_of_another_number_is_refused() -> None:
    beside = EXCHANGES["both beside on a ring"]
    pattern = generalised([of(beside, ranks) for ranks in (2, 3)])  # among so few they are all others
    with pytest.raises(DoesNotGeneralise, match=r"rank 0 of 5 in step 1: exchange of 80 bytes to \[1, 4\]"):
        check_pattern(pattern, of(beside, 5))


def test_sizes_that_depend_on_the_data_are_refused() -> None:
    traces = [of(EXCHANGES["both beside on a ring"], ranks) for ranks in (2, 3, 4)]
    odd = traces[2].steps[1][3][-1]
    traces[2] = with_call(traces[2], 1, 3, replace(odd, size=96))
    with pytest.raises(DoesNotGeneralise, match="depends on the data"):
        generalised(traces)


def test_sizes_of_no_known_form_are_refused() -> None:
    odd = one_slot(CallSlot("allreduce", CallPhase.UPDATING, Form("?", lambda p: p**3 + 1), ALL))
    with pytest.raises(DoesNotGeneralise, match="9 at 2, 28 at 3, 65 at 4"):
        generalised([of(odd, ranks) for ranks in (2, 3, 4)])


def test_the_messages_of_a_server_with_roles() -> None:
    scheme = scheme_to_trace("parameter-server", SMALL)
    seen: list[int] = []
    pattern = learned_pattern(SMALL, "reference", scheme, steps=3, advance=seen.append)
    assert (seen, pattern.fitted, pattern.checked) == ([2, 3, 4, 5, 8], (2, 3, 4), (5, 8))
    agree, recv, broadcast = pattern.step(1000, 0, 1)
    assert (agree.size, agree.phase, len(agree.group)) == (40, CallPhase.AGREEING, 1000)
    assert (recv.operation, recv.size, recv.sources) == ("recv", PARAMETERS, tuple(range(1, 1000)))
    assert (broadcast.operation, broadcast.root) == ("broadcast", 0)
    assert pattern.step(1000, 999, 1)[1].to == (0,)
    assert pattern.volume(1000)[1] > PARAMETERS


def test_groups_and_turns_of_real_schemes() -> None:
    scheme = scheme_to_trace("hierarchical:per_node=2", SMALL)
    pattern = generalised([traced(SMALL, "reference", scheme, ranks, steps=3) for ranks in (2, 3, 4, 6)])
    reduce, between, _ = pattern.step(64, 4, 1)[1:]
    assert (reduce.group, between.operation, between.group) == ((4, 5), "allreduce", tuple(range(0, 64, 2)))
    assert [call.operation for call in pattern.step(64, 5, 1)[1:]] == ["reduce", "broadcast"]

    scheme = scheme_to_trace("averaging:every=2", SMALL)
    pattern = generalised([traced(SMALL, "reference", scheme, ranks) for ranks in (2, 3)])
    assert [len(pattern.step(64, 3, step)) for step in range(1, 5)] == [2, 1, 2, 1]


def test_uneven_samples_ask_for_their_number_beside_the_gradients() -> None:
    scheme = scheme_to_trace("allreduce", SMALL)
    step = traced(SMALL, "reference", scheme, 2, steps=3, uneven=True).steps[0][0]
    expected = [(40, CallPhase.AGREEING), (8, CallPhase.COMPUTING), (PARAMETERS, CallPhase.UPDATING)]
    assert [(call.size, call.phase) for call in step] == expected


def test_nodes_that_hold_as_many_ranks_as_few_have() -> None:
    found = learned_pattern(SMALL, "reference", scheme_to_trace("hierarchical:per_node=5", SMALL), steps=3)
    assert (found.fitted, found.checked) == ((6, 7, 10), (11, 15))
    assert f"allreduce of {PARAMETERS} bytes among every rank number 5" in found.lines()[0]
    assert [call.group for call in found.step(1000, 7, 1)][1:] == [(5, 6, 7, 8, 9)] * 2
    for text in ("hierarchical", "hierarchical:per_node=1", "hierarchical:per_node=17"):
        with pytest.raises(InvalidArgument, match="--distributed hierarchical:per_node=4"):
            scheme_to_trace(text, SMALL)


def test_data_dependent_and_free_schemes_are_refused() -> None:
    scheme = scheme_to_trace("sparse:k=0.1", SMALL)
    with pytest.raises(DoesNotGeneralise, match="repeat themselves"):
        generalised([traced(SMALL, "reference", scheme, 4)])
    with pytest.raises(Unsupported, match="first steps are another scheme"):
        scheme_to_trace("post-local:until=100,every=4", SMALL)
    for name in ("asynchronous", "gossip"):
        with pytest.raises(Unsupported, match="depends on who is faster"):
            scheme_to_trace(name, SMALL)

"""What a history says of a run, and that a checkpoint keeps all of it."""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_bench.training.checkpoint import read_checkpoint, write_checkpoint
from deep_bench.training.run_state import EvaluationResult, History
from tests.training import small

nan, inf = float("nan"), float("inf")
figures = st.dictionaries(st.sampled_from(["accuracy", "loss", "NDCG@10", "a/b"]), st.floats(), max_size=4)
evaluations = st.lists(st.builds(EvaluationResult, *[st.integers(0, 2**60)] * 5, figures), max_size=5)


@settings(max_examples=50, deadline=None)
@given(evaluations, st.lists(st.floats(), max_size=4))
def test_as_a_tree_and_back(found: list[EvaluationResult], losses: list[float]) -> None:
    n = len(losses)
    history = History(array("d", losses), array("q", range(n)), array("q", range(5 * n)), found, 7)
    again = History.of_tree(history.as_tree())
    assert again.losses.tobytes() == history.losses.tobytes()
    assert (again.sizes, again.stamps, again.setup_ns) == (history.sizes, history.stamps, 7)
    counts = [[(e.step, e.epoch, e.samples, e.time_ns, e.cost_ns) for e in h.evaluations] for h in (again, history)]
    assert counts[0] == counts[1]
    for mine, theirs in zip(again.evaluations, found, strict=True):
        assert mine.figures.keys() == theirs.figures.keys()
        np.testing.assert_array_equal([mine.figures[k] for k in theirs.figures], list(theirs.figures.values()))


def test_through_a_file(tmp_path: object) -> None:
    history = History(
        evaluations=[EvaluationResult(1, 0, 8, 9, 2, {"accuracy": nan, "a/b": 1.0}), EvaluationResult(2, 0, 16, 20, 2, {})]
    )
    path = write_checkpoint(f"{tmp_path}/h.h5", {"history": history.as_tree()})
    again = History.of_tree(read_checkpoint(path)["history"])
    assert list(again.evaluations[0].figures) == ["accuracy", "a/b"]
    assert np.isnan(again.evaluations[0].figures["accuracy"])
    assert again.evaluations[1].figures == {}


def test_losses_that_are_not_finite_are_told() -> None:
    for losses, lost, said in (
        ([], None, ""),
        ([0.5, 0.25], None, ""),
        ([nan, inf], 0, "no finite loss from step 0 on"),
        ([0.5, nan, 0.25, -inf], 3, "no finite loss from step 3 on"),
        ([0.5, nan, inf, 0.25], None, "no finite loss in 2 of 4 steps, the first of them step 1"),
    ):
        history = History(array("d", losses), stopped_because="steps done")
        assert (history.lost_from, history.about_losses()) == (lost, said)
        assert said in repr(history)


def scored(values: list[float]) -> History:
    return History(evaluations=[EvaluationResult(i, 0, 0, 0, 0, {"s": v}) for i, v in enumerate(values)])


def test_the_best_is_never_nan() -> None:
    history = scored([nan, 2.0, 5.0, nan, 5.0, 1.0])
    best, least = history.best("s"), history.best("s", "lower")
    assert best is not None
    assert least is not None
    assert (best.step, least.step) == (2, 5)
    assert scored([nan]).best("s") is None
    assert history.best("other") is None


def test_a_target_is_reached_once() -> None:
    history = scored([nan, 2.0, 5.0, 1.0, 6.0])
    for target, direction, step in ((5.0, "higher", 2), (1.5, "lower", 3), (7.0, "higher", None), (inf, "lower", 1)):
        found = history.reached("s", target, direction)  # type: ignore[arg-type]
        assert (found.step if found else None) == step


def test_the_parts_sum_to_the_whole() -> None:
    history = small.trainer().run(epochs=2)
    parts = history.split()
    assert list(parts) == ["data", "transfer", "gradients", "update", "evaluation", "other"]
    assert sum(parts.values()) == history.wall_ns
    assert min(parts.values()) >= 0
    assert parts["evaluation"] == sum(e.cost_ns for e in history.evaluations)
    assert sum(parts[name] for name in list(parts)[:4]) == history.step_ns().sum()


def test_nothing_yet() -> None:
    history = History()
    assert (history.wall_ns, history.steps, history.samples) == (0, 0, 0)
    assert set(history.split().values()) == {0}
    assert repr(history) == "<History of 0 steps, 0 samples, 0 evaluations in 0 s>"


def test_figures_of_a_score() -> None:
    assert scored([1.0, 2.0]).figures("s") == [1.0, 2.0]
    assert scored([1.0]).figures("t") == []

"""Kernels that deceive must be caught, and the trick be named."""

from __future__ import annotations

import time

import numpy as np
import pytest

import deep_bench.check
from deep_bench import Case
from deep_bench.framework import Device
from deep_bench.operators.checks import Originals, Problem, check_operator
from deep_bench.operators.checks.contract import foreign_clocks
from deep_bench.operators.checks.run import check_of
from tests.operators.checks.tricks import TRICKS, ByShape, Exp

CASE = Case.of("Exp", (20, 30))
HONESTY = ("contract", "fresh", "reuse", "unwritten", "unfinished", "patches")


# Where another test of this process has imported jax, that warns of every fork.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_is_named(name) -> None:
    operator, check, words = TRICKS[name]
    finding = check_of(check)(operator, Problem(CASE, seed=1))
    assert finding.word == "wrong", str(finding)
    assert words in finding.reason


@pytest.mark.parametrize("check", HONESTY)
def test_an_honest_kernel_passes(check) -> None:
    assert check_of(check)(Exp(), Problem(CASE, seed=1)).word == "right"


class OnGpu:
    """As much of an array on a GPU as the checks look at."""

    is_cuda = True

    def __init__(self, array):
        self.array = array

    def __setitem__(self, index, other):
        self.array[index] = other.array


class Streams(Device):
    """A GPU with a stream whose work is done when one waits for all."""

    def __init__(self):
        self.pending = []

    def from_numpy(self, array):
        return OnGpu(array)

    def to_numpy(self, array):
        return array.array.copy()

    def synchronize(self):
        while self.pending:
            self.pending.pop()()


class OneStream(Exp):
    def __init__(self):
        self.device = Streams()

    def forward(self, x):
        return OnGpu(np.exp(x.array))


class OtherStream(OneStream):
    def forward(self, x):
        y = np.zeros_like(x.array)
        self.device.pending.append(lambda: np.exp(x.array, out=y))
        return OnGpu(y)


def test_work_on_a_stream_that_nobody_waits_for_is_named() -> None:
    assert check_of("unfinished")(OneStream(), Problem(CASE)).word == "right"
    finding = check_of("unfinished")(OtherStream(), Problem(CASE))
    assert finding.reason == "output output changes when its own stream is done: another one is not waited for"


def test_what_was_replaced_is_put_back() -> None:
    before = (time.perf_counter_ns, deep_bench.check.judge, np.allclose)
    for name in TRICKS:
        operator, check, _ = TRICKS[name]
        if check == "patches":
            check_of(check)(operator, Problem(CASE))
    assert (time.perf_counter_ns, deep_bench.check.judge, np.allclose) == before
    assert foreign_clocks() == []


def test_a_clock_replaced_before_all_checks_is_noticed(monkeypatch) -> None:
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
    finding = check_of("patches")(Exp(), Problem(CASE))
    assert finding.reason == "it replaces time.perf_counter_ns"


def test_what_is_replaced_on_import_is_noticed_in_the_child(tmp_path, monkeypatch) -> None:
    module = tmp_path / "patches_on_import.py"
    module.write_text(
        "import time\n"
        "import numpy as np\n"
        "from deep_bench import Operator\n"
        "class Sly(Operator):\n"
        "    computes = 'Exp'\n"
        "    def forward(self, x):\n"
        "        return np.exp(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import patches_on_import

    module.write_text(module.read_text() + "np.array_equal = lambda *_: True\n")
    found = check_operator(patches_on_import.Sly(), CASE, checks=["patches"])
    assert found[0].reason == "it replaces numpy.array_equal"


def test_what_an_earlier_check_let_happen_is_noticed_by_the_last() -> None:
    operator, _, words = TRICKS["PatchesNumpy, patches"]
    found = check_operator(operator, CASE, checks=["reruns", "patches"], isolate=False)
    assert [f.word for f in found] == ["right", "wrong"]
    assert words in found[1].reason


def test_originals_tell_a_changed_default() -> None:
    from deep_bench.check.estimate import pooled

    originals, before = Originals.taken(), pooled.__defaults__
    pooled.__defaults__ = (None,)
    assert "deep_bench.check.estimate.pooled" in originals.changed()
    originals.restore()
    assert pooled.__defaults__ == before
    assert originals.changed() == []


def test_a_kernel_that_is_wrong_at_once_is_not_blamed_for_tricks() -> None:
    class Off(Exp):
        def forward(self, x):
            return np.full_like(x, 7)

    for check in ("fresh", "reuse", "unwritten"):
        finding = check_of(check)(Off(), Problem(CASE))
        assert (finding.word, finding.reason) == (
            "not applicable",
            "its first answer is wrong already, so that a later one tells nothing",
        )


def test_the_place_tells_what_was_not_noticed() -> None:
    finding = check_of("reuse")(ByShape(), Problem(CASE))
    assert finding.place == "all inputs changed in the same memory"
    assert [part.word for part in finding.parts] == ["wrong"] * 3

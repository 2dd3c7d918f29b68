"""The loader in each of its modes: order, bounds, ends and errors."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData, Unsupported, WorkerDied, WorkerError
from deep_bench.training.loader import THREAD_NAME, Loader, sendable
from deep_bench.training.samplers import Infinite, Sequential, Shuffled
from deep_bench.training.sets import ArrayDataset
from tests.training.loader.awkward import Counted, Rows, Text, Unopenable, Unsendable, add_epoch

MODES: dict[str, dict[str, Any]] = {
    "here": {},
    "one thread": {"workers": 1},
    "three threads": {"workers": 3, "prefetch": 4},
    "two processes": {"workers": 2, "processes": True, "prefetch": 5},
}
PROCESS = {"workers": 1, "processes": True}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)] == []
    assert multiprocessing.active_children() == []
    assert [file for file in Path("/dev/shm").iterdir() if file.name.startswith(f"deep_bench-{os.getpid()}-")] == []


class Pulled:
    """A sampler that counts how many batches were asked of it."""

    def __init__(self) -> None:
        self.inner = Sequential(40, 2)
        self.count = 0

    def __len__(self) -> int:
        return len(self.inner)

    def epoch(self, number: int) -> Iterator[np.ndarray]:
        for batch in self.inner.epoch(number):
            self.count += 1
            yield batch


@pytest.mark.parametrize("mode", MODES)
def test_batches_come_in_the_order_of_the_sampler(mode: str) -> None:
    sampler = Shuffled(40, 3, seed=5)
    with Loader(Rows(), sampler, preparation=add_epoch, **MODES[mode]) as loader:
        assert len(loader) == 14
        for epoch, start in ((0, 0), (2, 0), (2, 5), (1, 14)):
            read = list(loader.epoch(epoch, start))
            expected = list(sampler.epoch(epoch))[start:]
            assert [numbers.tolist() for numbers, _ in read] == [numbers.tolist() for numbers in expected]
            for numbers, batch in read:
                assert np.array_equal(batch["y"], np.repeat(numbers[:, None], 3, axis=1) + 1000 * epoch)
                assert np.array_equal(batch["numbers"], numbers)
    assert [str(spec) for spec in loader.specs] == ["y: int64[3]", "numbers: int64[]"]


@pytest.mark.parametrize(("mode", "most"), [("one thread", 2), ("three threads", 4), ("two processes", 5), ("here", 0)])
def test_no_more_batches_are_begun_than_allowed(mode: str, most: int) -> None:
    sampler = Pulled()
    with Loader(Rows(), sampler, **MODES[mode]) as loader:
        ahead = [sampler.count - handed_out for handed_out, _ in enumerate(loader.epoch(0), 1)]
    assert max(ahead) <= most
    assert mode == "two processes" or max(ahead) == most  # a process holds two jobs at most, so it may lag behind


def test_threads_begin_no_more_reads_than_allowed() -> None:
    dataset = Counted()
    for handed_out, _ in enumerate(Loader(dataset, Sequential(40, 2), workers=2, prefetch=3).epoch(0), 1):
        assert dataset.begun - handed_out <= 3


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_may_be_left_and_begun_again(mode: str) -> None:
    with Loader(Rows(), Infinite(Sequential(40, 2)), **MODES[mode]) as loader:
        for count, _ in enumerate(loader.epoch(0)):
            if count == 3:
                break
        with pytest.raises(ZeroDivisionError):
            _fails_in_the_loop(loader)
        assert next(loader.epoch(0))[0].tolist() == [0, 1]


def _fails_in_the_loop(loader: Loader) -> None:
    for _ in loader.epoch(1):
        raise ZeroDivisionError


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "sample 17 of the Rows cannot be read: ZeroDivisionError: by sample"),
        ("damaged", "sample 17 in x.bin is damaged"),
        ("short", r"'x' of shape \(1, 3\) for the samples \[16, 17\]"),
    ],
)
def test_a_bad_sample_is_named_after_those_before_it(mode: str, how: str, message: str) -> None:
    with Loader(Rows(bad=17, how=how), Sequential(40, 2), **MODES[mode]) as loader:
        epoch = loader.epoch(0)
        seen = [next(epoch)[0].tolist() for _ in range(8)]
        with pytest.raises(InvalidData, match=message):
            next(epoch)
    assert seen[-1] == [14, 15]


def test_samples_that_fail_only_together_are_all_named() -> None:
    class Crowded(Rows):
        def __getitem__(self, indices: np.ndarray) -> dict[str, np.ndarray]:
            if len(indices) > 1:
                raise MemoryError("too many")
            return super().__getitem__(indices)

    with pytest.raises(InvalidData, match=r"samples \[0, 1\] of the Crowded cannot be read together: MemoryError"):
        next(Loader(Crowded(), Sequential(4, 2)).epoch(0))


def test_after_a_bad_sample_the_processes_read_on() -> None:
    with Loader(Rows(bad=3), Sequential(40, 2), workers=2, processes=True) as loader:
        with pytest.raises(InvalidData, match="sample 3"):
            list(loader.epoch(0))
        children = {child.pid for child in multiprocessing.active_children()}
        assert len(list(loader.epoch(0, start=2))) == 18
        assert {child.pid for child in multiprocessing.active_children()} == children


def test_the_traceback_of_another_process_is_kept() -> None:
    with Loader(Rows(bad=0), Sequential(2, 2), **PROCESS) as loader, pytest.raises(InvalidData) as caught:
        next(loader.epoch(0))
    assert "_misbehave" in caught.value.__notes__[0]


def test_a_process_that_dies_is_named_with_what_it_read() -> None:
    with Loader(Rows(bad=9, how="die"), Sequential(40, 2), workers=2, processes=True) as loader:
        with pytest.raises(WorkerDied, match=r"read the samples \[8, 9\] was killed \(SIGKILL\)"):
            list(loader.epoch(0))
        assert multiprocessing.active_children() == []
        assert len(list(loader.epoch(0, start=5))) == 15


def test_a_process_killed_while_idle_is_noticed_and_replaced() -> None:
    with Loader(Rows(), Sequential(4, 2), **PROCESS) as loader:
        list(loader.epoch(0))
        (child,) = multiprocessing.active_children()
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join(10)
        with pytest.raises(WorkerDied, match="SIGKILL"):
            list(loader.epoch(1))
        assert len(list(loader.epoch(1))) == 2


def test_strings_and_varying_shapes_pass_between_processes() -> None:
    numbers = [[3, 1], [0, 9]]

    class Given:
        def __len__(self) -> int:
            return 2

        def epoch(self, number: int) -> Iterator[np.ndarray]:
            return iter(np.array(numbers))

    with Loader(Text(), Given(), **PROCESS) as loader:
        (_, first), (_, second) = loader.epoch(0)
    assert first["text"].tolist() == [b"xxx", b"x"]
    assert second["text"].tolist() == [b"", b"x" * 9]
    assert first["n"].shape == (2, 3)
    assert second["n"].flags.writeable


def test_a_set_that_cannot_travel_is_refused() -> None:
    with Loader(Unsendable(), Sequential(4, 2), **PROCESS) as loader, pytest.raises(InvalidArgument, match="bound to this"):
        next(loader.epoch(0))
    with Loader(Unopenable(), Sequential(4, 2), **PROCESS) as loader, pytest.raises(InvalidData, match=r"x\.bin is missing"):
        next(loader.epoch(0))


def test_sets_and_preparations_of_a_script_travel() -> None:
    class Local(Rows):
        pass

    with Loader(Local(4), Sequential(4, 2), preparation=lambda b, n, e: {"x": -b["x"]}, **PROCESS) as loader:
        assert next(loader.epoch(0))[1]["x"].tolist() == [[0, 0, 0], [-1, -1, -1]]


def test_an_epoch_ends_when_another_is_begun_with_its_processes() -> None:
    with Loader(Rows(), Sequential(40, 2), **PROCESS) as loader:
        older, newer = loader.epoch(0), loader.epoch(1)
        next(older)
        assert next(newer)[0].tolist() == [0, 1]
        with pytest.raises(Unsupported, match="another one was begun with them"):
            next(older)
        assert next(newer)[0].tolist() == [2, 3]
        loader.close()
        with pytest.raises(Unsupported, match="were closed"):
            next(newer)


@pytest.mark.long
def test_a_loader_lives_as_long_as_its_epoch_and_no_longer() -> None:
    epoch = Loader(Rows(), Sequential(40, 2), **PROCESS).epoch(0)
    next(epoch)
    gc.collect()
    assert next(epoch)[0].tolist() == [2, 3]
    assert multiprocessing.active_children() != []
    del epoch
    gc.collect()
    assert multiprocessing.active_children() == []


def test_a_batch_is_not_kept_once_it_was_used() -> None:
    kept = []

    def watch(batch: dict[str, np.ndarray], numbers: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        kept.append(weak(batch["x"]))
        return batch

    from weakref import ref as weak

    for _, batch in Loader(Rows(), Sequential(40, 2), preparation=watch, workers=1, prefetch=2).epoch(0):
        del batch
        assert sum(each() is not None for each in kept) <= 3  # two ahead, and the thread's last answer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": -1}, "workers -1"),
        ({"workers": 1, "prefetch": 0}, "prefetch 0"),
        ({"workers": 3, "prefetch": 2}, "prefetch 2 for 3 workers"),
        ({"processes": True}, "without workers"),
    ],
)
def test_numbers_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Loader(Rows(), Sequential(40, 2), **arguments)


def test_epochs_that_cannot_be_are_refused_at_once() -> None:
    loader = Loader(Rows(), Sequential(40, 2))
    with pytest.raises(InvalidArgument, match="start -1"):
        loader.epoch(0, start=-1)
    with pytest.raises(InvalidArgument, match="epoch -1"):
        loader.epoch(-1)


def test_an_error_that_cannot_travel_becomes_one_that_can() -> None:
    class Strange(InvalidData):
        def __init__(self) -> None:
            super().__init__("strange")

    wrapped = sendable(Strange())
    assert type(wrapped) is WorkerError
    assert "Strange: strange" in str(wrapped)


def test_mapped_files_are_read_by_processes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000.0).reshape(100, 10))
    mapped = ArrayDataset({"x": np.load(tmp_path / "x.npy", mmap_mode="r")})
    with Loader(mapped, db.samplers["shuffled"](mapped, 32), **PROCESS) as loader:
        for numbers, batch in loader.epoch(0):
            assert np.array_equal(batch["x"][:, 0], numbers * 10)

"""Checkpoints: whole or not at all, checked when they are read, kept in number."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_bench.arrays import leaves
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.events import Moment
from deep_bench.training.callbacks import StopAtSignal
from deep_bench.training.checkpoint import (
    Checkpoints,
    latest_checkpoint,
    read_checkpoint,
    set_aside_damaged,
    write_checkpoint,
)
from tests.training import small

TREE = {
    "a/b .c": {"": np.arange(3, dtype=ml_dtypes.bfloat16), "..": np.float32(3), "empty": {}},
    "flags": np.array([True, False]),
    "none": np.zeros((0, 3)),
    "empty": {},
    "narrow": np.array([1, -2], ml_dtypes.int4),
    "half": np.float16([1, np.nan]),
    "scalar": np.array(3, np.int64),
}


def test_all_that_is_written_is_read(tmp_path: Path) -> None:
    found = read_checkpoint(write_checkpoint(tmp_path / "a.h5", TREE))
    assert leaves(found).keys() == leaves(TREE).keys()
    for path, array in leaves(TREE).items():
        got = leaves(found)[path]
        assert (got.dtype, got.shape) == (np.asarray(array).dtype, np.shape(array))
        assert got.tobytes() == np.asarray(array).tobytes()
    assert found["empty"] == found["a/b .c"]["empty"] == {}


NUMBERS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.long
@given(st.dictionaries(st.text(max_size=4), st.recursive(NUMBERS, lambda t: st.dictionaries(st.text(max_size=4), t))))
@settings(max_examples=40, deadline=None)
def test_any_keys(tree: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        assert read_checkpoint(write_checkpoint(Path(folder) / "a.h5", tree)) == tree


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "a.h5", TREE)
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(512, len(raw), 100):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(InvalidRecord, match="damaged"):
            read_checkpoint(path)


@pytest.mark.parametrize("size", [0, 1, 100, 511, 512, 600, 5000])
def test_a_file_cut_short_is_noticed(size: int, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "a.h5", TREE)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InvalidRecord):
        read_checkpoint(path)


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("hello")
    for path in (tmp_path / "text.h5", tmp_path / "missing.h5", tmp_path):
        with pytest.raises(InvalidRecord):
            read_checkpoint(path)
    with pytest.raises(InvalidArgument, match="no folder"):
        write_checkpoint(tmp_path / "nowhere" / "a.h5", TREE)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "a.h5", {"x": np.arange(3)})
    with pytest.raises(InvalidArgument, match="Python objects"):
        write_checkpoint(path, {"x": np.array([object()])})
    assert read_checkpoint(path)["x"].tolist() == [0, 1, 2]
    assert os.listdir(tmp_path) == ["a.h5"]


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    keeper = Checkpoints(folder, steps=3, epochs=1, keep=2)
    run = small.trainer(callbacks=[keeper])
    run.run(epochs=2)
    assert sorted(p.name for p in folder.iterdir()) == ["step_0000000006.h5", "step_0000000008.h5"]
    again = small.trainer(callbacks=[keeper])
    latest = latest_checkpoint(folder)
    assert latest is not None
    again.restore(read_checkpoint(latest))
    assert (again.epoch, again.history.steps) == (2, 8)
    assert latest_checkpoint(tmp_path / "none") is None


@pytest.mark.parametrize("wrong", [{"steps": -1}, {"steps": 0}, {"epochs": 0}, {"keep": 0}])
def test_settings_that_make_no_sense(wrong: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        Checkpoints(tmp_path, **wrong)


@pytest.mark.long
def test_a_process_killed_while_it_writes_loses_nothing(tmp_path: Path) -> None:
    """Killed at random moments of a loop that does nothing but write: what is there is always whole."""
    script = textwrap.dedent("""
        import sys, numpy as np
        from deep_bench.training.checkpoint import write_checkpoint
        for n in range(10**6):
            write_checkpoint(sys.argv[1], {"n": np.int64(n), "x": np.full(300_000, n)})
            print(n, flush=True)
    """)
    rng = np.random.default_rng(1)
    path = tmp_path / "a.h5"
    command = [sys.executable, "-c", script, str(path)]
    for _ in range(4):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(int(rng.integers(1, 6))):
                written = int(process.stdout.readline())
            _spin(int(rng.integers(0, 5_000_000)))
            process.send_signal(signal.SIGKILL)
        found = read_checkpoint(path)
        assert found["n"] >= written
        assert np.all(found["x"] == found["n"])


def _spin(ns: int) -> None:
    end = perf_counter_ns() + ns
    while perf_counter_ns() < end:
        pass


def test_a_folder_of_another_run_is_refused_before_anything_is_lost(tmp_path: Path) -> None:
    small.trainer(callbacks=[Checkpoints(tmp_path)]).run(epochs=3)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(InvalidArgument, match="another run's"):
        small.trainer(callbacks=[Checkpoints(tmp_path)]).run(epochs=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = small.trainer(callbacks=[Checkpoints(tmp_path / "file" / "under")])
    with pytest.raises(InvalidArgument, match="cannot make"):
        run.run(epochs=1)
    assert run.history.steps == 0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def signals(number: int, step: int, times: int = 1) -> Any:
    """A callback that sends this process a signal amid a step."""

    def send(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        del time_ns, data
        if moment is Moment.AFTER_GRADIENTS and index == step:
            for _ in range(times):
                os.kill(os.getpid(), number)

    return send


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_its_step_and_it_goes_on_exactly(number: int, tmp_path: Path) -> None:
    whole = small.trainer()
    whole.run(epochs=3)
    before = signal.getsignal(number)
    stopped = small.trainer(callbacks=[signals(number, 5), Checkpoints(tmp_path), StopAtSignal()])
    assert stopped.run(epochs=3).stopped_because == "interrupted"
    assert signal.getsignal(number) is before
    assert names(tmp_path) == ["step_0000000004.h5", "step_0000000006.h5"]
    again = small.trainer(callbacks=[Checkpoints(tmp_path), StopAtSignal()])
    again.restore(read_checkpoint(tmp_path / "step_0000000006.h5"))
    assert (again.epoch, again.history.steps) == (1, 6)
    assert again.run(epochs=3).losses == whole.history.losses
    for path, array in leaves(whole.snapshot()["step"]).items():
        assert leaves(again.snapshot()["step"])[path].tobytes() == array.tobytes()


def test_a_second_signal_breaks_a_step_off_and_nothing_is_written_of_it(tmp_path: Path) -> None:
    stopped = small.trainer(callbacks=[signals(signal.SIGINT, 5, 2), Checkpoints(tmp_path), StopAtSignal()])
    assert stopped.run(epochs=3).stopped_because == "interrupted"
    assert stopped.history.steps == 5
    assert names(tmp_path) == ["step_0000000004.h5"]


def test_a_signal_during_the_last_step_is_not_swallowed(tmp_path: Path) -> None:
    def ends(moment: Moment, index: int, time_ns: int, data: Any) -> bool:
        del moment, time_ns, data
        return index == 5

    ending = small.trainer(callbacks=[ends, signals(signal.SIGINT, 5), Checkpoints(tmp_path), StopAtSignal()])
    with pytest.raises(KeyboardInterrupt):
        ending.run(epochs=3)
    assert names(tmp_path) == ["step_0000000004.h5", "step_0000000006.h5"]


def test_the_end_of_a_run_is_kept_and_so_is_each_step_if_asked(tmp_path: Path) -> None:
    small.trainer(callbacks=[Checkpoints(tmp_path / "end", epochs=9)]).run(steps=6)
    assert names(tmp_path / "end") == ["step_0000000006.h5"]
    small.trainer(callbacks=[Checkpoints(tmp_path / "time", epochs=0, seconds=1e-9, keep=9)]).run(steps=5)
    assert names(tmp_path / "time") == [f"step_{step:010d}.h5" for step in range(1, 6)]


def test_damaged_checkpoints_are_set_aside(tmp_path: Path) -> None:
    small.trainer(callbacks=[Checkpoints(tmp_path, steps=1, epochs=0, keep=3)]).run(steps=3)
    first, second, third = sorted(tmp_path.iterdir())
    assert set_aside_damaged(tmp_path) == []
    third.write_bytes(third.read_bytes()[:-5])
    second.write_bytes(b"")
    renamed = [third.with_suffix(".h5.damaged"), second.with_suffix(".h5.damaged")]
    assert set_aside_damaged(tmp_path) == renamed
    assert latest_checkpoint(tmp_path) == first
    first.write_bytes(b"")
    with pytest.raises(InvalidRecord, match=r"all checkpoints in .* are damaged: step_0000000001"):
        set_aside_damaged(tmp_path)
    assert names(tmp_path) == [first.name, *(path.name for path in reversed(renamed))]


def test_another_framework_or_kind_of_step_is_told(tmp_path: Path) -> None:
    kept = small.trainer()
    kept.run(steps=2)
    other = small.trainer(fused=True)
    for changed in (False, True):
        with pytest.raises(InvalidArgument, match="another kind of step: gradients and update apart") as refused:
            other.restore(kept.snapshot(), changed=changed)
        assert "all of it as one graph" in refused.value.expected
        assert "go on as it began, in reference" in refused.value.advice
    assert other.history.steps == 0


def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path: Path) -> None:
    small, large = {"a": np.arange(10)}, {"a": {str(i): np.arange(2000.0) for i in range(40)}, "b": np.zeros(50_000)}
    path = write_checkpoint(tmp_path / "a.h5", small)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in (0, 600, 40_000, 700_000, 1_049_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(InvalidArgument, match=r"cannot write .*: File too large"):
                write_checkpoint(path, large)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == [path]
    assert read_checkpoint(path)["a"].tolist() == list(range(10))
    assert sorted(read_checkpoint(write_checkpoint(path, large))["a"]) == sorted(map(str, range(40)))

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.workers.evidence import peak_memory_bytes
from deep_bench.workers.host import Host, System, build


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    yield
    sys.modules.pop("tiny_systems", None)


def test_what_is_built_is_a_system() -> None:
    assert isinstance(build("tiny_systems:Tiny", {"size": 3}), System)


@pytest.mark.parametrize("factory", ["tiny_systems", ":Tiny", "tiny_systems:", "tiny_systems:Absent"])
def test_a_wrong_factory_is_refused(factory: str) -> None:
    with pytest.raises(InvalidArgument, match="factory"):
        build(factory, {})


def test_a_call_that_is_not_there_is_refused() -> None:
    host = Host(build("tiny_systems:Tiny", {}))
    with pytest.raises(InvalidArgument, match="not prepared"):
        host.sample("native")
    host.prepare()
    with pytest.raises(InvalidArgument, match="one of native, numpy"):
        host.sample("other")


def test_short_calls_are_batched_after_warming_up_and_have_no_cpu_time() -> None:
    host = Host(build("tiny_systems:Tiny", {}))
    host.prepare()
    assert host.sample("native", min_ns=0).batch == 1
    batch = host.warm_up("native", max_ns=20_000_000).batch
    block = host.sample("native", min_ns=0)
    assert block.batch == batch > 1
    assert block.cpu_ns is None


@pytest.mark.parametrize(("threaded", "noted"), [(False, True), (True, False)])
def test_long_calls_of_one_thread_have_their_cpu_time(threaded: bool, noted: bool) -> None:
    system = build("tiny_systems:Slow", {})
    system.threaded = threaded
    host = Host(system)
    host.prepare()
    host.warm_up("native", max_ns=60_000_000)
    assert (host.sample("native", min_ns=0, min_calls=1).cpu_ns is not None) == noted


def test_a_device_may_bring_its_own_clock() -> None:
    host = Host(build("tiny_systems:Clocked", {}))
    assert host.prepare()["stamp_overhead_ns"] == 42
    assert host.warm_up("native", max_ns=1_000_000).first_call_ns == 42
    assert host.sample("native", min_ns=0, min_calls=1).resume_ns == 42


def test_peak_memory_never_shrinks() -> None:
    before = peak_memory_bytes()
    block = b"x" * 2**20
    assert peak_memory_bytes() >= before > len(block)

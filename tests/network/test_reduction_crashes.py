"""Reducing with a framework that ends its process on some of the smaller networks."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.cli import main
from deep_bench.errors import WorkerDied, WorkerError
from deep_bench.graph import Network
from deep_bench.network import Crashes, Slower, Wrong
from deep_bench.workers.process import Worker

FRAGILE = "tests.network.misbehaving:Fragile"
FEEDS = {"x": np.linspace(0.1, 0.9, 4, dtype=np.float32)}


def chain(*operators: str) -> Network:
    """Nodes one after the other."""
    names = ["x", *(f"h{k}" for k in range(1, len(operators))), "y"]
    nodes = [f"{y} = {operator}({x})" for operator, x, y in zip(operators, names, names[1:], strict=False)]
    head = '<ir_version: 10, opset_import: ["" : 21]> chain (float[4] x) => (float[4] y)'
    return Network.from_proto(onnx.parser.parse_model(f"{head} {{ {'  '.join(nodes)} }}"))


def operators(network: Network) -> list[str]:
    return [n.op_type for n in network.nodes]


@pytest.mark.long
@pytest.mark.parametrize("how", ["SIGSEGV", "SIGKILL"])
def test_what_is_wrong_is_found_although_smaller_networks_end_the_process(how: str) -> None:
    with Wrong(f"{FRAGILE}:how={how}") as wrong:
        found = db.network.reduce(chain("Tan", "Exp"), FEEDS, wrong)
    assert operators(found.network) == ["Exp"]
    assert found.finished
    assert found.crashed >= 1
    assert f"({found.crashed} crashed)" in str(found)
    assert not found.notes


@pytest.mark.long
def test_what_is_slow_is_found_although_smaller_networks_end_the_process() -> None:
    with Slower(FRAGILE, "reference", 4) as slower:
        found = db.network.reduce(chain("Tan", "Exp"), FEEDS, slower)
    assert operators(found.network) == ["Exp"]
    assert found.crashed >= 1


@pytest.mark.long
def test_a_crash_on_the_network_itself_is_no_wrong_result() -> None:
    with Wrong(FRAGILE) as wrong, pytest.raises(WorkerDied, match=f"{FRAGILE}: its process crashed"):
        db.network.reduce(chain("Tan", "Neg"), FEEDS, wrong)


@pytest.mark.long
def test_an_error_there_has_the_name_of_the_framework() -> None:
    with Wrong("tests.network.misbehaving:Refusing") as wrong, pytest.raises(WorkerError, match=r"Refusing: .*is refused"):
        wrong(chain("Neg"), FEEDS)


@pytest.mark.long
def test_the_evidence_is_of_the_process_too(tmp_path: Path) -> None:
    network, folder = tmp_path / "chain.onnx", tmp_path / "out"
    chain("Tan", "Exp").save(network)
    with pytest.raises(SystemExit) as ended:
        main(["reduce", str(network), "--on", FRAGILE, "--output", str(folder), "--limit", "60s"])
    assert ended.value.code == 0
    with np.load(folder / "actual.npz") as actual, np.load(folder / "expected.npz") as expected:
        for name, y in expected.items():
            assert np.allclose(actual[name], 1.01 * y, rtol=1e-5)


@pytest.mark.long
def test_the_code_is_shown_from_the_process() -> None:
    with Wrong(FRAGILE) as wrong:
        executor: Any = wrong.adapter.prepare(chain("Exp"))
        assert executor.code == "y * 1.01"


@pytest.mark.long
def test_a_request_that_takes_too_long_ends_the_process() -> None:
    with Worker("threading:Event", label="waiting", limit_s=3, lasting=True) as worker:
        with pytest.raises(WorkerDied, match="waiting: took more than 3 s"):
            worker.call("wait")
        assert worker.deaths == 1
        assert worker.call("is_set") is False  # by another process


@pytest.mark.long
def test_a_framework_that_cannot_be_made_is_no_crash() -> None:
    with Crashes("tests.network.misbehaving:Fragile:how=nonsense") as crashes, pytest.raises(WorkerError, match="nonsense"):
        crashes(chain("Neg"), FEEDS)


@pytest.mark.long
def test_one_that_was_closed_says_so() -> None:
    with Worker("collections:Counter", label="letters", lasting=True) as worker:
        worker.start()
    with pytest.raises(WorkerError, match="was closed"):
        worker.call("total")


@pytest.mark.long
def test_after_ctrl_c_another_process_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Worker("collections:Counter", {"a": 2}, label="letters", lasting=True) as worker:
        assert worker.call("total") == 2
        with monkeypatch.context() as patched:
            patched.setattr("deep_bench.workers.process.wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                worker.call("total")
        assert worker.call("most_common") == [("a", 2)]
        assert worker.deaths == 0


@pytest.mark.long
def test_one_that_ends_while_it_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Worker("collections:Counter", {"a": 2}, label="letters", lasting=True) as worker:
        worker.resume()
        worker.pause()
        os.kill(worker.pid, signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        worker._process.poll()
        with pytest.raises(WorkerDied):
            worker.resume()
        worker.resume()
        assert (worker.call("total"), worker.deaths) == (2, 1)

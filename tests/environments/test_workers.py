"""Workers in other environments: what they say, what is refused, and what is left of them."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench
from deep_bench.environments.declaration import Declaration
from deep_bench.errors import FrameworkMissing, InvalidArgument, InvalidInput, Unsupported, WorkerDied, WorkerError
from deep_bench.measure.session import Plan, measure_launch
from deep_bench.workers.fleet import Contender, Fleet
from deep_bench.workers.process import Worker
from deep_bench.workers.remote import Place
from deep_bench.workers.wire import PROTOCOL
from tests.environments.conftest import inside, script

HERE = Path(__file__).parent
LEAN = {
    "program": str(HERE / "lean_adapter.py"),
    "attribute": "Doubling",
    "options": {},
    "network": b"onnx",
    "inputs": {"x": np.arange(6, dtype=np.float32)},
    "quantities": ("native", "numpy"),
}
SYSTEM = "deep_bench.workers.lean_system:LeanSystem"
Start = Callable[..., Worker]


def at(environment: Path, **options: Any) -> Place:
    return Place("envs/x", (str(environment / "bin" / "python"),), **options)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers, and ends them after the test."""
    workers: list[Worker] = []

    def make(place: Place, factory: str = "tiny_systems:Tiny", arguments: Any = None, **options: Any) -> Worker:
        given = {"log": tmp_path / "log", "label": "it", "path": [HERE.parent / "measure"], "limit_s": 60.0, **options}
        workers.append(Worker(factory, arguments or {}, place=place, **given))
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()


@pytest.fixture(scope="module")
def worker(beside: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One worker for the tests that leave it as it was."""
    log = tmp_path_factory.mktemp("logs") / "log"
    with Worker(
        "tiny_systems:Tiny", {"size": 10}, place=at(beside), log=log, label="it", path=[HERE.parent / "measure"]
    ) as one:
        yield one


def test_a_worker_runs_there_and_says_where_it_is(worker: Worker, beside: Path) -> None:
    assert worker.call("total", scale=2.0) == 20.0
    prepared = worker.prepare()
    assert prepared["calls"] == ("native", "numpy")
    place = prepared["place"]
    assert place["name"] == "envs/x"
    assert place["python"].endswith(sys.version.split()[0])
    assert place["packages"]["numpy"] == np.__version__
    assert place["deep_bench"] == deep_bench.__version__
    assert worker.call("environment", "PYTHONPATH") == str(HERE.parent / "measure")


def test_what_is_timed_there_comes_back(worker: Worker) -> None:
    worker.prepare()
    assert worker.warm_up("native", max_ns=50_000_000).calls > 0
    block = worker.sample("native", min_ns=0, min_calls=10)
    assert block.ns.dtype == np.int64
    assert block.resume_ns is not None
    (found,) = worker.collect("native", ["peak memory"])
    assert found.unit == "B"


def test_large_arrays_go_there_and_back(worker: Worker) -> None:
    value = {"x": np.random.default_rng(0).random((300, 400)), "names": np.array(["a", "b"], object)}
    before = set(Path("/dev/shm").iterdir())
    found = worker.call("echo", value)
    assert np.array_equal(found["x"], value["x"])
    assert found["names"].tolist() == ["a", "b"]
    assert set(Path("/dev/shm").iterdir()) == before


def test_errors_come_back(worker: Worker) -> None:
    with pytest.raises(InvalidInput) as caught:
        worker.call("refuse")
    assert caught.value.advice == "advice"
    assert "in refuse" in caught.value.__notes__[0]
    with pytest.raises(WorkerError, match="ZeroDivisionError: on purpose"):
        worker.call("fail")
    with pytest.raises(Unsupported, match="a function is to be sent to another environment, or from there"):
        worker.call("unpicklable")
    with pytest.raises(Unsupported, match="another environment"):
        worker.call("echo", lambda: None)
    assert worker.call("total") == 10.0


def test_it_is_stopped_and_runs_on(worker: Worker) -> None:
    worker.pause()
    state = Path(f"/proc/{worker.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    assert state == "T"
    worker.resume()
    assert worker.call("total") == 10.0


def test_a_worker_that_is_killed_with_arrays_leaves_nothing(start: Start, beside: Path) -> None:
    before, descriptors = set(Path("/dev/shm").iterdir()), len(os.listdir("/proc/self/fd"))
    mortal = start(at(beside))
    mortal.call("echo", np.ones(2**20))
    os.kill(mortal.pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        mortal.call("echo", np.ones(2**20))
    mortal.close()
    assert set(Path("/dev/shm").iterdir()) == before
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_environments_take_turns_in_one_measurement(beside: Path, tmp_path: Path) -> None:
    path = (HERE.parent / "measure",)
    here, there = (
        Contender("here", "tiny_systems:Tiny", path=path),
        Contender("there", "tiny_systems:Tiny", path=path, place=at(beside)),
    )
    with Fleet([here, there], tmp_path) as fleet:
        found = measure_launch(fleet, Plan(budget_s=0.5, min_ns=1_000_000, min_rounds=2, warm_up_s=0.05))
    assert not found.failures
    assert {series.label for series in found.series if series.blocks} == {"here", "there"}
    assert "place" in found.prepared["there"]
    assert "place" not in found.prepared["here"]


def test_in_this_process_there_is_no_other_environment(beside: Path, tmp_path: Path) -> None:
    with Fleet([Contender("there", "tiny_systems:Tiny", place=at(beside))], tmp_path, in_process=True) as fleet:
        assert "in this process" in str(fleet.failures["there"])


# What is refused

STUB = {"__init__.py": f"__version__ = {deep_bench.__version__!r}\n", "workers/__init__.py": "", "workers/worker.py": ""}


@pytest.mark.parametrize(
    ("files", "error", "words"),
    [
        ({}, InvalidArgument, "deep_bench is not installed there"),
        ({"__init__.py": "1/0"}, InvalidArgument, "cannot be imported: ZeroDivisionError"),
        ({"__init__.py": "import no_such_module"}, InvalidArgument, "cannot be imported: No module named 'no_such_module'"),
        (STUB, InvalidArgument, "too old to serve other environments: it has no deep_bench.workers.wire"),
        (
            {**STUB, "workers/wire.py": "PROTOCOL = 99"},
            Unsupported,
            f"speaks version 99 of the protocol .*, this one {PROTOCOL}",
        ),
        (
            {**STUB, "workers/wire.py": f"PROTOCOL = {PROTOCOL}"},
            InvalidArgument,
            r"differs from this one \(source \w{12} there",
        ),
        (
            {**STUB, "__init__.py": "__version__ = '0.0.7'", "workers/wire.py": f"PROTOCOL = {PROTOCOL}"},
            InvalidArgument,
            f"it has deep_bench 0.0.7, and this one {re.escape(deep_bench.__version__)}",
        ),
    ],
    ids=["none", "broken", "incomplete", "old", "protocol", "source", "version"],
)
def test_another_deep_bench_is_refused(
    start: Start, bare: Path, files: dict[str, str], error: type[Exception], words: str
) -> None:
    package = inside(bare) / "deep_bench"
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    try:
        with pytest.raises(error, match=words):
            start(at(bare))
    finally:
        for file in sorted(package.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        if package.exists():
            package.rmdir()


def test_another_source_may_be_allowed_and_is_said() -> None:
    said = {
        "problem": "",
        "protocol": PROTOCOL,
        "deep_bench": "0.0.7",
        "source": "1" * 64,
        "pid": os.getpid(),
        "python": "3",
    }
    place = Place("old", ("python",), any_source=True)
    assert (
        place.agreed(said, os.getpgid(0), "it")["remark"]
        == f"it has deep_bench 0.0.7, and this one {deep_bench.__version__}"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit 3", "ended with exit status 3 during 'starting'"),
        ("echo no such library >&2; exit 127", "ended with exit status 127"),
        ("kill -SEGV $$", "SIGSEGV"),
    ],
)
def test_a_worker_that_dies_while_it_starts_says_how(start: Start, tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(WorkerDied, match=words) as caught:
        start(Place("envs/x", (str(script(tmp_path / "python", text)),)))
    assert "no such library" not in text or "no such library" in caught.value.details


def test_a_program_that_is_no_worker_is_refused(start: Start, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="what was started says b'Hell'"):
        start(Place("envs/x", (str(script(tmp_path / "python", "echo 'Hello, world!' >&0; sleep 9")),)))


def test_a_worker_that_says_nothing_is_ended(start: Start, tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match=r"took more than 0\.2 s"):
        start(Place("envs/x", (str(script(tmp_path / "python", "exec sleep 99")),)), limit_s=0.2)


# Lean workers


def test_a_lean_worker_needs_nothing_but_numpy(start: Start, with_numpy: Path) -> None:
    lean = start(at(with_numpy, lean=True), SYSTEM, LEAN, path=[])
    facts = lean.prepare()["facts"]
    assert set(facts["description"]["loaded"].split()) <= {
        "deep_bench",
        "deep_bench_lean_adapter",
        "numpy",
        "__main__",
        "__mp_main__",
    }
    assert facts["forms"].native == ("double",)
    assert lean.call("outputs")["y"].tolist() == [0, 2, 4, 6, 8, 10]
    assert lean.call("run", b"", {"x": np.ones(2, np.float32)})["y"].tolist() == [2, 2]
    assert lean.warm_up("numpy", max_ns=20_000_000).calls > 0
    assert len(lean.sample("native", min_ns=0, min_calls=3).ns) > 0
    with pytest.raises(Unsupported, match="another environment"):
        lean.collect("native", [lambda: None])


def test_a_lean_worker_says_what_it_lacks(start: Start, bare: Path, with_numpy: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="NumPy cannot be used there: ModuleNotFoundError"):
        start(at(bare, lean=True), SYSTEM, LEAN)
    adapter = tmp_path / "adapter.py"
    adapter.write_text("import no_such_framework")
    with pytest.raises(FrameworkMissing, match="the environment has no no_such_framework"):
        start(at(with_numpy, lean=True), SYSTEM, {**LEAN, "program": str(adapter)}).prepare()
    with pytest.raises(WorkerError, match="a network that it cannot read"):
        start(at(with_numpy, lean=True), SYSTEM, {**LEAN, "network": b"bad"}).prepare()


# Modules and containers: no real ones were here, only a function and programs that do as they do


def test_modules_are_loaded_first_and_their_names_mean_nothing(
    start: Start, beside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".bash_profile").write_text(
        'module() { echo "chatter of $2"; export LOADED="$LOADED:$2"; [ "$2" != missing ]; }'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LOADED", raising=False)
    python = str(beside / "bin" / "python")
    names = ("cuda/13", f"$(touch {tmp_path}/owned)", "a b; exit 1")
    worker = start(Place("site", (*Declaration(modules=names).prefix, python)))
    assert worker.call("environment", "LOADED") == ":" + ":".join(names)
    assert not (tmp_path / "owned").exists()
    with pytest.raises(WorkerDied, match="exit status 98") as caught:
        start(Place("site", (*Declaration(modules=("missing",)).prefix, python)))
    assert "module load missing failed" in caught.value.details
    (tmp_path / ".bash_profile").write_text("unset -f module")
    with pytest.raises(WorkerDied, match="exit status 97") as caught:
        start(Place("site", (*Declaration(modules=("x",)).prefix, python)))
    assert "there is no command module" in caught.value.details


@pytest.mark.parametrize("how", ['shift 2; exec "$@"', 'shift 2; "$@"'], ids=["in its place", "as its child"])
def test_a_container_that_runs_its_command_is_worked_in(start: Start, beside: Path, tmp_path: Path, how: str) -> None:
    fake = script(tmp_path / "apptainer", f'INSIDE="$2"; export INSIDE; {how}')
    declared = Declaration(container=f"{fake} exec 'my site.sif'", variables={"A": "1"})
    worker = start(Place("site", (*declared.prefix, str(beside / "bin" / "python")), declared.variables))
    assert worker.call("environment", "INSIDE") == "my site.sif"
    assert worker.call("environment", "A") == "1"
    worker.pause()
    worker.resume()
    assert worker.call("total") == 64.0


def test_a_client_of_a_daemon_is_refused(start: Start, beside: Path, tmp_path: Path) -> None:
    fake = script(tmp_path / "docker", 'shift 2; setsid --wait "$@"')
    declared = Declaration(container=f"{fake} run image")
    with pytest.raises(Unsupported, match="cannot be stopped for others"):
        start(Place("site", (*declared.prefix, str(beside / "bin" / "python"))))

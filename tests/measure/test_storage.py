from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.environment import Environment
from deep_bench.measure.session import Series
from deep_bench.measure.timing import Block
from deep_bench.records.model import NetworkFacts, Record, SampleSet, SystemRecord
from deep_bench.records.store import INLINE_SAMPLES, RecordWriter, load, save

Edit = Callable[[dict], None]


def record(samples: int = 10, systems: int = 2) -> Record:
    """A record with so many samples in each of two blocks of each system."""
    random = np.random.default_rng(0)

    def block() -> Block:
        cpu = random.integers(10**6, size=samples) if random.random() < 0.5 else None
        return Block(1, 1, random.integers(10**6, size=samples), random.random(samples) < 0.5, 3, cpu)

    made = [
        SystemRecord(
            label=f"s{i}", framework="tiny", samples=[SampleSet.of(Series(f"s{i}", "native", 0, None, [block(), block()]))]
        )
        for i in range(systems)
    ]
    network = NetworkFacts(name="a net/work", sha256="0" * 64)
    return Record(deep_bench="0.1.0", environment=Environment(), systems=made, network=network, notes=["[ 1, 2 ]"])


def same(a: Record, b: Record) -> bool:
    return a.model_dump(mode="json") == b.model_dump(mode="json")


def test_a_small_record_is_one_file_and_comes_back(tmp_path: Path) -> None:
    made = record()
    path = save(made, tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    assert same(load(path), made)
    assert path.name.startswith(f"{made.created:%Y-%m-%dT%H-%M-%S}_a_net_work_")


def test_many_samples_go_to_hdf5_and_come_back(tmp_path: Path) -> None:
    made = record(INLINE_SAMPLES)
    path = save(made, tmp_path)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".h5", ".json"]
    assert path.stat().st_size < 10_000
    back = load(path)
    assert same(back, made)
    assert back.systems[1].samples[0].blocks[1].ns.dtype == np.int64
    assert back.systems[1].samples[0].blocks[1].preempted.dtype == bool


def test_a_system_without_samples_stays_so_beside_one_with_many(tmp_path: Path) -> None:
    made = record(INLINE_SAMPLES)
    made.systems.append(SystemRecord(label="none", framework="tiny", samples=[SampleSet(quantity="native")]))
    assert same(load(save(made, tmp_path)), made)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    made = record()
    assert len({save(made, tmp_path) for _ in range(5)}) == 5


def test_a_writer_replaces_its_own_file_only(tmp_path: Path) -> None:
    earlier = save(record(), tmp_path)
    writer = RecordWriter(tmp_path, record(INLINE_SAMPLES))
    final = record(INLINE_SAMPLES, systems=3)
    final.complete = True
    assert writer.write(final) == writer.path
    assert same(load(writer.path), final)
    assert same(load(earlier), record()) or load(earlier).created
    assert len(list(tmp_path.iterdir())) == 3


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no folder"):
        save(record(), tmp_path / "none")


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot write the record"):
        save(record(), Path("/proc"))


def edited(tmp_path: Path, edit: Edit, samples: int = 10) -> Path:
    path = save(record(samples), tmp_path)
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda c: c.update(schema_version=99), "schema version 99"),
        (lambda c: c.pop("schema_version"), "schema version None"),
        (lambda c: c.pop("environment"), "environment: Field required"),
        (lambda c: c.update(surprise=1), "surprise"),
        (lambda c: c["systems"][0]["samples"][0]["blocks"][0].update(n=3), r"systems\.0\.samples\.0\.blocks\.0 has"),
        (lambda c: c["systems"][0]["samples"][0]["blocks"][0]["ns"].append("x"), "ns"),
        (lambda c: c["systems"][0]["samples"][0]["blocks"][0]["preempted"].pop(), "'preempted': 9"),
        (lambda c: c.update(arrays={"name": "../x.h5", "sha256": "0" * 64}), "arrays.name"),
    ],
)
def test_a_wrong_record_is_refused_with_the_place(edit: Edit, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord, match=words):
        load(edited(tmp_path, edit))


@pytest.mark.parametrize("content", ["", "{", "[1]", "not json", "\x00\xff", "[" * 100_000])
def test_what_is_not_a_record_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InvalidRecord, match=str(path)):
        load(path)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = save(record(3, systems=1), tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole.rstrip()), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidRecord):
            load(path)


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_a_path_that_cannot_be_read_is_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord, match="cannot read"):
        load(tmp_path if what == "folder" else tmp_path / "none")


def test_a_missing_or_altered_array_file_is_noticed(tmp_path: Path) -> None:
    path = save(record(INLINE_SAMPLES), tmp_path)
    (arrays,) = tmp_path.glob("*.h5")
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.write_bytes(content)
    with pytest.raises(InvalidRecord, match="altered"):
        load(path)
    arrays.unlink()
    with pytest.raises(InvalidRecord, match="is missing"):
        load(path)


def test_an_array_file_with_other_samples_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = save(record(INLINE_SAMPLES), tmp_path)
    (arrays,) = tmp_path.glob("*.h5")
    with h5py.File(arrays, "w") as file:
        for column, dtype in (("ns", "i8"), ("preempted", "?"), ("cpu_ns", "i8")):
            file.create_dataset(f"systems/0/samples/0/{column}", shape=(10**12,), dtype=dtype, chunks=(1000,))
    import hashlib

    content = json.loads(path.read_text())
    content["arrays"]["sha256"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRecord, match="holds \\(1000000000000,\\) samples"):
        load(path)


def test_a_run_that_is_killed_leaves_a_readable_record(tmp_path: Path) -> None:
    program = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from test_storage import record
        from deep_bench.records.store import INLINE_SAMPLES, RecordWriter
        writer = RecordWriter(Path({str(tmp_path)!r}), record())
        print(writer.path, flush=True)
        while True:
            writer.write(record(INLINE_SAMPLES, systems=4))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        for _ in range(200):
            assert load_stopped(process.pid, path).systems
        os.kill(process.pid, signal.SIGKILL)
    assert len(load(path).systems) in (2, 4)


def load_stopped(pid: int, path: Path) -> Record:
    """Read a record while its writer stands still at an arbitrary point."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    try:
        return load(path)
    finally:
        os.kill(pid, signal.SIGCONT)

"""The parameters of LogGP found again from messages that follow it, with segments; the file that keeps them."""

import json

import numpy as np
import pytest

from deep_bench.distributed.communicators.local import run_local
from deep_bench.distributed.loggp import LogGP
from deep_bench.distributed.machine import (
    SIZES,
    Link,
    Machine,
    MessagePoint,
    Segment,
    fitted_parameters,
    load_machine,
    measured_machine,
    measured_points,
    pairs_of,
)
from deep_bench.errors import InvalidArgument, InvalidRecord, UnknownName
from deep_bench.measure.environment import Environment

EAGER = LogGP(L=1e-6, o=4e-7, g=6e-7, G=1e-10)
RENDEZVOUS = LogGP(L=8e-6, o=5e-7, g=3e-6, G=5e-11)


def _points(noise=0.0, border=4096, sizes=SIZES):
    draws = np.random.default_rng(3)

    def scatter(value):
        return value * (1 + noise * draws.standard_normal())

    found = []
    for size in sizes:
        m = EAGER if size <= border else RENDEZVOUS
        found.append(
            MessagePoint(size=size, message=scatter(m.message(size)), gap=scatter(m.gap(size)), overhead=scatter(m.o), n=31)
        )
    return found


@pytest.mark.parametrize(("noise", "within"), [(0.0, 1e-6), (0.02, 0.15)])
def test_parameters_and_the_border_of_protocols_are_found_again(noise, within):
    found = fitted_parameters(_points(noise), gamma=2e-11)
    assert [segment.up_to for segment in found.segments] == [4096, None]
    for segment, true in zip(found.segments, (EAGER, RENDEZVOUS), strict=True):
        for name in ("L", "o", "g", "G"):
            assert getattr(segment.parameters, name) == pytest.approx(getattr(true, name), rel=within), name
        assert segment.parameters.gamma == 2e-11
    assert found.residual <= max(1.5 * noise, 1e-9)
    assert not found.notes


def test_one_segment_where_nothing_changes_and_a_note_where_nothing_is_left_for_the_wire():
    assert len(fitted_parameters(_points(0.02, border=2**30)).segments) == 1
    busy = [point.model_copy(update={"overhead": point.message}) for point in _points()]
    found = fitted_parameters(busy)
    assert "nothing is left for the wire" in found.notes[0]
    assert all(segment.parameters.L == 0 for segment in found.segments)
    assert found.segments[0].parameters.message(1) == pytest.approx(EAGER.message(1))
    with pytest.raises(InvalidArgument, match="2 measured sizes"):
        fitted_parameters(busy[:2])


def test_messages_are_measured_and_others_do_not_take_part():
    first, other, third = run_local(3, lambda comm: measured_points(comm, (0, 2), (1, 64, 4096)))
    assert [point.size for point in first] == [1, 64, 4096]
    assert all(point.message > 0 and point.n >= 3 for point in first)
    assert other == third == []


class _Agreed:
    def __init__(self, comm):
        self.comm = comm

    def decided(self, *values):
        return [int(v) for v in self.comm.broadcast(np.array(values, np.int64))]


def test_machine_is_measured_between_nodes_too(monkeypatch):
    monkeypatch.setattr("deep_bench.distributed.machine.SIZES", (1, 8, 64, 512))
    monkeypatch.setattr("deep_bench.distributed.machine.measured_points.__defaults__", ((1, 8, 64, 512),))
    hosts = ["a", "a", "b"]
    machine, *others = run_local(3, lambda comm: measured_machine({"local": comm}, hosts, _Agreed(comm)))
    assert others == [None, None]
    assert [(link.between, link.pair, link.hosts) for link in machine.links] == [
        ("one node", (0, 1), ("a", "a")),
        ("nodes", (0, 2), ("a", "b")),
    ]
    assert machine.link("local", hosts).between == "nodes"
    assert machine.link("local", ["a", "a"]).between == "one node"
    with pytest.raises(UnknownName, match="local"):
        machine.link("mpi", hosts)
    assert pairs_of(["a", "a"]) == [(0, 1)]


def _machine():
    segments = [Segment(up_to=4096, parameters=EAGER), Segment(parameters=RENDEZVOUS)]
    link = Link(system="mpi", between="one node", pair=(0, 1), hosts=("a", "a"), segments=segments, points=_points())
    return Machine(deep_bench="0", environment=Environment(), hosts=["a", "a"], links=[link])


def test_file_is_written_and_read_back(tmp_path):
    path = _machine().save(tmp_path / "machine.json")
    read = load_machine(path)
    assert read == _machine().model_copy(update={"created": read.created})
    link = read.link("mpi", ["a", "a"])
    assert link.message(4096) == EAGER.message(4096)
    assert link.gap(4097) == RENDEZVOUS.gap(4097)
    with pytest.raises(InvalidArgument, match="measured on one node"):
        read.link("mpi", ["a", "b"])
    with pytest.raises(InvalidArgument, match="cannot be written"):
        read.save(tmp_path / "nowhere" / "machine.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda content: content.update(schema_version=2), "schema_version"),
        (lambda content: content.update(kind="training"), "kind"),
        (lambda content: content["links"][0]["segments"][0]["parameters"].update(G=-1.0), "links.0.segments.0.parameters.G"),
        (lambda content: content["links"][0]["segments"][1].update(up_to=9000), "null for the last"),
        (lambda content: content["links"][0]["segments"].reverse(), "ascending"),
        (lambda content: content.pop("hosts"), "hosts"),
    ],
)
def test_a_file_that_is_no_machine_is_refused_by_name(tmp_path, change, told):
    content = json.loads(_machine().model_dump_json())
    change(content)
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRecord, match=told) as caught:
        load_machine(path)
    assert "deep-bench communicate" in str(caught.value)


def test_a_file_that_is_missing_or_torn_is_refused(tmp_path):
    with pytest.raises(InvalidRecord, match="cannot read"):
        load_machine(tmp_path / "none.json")
    (tmp_path / "torn.json").write_text(_machine().model_dump_json()[:-40])
    with pytest.raises(InvalidRecord, match=r"torn.json: Invalid JSON"):
        load_machine(tmp_path / "torn.json")

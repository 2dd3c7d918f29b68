"""Where the time goes: what a profile must add up to, whoever is profiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.framework import Adapter, Executor
from deep_bench.network.profile_result import CONVERSIONS, WHOLE, Profile, SystemProfile, grown
from deep_bench.network.profiling import liveness
from deep_bench.operators.cost import KnownSizes, Work

SYSTEMS = ["onnxruntime", "reference", "tensorflow", "torch"]


def planted() -> db.Network:
    """One large product among small work, with a parameter in it so that there is something to differentiate."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((512, 512), np.float32),
        "starts": np.array([0, 0]),
        "ends": np.array([8, 8]),
        "one": np.ones((), np.float32),
    }
    nodes = [
        helper.make_node("Add", ["x", "one"], ["a"], name="before"),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="big"),
        helper.make_node("Slice", ["b", "starts", "ends"], ["c"], name="part"),
        helper.make_node("Tanh", ["c"], ["d"], name="after"),
        helper.make_node("Neg", ["one"], ["minus"], name="known"),
        helper.make_node("Mul", ["d", "minus"], ["e"], name="scaled"),
        helper.make_node("ReduceSum", ["e"], ["loss"], name="total", keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "planted",
        [helper.make_tensor_value_info("x", floats, (512, 512))],
        [helper.make_tensor_value_info("loss", floats, ())],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return db.Network.from_proto(model)


def profiled(loss: str | None) -> Profile:
    systems = [name for name in SYSTEMS if not db.frameworks.missing(name)]
    return db.network.profile(planted(), systems, loss=loss, repeat=7, in_process=True, progress=False)


@pytest.fixture(scope="module")
def forward() -> Profile:
    return profiled(None)


@pytest.fixture(scope="module")
def backward() -> Profile:
    return profiled("loss")


@pytest.fixture(params=["forward", "backward"])
def profile(request: pytest.FixtureRequest) -> Profile:
    found: Profile = request.getfixturevalue(request.param)
    return found


@pytest.mark.long
def test_every_system_tells(profile: Profile) -> None:
    assert [system.error for system in profile.systems] == [None] * len(profile.systems)
    assert profile.ok


def test_pieces_add_up_to_no_more_than_the_whole_of_every_single_call(profile: Profile) -> None:
    for system in profile.systems:
        pieces = np.array([piece.ns for piece in system.pieces])
        assert pieces.shape[1] == len(system.observed_ns) == len(system.plain_ns) == 7
        assert (pieces >= 0).all()
        assert (pieces.sum(axis=0) <= system.observed_ns).all(), system.label


def test_shares_and_what_lies_between_add_up_to_one(profile: Profile) -> None:
    for system in profile.systems:
        shares = [row.cells[system.label].share for row in profile.rows if system.label in row.cells]
        assert sum(shares) + system.between / system.observed == pytest.approx(1)


def test_every_node_is_accounted_for(profile: Profile) -> None:
    names = {node.name for node in profile.nodes}
    assert names == {"before", "big", "part", "after", "known", "scaled", "total"}
    for system in profile.systems:
        covered = {name for piece in system.pieces if piece.direction == "forward" for name in piece.nodes}
        assert covered | set(system.absent) == names, system.label
        assert not covered & set(system.absent), system.label
        assert all(system.absent.values())


def test_a_constant_node_is_said_not_to_run(forward: Profile) -> None:
    for label in ("onnxruntime", "torch", "tensorflow"):
        if label in {system.label for system in forward.systems}:
            assert "known" in forward[label].absent
            row = next(row for row in forward.rows if "known" in row.nodes)
            assert row.cells[label].state == "absent"


def test_the_large_product_comes_out_on_top_everywhere(profile: Profile) -> None:
    for system in profile.systems:
        pieces = [piece for piece in system.pieces if piece.direction == "forward"]
        top = max(pieces, key=lambda piece: min(piece.ns))  # the shortest call is one that nothing preempted
        assert "big" in top.nodes, system.label


def test_a_row_shows_the_medians_of_its_pieces(profile: Profile) -> None:
    for system in profile.systems:
        cell = next(row for row in profile.rows if "big" in row.nodes).cells[system.label]
        own = [piece for piece in system.pieces if "big" in piece.nodes and not piece.whole]
        assert cell.forward == sum(np.median(piece.ns) for piece in own if piece.direction == "forward")
        assert cell.backward == sum(np.median(piece.ns) for piece in own if piece.direction == "backward")
        assert cell.share == cell.ns / system.observed


def test_the_way_back_is_told(backward: Profile) -> None:
    for system in backward.systems:
        back = {name for piece in system.pieces if piece.direction == "backward" for name in piece.nodes}
        assert {"big", "after"} <= back, system.label
    for label in ("onnxruntime", "reference", "torch"):
        if label in {system.label for system in backward.systems}:
            pieces = [piece for piece in backward[label].pieces if piece.direction == "backward"]
            assert "big" in max(pieces, key=lambda piece: min(piece.ns)).nodes, label
    big = next(node for node in backward.nodes if node.name == "big")
    assert big.backward == Work(2 * 512**3)  # of the parameter only: nobody asked for the input's


def test_it_says_what_being_observed_costs(profile: Profile) -> None:
    for system in profile.systems:
        assert system.cost == pytest.approx(np.median(system.observed_ns) / np.median(system.plain_ns))
        assert system.how
        assert (system.inside_ns is not None) == (system.label == "onnxruntime")
        assert (system.walk_ns is not None) == (system.label == "tensorflow")


def test_the_runtime_takes_no_longer_than_python_around_it_sees(profile: Profile) -> None:
    runtime = profile["onnxruntime"]
    assert runtime.inside_ns is not None
    assert (np.array(runtime.inside_ns) <= runtime.observed_ns).all()
    assert runtime.around is not None
    assert runtime.around > 0


def test_what_a_node_asks_for_is_computed(forward: Profile) -> None:
    facts = {node.name: node for node in forward.nodes}
    assert facts["big"].work == Work(2 * 512**3)
    assert facts["after"].work == Work(special=8 * 8)
    assert facts["known"].work == Work()
    assert facts["big"].bytes == 3 * 512 * 512 * 4
    assert facts["part"].work == Work()
    assert facts["part"].bytes == 2 * 8 * 8 * 4 + 2 * 16
    assert forward.needs.parameters == 512 * 512 * 4 + 2 * 16 + 4
    assert forward.needs.peak == 2 * 512 * 512 * 4
    assert forward.needs.at == "big"


def test_memory_and_first_steps_are_measured(forward: Profile) -> None:
    for system in forward.systems:
        assert system.memory is not None
        assert system.memory.prepared > 0
        assert system.prepare_ns is not None
        assert system.first_call_ns is not None
        assert min(system.prepare_ns, system.first_call_ns) > 0
        assert len(system.numpy_ns) == len(system.native_ns) == 7


def test_a_profile_is_written_and_read_again(profile: Profile, tmp_path: Path) -> None:
    again = Profile.load(profile.save(tmp_path / "profile.json"))
    assert again == profile
    assert again.table() == profile.table()


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"systems": 3}')
    for file in ("other.json", "missing.json"):
        with pytest.raises(InvalidRecord, match=rf"{file}(?s:.*)deep-bench profile"):
            Profile.load(tmp_path / file)


def test_the_table_names_what_matters(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # it may ask for a narrow table, in which names fold
    table = profile.table(None)
    for words in ("big", "between the nodes", "whole call", "268 M", "what being observed costs", "first call", "memory"):
        assert words in table
    assert "more rows" not in table
    assert "more rows" in profile.table(2)


def test_a_picture_is_drawn(profile: Profile, tmp_path: Path) -> None:
    from deep_bench.network.plots import plot_profile as plot

    assert plot(profile, tmp_path / "profile.png").read_bytes().startswith(b"\x89PNG")


def test_a_system_that_fails_leaves_the_others(tmp_path: Path) -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        sampled (float[2] x) => (float[2] y) { y = Celu(x) }""")
    )
    found = db.network.profile(network, ["reference"], loss=None, repeat=1, in_process=True, progress=False)
    assert found.ok
    with pytest.raises(InvalidArgument, match="no output 'loss'"):
        db.network.profile(network, ["reference"], loss="loss", repeat=1, in_process=True, progress=False)
    failing = db.network.profile(planted(), ["reference", f"{__name__}:Refusing"], repeat=1, in_process=True, progress=False)
    assert failing["reference"].error is None
    assert "cannot be profiled" in str(failing[f"{__name__}:Refusing"].error)
    assert not failing.ok
    assert "cannot be profiled" in failing.table()


def test_systems_are_asked_for_once_each() -> None:
    with pytest.raises(InvalidArgument, match="each of them once"):
        db.network.profile("digits-cnn", ["reference", "reference"])
    with pytest.raises(InvalidArgument, match="repeat=0"):
        db.network.profile("digits-cnn", ["reference"], repeat=0)


def test_in_workers_of_their_own() -> None:
    found = db.network.profile(planted(), ["reference"], repeat=2, progress=False)
    assert found.ok
    memory = found["reference"].memory
    assert memory is not None
    assert memory.before < memory.prepared


def test_dimensions_that_only_a_run_shows() -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        chosen (float[4] x) => (float[n] y) { i = NonZero(x)  j = Squeeze(i)  g = Gather(x, j)  [last] y = Exp(g) }""")
    )
    inputs = {"x": np.array([1, 0, 2, 3], np.float32)}
    assert liveness(network).unknown == 4
    assert liveness(network, KnownSizes(network, inputs)).unknown == 0
    found = db.network.profile(network, ["reference"], inputs, repeat=1, in_process=True, progress=False)
    assert (found.nodes[-1].work, found.nodes[-1].bytes, found.needs.unknown) == (Work(special=3), 2 * 3 * 4, 0)


def test_what_the_reference_cannot_run_leaves_the_rest_of_the_facts() -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "mine": 1]>
        own (float[4] x) => (float[4] y) { [known] a = Relu(x)  [own] b = mine.Own(a)  [last] y = Exp(b) }""")
    )
    found = db.network.profile(network, ["reference"], repeat=1, in_process=True, progress=False)
    assert not found.ok
    facts = {node.name: node for node in found.nodes}
    assert (facts["known"].work, facts["known"].bytes) == (Work(comparisons=4), 32)
    assert (facts["own"].work, facts["own"].bytes) == (None, None)
    assert found.needs.unknown == 1


def test_inputs_that_no_system_can_take_are_refused_by_each() -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        fits (float[4] x) => (float[n] y) <float[3] w = {1, 2, 3}> {
          i = NonZero(x)  j = Squeeze(i)  g = Gather(x, j)  [last] y = Add(g, w) }""")
    )
    inputs = {"x": np.ones(4, np.float32)}  # four elements, and three of the other
    found = db.network.profile(network, ["reference"], inputs, repeat=1, in_process=True, progress=False)
    assert "broadcast" in str(found["reference"].error)
    assert found.nodes[-1].work is None


def test_rows_of_no_node_come_last(forward: Profile) -> None:
    labels = [row.label for row in forward.rows]
    assert [label for label in labels if label in (CONVERSIONS, WHOLE)] == labels[
        len(labels) - sum(x in (CONVERSIONS, WHOLE) for x in labels) :
    ]


def test_bytes_can_be_given_back() -> None:
    assert grown(-3_000_000) == "-3.000 MB"


class _Silent(Executor[np.ndarray]):
    def __init__(self, executor: Executor[np.ndarray]) -> None:
        self._executor = executor
        self.device, self.inputs, self.forms = executor.device, executor.inputs, executor.forms

    def forward(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self._executor.forward(inputs)

    def bind(self, inputs: dict[str, np.ndarray]) -> object:
        return self._executor.bind(inputs)


class Refusing(Adapter[np.ndarray]):
    """The reference, which keeps to itself where its time goes."""

    name = "refusing"

    def prepare(self, network: db.Network, **options: object) -> _Silent:
        return _Silent(db.frameworks["reference"]().prepare(network))

    def describe(self) -> dict[str, str]:
        return {"version": "1"}

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def synchronize(self) -> None:
        pass


def test_the_middle_of_nothing_is_nothing() -> None:
    empty = SystemProfile(label="none", framework="none", observed_ns=[5, 7, 9])
    assert empty.in_nodes == 0
    assert empty.between == empty.observed == 7

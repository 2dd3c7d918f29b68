"""The generated module."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.adapters.lowering import Plan, Site, Slot, Step
from deep_bench.graph import Network

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)
from deep_bench.adapters.torch.module import (  # noqa: E402
    PlanModule,
    place,
)

HELPER = onnx.helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def step(operator: str, function, inputs: list[str], outputs: list[str], rank: int | None = None) -> Step:
    shape = None if rank is None else (None,) * rank
    slots = tuple(Slot(n, np.dtype("float32"), shape) for n in inputs)
    return Step(Site(operator, operator, 28, {}, slots, tuple(Slot(n, None, shape) for n in outputs)), function)


def network(nodes, inputs, outputs, initializers=()) -> Network:
    graph = HELPER.make_graph(
        nodes,
        "g",
        [HELPER.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [HELPER.make_tensor_value_info(n, t, None) for n, t in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in initializers],
    )
    return Network.from_proto(HELPER.make_model(graph, opset_imports=[HELPER.make_opsetid("", 28)], ir_version=13))


def test_code_is_one_statement_a_step_and_lets_go_of_values() -> None:
    plan = Plan(
        (Slot("x"),),
        (step("Relu", torch.relu, ["x"], ["h"]), step("Neg", torch.neg, ["h"], ["y"])),
        ("y",),
        {},
    )
    module = PlanModule(plan, named=True)
    assert module.code.splitlines() == [
        "def forward(self, v_x):",
        "    v_h = f0(v_x)  # Relu Relu",
        "    del v_x",
        "    v_y = f1(v_h)  # Neg Neg",
        "    del v_h",
        "    return {'y': v_y}",
    ]
    assert module(torch.ones(1))["y"].item() == -1


@pytest.mark.parametrize("names", [("a.b", "a_b", "a/b"), ("self", "parameters", "f0"), ("for", "1", "ü\n"), ("", " ", "'")])
def test_any_names_can_be_told_apart(names) -> None:
    first, second, third = names
    plan = Plan(
        (Slot(first), Slot(second)),
        (step("Sub", torch.sub, [first, third], ["h"]), step("Mul", torch.mul, ["h", second], ["y"])),
        ("y",),
        {third: np.array([2.0], np.float32)},
        parameters=(third,),
    )
    module = PlanModule(plan)
    assert module(torch.tensor([5.0]), torch.tensor([7.0]))[0].item() == 21
    assert len(list(module.parameters())) == 1


def test_parameters_and_buffers() -> None:
    plan = Plan((), (), ("w", "i", "s"), {
        "w": np.ones(2, np.float32), "i": np.arange(2), "s": np.array(["a"], object),
    }, parameters=("w",))  # fmt: skip
    module = PlanModule(plan, trains=True)
    assert [n for n, p in module.named_parameters() if p.requires_grad] == ["c_w"]
    assert [n for n, _ in module.named_buffers()] == ["c_i"]
    assert module()[2][0] == "a"


def branch(name: str, operator: str) -> onnx.GraphProto:
    return HELPER.make_graph(
        [HELPER.make_node(operator, ["x", "w"], [f"{name}_y"])],
        name,
        [],
        [HELPER.make_tensor_value_info(f"{name}_y", FLOAT, None)],
    )


def test_branches_see_what_they_capture_and_parameters_reach_them() -> None:
    node = HELPER.make_node("If", ["c"], ["y"], then_branch=branch("a", "Sub"), else_branch=branch("b", "Mul"))
    net = network([node], [("c", BOOL, []), ("x", FLOAT, [2])], [("y", FLOAT)], [("w", np.array([3, 4], np.float32))])
    executor = TorchAdapter().prepare(net)
    x = np.array([5, 6], np.float32)
    assert executor({"c": np.array(True), "x": x})["y"].tolist() == [2, 2]
    assert executor({"c": np.array(False), "x": x})["y"].tolist() == [15, 24]
    executor.parameters["w"] = torch.tensor([1.0, 1.0])
    assert executor({"c": np.array(False), "x": x})["y"].tolist() == [5, 6]


def loop(limit: bool, condition: bool) -> Network:
    body = HELPER.make_graph(
        [
            HELPER.make_node("Add", ["s", "w"], ["t"]),
            HELPER.make_node("ReduceMax", ["t"], ["m"], keepdims=0),
            HELPER.make_node("Less", ["m", "top"], ["again"]),
            HELPER.make_node("Cast", ["i"], ["f"], to=FLOAT),
        ],
        "body",
        [HELPER.make_tensor_value_info(n, t, s) for n, t, s in (("i", INT64, []), ("go", BOOL, []), ("s", FLOAT, [1]))],
        [HELPER.make_tensor_value_info(n, t, s) for n, t, s in (("again", BOOL, []), ("t", FLOAT, [1]), ("f", FLOAT, []))],
    )
    names = ["n" if limit else "", "c" if condition else "", "x"]
    node = HELPER.make_node("Loop", names, ["y", "all"], body=body)
    inputs = [("n", INT64, []), ("c", BOOL, []), ("x", FLOAT, [1]), ("top", FLOAT, [])]
    kept = [i for i in inputs if i[0] not in ({"n"} if not limit else set()) | ({"c"} if not condition else set())]
    return network([node], kept, [("y", FLOAT), ("all", FLOAT)], [("w", np.array([2.0], np.float32))])


@pytest.mark.parametrize(
    ("limit", "condition", "steps"), [(3, None, 3), (9, True, 5), (None, True, 5), (3, False, 0), (0, None, 0)]
)
def test_loops_end_by_count_or_condition(limit, condition, steps) -> None:
    fed = {"x": np.array([0.0], np.float32), "top": np.array(10, np.float32)}
    fed |= {} if limit is None else {"n": np.array(limit)}
    fed |= {} if condition is None else {"c": np.array(condition)}
    found = TorchAdapter().prepare(loop(limit is not None, condition is not None))(fed)
    assert found["y"].tolist() == [2.0 * steps]
    assert found["all"].tolist() == list(range(steps))


def test_scan_reads_backwards_and_writes_along_any_axis() -> None:
    body = HELPER.make_graph(
        [HELPER.make_node("Add", ["s", "a"], ["t"]), HELPER.make_node("Identity", ["t"], ["u"])],
        "body",
        [HELPER.make_tensor_value_info(n, FLOAT, [2]) for n in ("s", "a")],
        [HELPER.make_tensor_value_info(n, FLOAT, [2]) for n in ("t", "u")],
    )
    node = HELPER.make_node(
        "Scan", ["x", "seq"], ["y", "all"], body=body, num_scan_inputs=1,
        scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1],
    )  # fmt: skip
    seq = np.array([[1, 2, 3], [10, 20, 30]], np.float32)
    net = network([node], [("x", FLOAT, [2]), ("seq", FLOAT, [2, 3])], [("y", FLOAT), ("all", FLOAT)])
    found = TorchAdapter().prepare(net)({"x": np.zeros(2, np.float32), "seq": seq})
    assert found["y"].tolist() == [6, 60]
    assert found["all"].tolist() == [[6, 5, 3], [60, 50, 30]]


def reshaping() -> Plan:
    """A reshape to a shape that is computed from the input's."""
    size = lambda x: torch.tensor(x.shape[:1])  # noqa: E731
    return Plan(
        (Slot("x", np.dtype("float32"), (None, None)),),
        (
            step("Shape", size, ["x"], ["s"], rank=1),
            step("Concat", lambda *xs: torch.cat(xs, 0), ["s", "rest"], ["to"], rank=1),
            step("Reshape", lambda x, s: x.reshape(s.tolist()), ["x", "to"], ["r"], rank=2),
            step("Cast", lambda s: s.float(), ["s"], ["f"], rank=1),
            step("Mul", torch.mul, ["r", "f"], ["y"], rank=2),
        ),
        ("y", "rest"),
        {"rest": np.array([-1])},
    )


def test_shapes_stay_on_the_cpu() -> None:
    placed = place(reshaping())
    assert placed.hosted == {"s", "to", "f"}
    assert placed.on_cpu == {"rest"}
    assert placed.on_device == {"rest"}


def test_what_the_device_needs_is_moved_there() -> None:
    module = PlanModule(reshaping(), target=torch.device("cpu"))
    assert "f4(v_r, v_f.to(device))" in module.code
    assert "f2(v_x, v_to)" in module.code
    assert "f1(v_s, host['c_rest'])" in module.code
    assert module(torch.ones(2, 3))[0].tolist() == [[2.0] * 3] * 2

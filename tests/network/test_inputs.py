"""Drawn inputs make sense for what they feed; files are read with care."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from deep_bench.errors import InvalidInput
from deep_bench.framework import check_inputs
from deep_bench.graph import Network
from deep_bench.graph.drawing import draw_inputs
from deep_bench.network.problem import prepare_inputs, read_inputs
from deep_bench.tensor import STRING, TensorSpec

INT64, FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def embedding(vocabulary: int = 5) -> Network:
    """Token ids through a Cast into a table, beside a mask and a rate that is compared with constants."""
    helper = onnx.helper
    table = onnx.numpy_helper.from_array(np.zeros((vocabulary, 2), np.float32), "table")
    rate = onnx.numpy_helper.from_array(np.array(16000, np.int64), "sixteen")
    nodes = [
        helper.make_node("Identity", ["ids"], ["kept"]),
        helper.make_node("Gather", ["table", "kept"], ["embedded"]),
        helper.make_node("Equal", ["rate", "sixteen"], ["fast"]),
        helper.make_node("Identity", ["attention_mask"], ["mask_out"]),
    ]
    inputs = [("ids", [3, 40]), ("rate", []), ("attention_mask", [3, 40]), ("lengths", [3])]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Identity", ["lengths"], ["lengths_out"])],
        "embedding",
        [helper.make_tensor_value_info(name, INT64, shape) for name, shape in inputs],
        [
            helper.make_tensor_value_info("embedded", FLOAT, [3, 40, 2]),
            helper.make_tensor_value_info("fast", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("mask_out", INT64, [3, 40]),
            helper.make_tensor_value_info("lengths_out", INT64, [3]),
        ],
        [table, rate],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def test_token_ids_index_their_table() -> None:
    ids = draw_inputs(embedding(5), 0)["ids"]
    assert ids.dtype == np.int64
    assert set(ids.ravel()) == {0, 1, 2, 3, 4}


def test_a_compared_value_is_the_constant() -> None:
    assert draw_inputs(embedding(), 0)["rate"] == 16000


def test_masks_and_lengths() -> None:
    drawn = draw_inputs(embedding(), 0)
    assert drawn["attention_mask"].min() == 1
    assert drawn["lengths"].tolist() == [40, 40, 40]


def test_the_same_seed_draws_the_same() -> None:
    first, second, other = (prepare_inputs(embedding(), None, "", seed) for seed in (1, 1, 2))
    assert first.digests == second.digests != other.digests
    assert first.origin == "generator, seed 1"


def test_drawn_inputs_run_in_the_reference() -> None:
    import deep_bench as db

    found = db.frameworks["reference"]().prepare(embedding())(draw_inputs(embedding(), 3))
    assert found["embedded"].shape == (3, 40, 2)


def test_files_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.arange(3))
    assert read_inputs(tmp_path / "in.npz")["x"].tolist() == [0, 1, 2]


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.array([{}], dtype=object))
    with pytest.raises(InvalidInput, match="pickled"):
        read_inputs(tmp_path / "in.npz")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off", b"\x93NUMPY\x01\x00"])
def test_what_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.npz").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"in\.npz"):
        read_inputs(tmp_path / "in.npz")


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.arange(3))
    with pytest.raises(InvalidInput, match="npz"):
        read_inputs(tmp_path / "in.npy")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        read_inputs(tmp_path / "in.npz")


@pytest.mark.parametrize("strange", [np.array([1, 2]), np.array(["a", None], object), np.array([1.5, "a"], object)])
def test_only_strings_are_strings(strange: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match=r"s: string\[n\]: Python strings"):
        check_inputs([TensorSpec("s", ("n",), STRING)], {"s": strange})

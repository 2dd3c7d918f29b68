"""The data that ship: what the files say of themselves holds."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import h5py
import numpy as np
import onnx
import pytest

import deep_bench.data
from deep_bench.data import digits
from deep_bench.errors import InvalidArgument

FOLDER = Path(deep_bench.data.__file__).parent


def test_readme_names_each_file_and_its_checksum() -> None:
    rows = re.findall(r"^\| `([^`]+\.(?:h5|onnx))` .*`([0-9a-f]{64})`", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name, _ in rows} == dict(rows)
    assert {name for name, _ in rows} == {f.name for f in FOLDER.iterdir() if f.suffix in (".h5", ".onnx")}


def test_digits_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = digits()
    original = datasets.load_digits()
    np.testing.assert_array_equal(images[:, 0] * 16, original.images)
    np.testing.assert_array_equal(labels, original.target)


def test_split_covers_each_digit_once() -> None:
    with h5py.File(FOLDER / "digits.h5") as file:
        train, test = file["split/train"][:], file["split/test"][:]
        assert {"source", "citation", "licence"} <= set(file.attrs)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(1797))
    assert set(np.bincount(digits("test")[1])) <= {34, 35, 36}


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="validation"):
        digits("validation")  # type: ignore[arg-type]


def test_network_is_valid_and_states_its_origin() -> None:
    model = onnx.load(FOLDER / "digits-cnn.onnx")
    onnx.checker.check_model(model, full_check=True)
    stated = {p.key: p.value for p in model.metadata_props}
    assert stated["training_script"] == "examples/train_digits_cnn.py"
    assert "CC BY 4.0" in stated["data_licence"]
    assert all(node.name for node in model.graph.node)


def test_network_reaches_its_stated_accuracy() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    file = FOLDER / "digits-cnn.onnx"
    stated = {p.key: p.value for p in onnx.load(file).metadata_props}["test_accuracy"]
    images, labels = digits("test")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"image": images})
    accuracy = np.mean(logits.argmax(1) == labels)
    assert f"{accuracy:.4f}" == stated
    assert accuracy > 0.98

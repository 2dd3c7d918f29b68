"""Which words of a command name files."""

from __future__ import annotations

from pathlib import Path

from deep_bench.recipes.bundles import command_parts


def test_what_is_read_and_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("net.onnx", "kernels.py", "train", "data/rows.npz"):
        (tmp_path / name).touch()
    command = ["deep-bench", "train", "net.onnx", "kernels.py:Fast", "data.root=./data", "--cases=data/rows.npz"]
    command += ["--output", "net.onnx", "--plot=net.onnx", "missing.onnx", "--on", "torch:threads=1", "."]
    found = command_parts(command, tmp_path)
    assert [str(word) for word in found] == command
    assert [(w.before, w.text, w.after) for w in found if w.use == "reads"] == [
        ("", "net.onnx", ""),
        ("", "kernels.py", ":Fast"),
        ("data.root=", "./data", ""),
        ("--cases=", "data/rows.npz", ""),
    ]
    assert [str(w) for w in found if w.use == "writes"] == ["net.onnx", "--plot=net.onnx"]
    assert [w.again() for w in found if w.use == "writes"] == ["repeated", "--plot=repeated/net.onnx"]
    assert [str(w) for w in found if w.use == "missing"] == ["missing.onnx"]
    assert found[3].named("inputs/kernels.py") == "inputs/kernels.py:Fast"


def test_json_is_a_flag_of_some_verbs_and_a_file_of_others() -> None:
    run, operators = ([verb, "--json", "x"] for verb in ("run", "operators"))
    assert [w.use for w in command_parts(["deep-bench", *run], Path())] == ["word"] * 4
    assert [w.use for w in command_parts(["deep-bench", *operators], Path())] == ["word"] * 3 + ["writes"]


def test_words_that_are_no_paths_of_this_system(tmp_path: Path) -> None:
    odd = ["a" * 5000 + "/b", "nul\0.onnx", "", "=", ":", "-x.y", "..", "a=b=c.d:e"]
    assert all(word.use == "word" for word in command_parts(["deep-bench", *odd], tmp_path))

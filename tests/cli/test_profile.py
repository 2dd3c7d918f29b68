"""``deep-bench profile``."""

from __future__ import annotations

from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.network.profiling.model import Profile


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


def test_a_table_a_file_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    given = ["digits-cnn", "--on", "reference", "--repeat", "2", "--batch", "1", "--in-process", "--top", "3"]
    assert deep_bench("profile", *given, "--json", tmp_path / "p.json", "--plot", tmp_path / "p.png") == 0
    printed = capsys.readouterr().out
    assert "between the nodes" in printed
    assert "19 more rows" in printed
    found = Profile.load(tmp_path / "p.json")
    assert found.repeat == 2
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_backward_needs_an_output(capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("profile", "digits-cnn", "--on", "reference", "--in-process", "--backward", "loss") == 2
    assert "no output 'loss'" in capsys.readouterr().err


def test_a_framework_that_cannot_be_profiled_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "shy.py").write_text(
        "from deep_bench.reference.network.adapter import ReferenceAdapter\n"
        "class Shy(ReferenceAdapter):\n"
        "    name = 'shy'\n"
        "    def prepare(self, network, **options):\n"
        "        raise __import__('deep_bench').errors.Unsupported('it is shy')\n"
    )
    import sys

    sys.path.append(str(tmp_path))
    try:
        assert deep_bench("profile", "digits-cnn", "--on", "shy:Shy", "--repeat", "1", "--in-process") == 1
    finally:
        sys.path.remove(str(tmp_path))
    assert "it is shy" in capsys.readouterr().out

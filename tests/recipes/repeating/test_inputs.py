"""What a bundle takes in of what was run, and what it refuses to leave out in silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from deep_bench import load
from deep_bench.arrays import digest
from deep_bench.cli.bundle import command as bundle_verb
from deep_bench.errors import InvalidArgument, InvalidRecord, Unsupported
from deep_bench.recipes.badges import badges
from deep_bench.recipes.bundles import CommandInputs, RecordedInputs, bundle
from deep_bench.recipes.manifest import Contents, Manifest, Omission, unpack
from deep_bench.recipes.repetition import allowed_command, repeat
from deep_bench.testing.adapter import small_network
from tests.recipes.repeating.conftest import WORDS

COMMAND = ["deep-bench", *WORDS]
WHERE = "https://example.org/small.onnx"


@pytest.fixture
def moved(place: Path, tmp_path: Path) -> Path:
    """The folder of the run, whose network was moved."""
    shutil.copytree(place, tmp_path / "moved", ignore=shutil.ignore_patterns("*.zip", "*.whl"))
    (tmp_path / "moved" / "models" / "small.onnx").rename(tmp_path / "moved" / "other.onnx")
    return tmp_path / "moved"


def changed(folder: Path) -> Path:
    """The network is another one."""
    proto = onnx.load(folder / "other.onnx")
    proto.doc_string = "another"
    onnx.save(proto, folder / "models" / "small.onnx")
    return folder


def damaged(folder: Path) -> Path:
    (folder / "models" / "small.onnx").write_bytes((folder / "other.onnx").read_bytes()[:-9])
    return folder


def test_a_network_that_is_gone_or_another_is_refused(moved: Path, tmp_path: Path) -> None:
    for fault, message in (
        (lambda folder: folder, r"models/small\.onnx is not there"),
        (changed, r"models/small\.onnx is another now than when it was run: its SHA-256 is [0-9a-f]{64}\n"),
        (damaged, r"models/small\.onnx is another now"),
    ):
        with pytest.raises(InvalidRecord, match=message) as error:
            bundle([moved / "mine"], tmp_path / "b.zip", command=COMMAND, folder=fault(moved))
        assert "--elsewhere" in error.value.advice
    with pytest.raises(InvalidRecord, match=r"small is the network with SHA-256 \w+, which no file of the command is"):
        bundle([moved / "mine"], tmp_path / "b.zip", command=["deep-bench", "run", "digits-cnn"], folder=moved)
    assert not (tmp_path / "b.zip").exists()


@pytest.mark.usefixtures("as_before")
def test_a_network_that_can_be_had_elsewhere(moved: Path, tmp_path: Path) -> None:
    archive = tmp_path / "b.zip"
    words = [str(moved / "mine"), "-o", str(archive), "--command", " ".join(COMMAND), "--elsewhere"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(moved)
        found = CliRunner().invoke(bundle_verb, [*words, f"models/small.onnx={WHERE}"])
    assert found.exit_code == 0, found.output
    assert f"warning: not in it: models/small.onnx: the file here is not there; {WHERE}\n" in found.stderr
    made = unpack(archive, tmp_path / "there")
    sha256 = load(moved / "other.onnx").sha256
    assert [(one.source, one.files) for one in made.left] == [(WHERE, {"inputs/small.onnx": sha256})]
    assert f"put it at `inputs/small.onnx`: SHA-256 `{sha256}`" in (tmp_path / "there" / "README.md").read_text()
    complete = next(check for check in badges(archive)[1].checks if check.name == "complete")
    assert (complete.state, WHERE in complete.reason) == ("pass", True)

    into = tmp_path / "again"
    with pytest.raises(InvalidRecord, match=r"inputs/small\.onnx is not there") as error:
        repeat(archive, into, here=True)
    assert f"get it from {WHERE}, put it there" in error.value.advice
    (into / "inputs").mkdir()
    (into / "inputs" / "small.onnx").write_text("another")
    with pytest.raises(InvalidRecord, match=r"inputs/small\.onnx is another file"):
        repeat(into, into, here=True)
    shutil.copyfile(moved / "other.onnx", into / "inputs" / "small.onnx")
    assert repeat(into, tmp_path / "elsewhere", here=True).verdict == "repeated to the last bit"
    assert repeat(into, into, here=True).verdict == "repeated to the last bit"


def test_elsewhere_names_something_that_is_left_out(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"models/small\.onnx is not left out"):
        bundle([place / "mine"], tmp_path / "b.zip", command=COMMAND, folder=place, elsewhere={"models/small.onnx": WHERE})
    assert CliRunner().invoke(bundle_verb, [str(place / "mine"), "--elsewhere", "x="]).exit_code == 2


def test_a_network_that_a_program_made_is_told(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    made = bundle([place / "mine"], tmp_path / "b.zip", command=["mine.py"], folder=tmp_path)
    assert [(one.what, one.source) for one in made.left] == [("the network small", "")]
    complete = next(check for check in badges(tmp_path / "b.zip")[1].checks if check.name == "complete")
    assert (complete.state, complete.reason) == ("fail", "neither in it nor told where it can be had: the network small")


def test_inputs_that_are_gone_or_others(tmp_path: Path) -> None:
    x = np.arange(3.0)
    recorded = RecordedInputs(arrays={Path("in.npz"): {"x": digest(x)}})
    command = ["deep-bench", "run", "digits-cnn", "--input", "./in.npz"]

    def faults() -> dict[str, str]:
        taken = CommandInputs(Contents(), recorded)
        taken.command(command, tmp_path)
        return taken.faults

    assert faults() == {"./in.npz": "is not there"}
    np.savez(tmp_path / "in.npz", x=x, more=x)
    assert faults() == {}
    np.savez(tmp_path / "in.npz", x=x + 1)
    assert faults() == {"./in.npz": "is another now than when it was run: the array x"}
    (tmp_path / "in.npz").write_text("no archive")
    assert "cannot be read" in faults()["./in.npz"]


def test_a_network_comes_with_the_files_of_its_tensors(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(small_network().to_proto(), file, save_as_external_data=True, location="net.bin", size_threshold=0)
    found = load(file)
    taken = CommandInputs(Contents(), RecordedInputs({"net": frozenset({found.sha256})}))
    again = taken.command(["deep-bench", "run", "net.onnx", "--output", "mine"], tmp_path)
    assert (taken.faults, taken.networks) == ({}, {found.sha256})
    folder = Path(again[2]).parent.as_posix()
    assert set(taken.contents.files) == {f"{folder}/net.onnx", f"{folder}/net.bin"}
    assert again == ["deep-bench", "run", f"{folder}/net.onnx", "--output", "repeated"]


def test_what_recipes_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "models").mkdir(parents=True)
    small_network().save(home / "models" / "net.onnx")
    (home / "kernels.py").touch()
    (tmp_path / "outside.npz").touch()
    (home / "training.yaml").write_text("network: models/net.onnx\n")
    (home / "e.yaml").write_text(
        "title: As in kernels.py, at 0.5 and 1.5\n"
        "fixed: {kernels: ['kernels.py:Fast'], recipe: training.yaml, budget: 0.5s}\n"
        f"matrix: {{suite: [transformer/gelu, gone.toml, {tmp_path}/outside.npz, ../outside.npz]}}\n"
    )
    taken = CommandInputs(Contents(), RecordedInputs())
    again = taken.command(["deep-bench", "recipe", "run", "home/e.yaml"], tmp_path)
    assert again == ["deep-bench", "recipe", "run", "inputs/e.yaml", "--output", "repeated"]
    assert set(taken.contents.files) == {
        "inputs/e.yaml",
        "inputs/kernels.py",
        "inputs/training.yaml",
        "inputs/models/net.onnx",
    }
    assert taken.faults == {"gone.toml": "is not there"}
    assert [one.what for one in taken.contents.left] == [f"{tmp_path}/outside.npz", "../outside.npz"]
    taken = CommandInputs(Contents(), RecordedInputs())
    assert taken.command(["deep-bench", "train", "training.yaml"], home)[2] == "inputs/training.yaml"
    assert set(taken.contents.files) == {"inputs/training.yaml", "models/net.onnx"}


def test_code_that_is_put_into_a_bundle_is_run_with_leave_only(packed: tuple[Path, Manifest], tmp_path: Path) -> None:
    left = Omission(what="more", why="large", source=WHERE, files={"inputs/more/evil.py": "0" * 64})
    made = packed[1].model_copy(update={"left": [left], "command": ["deep-bench", "run", "x"]})
    with pytest.raises(Unsupported, match=r"inputs/more/evil\.py"):
        allowed_command(made, tmp_path, here=True, allow_code=False)
    with pytest.raises(ValueError, match="does not lie below"):
        Omission(what="more", why="large", files={"../../etc/passwd": "0" * 64})

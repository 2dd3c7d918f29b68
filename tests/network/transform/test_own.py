"""Transformations of the user's: what is wrong with them is said with their name, and with their own lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import deep_bench as db
from deep_bench.cli import main
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.network.transform.steps import TransformStep
from tests.network.transform.texts import digits

MODULES = {
    "own_module": """
import deep_bench as db
from own_helper import divide

number = 3

class Callable:
    def __call__(self, network, **options):
        return network.with_sizes({k: int(v) for k, v in options.items()})

an_object = Callable()

def proto(network):
    return network.to_proto()

def failing(network):
    return divide(network)

def misusing(network):
    return db.network.transform.precision(network, "float8")

def leaving(network):
    raise SystemExit("enough")

def needing(network, size):
    return network
""",
    "own_helper": "def divide(network):\n    return 1 / 0\n",
    "own_syntax": "def half(\n",
    "own_import": "import nothing_like_this\n",
    "own_fault": "raise ValueError('not today')\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


BAD = {
    "no_such_module:f": ["no_such_module:f", "no module 'no_such_module'", "PYTHONPATH"],
    "os.no_such_part:f": ["os.no_such_part:f", "no module 'os.no_such_part'"],
    "own_module:absent": ["module 'own_module' has no 'absent'"],
    "own_module:failin": ["did you mean own_module:failing?"],
    "own_module:number": ["own_module:number is of type int, which cannot be called"],
    "own_syntax:f": ["importing own_syntax failed", "own_syntax.py", "SyntaxError"],
    "own_import:f": ["importing own_import failed", "No module named 'nothing_like_this'", "own_import.py"],
    "own_fault:f": ["importing own_fault failed", "ValueError: not today", 'own_fault.py", line 1'],
    "own_module:proto": ["own_module:proto returned a ModelProto", "deep_bench.Network"],
    "own_module:failing": ["own_module:failing failed: ZeroDivisionError", 'own_module.py", line 17', "own_helper.py"],
    "own_module:misusing": ["own_module:misusing failed", "the format 'float8'", 'own_module.py", line 20'],
    "own_module:leaving": ["own_module:leaving failed: SystemExit: enough"],
    "own_module:needing": ["own_module:needing with no options", "'size'", "(network, size)"],
    "own_module:needing:sise=3": ["own_module:needing with sise=3"],
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_said_by_name(text: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        TransformStep.parse(text).apply(digits()[0])
    for message in BAD[text]:
        assert message in str(error.value)


@pytest.mark.usefixtures("folder")
def test_only_the_users_own_lines_are_shown() -> None:
    for text in ("own_module:misusing", "own_fault:f", "own_module:failing"):
        with pytest.raises(InvalidArgument) as error:
            TransformStep.parse(text).apply(digits()[0])
        files = [line.split('"')[1] for line in str(error.value).splitlines() if line.strip().startswith('File "')]
        assert files
        assert all(Path(file).stem in MODULES for file in files)


@pytest.mark.usefixtures("folder")
def test_a_missing_function_is_found_before_any_step_is_taken() -> None:
    for text in ("own_module:absent", "own_module:number", "no_such_module:f", "own_syntax:f"):
        with pytest.raises(InvalidArgument):
            TransformStep.parse(text)
    with pytest.raises(UnknownName, match="did you mean 'fold'"):
        TransformStep.parse("fodl:limit")


@pytest.mark.usefixtures("folder")
def test_anything_that_can_be_called_will_do() -> None:
    sized = TransformStep.parse("own_module:an_object:batch=2").apply(db.load("digits-cnn")).network
    assert sized.inputs[0].shape[0] == 2


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("verb", ["transform", "run"])
def test_the_command_line_says_it_without_a_traceback(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rest = ["--check"] if verb == "transform" else ["--on", "reference", "--output", str(tmp_path / "out")]
    for text, messages in BAD.items():
        with pytest.raises(SystemExit) as ended:
            main([verb, "digits-cnn", "--transform", text, *rest])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert messages[0] in said
        assert "Traceback" not in said

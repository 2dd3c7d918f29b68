"""Declared environments: what is read from a file, which may come from a stranger."""

from __future__ import annotations

from pathlib import Path

import pytest

from deep_bench.environments import Declaration, Declarations, Lock
from deep_bench.environments.building import lock_of, read_lock
from deep_bench.errors import InvalidArgument, UnknownName

GOOD = """
ort120:
  requirements: [onnxruntime==1.20.1]
  variables: {OMP_NUM_THREADS: "4", LD_PRELOAD: null}
site:
  python: "3.11"
  modules: [python/3.11, cuda]
  container: apptainer exec --bind '/my data' site.sif
  deep_bench: false
"""


def test_what_is_declared_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "environments.yaml"
    file.write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    declared = Declarations.read()
    assert list(declared) == ["ort120", "site"]
    assert declared["ort120"].variables == {"OMP_NUM_THREADS": "4", "LD_PRELOAD": None}
    assert declared["ort120"].prefix == ()
    assert declared["site"].container == ("apptainer", "exec", "--bind", "/my data", "site.sif")
    assert declared["site"].prefix[-8:] == (*declared["site"].modules, "--", *declared["site"].container)
    monkeypatch.setenv("DEEP_BENCH_ENVIRONMENTS", str(tmp_path / "other.yaml"))
    with pytest.raises(InvalidArgument, match=r"other\.yaml cannot be read"):
        Declarations.read()
    with pytest.raises(UnknownName, match="did you mean 'site'"):
        declared["sites"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {require: []}", "require"),
        ("a: {requirements: onnx}", "requirements"),
        ("'../../etc': {}", "an environment named '../../etc'"),
        ("'a b': {}", "an environment named 'a b'"),
        ("'-rf': {}", "an environment named '-rf'"),
        ('a: {requirements: ["torch\\n--index-url=http://evil"]}', "is not one line"),
        ("a: {modules: ['--help']}", "is no module"),
        ("a: {variables: {'A=B; rm': '1'}}", "is no name of an environment variable"),
        ("a: !!python/object/apply:os.system ['touch owned']", "no YAML"),
        ("a: {}\na: {}", "twice"),
        ("[1, 2]", "declares no environments"),
        ("a: 3", "declares no environments"),
        ("{", "YAML"),
    ],
)
def test_what_is_no_declaration_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(text)
    with pytest.raises(InvalidArgument, match=words):
        Declarations.read(file)
    assert not Path("owned").exists()


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text("#" * 2_000_000)
    with pytest.raises(InvalidArgument, match="2000000 bytes"):
        Declarations.read(file)


def test_no_character_of_a_name_means_anything_to_a_shell() -> None:
    declared = Declaration(modules=("$(touch owned)", "a'b"), container=("run", "; touch owned"))
    assert declared.prefix[3] == Declaration(modules=("x",)).prefix[3]
    assert "'$(touch owned)'" in declared.command("python")
    assert "'; touch owned'" in declared.command("python")


def test_variables_may_change_without_a_new_build() -> None:
    one = Declaration(requirements=("a==1",))
    assert one.sha256 == Declaration(requirements=("a==1",), variables={"A": "1"}).sha256
    assert one.sha256 != Declaration(requirements=("a==2",)).sha256
    assert one.sha256 != Declaration(requirements=("a==1",), modules=("m",)).sha256


def test_a_lock_says_what_was_installed_and_reads_back() -> None:
    declared = Declaration(requirements=("a",))
    installed = {"B_b==2": "1" * 64, "a==1": "0" * 64}
    text = lock_of("x", declared, "CPython 3.11", {"a": "1", "b-b": "2", "pip": "23"}, installed)
    lock = Lock.parse(text, "x")
    assert lock.declaration == declared.sha256
    assert lock.pins == {"a": "1", "B_b": "2"}
    assert lock.hashed
    assert lock.lines()[0] == f"a==1 --hash=sha256:{'0' * 64}"
    assert "# pip==23 came with the interpreter" in text
    some = Lock.parse(text.replace(f" --hash=sha256:{'0' * 64}", ""), "x")
    assert not some.hashed
    assert some.lines() == ["a==1", "B_b==2"]


@pytest.mark.parametrize(
    "line", ["-r /etc/passwd", "--index-url http://evil", "a @ file:///x", "a==1; rm", "a==1 --hash=md5:0"]
)
def test_a_lock_holds_nothing_but_versions(tmp_path: Path, line: str) -> None:
    file = tmp_path / "x.lock.txt"
    file.write_text(f"# deep-bench environment x\n{line}\n")
    with pytest.raises(InvalidArgument, match="the lock of x has the line"):
        read_lock(file, "x")
    assert read_lock(tmp_path / "none", "x") is None

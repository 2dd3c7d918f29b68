"""Bundles: what is in them, and that they open as they were packed."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.recipes.bundles import bundle
from deep_bench.recipes.manifest import Contents, Manifest, check_folder, read_manifest, unpack, wheel_name, write_wheel
from deep_bench.records.store import digest
from tests.recipes.repeating.conftest import WORDS


def test_a_bundle_holds_what_a_run_needs(packed: tuple[Path, Manifest], tmp_path: Path) -> None:
    archive, made = packed
    assert read_manifest(archive) == unpack(archive, tmp_path / "there") == check_folder(tmp_path / "there") == made
    assert made.command == ["deep-bench", "run", "inputs/small.onnx", *WORDS[2:-1], "repeated"]
    assert {file.role for file in made.files} - {"samples"} == {"record", "input", "lock", "package", "readme"}
    assert (made.left, made.licence, made.title) == ([], "CC0-1.0", "reference on small")
    pins = (tmp_path / "there" / made.lock.file).read_text().splitlines()
    assert f"numpy=={metadata.version('numpy')}" in pins
    text = (tmp_path / "there" / "README.md").read_text()
    assert "deep-bench run inputs/small.onnx --on reference" in text
    assert all(file.sha256 in text for file in made.files if file.role != "readme")


def test_equal_runs_make_equal_bundles(packed: tuple[Path, Manifest], place: Path, tmp_path: Path) -> None:
    archive, _ = packed
    bundle([place / "mine"], tmp_path / "again.zip", command=["deep-bench", *WORDS], folder=place, licence="CC0-1.0")
    assert digest(tmp_path / "again.zip") == digest(archive)


def test_what_cannot_be_bundled_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="a name that ends in"):
        bundle([place / "mine"], tmp_path / "b.tar")
    with pytest.raises(InvalidArgument, match="no record in"):
        bundle([place / "models"], tmp_path / "b.zip")
    shutil.copytree(place / "mine", tmp_path / "two")
    (first,) = (tmp_path / "two").glob("*.json")
    content = json.loads(first.read_text())
    (tmp_path / "two" / "other.json").write_text(json.dumps(content | {"command": ["deep-bench", "run", "other"]}))
    with pytest.raises(InvalidArgument, match="records of 2 commands"):
        bundle([tmp_path / "two"], tmp_path / "b.zip")
    (tmp_path / "two" / "other.json").write_text(json.dumps(content)[:-9])
    with pytest.raises(InvalidRecord, match=r"other\.json"):
        bundle([tmp_path / "two"], tmp_path / "b.zip")
    assert not list(tmp_path.glob("*.zip"))


def test_an_archive_is_replaced_only_if_told(packed: tuple[Path, Manifest], place: Path, tmp_path: Path) -> None:
    archive, how = tmp_path / "b.zip", {"command": ["deep-bench", *WORDS], "folder": place}
    archive.write_text("mine")
    with pytest.raises(InvalidArgument, match=r"b\.zip is there already(.|\n)*--force"):
        bundle([place / "mine"], archive, **how)
    assert archive.read_text() == "mine"
    made = bundle([place / "mine"], archive, **how, force=True)
    assert read_manifest(archive) == made


def test_large_inputs_and_names_that_are_taken(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.bin").write_text(folder)
    (tmp_path / "b" / ".hidden").touch()
    (tmp_path / "b" / "out").symlink_to("/etc/hostname")
    contents = Contents()
    assert [contents.take(tmp_path / folder / "x.bin", folder) for folder in "aab"] == ["inputs/x.bin"] * 2 + [
        "inputs/x_2.bin"
    ]
    assert contents.take(tmp_path / "b", "b") == "inputs/b"
    assert [file.path for file in contents.packed] == ["inputs/x.bin", "inputs/x_2.bin", "inputs/b/x.bin"]
    contents.take(tmp_path / "a", "a", limit=0)
    (left,) = contents.left
    assert (left.why, left.source, list(left.files)) == (
        "1 bytes, of which 0 are taken in",
        "",
        ["inputs/a/x.bin"],
    )
    (tmp_path / "c" / "b").mkdir(parents=True)
    (tmp_path / "c" / "b" / "x.bin").write_text("c")
    with pytest.raises(InvalidArgument, match=r"another file lies at inputs/b/x\.bin"):
        contents.take(tmp_path / "c" / "b", "c/b")


def test_the_package_is_a_wheel(packed: tuple[Path, Manifest], tmp_path: Path) -> None:
    wheel = tmp_path / wheel_name()
    write_wheel(wheel)
    assert digest(wheel) == digest(packed[0].with_name(wheel.name))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert {"deep_bench/__init__.py", "deep_bench/reference/__init__.py", "deep_bench/py.typed"} <= names
        archive.extractall(tmp_path / "there")
    (found,) = metadata.distributions(path=[str(tmp_path / "there")])
    assert (canonicalize_name(found.name), found.version) == ("deep-bench", metadata.version("deep-bench"))
    assert any(entry.name == "deep-bench" for entry in found.entry_points)
    assert found.requires
    files = [file for file in found.files or () if file.hash is not None]
    assert len(files) > 500
    assert all(_urlsafe(Path(str(file.locate()))) == file.hash.value for file in files if file.hash is not None)


def _urlsafe(file: Path) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()


# Strangers' bundles


def altered(archive: Path, target: Path, change: str) -> Path:
    """A copy with something wrong."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w") as into:
        for entry in source.infolist():
            data = source.read(entry)
            name = entry.filename
            if change == "content" and name == "README.md":
                data = data.replace(b"small", b"smell")
            if change == "longer" and name == "README.md":
                data += b"\n" * 9
            if change == "manifest" and name == "bundle.json":
                data = data.replace(b'"README.md"', b'"../README.md"')
            if change == "fields" and name == "bundle.json":
                data = data.replace(b'"licence"', b'"license"')
            if change == "no manifest" and name == "bundle.json":
                continue
            if change == "missing" and name == "README.md":
                continue
            if change == "link" and name == "README.md":
                entry.external_attr = 0xA1FF << 16
            into.writestr(entry, data)
        if change == "more":
            into.writestr("../../escaped.txt", b"x")
    return target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("content", r"README\.md was altered"),
        ("longer", r"README\.md was altered"),
        ("manifest", "does not lie below the bundle's folder"),
        ("fields", "license: Extra inputs are not permitted"),
        ("no manifest", r"has no bundle\.json"),
        ("missing", "is not both in the archive and in its manifest"),
        ("more", "is not both in the archive and in its manifest"),
        ("link", "holds a link"),
    ],
)
def test_altered_bundles_are_refused(change: str, message: str, packed: tuple[Path, Manifest], tmp_path: Path) -> None:
    bad = altered(packed[0], tmp_path / "bad.zip", change)
    with pytest.raises(InvalidRecord, match=message):
        unpack(bad, tmp_path / "deep" / "there")
    assert not list(tmp_path.rglob("escaped*"))


def test_files_that_are_no_bundles(packed: tuple[Path, Manifest], tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("not a zip")
    (tmp_path / "short.zip").write_bytes(packed[0].read_bytes()[:-100])
    for name in ("text.zip", "short.zip", "missing.zip"):
        with pytest.raises(InvalidRecord, match=name):
            unpack(tmp_path / name, tmp_path / "there")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match="has files"):
        unpack(packed[0], tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    unpack(packed[0], tmp_path / "good")
    (tmp_path / "good" / "README.md").write_text("other")
    with pytest.raises(InvalidRecord, match=r"README\.md was altered"):
        check_folder(tmp_path / "good")


def test_names_of_strangers_in_the_readme(place: Path, tmp_path: Path) -> None:
    made = bundle([place / "mine"], tmp_path / "b.zip", command=["deep-bench", *WORDS[:2], "--on", "x; rm -rf ~"],
                  folder=place, title="<script>\n# a heading `x`", licence="[MIT](http://bad)")  # fmt: skip
    unpack(tmp_path / "b.zip", tmp_path / "there")
    text = (tmp_path / "there" / "README.md").read_text()
    assert text.startswith("# \\<script\\> \\# a heading \\`x\\`\n")
    assert "\\[MIT\\](http://bad)" in text
    assert "deep-bench run inputs/small.onnx --on 'x; rm -rf ~'" in text
    assert made.command[4] == "x; rm -rf ~"

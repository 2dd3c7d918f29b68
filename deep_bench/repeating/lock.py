"""The environment that runs this, in exact versions; and deep_bench itself as a wheel, for others to install."""

from __future__ import annotations

import base64
import hashlib
import platform
import sysconfig
import zipfile
from collections.abc import Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import deep_bench
from deep_bench.errors import Unsupported

DISTRIBUTION = "deep-bench"

SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""Of all files in an archive, so that equal contents make equal archives."""


def requirements(extras: Collection[str] | None = None) -> list[str]:
    """Installed distributions but deep_bench itself, as pip takes them, in the order of their names.

    Args:
        extras: Only what deep_bench needs with these of its extras, and what that needs; all that is installed by default.

    Example:
        >>> few, all_of_them = requirements(["onnxruntime"]), requirements()
        >>> set(few) < set(all_of_them), any(line.startswith("numpy==") for line in few)
        (True, True)
    """
    installed: dict[str, metadata.Distribution] = {
        canonicalize_name(distribution.name): distribution for distribution in metadata.distributions() if distribution.name
    }
    names = installed if extras is None else _needed(installed, frozenset(extras))
    return [f"{name}=={installed[name].version}" for name in sorted(names) if name != DISTRIBUTION]


def _needed(installed: Mapping[str, metadata.Distribution], extras: frozenset[str]) -> set[str]:
    """The names of what deep_bench needs, directly or not, as far as it is installed."""
    visited: set[tuple[str, frozenset[str]]] = set()
    open_ones = [(DISTRIBUTION, extras)]
    while open_ones:
        name, chosen = open_ones.pop()
        if name not in installed or (name, chosen) in visited:
            continue
        visited.add((name, chosen))
        for line in installed[name].requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *chosen)):
                open_ones.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in visited}


def python() -> str:
    """This interpreter's version."""
    return platform.python_version()


def system() -> str:
    """Such as ``"linux-x86_64"``: wheels for one do not run on another."""
    return sysconfig.get_platform()


def drifted(then: Mapping[str, str], locked: list[str]) -> dict[str, tuple[str, str]]:
    """What a record has in another version than a lock.

    Args:
        then: The record's packages.
        locked: The lock's lines.

    Returns:
        Name to both versions, of what is in both.

    Example:
        >>> drifted({"numpy": "2.4.6", "onnx": "1.23.2"}, ["numpy==2.4.6", "onnx==1.24.0"])
        {'onnx': ('1.23.2', '1.24.0')}
    """
    locked_versions = dict(line.split("==", 1) for line in locked)
    return {
        name: (version, locked_versions[canonicalize_name(name)])
        for name, version in then.items()
        if canonicalize_name(name) in locked_versions
        and locked_versions[canonicalize_name(name)].split("+")[0] != version.split("+")[0]
    }


def wheel_name() -> str:
    """The file's name of this deep_bench as a wheel."""
    return f"deep_bench-{deep_bench.__version__}-py3-none-any.whl"


def write_wheel(target: Path) -> None:
    """Write this very deep_bench as a wheel: what is imported here, whether it was installed or lies in a checkout.

    Args:
        target: The file, with the name of `wheel_name`.

    Raises:
        Unsupported: It is not installed, so that its requirements are not known.

    Source:
        PyPA specifications, *Binary distribution format*.
    """
    # A checkout on the path also holds what setuptools left there, which is none of it.
    installed = next(
        (distribution for distribution in metadata.distributions(name=DISTRIBUTION) if distribution.read_text("METADATA")),
        None,
    )
    if installed is None:
        raise Unsupported("deep_bench is imported from a folder and not installed", "an installed one: pip install -e .")
    about = f"deep_bench-{deep_bench.__version__}.dist-info"
    content = dict(_package())
    content[f"{about}/METADATA"] = (installed.read_text("METADATA") or "").encode()
    content[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: deep-bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content[f"{about}/entry_points.txt"] = (installed.read_text("entry_points.txt") or "").encode()
    record = f"{about}/RECORD"
    rows = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in content.items()]
    content[record] = ("\n".join([*rows, f"{record},,"]) + "\n").encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, SAME_TIME), data, zipfile.ZIP_DEFLATED)


def _package() -> Iterator[tuple[str, bytes]]:
    """Path and content of each file of the package; in a checkout ``reference`` is a link to the folder beside."""
    root = Path(deep_bench.__file__).parent
    for folder in (root, root / "reference"):
        for file in sorted(folder.rglob("*")):
            inside = file.relative_to(root)
            if file.is_file() and "__pycache__" not in inside.parts and file.suffix not in (".pyc", ".so"):
                if folder == root and inside.parts[0] == "reference":
                    continue
                yield f"deep_bench/{inside.as_posix()}", file.read_bytes()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

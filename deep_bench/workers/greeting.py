"""The program that begins a worker in another Python environment: it says what it finds there, then serves requests.

``python greeting.py SOURCE PARENT MEMORY_LIMIT full|lean``, with a socket as its standard input. It is run by its path,
under Python 3.9 or newer, and needs the standard library alone to say what is missing. *Full*: deep_bench of that
environment serves. *Lean*: the few files of SOURCE (the package's folder) that need only NumPy do.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import struct
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

GREETING = b"DBHI"
LENGTH = struct.Struct(">4sI")
OLDEST_PYTHON = (3, 9)


def main(arguments: list[str]) -> None:
    """Greet, and serve until the other end closes."""
    source, parent, memory_limit, kind = arguments
    folder = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != folder]  # it was added for this file, and shadows nothing else
    end = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    lean = kind == "lean"
    problem = _ready(source) if lean else _complete()
    report = {**facts(), "protocol": None, "problem": problem}
    if not problem:
        report["protocol"] = import_module("deep_bench.workers.wire").PROTOCOL
        report.update({} if lean else _installed(source))
    content = json.dumps(report).encode()
    end.sendall(LENGTH.pack(GREETING, len(content)) + content)
    if not problem:
        import_module("deep_bench.workers.worker").serve_elsewhere(end, int(parent), int(memory_limit))


def facts() -> dict[str, object]:
    """This interpreter, and the packages that it finds."""
    versions = {str(d.metadata["Name"]): d.version for d in metadata.distributions() if d.metadata["Name"]}
    return {
        "pid": os.getpid(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "packages": dict(sorted(versions.items(), key=lambda pair: pair[0].lower())),
    }


def digest(package: Path) -> str:
    """The SHA-256 of all Python files of deep_bench: of their names below the package, and of their contents."""
    hasher = hashlib.sha256()
    for file in sorted(_files(package)):
        content = file.read_bytes()
        hasher.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode() + content)
    return hasher.hexdigest()


def _files(folder: Path) -> list[Path]:
    """Python files, below symbolic links too: ``reference`` is one in a working tree, and a folder once installed."""
    paths = []
    for root, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        paths += [Path(root, name) for name in files if name.endswith(".py")]
    return paths


def identity(package: Path) -> list[int]:
    """What tells whether two paths, perhaps one of them in a container, lead to one folder."""
    status = package.stat()
    return [status.st_dev, status.st_ino]


def _installed(source: str) -> dict[str, object]:
    """deep_bench as this environment has it; its digest, unless it is the very folder of who started this."""
    module = import_module("deep_bench")
    package = Path(str(module.__file__)).parent
    identical = package.samefile(source)
    return {"deep_bench": module.__version__, "source": None if identical else digest(package), "folder": identity(package)}


def _complete() -> str:
    """Why deep_bench cannot serve here; empty if it can."""
    if find_spec("deep_bench") is None:
        return "deep_bench is not installed there"
    try:
        import_module("deep_bench.workers.worker")
        import_module("deep_bench.workers.wire")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("deep_bench."):
            return f"its deep_bench is too old to serve other environments: it has no {error.name}"
        return f"its deep_bench cannot be imported: {error}"
    except Exception as error:  # whatever an import raises
        return f"its deep_bench cannot be imported: {type(error).__name__}: {error}"
    return ""


def _ready(source: str) -> str:
    """Make the files of SOURCE importable as deep_bench, and nothing beside them; why they cannot serve, or nothing."""
    if sys.version_info < OLDEST_PYTHON:
        return f"its Python is {platform.python_version()}; {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed"
    package = ModuleType("deep_bench")
    package.__path__ = [source]
    sys.modules["deep_bench"] = package
    sys.dont_write_bytecode = True
    try:
        import_module("deep_bench.workers.worker")
    except Exception as error:  # a NumPy that is missing, broken or too old
        return f"NumPy cannot be used there: {type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])

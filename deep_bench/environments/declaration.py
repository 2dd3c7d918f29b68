"""Environments that are declared: what is installed in each, what must be done before its Python starts; and where they lie.

What stands after the ``@`` of a variant names one: a declared environment that was built, or a Python.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import onnx
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.graph import Network
from deep_bench.graph.load import all_nodes
from deep_bench.records.folders import user_cache
from deep_bench.records.store import read_model, replace
from deep_bench.workers.remote import Place
from deep_bench.yaml_text import parsed

FILE = "environments.yaml"
"""Where environments are declared, in the folder where deep-bench is called."""


VARIABLE = "DEEP_BENCH_ENVIRONMENTS"
"""The environment variable that names another file."""


_NAME = re.compile(r"[A-Za-z][\w.-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_MOST_BYTES = 1_000_000
_LOAD = (
    'command -v module >/dev/null || { echo "there is no command module in a login shell here" >&2; exit 97; }; '
    'while [ "$1" != -- ]; do module load "$1" >&2 || { echo "module load $1 failed" >&2; exit 98; }; shift; done; '
    'shift; exec "$@"'
)
"""Modules and command are arguments of this script and no part of its text: none of their characters means anything."""


def _words(command: Any) -> Any:
    """A command as words; a text is split as a shell would, and never given to one."""
    return shlex.split(command) if isinstance(command, str) else command


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class Declaration(BaseModel):
    """One environment.

    Attributes:
        requirements: Lines of a pip requirements file: ``torch==2.9.1``, ``--extra-index-url https://…``.
        python: The interpreter that it is made from: a version (``"3.11"``), a path, or a command; by default this one, or
            ``python3`` after modules or in a container.
        modules: Environment modules that are loaded first, in this order (``module load``, in a login shell).
        container: The words that stand before a command to run it in a container: ``apptainer exec site.sif``. It must
            run the command in its own place or as its child, and see this package's folder and the folder of environments.
        variables: Environment variables; null removes one.
        deep_bench: Whether it serves with deep_bench, whose requirements are then installed too; else it is lean.
        any_source: Whether deep_bench there may differ from this one.

    Example:
        >>> declared = Declaration(requirements=("onnxruntime==1.20.1",), container="apptainer exec 'my site.sif'")
        >>> declared.prefix
        ('apptainer', 'exec', 'my site.sif')
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    requirements: tuple[str, ...] = ()
    python: str | None = None
    modules: tuple[str, ...] = ()
    container: Words = ()
    variables: dict[str, str | None] = {}
    deep_bench: bool = True
    any_source: bool = False

    @field_validator("requirements", "modules", "container")
    @classmethod
    def _one_line_each(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if bad := [value for value in values if not value.strip() or any(c in value for c in "\n\r\0")]:
            raise ValueError(f"{bad[0]!r} is not one line of text")
        return values

    @field_validator("modules")
    @classmethod
    def _names_of_modules(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if bad := [value for value in values if value.startswith("-")]:
            raise ValueError(f"{bad[0]!r} is no module")
        return values

    @field_validator("variables")
    @classmethod
    def _names_of_variables(cls, values: dict[str, str | None]) -> dict[str, str | None]:
        if bad := [name for name in values if not _VARIABLE.fullmatch(name)]:
            raise ValueError(f"{bad[0]!r} is no name of an environment variable")
        return values

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words that stand before any command in this environment."""
        shell = ("bash", "-l", "-c", _LOAD, "deep-bench", *self.modules, "--") if self.modules else ()
        return (*shell, *self.container)

    @property
    def pip_options(self) -> tuple[str, ...]:
        """The requirements that say where pip looks; they hold for a build from a lock too."""
        return tuple(line for line in self.requirements if line.startswith("-"))

    @property
    def sha256(self) -> str:
        """Of what is installed: its requirements, what it is made from and in. Variables may change without a new build."""
        content = self.model_dump(mode="json", include={"requirements", "python", "modules", "container", "deep_bench"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def command(self, *words: str) -> str:
        """A command in this environment as it would be typed."""
        return shlex.join((*self.prefix, *words))


class Declarations(Mapping[str, Declaration]):
    """The environments that are declared in one file: name to `Declaration`.

    Args:
        declared: Name to declaration, or to a mapping of its fields.
        path: The file they are from.

    Raises:
        InvalidArgument: A name or a field that is none.

    Example:
        >>> declared = Declarations({"old": {"requirements": ["onnxruntime==1.20.1"]}})
        >>> list(declared), declared["old"].requirements
        (['old'], ('onnxruntime==1.20.1',))
    """

    def __init__(self, declared: Mapping[str, Declaration | Mapping[str, Any]], path: Path | None = None) -> None:
        self.path = path
        self._declared = {name: _declaration(name, fields, path) for name, fields in declared.items()}

    @classmethod
    def read(cls, path: Path | None = None) -> Declarations:
        """Those of a file; by default of the one that `VARIABLE` names, else of `FILE` here, which need not be there.

        Raises:
            InvalidArgument: It cannot be read, or declares something else.
        """
        named = path or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
        file = named or Path(FILE)
        if named is None and not file.exists():
            return cls({}, file)
        try:
            if file.stat().st_size > _MOST_BYTES:
                raise InvalidArgument(f"{file} has {file.stat().st_size} bytes", f"at most {_MOST_BYTES}")
            content = parsed(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{file} cannot be read: {error}", "a file that declares environments") from error
        if not isinstance(content, dict) or not all(isinstance(fields, dict) for fields in content.values()):
            raise InvalidArgument(f"{file} declares no environments", "name: {requirements: […], python: …}, for each")
        return cls(content, file)

    def __getitem__(self, name: str) -> Declaration:
        if name not in self._declared:
            where = f"declare it in {self.path or FILE}"
            raise UnknownName("environment", name, self._declared, where)
        return self._declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def check_name(name: Any, where: str = "") -> None:
    """See that a name can be an environment's: it becomes that of a folder.

    Args:
        name: The name.
        where: What stands before it in the error.

    Raises:
        InvalidArgument: It cannot.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{where}an environment named {name!r}", "a letter, then letters, digits, '.', '_' and '-', 64 at most"
        )


def _declaration(name: str, fields: Any, path: Path | None) -> Declaration:
    where = f"{path}: " if path is not None else ""
    check_name(name, where)
    if isinstance(fields, Declaration):
        return fields
    try:
        return Declaration.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidArgument(
            f"{where}environment {name}: {field}: {first['msg']}", f"fields {', '.join(Declaration.model_fields)}"
        ) from error


_FINISHED = "built.json"


class Built(BaseModel):
    """A finished environment.

    Attributes:
        name: As it was declared.
        declaration: What it was built from.
        python: The interpreter's name and version.
        lock: The exact versions that pip installed, as a requirements file, with the hashes of their archives.
        created: When it was finished.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    declaration: Declaration
    python: str
    lock: str
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @property
    def lock_sha256(self) -> str:
        """Of the lock's text."""
        return hashlib.sha256(self.lock.encode()).hexdigest()

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return folder_of(self.name) / "venv" / "bin" / "python"

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        declared = self.declaration.model_dump(mode="json", exclude_defaults=True)
        return {
            "declaration": declared,
            "lock": self.lock,
            "lock_sha256": self.lock_sha256,
            "built": self.created.isoformat(),
        }

    def keep(self) -> None:
        """Say in its folder that it is finished."""
        replace(folder_of(self.name) / _FINISHED, lambda file: file.write_text(self.model_dump_json(indent=1), "utf-8"))


def folder_of(name: str) -> Path:
    """The folder of an environment, finished or not.

    Raises:
        InvalidArgument: The name is none.
    """
    check_name(name)
    return user_cache() / "environments" / name


def built(name: str) -> Built | None:
    """A finished environment; None if there is none of this name, or only what a build left that was ended.

    Raises:
        InvalidRecord: What is kept of it cannot be read.
    """
    file = folder_of(name) / _FINISHED
    return read_model(file, Built, "an environment that was built") if file.is_file() else None


def all_built() -> list[str]:
    """The names of all finished environments."""
    return sorted(file.parent.name for file in (user_cache() / "environments").glob(f"*/{_FINISHED}"))


def current(name: str, declaration: Declaration | None) -> Built:
    """An environment that is finished, and as it is declared now.

    Args:
        name: Its name.
        declaration: As it is declared now; None where it is not, and is taken as it was built.

    Raises:
        InvalidArgument: It was not built, or from another declaration.
    """
    environment = built(name)
    if environment is None:
        raise InvalidArgument(f"the environment {name} is not built", advice=f"deep-bench environments build {name}")
    if declaration is not None and declaration.sha256 != environment.declaration.sha256:
        raise InvalidArgument(
            f"the environment {name} was built from another declaration",
            "one that is as declared",
            f"deep-bench environments build --again {name}",
        )
    return environment


ANY_SOURCE = "DEEP_BENCH_ANY_SOURCE"
"""The environment variable that, set to 1, allows environments whose deep_bench differs from this one."""


def place_of(text: str, *, lean: bool = False, declared: Declarations | None = None) -> Place:
    """The place that a variant names.

    Args:
        text: A path (it has a slash, or begins with a dot or a tilde): the folder of a virtual environment or a conda
            prefix, or an interpreter. Else the name of a declared environment, or of one that was built; or a folder here.
        lean: Whether the framework does without deep_bench there.
        declared: The declared environments; by default those of the file here.

    Raises:
        InvalidArgument: A path that is no environment, or an environment that is not built.
        UnknownName: A name that is not declared; the nearest one is suggested.
    """
    any_source = os.environ.get(ANY_SOURCE) == "1"
    if os.sep in text or text.startswith((".", "~")):
        return Place(text, (str(_interpreter(text)),), lean=lean, any_source=any_source)
    declared = Declarations.read() if declared is None else declared
    if text in declared or text in all_built():
        declaration = declared.get(text)
        environment = current(text, declaration)
        declaration = declaration or environment.declaration
        return Place(
            text,
            (*declaration.prefix, str(environment.interpreter)),
            declaration.variables,
            lean,
            declaration.any_source or any_source,
            environment.facts(),
        )
    if Path(text).exists():
        return Place(text, (str(_interpreter(text)),), lean=lean, any_source=any_source)
    raise UnknownName("environment", text, {*declared, *all_built()}, f"declare it in {declared.path}, or name a folder")


def _interpreter(text: str) -> Path:
    """The interpreter that a path leads to; the link that a virtual environment has is not followed."""
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        python = next((path / "bin" / name for name in ("python", "python3") if os.path.lexists(path / "bin" / name)), None)
        if python is None:
            raise InvalidArgument(
                f"the folder {text} is no Python environment: it has no bin/python",
                "a virtual environment, a conda prefix, or an interpreter",
                f"make one: python -m venv {text}",
            )
        if not os.access(python, os.X_OK):
            gone = "leads to an interpreter that is gone" if not python.exists() else "cannot be executed"
            raise InvalidArgument(f"the environment {text} does not work: its {python.name} {gone}", advice="make it anew")
        return python
    if not path.exists():
        near = _nearest(path)
        advice = f"did you mean {Path(text).with_name(near)}?" if near else "name a folder, an interpreter or a declared one"
        raise InvalidArgument(f"there is no environment {text}", "a folder with bin/python, or an interpreter", advice)
    if not os.access(path, os.X_OK):
        raise InvalidArgument(f"{text} cannot be executed", "a Python interpreter, or an environment's folder")
    return path


def _nearest(path: Path) -> str:
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    return next(iter(difflib.get_close_matches(path.name, beside, n=1)), "")


SYSTEM = "deep_bench.workers.lean_system:LeanSystem"


@dataclass(frozen=True)
class Lean:
    """A framework that runs in an environment without deep_bench.

    Args:
        name: In `deep_bench.variant.lean_frameworks`.
        program: The file with its adapter, which needs the framework, NumPy and the standard library of that environment
            only; see `deep_bench.workers.lean_system` for what it must offer.
        attribute: The adapter's class in it.
        rewrite: What makes of a network one that the framework reads; raises `UnsupportedOperator` where it cannot.
        options: The names of its options.
        install: What `pip install` is told to make its environment.
    """

    name: str
    program: Path
    attribute: str
    rewrite: Callable[[Network], bytes]
    options: tuple[str, ...] = ()
    install: str = ""

    def arguments(self, options: Mapping[str, str]) -> dict[str, Any]:
        """What the system in the worker is made from, but for network and inputs.

        Raises:
            InvalidArgument: An option that it does not have.
        """
        for name in options:
            if name not in self.options:
                near = difflib.get_close_matches(name, self.options, n=1)
                raise InvalidArgument(
                    f"{self.name} has no option {name!r}",
                    f"one of {', '.join(self.options) or '(it has none)'}",
                    f"did you mean {near[0]!r}?" if near else "",
                )
        return {
            "program": str(self.program),
            "attribute": self.attribute,
            "options": dict(options),
            "install": self.install,
        }


def oldest_stamp(serialized: bytes) -> bytes:
    """The same network under the lowest opset and IR version that leave every operator the very definition it has.

    Nothing but the stamps changes. Networks with functions of their own stay as they are.

    Args:
        serialized: A ``ModelProto``.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> network = Case.of("Gemm", (2, 3), (3, 4)).network()
        >>> older = onnx.load_from_string(oldest_stamp(network.to_proto().SerializeToString()))
        >>> network.opset > 13, older.opset_import[0].version, older.ir_version
        (True, 13, 7)
    """
    model = onnx.load_from_string(serialized)
    opset = next((entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")), None)
    if opset is None or model.functions:
        return serialized
    operators = [node.op_type for node in all_nodes(model.graph.node) if node.domain in ("", "ai.onnx")]
    if not all(onnx.defs.has(operator, opset.version, "") for operator in operators):
        return serialized
    opset.version = max(
        (onnx.defs.get_schema(operator, opset.version, "").since_version for operator in operators), default=1
    )
    entries = [entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    model.ir_version = min(model.ir_version, max(onnx.helper.find_min_ir_version_for(entries), _OLDEST_IR))
    return bytes(model.SerializeToString())


def stamped_run(method: str, asked: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give the networks that a system is asked to run their oldest stamp; see `deep_bench.workers.process.Translate`."""
    return (oldest_stamp(asked[0]), *asked[1:]) if method == "run" else asked


_OLDEST_IR = 4
"""From here on initializers need not be inputs."""

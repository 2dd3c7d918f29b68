"""Names that stand for code which is imported on first use only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName


class Registry(Mapping[str, Any]):
    """A mapping from a name to an object that lies behind an import path.

    Built-in names come from a literal, others from entry points of installed packages. Iterating imports nothing; looking a
    name up imports its module on first use. Code that is not registered is named by its import path,
    ``"package.module:attribute"``, anywhere that a name is taken.

    Args:
        kind: What the names stand for, for messages (``"framework"``).
        group: The entry-point group that other packages use (``"deep_bench.frameworks"``).
        builtin: Name to ``"package.module:attribute"``.
        requires: Name to the packages (import names) that must be installed for it.
        extras: Name to the pip requirement that installs what ``requires`` names.
        made: What lies behind a name is a function without arguments that makes the object.

    Example:
        >>> shapes = Registry("shape", "example.shapes", {"ordered": "collections:OrderedDict"})
        >>> list(shapes), shapes["ordered"].__name__
        (['ordered'], 'OrderedDict')
    """

    def __init__(
        self,
        kind: str,
        group: str,
        builtin: Mapping[str, str],
        requires: Mapping[str, tuple[str, ...]] | None = None,
        extras: Mapping[str, str] | None = None,
        *,
        made: bool = False,
    ) -> None:
        self.kind = kind
        self.group = group
        self._builtin = dict(builtin)
        self._requires = dict(requires or {})
        self._extras = dict(extras or {})
        self._made = made

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._builtin, *self._foreign()}))

    def __len__(self) -> int:
        return len({*self._builtin, *self._foreign()})

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._foreign()

    def __getitem__(self, name: str) -> Any:
        """The object behind ``name``.

        Raises:
            UnknownName: No such name; the nearest known one is suggested.
            FrameworkMissing: The name is known, but a package it needs is not installed.
        """
        self.require(name)
        entry = self._found(name)
        return entry() if self._made and callable(entry) else entry

    def _found(self, name: str) -> Any:
        if name in self._builtin:
            return self._imported(self._builtin[name])
        return self._imported(name) if ":" in name else self._foreign()[name].load()

    def _imported(self, path: str) -> Any:
        module, _, attribute = path.partition(":")
        value = getattr(import_module(module), attribute, None)
        if value is None:
            raise InvalidArgument(f"{self.kind} {path!r}: {module} has no {attribute!r}", "package.module:attribute")
        return value

    def require(self, name: str) -> None:
        """Make sure that ``name`` can be looked up; imports nothing.

        Raises:
            UnknownName: No such name.
            FrameworkMissing: A package it needs is not installed.
        """
        missing = self.missing(name)
        if missing:
            requirement = self._extras.get(name, " ".join(missing))
            raise FrameworkMissing(
                f"{self.kind} {name!r} needs {', '.join(missing)}, which is not installed here",
                advice=f"pip install '{requirement}'",
            )

    def missing(self, name: str) -> tuple[str, ...]:
        """The packages that ``name`` needs and that are not installed; imports nothing.

        Raises:
            UnknownName: No such name.
        """
        module, colon, _ = name.partition(":")
        if colon and not _exists(module):
            raise InvalidArgument(
                f"{self.kind} {name!r}: there is no module {module!r} on this interpreter's path",
                f"package.module:attribute, or one of {', '.join(self)}",
            )
        if not colon and name not in self:
            raise UnknownName(self.kind, name, self, "pick one of these, or install the package that provides it")
        return tuple(p for p in self._requires.get(name, ()) if find_spec(p) is None)

    def _foreign(self) -> dict[str, EntryPoint]:
        return {e.name: e for e in entry_points(group=self.group)}


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package on the way to it
        return False

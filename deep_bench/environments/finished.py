"""Environments that were built from their declarations: where they lie, and what was locked in them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from deep_bench.environments.declaration import Declaration, check_name
from deep_bench.errors import InvalidArgument
from deep_bench.measure.storage import read_model, replace
from deep_bench.measure.user_cache import user_cache

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

"""Links of names in docstrings and signatures: none rather than one that may lead astray."""

from __future__ import annotations

import builtins
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain


class Certain(PythonDomain):
    """Python names that are found once. A short name that several modules have, or Python itself, is no link."""

    def find_obj(self, env: Any, modname: Any, classname: Any, name: str, type: Any, searchmode: int = 0) -> list[Any]:  # noqa: A002
        """See `PythonDomain.find_obj`."""
        matches = [] if hasattr(builtins, name) else super().find_obj(env, modname, classname, name, type, searchmode)
        certain = [match for match in matches if not match[1].aliased] or matches
        return certain if len(certain) == 1 else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_domain(Certain, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

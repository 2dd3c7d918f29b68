"""What of the corpus made by hand the checker is known to misjudge, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {}
"""Name of an entry to the reason."""

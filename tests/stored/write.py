"""Write the stored texts anew, after a change that was meant: the difference shows in version control.

python -m tests.stored.write [PREFIX]…     such as help, output/show, names; without one: all
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

from tests.stored import test_contents, test_help, test_names, test_output, test_results, test_schemas, test_writing
from tests.stored.stored import FOLDER, Texts, among_records


def write(prefixes: list[str]) -> None:
    """Write the texts whose file begins with one of the prefixes, and remove the help of verbs that are gone."""
    os.environ["COLUMNS"] = "100"
    helps = test_help.texts()
    if "help" in prefixes:
        for path in FOLDER.glob("help/**/*.txt"):
            if path.relative_to(FOLDER).as_posix() not in helps:
                path.unlink()
    _write(helps, prefixes, records=False)
    for module in (test_contents, test_names, test_output, test_results, test_schemas, test_writing):
        _write(module.texts(), prefixes)


def _write(texts: Texts, prefixes: list[str], *, records: bool = True) -> None:
    for file, text in texts.items():
        if not file.startswith(tuple(prefixes)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            if records:
                with among_records(Path(folder) / "records"):
                    written = text()
            else:
                written = text()
        path = FOLDER / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != written:
            path.write_text(written, encoding="utf-8")
            print(f"written: {file}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    write(sys.argv[1:] or ["contents", "help", "names", "output", "results", "schemas", "writing"])

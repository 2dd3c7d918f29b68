"""The README of a bundle, made of its manifest."""

from __future__ import annotations

import shlex

from deep_bench.repeating.environment import may_set, not_set
from deep_bench.repeating.manifest import Left, Manifest, Packed


def readme(made: Manifest) -> str:
    """Markdown: what it is, how to repeat it, what is in it and what is not.

    Names come from files that others wrote: they are shown as code, on one line.
    """
    parts = [
        f"# {_plain(made.title)}",
        "A bundle of deep_bench: records of a run, and what it takes to repeat it.",
        "## Repeat it",
        _how(made),
        "## What is in it",
        "\n".join(_file(file) for file in made.files),
        *_left(made.left),
        "## The environment",
        _environment(made),
        "## Licence",
        _plain(made.licence)
        if made.licence
        else "None was given by who made this bundle. Data and networks have their own.",
        *(["## Remarks", "\n".join(f"- {_plain(one)}" for one in made.remarks)] if made.remarks else []),
    ]
    return "\n\n".join(parts) + "\n"


def _how(made: Manifest) -> str:
    wheel = next((file.path for file in made.files if file.role == "package"), "")
    said = [
        "With this deep_bench installed, one command makes a clean environment, runs it again and compares:",
        f"    python -m pip install {shlex.quote(wheel)}\n    deep-bench repeat .",
    ]
    if made.command:
        said += ["What it runs, in this folder:", f"    {_line(shlex.join([*_set(made), *made.command]))}"]
    if hidden := not_set(made):
        said.append(f"The run had variables that a repetition is not given: {', '.join(map(_code, hidden))}.")
    return "\n\n".join(said)


def _set(made: Manifest) -> list[str]:
    given = [f"{name}={value}" for name, value in sorted(may_set(made).items())]
    return ["env", *given] if given else []


def _file(file: Packed) -> str:
    source = f", from {_code(file.source)}" if file.source and file.source != file.path else ""
    return f"- {_code(file.path)}: {file.role}, {file.bytes} bytes, SHA-256 `{file.sha256}`{source}"


def _left(left: list[Left]) -> list[str]:
    if not left:
        return []
    rows = []
    for one in left:
        rows.append(f"- {_code(one.what)}: {_plain(one.why)}; {_plain(one.source) or 'where it can be had was not told'}")
        rows += [f"    - {_code(name)}: SHA-256 `{found}`" for name, found in one.sha256.items()]
        rows += [f"    - put it at {_code(path)}: SHA-256 `{found}`" for path, found in one.files.items()]
    return ["## What is not in it", "\n".join(rows)]


def _environment(made: Manifest) -> str:
    said = f"Python {made.lock.python} on {made.lock.platform}; exact versions in `{made.lock.file}`."
    for name, (then, now) in made.lock.drifted.items():
        said += f"\n\nThe run itself had {_code(name)} {_plain(then)}; the lock has {_plain(now) or 'none'}."
    return said


def _code(text: str) -> str:
    return f"`{_line(text).replace('`', chr(39))}`"


def _plain(text: str) -> str:
    """Text of strangers: no markup, no second line."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|!" else c for c in _line(text))


def _line(text: str) -> str:
    return " ".join(text.split())

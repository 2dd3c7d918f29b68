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
        *(["## Remarks", "\n".join(f"- {_plain(remark)}" for remark in made.remarks)] if made.remarks else []),
    ]
    return "\n\n".join(parts) + "\n"


def _how(manifest: Manifest) -> str:
    wheel = next((file.path for file in manifest.files if file.role == "package"), "")
    paragraphs = [
        "With this deep_bench installed, one command makes a clean environment, runs it again and compares:",
        f"    python -m pip install {shlex.quote(wheel)}\n    deep-bench repeat .",
    ]
    if manifest.command:
        paragraphs += ["What it runs, in this folder:", f"    {_line(shlex.join([*_set(manifest), *manifest.command]))}"]
    if hidden := not_set(manifest):
        paragraphs.append(f"The run had variables that a repetition is not given: {', '.join(map(_code, hidden))}.")
    return "\n\n".join(paragraphs)


def _set(manifest: Manifest) -> list[str]:
    assignments = [f"{name}={value}" for name, value in sorted(may_set(manifest).items())]
    return ["env", *assignments] if assignments else []


def _file(file: Packed) -> str:
    source = f", from {_code(file.source)}" if file.source and file.source != file.path else ""
    return f"- {_code(file.path)}: {file.role}, {file.bytes} bytes, SHA-256 `{file.sha256}`{source}"


def _left(omissions: list[Left]) -> list[str]:
    if not omissions:
        return []
    rows = []
    for omission in omissions:
        rows.append(
            f"- {_code(omission.what)}: {_plain(omission.why)}; "
            f"{_plain(omission.source) or 'where it can be had was not told'}"
        )
        rows += [f"    - {_code(name)}: SHA-256 `{checksum}`" for name, checksum in omission.sha256.items()]
        rows += [f"    - put it at {_code(path)}: SHA-256 `{checksum}`" for path, checksum in omission.files.items()]
    return ["## What is not in it", "\n".join(rows)]


def _environment(manifest: Manifest) -> str:
    text = f"Python {manifest.lock.python} on {manifest.lock.platform}; exact versions in `{manifest.lock.file}`."
    for name, (then, current) in manifest.lock.drifted.items():
        text += f"\n\nThe run itself had {_code(name)} {_plain(then)}; the lock has {_plain(current) or 'none'}."
    return text


def _code(text: str) -> str:
    return f"`{_line(text).replace('`', chr(39))}`"


def _plain(text: str) -> str:
    """Text of strangers: no markup, no second line."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|!" else c for c in _line(text))


def _line(text: str) -> str:
    return " ".join(text.split())

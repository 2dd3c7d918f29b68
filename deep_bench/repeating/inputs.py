"""What a command reads, taken into a bundle: as it was when it was run, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import onnx_ir as ir

import deep_bench
from deep_bench.errors import DeepBenchError
from deep_bench.measure.storage import digest
from deep_bench.repeating.contents import Contents
from deep_bench.repeating.manifest import Left
from deep_bench.repeating.records import Recorded
from deep_bench.repeating.words import AGAIN, FOLDERS, Word, used, words
from deep_bench.yaml_text import parsed, text_in

_RECIPES = (".yaml", ".yml")


@dataclass
class Inputs:
    """Takes in what the words of a command name, and what recipes among it name.

    Args:
        contents: Where it goes.
        recorded: What the records say of networks and arrays.
        elsewhere: What is not packed, as the command or a recipe names it, to where it can be had.

    Attributes:
        faults: Names of what cannot be taken in, to why.
        networks: Digests of the networks that were taken in, or that can be had elsewhere.
    """

    contents: Contents
    recorded: Recorded
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    networks: set[str] = field(default_factory=set)

    def command(self, given: Sequence[str], folder: Path, home: Path | None = None) -> list[str]:
        """Take in what a command reads.

        Args:
            given: The command.
            folder: Where it was given.
            home: What names in the recipe of an experiment are relative to; by default the recipe's own folder.

        Returns:
            The command with paths in the archive.
        """
        command_words = words(given, folder)
        again = [self._again(word, folder) for word in command_words]
        if not runs_deep_bench(given):
            return again
        again[0] = "deep-bench"
        for word in command_words:
            if word.use == "reads" and Path(word.text).suffix in _RECIPES:
                file = folder / word.text
                if given[1:2] == ["recipe"]:
                    self._recipe(file, home or file.parent, PurePosixPath("inputs"))
                else:  # names in a recipe of training are relative to where the command is given
                    self._recipe(file, folder, PurePosixPath())
        return again if any(word.option in FOLDERS for word in command_words) else [*again, "--output", AGAIN]

    def _again(self, word: Word, folder: Path) -> str:
        if word.use == "writes":
            return word.again()
        return str(word) if word.use == "word" else word.named(self.take(word, folder))

    def take(self, word: Word, folder: Path, place: str = "") -> str:
        """Take in one file or folder.

        Args:
            word: Its name.
            folder: Where that leads from.
            place: Where it goes in the archive; by default below ``inputs``.

        Returns:
            Its path in the archive.
        """
        path = folder / word.text
        if path.suffix == ".onnx":
            return self._network(path, word.text, place)
        if word.use == "missing":
            self.faults[word.text] = "is not there"
        elif changed := self.recorded.other_arrays(word.text, path):
            self.faults[word.text] = f"is another now than when it was run: {changed}"
        else:
            return self.contents.take(path, word.text, place, source=self.elsewhere.get(word.text, ""))
        return place

    def _recipe(self, file: Path, home: Path, into: PurePosixPath) -> None:
        """Take in what a recipe names, and what recipes among that name: where these names lead in the archive."""
        for word in _names(parsed(text_in(file, f"the recipe {file}"), file.name), home):
            named = PurePosixPath(word.text)
            place = str(into / named)
            if named.is_absolute() or ".." in named.parts:
                reason = f"{file.name} names it outside its own folder: who repeats it has to change that"
                self.contents.left.append(Left(what=word.text, why=reason, source=self.elsewhere.get(word.text, "")))
            elif place not in self.contents.files:
                if self.take(word, home, place) != place:
                    self.faults[word.text] = f"has the name of another file in the bundle, {place}: rename it"
                elif named.suffix in _RECIPES and word.use == "reads":
                    self._recipe(home / named, home, into)

    def _network(self, path: Path, word: str, place: str) -> str:
        """A network with the files that hold its tensors, if it is the one that was run."""
        source = self.elsewhere.get(word) or self.elsewhere.get(path.stem, "")
        ran = self.recorded.networks.get(path.stem, frozenset())
        current, beside = network_in(path) if path.is_file() else ("", [])
        if current and (not ran or current in ran):
            self.networks.add(current)
            if not beside:
                return self.contents.take(path, word, place, source=source)
            place = place or f"inputs/{current[:12]}/{path.name}"
            into = PurePosixPath(place).parent
            tensors = {str(into / inside): path.parent / inside for inside in beside}
            self.contents.take_together({place: path} | tensors, word, source=source)
            return place
        place = place or f"inputs/{path.name}"
        reason = f"is another now than when it was run: its SHA-256 is {current}" if current else "is not there"
        if source and len(ran) == 1:
            (then,) = ran
            self.networks.add(then)
            self.contents.left.append(Left(what=word, why=f"the file here {reason}", source=source, files={place: then}))
        else:
            self.faults[word] = reason
        return place


def runs_deep_bench(command: Sequence[str]) -> bool:
    """Whether a command runs deep_bench's own program."""
    return bool(command) and Path(command[0]).name in ("deep-bench", "__main__.py")


def network_in(path: Path) -> tuple[str, list[str]]:
    """The digest of a network, as records have it, and the files below its folder that hold its tensors."""
    try:
        network = deep_bench.load(path)
    except DeepBenchError:
        return digest(path), []
    stored = (value.const_value for graph in network.model.graphs() for value in graph.initializers.values())
    return network.sha256, sorted({str(tensor.location) for tensor in stored if isinstance(tensor, ir.ExternalTensor)})


def _names(content: Any, home: Path) -> Iterator[Word]:
    """What a recipe names of files, anywhere in it."""
    if isinstance(content, Mapping):
        content = list(content.values())
    if isinstance(content, list):
        for entry in content:
            yield from _names(entry, home)
    elif isinstance(content, str) and (word := used(content, home)).use in ("reads", "missing"):
        yield word

"""A folder of tar files, WebDataset's shards; see `deep_bench.training.containers.tar`."""

from __future__ import annotations

from pathlib import Path

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.containers import tar
from deep_bench.training.containers.container import Container, ContainerManifest
from deep_bench.training.containers.kinds import Content, Details


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    del head
    return path.is_dir() and any(path.glob("*.tar"))


def open_files(path: Path, manifest: ContainerManifest | None, mode: str | None = None, decode: bool = True) -> Container:
    """Open all tar files of a folder, in the order of their names, as one container.

    Args:
        path: The folder.
        manifest: What its writer noted.
        mode: The mode of images, of files that came from elsewhere; by default that of the first.
        decode: Whether batches hold pixels, or images' files.
    """
    files = sorted(path.glob("*.tar")) if manifest is None else [path / name for name in sorted(manifest.files)]
    if not files:
        raise InvalidData(f"{path} has no tar files", "at least one", "check the path")
    return tar.opened("webdataset", path, files, manifest, mode, decode)


def write(
    stage: Path, name: str, content: Content, image: str | None = None, quality: int = 95, shard: int = 1000
) -> Details:
    """Write tar files of ``shard`` samples each; see `deep_bench.training.containers.tar.write_shards`."""
    del name
    if shard < 1:
        raise InvalidArgument(f"shard={shard}", "a number of samples from 1")
    return tar.write_shards(stage, lambda number: f"shard-{number:06d}.tar", content, shard, image, quality)

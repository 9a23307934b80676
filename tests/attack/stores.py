"""Stores that somebody changes who may write into them, and knows their format."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import zstandard

from aqueduct.store import names
from aqueduct.store.backends import open_store
from aqueduct.store.catalog import Catalog
from aqueduct.store.signing import EVERYBODY, SigningKey

FORMAT_1 = Path(__file__).parents[1] / "store/format_1"
Change = Callable[[dict[str, Any]], object]


def copied(folder: Path) -> Path:
    """Copy the store of three snapshots that the first version wrote."""
    shutil.copytree(FORMAT_1, folder)
    return folder


def signed(folder: Path, *keys: SigningKey | None) -> Path:
    """Make the same store with its snapshots signed, each by its key."""
    shutil.copytree(FORMAT_1, folder, ignore=shutil.ignore_patterns("snapshots"))
    objects = open_store(folder.as_uri())
    before, catalog = Catalog.open(open_store(FORMAT_1.as_uri())), Catalog.open(objects, EVERYBODY)
    for number, key in enumerate(keys, 1):
        catalog.commit(replace(before.manifest(number), chain=catalog.parent().follow()), key)
    return folder


def snapshot(folder: Path, number: int) -> Path:
    return folder / names.snapshot(number)


def content(folder: Path, number: int = 3) -> dict[str, Any]:
    """Read what a manifest says, with no code of ours."""
    packed = snapshot(folder, number).read_bytes()
    return dict(json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(packed)))


def forge(folder: Path, change: Change, number: int = 3, *, of: int | None = None) -> bytes:
    """Change what a manifest says, and write it; `of`: the one that it is made of."""
    told = content(folder, number if of is None else of)
    change(told)
    path = snapshot(folder, number)
    path.unlink(missing_ok=True)
    path.write_bytes(zstandard.ZstdCompressor().compress(json.dumps(told).encode()))
    return path.read_bytes()


def column(told: dict[str, Any], name: str) -> int:
    """Return which column of a segment has that name."""
    return int(told["columns"]["Segment"].index(name))


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }

"""Digest of repobook's own code, so that a newer repobook reads a tree and writes its pages anew."""

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def digest_code(*packages: str) -> str:
    """Return a digest of the files of some packages of repobook."""
    digest = hashlib.blake2b(digest_size=8)
    for package in packages:
        _add_folder(files(f"repobook.{package}"), digest)
    return digest.hexdigest()


def _add_folder(folder: Traversable, digest: "hashlib.blake2b") -> None:
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.is_dir():
            _add_folder(file, digest)
        elif file.name.endswith((".py", ".scm")):
            digest.update(file.read_bytes())

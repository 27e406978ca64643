"""`hub.download_url_to_file`: local files are copied and checked, and nothing is downloaded."""

from __future__ import annotations

import hashlib

import pytest

from ndgrad import hub


def test_a_local_file_is_copied_and_its_hash_checked(tmp_path):
    source, target = tmp_path / "a.bin", tmp_path / "b.bin"
    source.write_bytes(b"weights")
    digits = hashlib.sha256(b"weights").hexdigest()[:8]
    hub.download_url_to_file(source.as_uri(), target, hash_prefix=digits)
    assert target.read_bytes() == b"weights"
    target.unlink()
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(str(source), target, hash_prefix="0" * 8)
    assert not target.exists()


def test_other_addresses_are_refused_with_the_path_to_fill(tmp_path):
    with pytest.raises(RuntimeError, match=r"nothing is downloaded.*b\.bin"):
        hub.download_url_to_file("https://example.com/a.bin", tmp_path / "b.bin")

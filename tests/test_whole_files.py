"""Files that are written whole or not at all."""

from __future__ import annotations

import os

import pytest

from ndgrad._src.foundations.atomic_files import open_replacement


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def interrupted():
        with open_replacement(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]
    with open_replacement(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_new_files_have_the_permissions_of_new_files(tmp_path):
    with open_replacement(tmp_path / "ours") as file:
        file.write(b"x")
    (tmp_path / "theirs").write_bytes(b"x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_what_cannot_be_replaced_is_written_to():
    with open_replacement(os.devnull) as file:
        file.write(b"x")
    assert os.path.exists(os.devnull)

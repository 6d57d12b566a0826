"""Files appear whole or not at all, and are written by one process at a time."""

import os
from pathlib import Path

import pytest

from odt.core.storage.atomic_files import (
    UNFINISHED,
    AtomicFile,
    remove_leftovers,
    write_atomically,
)
from odt.core.storage.file_lock import FileLock
from odt.errors import DataError, OdtError


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with AtomicFile(path, DataError) as f:
        f.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a"]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fails() -> None:
        with AtomicFile(path, DataError) as f:
            f.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_name_may_be_given_late(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "a", DataError) as f:
        f.path = tmp_path / "b"
    assert os.listdir(tmp_path) == ["b"]


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    write_atomically(tmp_path / "link", [b"n", b"ew"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path, remedy in (
        (tmp_path / "none" / "a", "Make its folder first."),
        (tmp_path / "folder", "Give another path."),
    ):
        with pytest.raises(DataError, match=f"{path}: must be a file that .* {remedy}"):
            write_atomically(path, [b""], DataError)


def test_a_lock_has_one_owner_and_leaves_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "new.odt", tmp_path):
        with FileLock(path, "--export"):
            with pytest.raises(OdtError, match=f"--export: .* is in use by process {os.getpid()}"):
                FileLock(path, "--export").__enter__()
            remove_leftovers(tmp_path)
            with pytest.raises(OdtError, match="in use"):
                FileLock(path, "--export").__enter__()
        assert not [*tmp_path.iterdir()]
        with FileLock(path, "--export"):
            pass


def test_a_lock_of_an_ended_process_blocks_nobody(tmp_path: Path) -> None:
    leftover = tmp_path / f"{UNFINISHED}m.tflite.lock"
    leftover.write_text("123456789\n")
    with FileLock(tmp_path / "m.tflite", "--export"):
        assert leftover.read_text() == f"{os.getpid()}\n"
    assert not leftover.exists()


def test_a_folder_that_cannot_hold_a_lock_needs_none(tmp_path: Path) -> None:
    with FileLock(tmp_path / "missing" / "m.tflite", "--export"):
        pass
    assert not [*tmp_path.iterdir()]

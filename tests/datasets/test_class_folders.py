"""Splits and classes of folders as strangers lay them out."""

import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.datafiles import jpeg, made, odt, plain_picture, refused, samples, sidecar, wav

from odt.datasets.class_folders import place_files
from odt.datasets.file_suffixes import suffix_counts
from odt.datasets.tree import open_tree


@pytest.fixture(autouse=True)
def _without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages about HEIC are those of an environment without the extra, whatever it holds."""
    monkeypatch.setitem(sys.modules, "pillow_heif", None)


CALM = ("--scale", "none", "--no-shuffle", "--no-stratify")
TRAIN = (*CALM, "--split", "train=1.0")

# Paths → (split, class) of each.
LAYOUTS: dict[str, tuple[list[str], list[tuple[str, str]]]] = {
    "classes": (["a/1", "b/1"], [("all", "a"), ("all", "b")]),
    "one class": (["a/1", "a/2"], [("all", "a"), ("all", "a")]),
    "an archive's own folder": (["set/a/1", "set/b/1"], [("all", "a"), ("all", "b")]),
    "folders below the class": (["cat/2020/1", "dog/2020/1"], [("all", "cat"), ("all", "dog")]),
    "a stray file": (["a/1", "b/1", "c"], [("all", "a"), ("all", "b"), ("all", "")]),
    "splits": (["train/a/1", "test/a/1"], [("train", "a"), ("test", "a")]),
    "below the class in a split": (
        ["d/Train/a/x/y/1", "d/VAL/b/1"],
        [("train", "a"), ("validation", "b")],
    ),
    "Intel's scenes": (
        ["seg_train/seg_train/sea/1", "seg_test/seg_test/sea/1", "seg_pred/seg_pred/1"],
        [("train", "sea"), ("test", "sea"), ("all", "")],
    ),
    "training_set": (
        ["training_set/training_set/cats/1", "test_set/test_set/cats/1"],
        [("train", "cats"), ("test", "cats")],
    ),
    "splits below the class": (
        ["cat/train/1", "cat/test/1", "dog/train/1"],
        [("train", "cat"), ("test", "cat"), ("train", "dog")],
    ),
    "files in splits with numbers": (["train/1", "test1/2"], [("train", ""), ("test", "")]),
    "splits with years": (
        ["val2017/a/1", "train2017/a/1"],
        [("validation", "a"), ("train", "a")],
    ),
    "two classes like splits": (
        ["express_train/1", "stress_test/1"],
        [("all", "express_train"), ("all", "stress_test")],
    ),
    "files in splits": (["train/1", "testing/2"], [("train", ""), ("test", "")]),
    "a class train": (["bus/1", "train/1"], [("all", "bus"), ("all", "train")]),
    "a folder train inside of a class": (
        ["rail/train/steam/1", "rail/tram/2", "road/3"],
        [("all", "rail"), ("all", "rail"), ("all", "road")],
    ),
    "one split beside other folders": (
        ["d/train/a/1", "d/more/2"],
        [("train", "a"), ("all", "")],
    ),
    "a class train in a split": (
        ["train/bus/1", "train/train/1", "test/train/1"],
        [("train", "bus"), ("train", "train"), ("test", "train")],
    ),
    "classes like splits": (
        ["air/1", "express_train/1", "stress_test/1"],
        [("all", "air"), ("all", "express_train"), ("all", "stress_test")],
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_folder_below_the_split_names_the_class(name: str) -> None:
    paths, wanted = LAYOUTS[name]
    assert [(p.split, p.label) for p in place_files(paths, by_folder=True)] == wanted


def photos(root: Path, *names: str) -> Path:
    """Pictures whose gray value is their position."""
    for k, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(plain_picture(k))
    return root


def grays(path: Path) -> list[int]:
    return [int(x.flat[0]) for x in samples(path)]


def counts(path: Path) -> dict[str, int]:
    """Number of samples of each class in a file."""
    balance = sidecar(path)["balance"]
    assert isinstance(balance, dict)
    return balance


@pytest.mark.parametrize("pattern", [r"^([a-z]+)_", r"^([a-z]+)", r"/([a-z]+)_\d+[.]"])
def test_a_label_pattern_keeps_the_splits(tmp_path: Path, pattern: str) -> None:
    names = [f"{split}/{c}_{k}.png" for split, n in (("train", 4), ("testing", 2))
             for c in ("no", "yes") for k in range(n)]  # fmt: skip
    photos(tmp_path / "s", *names)
    made("--source", tmp_path / "s", "--label-pattern", pattern, *CALM, "-o", tmp_path / "o")
    assert counts(tmp_path / "o/train.input.bin") == {"no": 4, "yes": 4}
    assert grays(tmp_path / "o/test.input.bin") == [8, 9, 10, 11]
    line = refused("--source", tmp_path / "s", "-o", tmp_path / "p")
    assert "outside folders, such as testing/no_0.png. Name their classes with" in line
    words = refused("--source", tmp_path / "s", "--label-pattern", "(x)?", "-o", tmp_path / "p")
    assert "must match every file name, but not testing/no_0.png" in words


def test_pictures_without_classes_with_masks_or_with_a_table_keep_their_splits(
    tmp_path: Path,
) -> None:
    names = ("train/1.png", "train/2.png", "test/3.png")
    photos(tmp_path / "s", *names)
    for name in names:
        (tmp_path / "m" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / name).write_bytes(jpeg(np.zeros((8, 6), np.uint8)))
    (tmp_path / "t.csv").write_text("file,age\ntest/3.png,3\ntrain/1.png,1.5\n2.png,2\n")
    for k, given in enumerate(
        (("--unlabelled",), ("--masks", tmp_path / "m"), ("--target-source", tmp_path / "t.csv"))
    ):
        made("--source", tmp_path / "s", *given, *CALM, "-o", tmp_path / str(k))
        assert grays(tmp_path / f"{k}/train.input.bin") == [0, 1]
        assert grays(tmp_path / f"{k}/test.input.bin") == [2]
    assert samples(tmp_path / "2/train.output.bin").tolist() == [[1.5], [2]]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    root = photos(
        tmp_path / "s", "train/a/1.png", "train/a/x/2.PNG", "train/b/3.png", "test/a/4.png",
        "test/b/1.png", "test/5.png", "extra/6.png",
    )  # fmt: skip
    for name in ("notes.txt", "train/a/7.HEIC", "train/b/8.heic", "train/b/9.svg"):
        (root / name).write_bytes(b"x")
    for name in (".DS_Store", "train/a/._1.png", "train/b/Thumbs.db", "__MACOSX/train/a/1.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    result = made("--source", root, *CALM, "-o", tmp_path / "o")
    assert grays(tmp_path / "o/train.input.bin") == [0, 1, 2]
    lines = [line.split(": ", 2)[2] for line in result.stderr.splitlines()]
    assert lines == [
        "left out 4 files other than images: 2 .heic (to read: pip install 'odt[heic]'), "
        "1 .svg (convert to JPEG or PNG), 1 .txt.",
        "left out 1 file outside of train, test: extra/6.png.",
        "left out 1 file outside of class folders: test/5.png.",
    ]


def test_suffixes_of_any_archive_are_escaped_and_shortened() -> None:
    text = suffix_counts(["a.\x1b[2Jx", f"b.{'n' * 3000}"])
    assert text.isprintable()
    assert r"1 .\x1b[2jx" in text
    assert len(text) < 200


def test_heic_among_sounds_needs_no_package_that_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["1.heic", "2.txt"]
    assert suffix_counts(names) == "1 .heic (to read: pip install 'odt[heic]'), 1 .txt"
    monkeypatch.setattr("odt.datasets.file_suffixes.has_heif", lambda: True)
    assert suffix_counts(names) == "1 .heic, 1 .txt"


@pytest.mark.parametrize(("count", "end"), [(6, "1 .f"), (7, "1 other"), (8, "2 others")])
def test_rare_suffixes_are_others(count: int, end: str) -> None:
    assert suffix_counts(f"x.{c}" for c in "abcdefgh"[:count]).endswith(f", {end}")


def test_classes_that_training_lacks_and_empty_classes(tmp_path: Path) -> None:
    root = photos(tmp_path / "s", "train/a/1.png", "train/b/2.png", "test/a/3.png", "test/c/4.png")
    (root / "train/d").mkdir()
    (root / "train/d/5.heic").write_bytes(b"x")
    refusal = odt("-v", "gen-datafile", "--source", root, "-o", tmp_path / "o")
    assert refusal.exit_code == 1
    for words in (
        "none in train for d, which have 1 .heic (to read: pip install 'odt[heic]')",
        "test must have the classes of train (a, b), but got c. Add files of these classes to",
        "none in test for b",
    ):
        assert words in refusal.stderr
    result = made("--source", root, *CALM, "--on-error", "skip", "-o", tmp_path / "o")
    assert grays(tmp_path / "o/test.input.bin") == [2]
    assert "left out 1 file of test: train has no class c." in result.stderr
    assert "no files in train for d, which have 1 .heic" in result.stderr
    assert "no files in test for b." in result.stderr


def test_nested_folders_of_classes_are_said(tmp_path: Path) -> None:
    root = photos(tmp_path / "s", "ann/yes/1.png", "ann/no/2.png", "bob/yes/3.png")
    result = made("--source", root, *TRAIN, "-o", tmp_path / "o")
    assert counts(tmp_path / "o/train.input.bin") == {"ann": 2, "bob": 1}
    assert "3 files in folders below those of their classes, such as ann/no/2.png" in result.stderr
    made("--source", root, *TRAIN, "--label-pattern", "([^/]+)/[^/]*$", "-o", tmp_path / "o")
    assert counts(tmp_path / "o/train.input.bin") == {"no": 1, "yes": 2}


def test_links_to_folders_and_files_are_followed(tmp_path: Path) -> None:
    photos(tmp_path / "real", "a/1.png", "a/2.png", "b/3.png", "c/sub/4.png")
    root = photos(tmp_path / "s", "d/5.png")
    for name in "abc":
        (root / name).symlink_to(tmp_path / "real" / name)
    (root / "d/link.png").symlink_to(tmp_path / "real/a/1.png")
    (root / "d/loop").symlink_to(root)  # leads back
    (root / "d/self").symlink_to("self")
    result = made("--source", root, *TRAIN, "-o", tmp_path / "o")
    assert counts(tmp_path / "o/train.input.bin") == {"a": 2, "b": 1, "c": 1, "d": 2}
    assert "left out 1 symbolic link, which leads back" in result.stderr
    assert "left out 1 file other than images" in result.stderr  # self


def test_links_that_multiply_end(tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    for k in range(1, 30):
        above = tmp_path / str(k)
        above.mkdir()
        (above / "l").symlink_to(folder)
        (above / "r").symlink_to(folder)
        folder = above
    assert "must lead to at most 10000 folders by links" in refused("--source", folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "must be a readable file, but got: a device or pipe"),
        (lambda path: os.symlink("nowhere", path), "not found."),
    ],
)
def test_pipes_and_broken_links_are_named(tmp_path: Path, make: object, message: str) -> None:
    root = photos(tmp_path / "s", "a/1.png", "a/3.png")
    assert callable(make)
    make(root / "a/2.png")
    assert f"s/a/2.png: {message}" in refused("--source", root)
    result = made("--source", root, *TRAIN, "--on-error", "skip", "-o", tmp_path / "o")
    assert grays(tmp_path / "o/train.input.bin") == [0, 1]
    assert "skipped: 1" in result.stderr


def test_links_and_empty_folders_of_archives(tmp_path: Path) -> None:
    data = plain_picture(1)
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for kind, name, target in (
            (tarfile.DIRTYPE, "./c", ""), (tarfile.REGTYPE, "./a/1.png", ""),
            (tarfile.LNKTYPE, "./b/2.png", "./a/1.png"), (tarfile.SYMTYPE, "./b/3.png", "2.png"),
            (tarfile.FIFOTYPE, "./b/4.png", ""), (tarfile.DIRTYPE, "./__MACOSX", ""),
        ):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(data))
    tree = open_tree(tmp_path / "s.tar")
    assert [*tree.sizes] == ["a/1.png", "b/2.png"]
    assert tree.read("b/2.png", 1 << 20) == data
    assert (tree.links, list(tree.empty)) == (2, ["c"])
    assert "got none for c" in refused("--source", tmp_path / "s.tar")
    result = made(
        "--source", tmp_path / "s.tar", *TRAIN, "--on-error", "skip", "-o", tmp_path / "o"
    )
    assert "left out 2 symbolic links" in result.stderr
    with zipfile.ZipFile(tmp_path / "s.tm", "w") as packed:
        for name in ("a/1.png", "b/1.png", "__MACOSX/a/._1.png"):
            packed.writestr(name, data)
        packed.writestr("__MACOSX/", b"")
        packed.writestr("c/", b"")
    assert "got none for c" in refused("--source", tmp_path / "s.tm")


def test_pictures_of_many_formats(tmp_path: Path) -> None:
    (tmp_path / "s/a").mkdir(parents=True)
    pixels = np.full((8, 8, 3), 90, np.uint8)
    for ending, kind in (
        ("gif", "GIF"), ("tiff", "TIFF"), ("TIF", "TIFF"), ("ppm", "PPM"), ("jfif", "JPEG"),
        ("jpe", "JPEG"), ("png", "TIFF"),
    ):  # fmt: skip
        (tmp_path / f"s/a/x.{ending}").write_bytes(jpeg(pixels, kind))
    frames = [Image.new("RGB", (8, 8), (k, k, k)) for k in (90, 200)]
    frames[0].save(tmp_path / "s/a/two.gif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "s/a/two.tiff", save_all=True, append_images=frames[1:])
    result = made("--source", tmp_path / "s", *TRAIN, "-o", tmp_path / "o")
    x = samples(tmp_path / "o/train.input.bin")
    assert len(x) == 9
    assert abs(x - 90).max() <= 2
    assert "2 of 9 files: of several pictures in the file, only the first is read." in result.stderr


def test_heic_under_another_suffix_is_named(tmp_path: Path) -> None:
    root = photos(tmp_path / "s", "a/1.png")
    (root / "a/2.jpg").write_bytes(b"\0\0\0\x18ftypheic" + bytes(99))
    assert "2.jpg: must be read with pillow-heif, because it is HEIC: pip install 'odt[heic]'" in (
        refused("--source", root)
    )


def test_one_file_is_no_folder_of_classes(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(plain_picture(1))
    (tmp_path / "1.wav").write_bytes(wav(np.zeros(16000)))
    for name in ("1.jpg", "1.wav"):
        line = refused("--source", tmp_path / name)
        assert "must be a folder or archive with a folder for each class, but is one file" in line
        made("--source", tmp_path / name, "--unlabelled", "-o", tmp_path / name[2:])
    (tmp_path / "2.heic").write_bytes(b"x")
    assert "2.heic: must be an image that odt reads, but is .heic (to read: pip" in (
        refused("--source", tmp_path / "2.heic", "--unlabelled")
    )


def test_groups_do_not_mix_the_splits_of_a_folder(tmp_path: Path) -> None:
    names = [f"{split}/{c}/{who}_{c}.png" for split, people in (("train", "xyz"), ("test", "w"))
             for c in "ab" for who in people]  # fmt: skip
    root = photos(tmp_path / "s", *names)
    groups = ("--group-by", r"(\w)_")
    line = refused("--source", root, *groups, "-o", tmp_path / "o")
    assert "--group-by: s has splits of its own (train, test)" in line.replace(f"{root}", "s")
    made("--source", root, *groups, "--split", "train", "validation=0.4", "test", *CALM[:3],
         "-o", tmp_path / "o")  # fmt: skip
    assert grays(tmp_path / "o/test.input.bin") == [6, 7]
    result = made("--source", root, *groups, "--split", "train", "test=0.25", "-o", tmp_path / "o")
    assert "s: its own splits (train 6, test 2) are joined and divided again." in result.stderr
    assert len(samples(tmp_path / "o/train.input.bin")) == 6


def test_notes_and_faults_of_a_second_folder_are_said(tmp_path: Path) -> None:
    photos(tmp_path / "s", "a/1.png", "b/2.png")
    photos(tmp_path / "t", "a/3.png", "b/4.png")
    (tmp_path / "t/a/5.heic").write_bytes(b"x")
    args = ("--source", tmp_path / "s", "--test-source", tmp_path / "t", "-o", tmp_path / "o")
    assert "t: left out 1 file other than images: 1 .heic" in made(*args).stderr
    (tmp_path / "t/c").mkdir()
    assert "none for c" in refused(*args)


def test_numbers_of_folders_may_differ_from_split_to_split(tmp_path: Path) -> None:
    root = photos(tmp_path / "s", "train/1.5/1.png", "train/20/2.png", "test/7/3.png")
    made("--source", root, "--regression", *CALM[:3], "-o", tmp_path / "o")
    assert samples(tmp_path / "o/train.output.bin").tolist() == [[1.5], [20]]
    assert samples(tmp_path / "o/test.output.bin").tolist() == [[7]]


@pytest.mark.parametrize("more", [(), ("--on-error", "skip")])
def test_a_missing_package_is_no_fault_of_a_sample(
    more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / "s" / name).mkdir(parents=True)
        for k in range(3):
            Image.new("RGB", (8, 8)).save(tmp_path / f"s/{name}/{k}.png")
    monkeypatch.setitem(sys.modules, "PIL", None)  # as if it were not installed
    line = refused("--source", tmp_path / "s", "--size", "4x4", *more, "-o", tmp_path / "o")
    assert line == (
        "Error: images: reading and resizing need Pillow, which is not installed. "
        "Install it: pip install 'odt[images]'."
    )

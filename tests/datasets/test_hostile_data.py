"""Damaged and malicious sources: one line, exit 1, nothing half written, nothing executed."""

import gzip
import io
import pickle
import re
import resource
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.datafiles import (
    files,
    jpeg,
    made,
    odt,
    picture_folder,
    plain_picture,
    refused,
    samples,
    wav,
)
from support.idx import idx, write_mnist

from odt.core.storage import reading
from odt.core.storage.atomic_files import AtomicFile

Make = Callable[[Path], tuple[object, ...]]


def mnist(spoil: Callable[[Path], object]) -> Make:
    def make(root: Path) -> tuple[object, ...]:
        write_mnist(root)
        spoil(root)
        return ("mnist", "--data-dir", root)

    return make


def pictures(spoil: Callable[[Path], object], *args: object) -> Make:
    def make(root: Path) -> tuple[object, ...]:
        picture_folder(root)
        spoil(root)
        return ("--source", root, *args)

    return make


def table(text: str, *args: object) -> Make:
    def make(root: Path) -> tuple[object, ...]:
        (root / "t.csv").write_text(text)
        return ("--source", root / "t.csv", *args)

    return make


def packed(name: str, data: bytes) -> Make:
    """One file in a zip, under any name."""

    def make(root: Path) -> tuple[object, ...]:
        with zipfile.ZipFile(root / "s.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, data)
        return ("--source", root / "s.zip", "--format", "images")

    return make


def tar_of(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Make:
    def make(root: Path) -> tuple[object, ...]:
        data = plain_picture(1)
        with tarfile.open(root / "s.tar", "w") as tar:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(data))
        return ("--source", root / "s.tar", "--format", "images")

    return make


def short_zip(root: Path) -> tuple[object, ...]:
    args = packed("a/1.png", plain_picture(1))(root)
    data = (root / "s.zip").read_bytes()
    (root / "s.zip").write_bytes(data[: len(data) - 30])
    return args


def changed_zip(root: Path) -> tuple[object, ...]:
    """The member's checksum is not that of its bytes."""
    with zipfile.ZipFile(root / "s.zip", "w") as archive:
        archive.writestr("a/1.png", plain_picture(1))
    data = bytearray((root / "s.zip").read_bytes())
    data[60] ^= 255
    (root / "s.zip").write_bytes(data)
    return ("--source", root / "s.zip")


def inputs_alone(root: Path) -> tuple[object, ...]:
    np.save(root / "x.npy", np.ones((4, 3)))
    return ("--source", root / "x.npy")


def short_tar(root: Path) -> tuple[object, ...]:
    args = tar_of("a/1.png")(root)
    data = gzip.compress((root / "s.tar").read_bytes())
    (root / "s.tar").write_bytes(data[: len(data) // 2])
    return args


def bomb(root: Path) -> tuple[object, ...]:
    """2 GiB of zeros that a zip holds in 2 MiB, as its directory says."""
    args = packed("a/1.png", b"\0" * (1 << 20))(root)
    data = (root / "s.zip").read_bytes()
    size, huge = struct.pack("<I", 1 << 20), struct.pack("<I", (1 << 32) - 2)
    assert data.count(size) == 2
    (root / "s.zip").write_bytes(data.replace(size, huge))
    return args


def cifar_with_code(root: Path) -> tuple[object, ...]:
    class Code:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (root / "executed",))

    for name in [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]:
        (root / name).write_bytes(pickle.dumps({"data": Code(), "labels": [0]}, 2))
    return ("cifar10", "--data-dir", root)


def claims(shape: tuple[int, ...]) -> Callable[[Path], object]:
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    name = "train-images-idx3-ubyte.gz"
    return lambda root: (root / name).write_bytes(gzip.compress(header + bytes(784)))


def cut(root: Path) -> None:
    path = root / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-2000])


def long_labels(root: Path) -> None:
    (root / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(11, np.uint8)))


def eleventh_class(root: Path) -> None:
    (root / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.full(10, 10, np.uint8)))


def text_class(root: Path) -> None:
    (root / "c").mkdir()
    (root / "c/x.txt").touch()


def other_class_in_test(root: Path) -> tuple[object, ...]:
    for part, name in (("train", "a"), ("test", "z")):
        (root / part / name).mkdir(parents=True)
        (root / part / name / "1.png").write_bytes(plain_picture(1))
    return ("--source", root)


def wav_of(data: bytes, *args: object) -> Make:
    def make(root: Path) -> tuple[object, ...]:
        (root / "a").mkdir()
        (root / "a/1.wav").write_bytes(data)
        return ("--source", root, "--split", "train=1.0", *args)

    return make


PICTURE = jpeg(np.zeros((64, 64, 3), np.uint8), "JPEG")
GIF = jpeg(np.zeros((8, 6, 3), np.uint8), "GIF")
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) run\n"
SOUND = wav(np.zeros(16000))

CASES: dict[str, tuple[Make, str]] = {
    "truncated gzip": (mnist(cut), "train-images-idx3-ubyte.gz"),
    "idx claims too much": (mnist(claims((10, 28, 28))), "shorter than its header says"),
    "idx claims terabytes": (mnist(claims((1 << 30, 28, 28))), "decompression bomb"),
    "idx says less": (mnist(claims((1, 27, 28))), "there are more"),
    "idx of one axis": (mnist(claims((784,))), "with 3 axes"),
    "labels too many": (mnist(long_labels), "got 11 for 10"),
    "a label too high": (mnist(eleventh_class), "must be 0 … 9, but sample 0 has 10"),
    "no such file": (mnist(lambda r: (r / "t10k-images-idx3-ubyte.gz").unlink()), "t10k-images"),
    "truncated picture": (
        pictures(lambda r: (r / "a/5.jpg").write_bytes(PICTURE[:-200])),
        "a/5.jpg: must be a valid image, but got: .*[Tt]runcated",
    ),
    "text as picture": (pictures(lambda r: (r / "a/5.png").write_text("x")), "a/5.png"),
    "empty picture": (pictures(lambda r: (r / "a/5.png").touch()), "a/5.png"),
    "program as picture": (pictures(lambda r: (r / "a/5.png").write_bytes(EPS)), "a/5.png"),
    "mixed sizes": (
        pictures(lambda r: (r / "a/5.png").write_bytes(plain_picture(1, (9, 9)))),
        r"all samples must have the same shape.*\(9, 9, 3\).*Give --size",
    ),
    "empty class": (pictures(lambda r: (r / "c").mkdir()), "for c"),
    "class of texts": (
        pictures(text_class),
        "for c",
    ),
    "unknown class": (
        other_class_in_test,
        r"must have the classes of train \(a\), but got z",
    ),
    "no pictures": (lambda r: ("--source", r, "--format", "images"), "has none"),
    "no source": (lambda r: ("--source", r / "x.csv"), "x.csv: not found"),
    "unknown ending": (
        lambda r: ((r / "x.doc").write_text(""), ("--source", r / "x.doc"))[1],
        "--format",
    ),
    "truncated zip": (short_zip, "valid zip archive"),
    "inputs alone": (inputs_alone, "holds only one array.*with --target-source"),
    "zip with a wrong checksum": (changed_zip, r"a/1.png: must be readable.*Bad CRC"),
    "truncated tar": (short_tar, "valid tar archive"),
    "no archive": (lambda r: ((r / "s.tar").write_bytes(b"x" * 600), ("--source", r / "s.tar"))[1],
                   "valid tar archive"),
    "zip leaves its folder": (packed("../a/1.png", b""), "must stay inside the archive"),
    "zip names a root": (packed("/etc/a/1.png", b""), "must stay inside the archive"),
    "tar leaves its folder": (tar_of("a/../../b/1.png"), "must stay inside the archive"),
    "tar of links": (tar_of("a/1.png", tarfile.SYMTYPE, "/etc/passwd"), "has none"),
    "tar of hard links": (tar_of("a/1.png", tarfile.LNKTYPE, "/etc/passwd"), "has none"),
    "decompression bomb": (bomb, "a decompression bomb"),
    "pickle with code": (cifar_with_code, "pickle must hold nothing but.*It is not executed"),
    "label column missing": (table("a,b\n1,2\n3,4\n", "--label-column", "kind"), "got kind"),
    "a column missing": (table("a,b\n1,2\n3,4\n", "--leave-out", "c"), "--leave-out.*got c"),
    "a word among numbers": (table("a,b\n1,2\nx,4\n"), "line 3: column a.*'x'.*--leave-out a"),
    "a short line": (table("a,b\n1,2\n3\n"), "line 3: must have 2 cells, but has 1"),
    "empty table": (table(""), "is empty"),
    "header only": (table("a,b\n", "--header"), "has none"),
    "missing value": (table("a,b\n1,0\n,1\n", "--split", "t=1.0"), "missing.*--missing drop"),
    "missing target": (table("a,b\n1,0\n2,\n"), "line 3: the target is missing"),
    "one column": (table("1\n2\n"), "column beside the target"),
    "truncated sound": (wav_of(SOUND[:-100]), "a/1.wav: must have 32000 bytes .* but has 31900"),
    "no sound": (wav_of(b"RIFFxxxxWAVE"), "a/1.wav: must be a valid WAV"),
    "different lengths": (
        lambda r: (wav_of(SOUND, "--seconds", 0)(r), (r / "a/2.wav").write_bytes(wav(np.zeros(9))),
                   ("--source", r, "--split", "train=1.0", "--seconds", 0))[2],
        "Give --size for images, --seconds for sounds",
    ),
    "out is a file": (
        pictures(lambda r: (r.parent / "o").touch()),
        "o: must be a folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_unusable_input_is_one_line(tmp_path: Path, case: str) -> None:

    make, words = CASES[case]
    (tmp_path / "s").mkdir()
    line = refused(*make(tmp_path / "s"), "-o", tmp_path / "o")
    assert re.search(words, line), line
    assert (tmp_path / "o").is_file() or files(tmp_path / "o") == []
    assert not list(tmp_path.rglob("executed"))


def test_skipping_continues_and_lists_skipped_samples(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s", 12)
    for k in range(11):
        (tmp_path / f"s/a/bad{k}.png").write_bytes(b"x")
    (tmp_path / "s/empty").mkdir()
    result = made("--source", tmp_path / "s", "--on-error", "skip", "--split", "train=1.0",
                  "-o", tmp_path / "o")  # fmt: skip
    assert "skipped: 11" in result.stderr
    assert result.stderr.count("must be a valid image") == 10
    assert "classes: a 12, b 12" in result.stdout
    assert len(samples(tmp_path / "o/train.input.bin")) == 24


def test_an_old_file_survives_a_run_that_fails(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    made("--source", tmp_path / "s", "-o", tmp_path / "o")
    before = {name: (tmp_path / "o" / name).read_bytes() for name in files(tmp_path / "o")}
    (tmp_path / "s/b/9.png").write_bytes(b"x")
    refused("--source", tmp_path / "s", "-o", tmp_path / "o")
    assert {name: (tmp_path / "o" / name).read_bytes() for name in files(tmp_path / "o")} == before


def test_a_bomb_of_gzip_is_stopped_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BOMB_BYTES", 1 << 16)
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(b"1,2\n" * (1 << 20)))
    line = refused("--source", tmp_path / "s.csv.gz", "-o", tmp_path / "o")
    assert "a decompression bomb" in line


@pytest.mark.parametrize("output", ["raw", "hdf5", "npz"])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, output: str) -> None:
    write_mnist(tmp_path / "d", 200, 10)
    run = subprocess.run(
        [sys.executable, "-m", "odt", "gen-datafile", "mnist", "--data-dir", tmp_path / "d",
         "-o", tmp_path / "o", "--output-format", output],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)),
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 1, run.stderr
    lines = run.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    assert files(tmp_path / "o") == []


def test_temporary_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    (tmp_path / "o").mkdir()
    (tmp_path / "o/.odt-abcdefgh").write_bytes(b"half")
    with AtomicFile(tmp_path / "o/other.bin") as other:  # another run, still at work
        made("--source", tmp_path / "s", "-o", tmp_path / "o")
        hidden = [name for name in files(tmp_path / "o") if name.startswith(".")]
        assert other.temporary is not None
        assert hidden == [Path(other.temporary).name]


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    for args, words in [
        (("--size", "8"), "HEIGHTxWIDTH"),
        (("--size", "0x8"), "numbers with x between"),
        (("--augment", "spin"), "but got spin"),
        (("--augment", "shift=1,shift=2"), "shift twice"),
        (("--augment", "noise=nan"), "noise=STD"),
        (("--mean", "nan"), "must be finite numbers"),
        (("--label-map", "a=b,a=c"), "a twice"),
        (("--augment", "crop=2"), "crop=FRACTION below 1"),
        (("--split", "train=2.5"), "must be NAME=FRACTION"),
        (("--split", "train=x"), "numbers separated by commas"),
        (("--fold", "one"), "must be K/N"),
        (("--std", "0"), "must be above 0"),
        (
            ("--dtype", "uint8", "--scale", "standardize"),
            "Give --dtype float32, or leave out --scale standardize.",
        ),
        (("--label-map", "q=a"), "has the classes a, b, but got q"),
        (("--classes", "a,c"), "--classes: must have each class of"),
        (("--classes", "a,b,a"), "--classes: must have each class of"),
        (("mnist",), "must be given without NAME"),
        (("--group-by", "("), "must be a pattern"),
        (("--stratify", "--group-by", "."), "without --group-by"),
    ]:
        assert words in refused("--source", tmp_path / "s", "-o", tmp_path / "o", *args)
    assert odt("gen-datafile", "--fit", "squeeze").exit_code == 2
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n")
    line = refused("--source", tmp_path / "t.csv", "-o", tmp_path / "o", "--augment", "flip")
    assert "t.csv has 1 axis. Give noise alone." in line

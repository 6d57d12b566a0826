"""Tables: words, ranges of columns, decimal commas, windows over series, .ts and .arff files."""

import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from support.datafiles import files, made, odt, refused, samples, sidecar, wav

from odt.datasets.table_source import open_table
from odt.datasets.tables import TableOptions

ALL = ("--split", "train=1.0", "--no-shuffle", "--no-stratify")


def labels(path: Path) -> list[int]:
    found = samples(path).argmax(axis=1)
    return [int(k) for k in found]


def test_words_become_one_column_each_and_stay_so_for_new_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("size,color,kind\n1,red,x\n2,blue,y\n3,,x\n4,red,y\n")
    args = ("--source", tmp_path / "t.csv", *ALL, "-o", tmp_path / "o")
    assert "--one-hot color." in refused(*args)
    made(*args, "--one-hot", "color", "--missing", "mean")
    x = samples(tmp_path / "o/train.input.bin")
    wanted = np.array([[1, 0, 1], [2, 1, 0], [3, 1 / 3, 2 / 3], [4, 0, 1]])
    np.testing.assert_allclose(x, wanted, rtol=1e-6)
    record = tmp_path / "o/train.input.bin.json"
    (tmp_path / "new.csv").write_text("color,size\nred,7\nblue,8\n")
    made("--source", tmp_path / "new.csv", "--as", record, "-o", tmp_path / "n")
    assert samples(tmp_path / "n/new.input.bin").tolist() == [[7, 0, 1], [8, 1, 0]]
    (tmp_path / "new.csv").write_text("color,size\ngreen,7\n")
    said = made("--source", tmp_path / "new.csv", "--as", record, "-o", tmp_path / "n").stderr
    assert "1 word is not in the training data" in said
    assert "column color: green (1)" in said
    assert samples(tmp_path / "n/new.input.bin").tolist() == [[7, 0, 0]]


@pytest.mark.parametrize(("policy", "fill"), [("mean", 4.0), ("median", 2.0), ("zero", 0.0)])
def test_missing_values_are_filled_from_the_training_split(
    tmp_path: Path, policy: str, fill: float
) -> None:
    (tmp_path / "t.csv").write_text("a,b,k\n1,1,0\n2,1,1\n9,1,0\n,1,1\n")
    made("--source", tmp_path / "t.csv", *ALL, "--missing", policy, "-o", tmp_path / "o")
    assert samples(tmp_path / "o/train.input.bin")[:, 0].tolist() == [1, 2, 9, fill]
    (tmp_path / "new.csv").write_text("a,b\n100,1\n?,1\n")
    record = tmp_path / "o/train.input.bin.json"
    made("--source", tmp_path / "new.csv", "--as", record, "-o", tmp_path / "n")
    assert samples(tmp_path / "n/new.input.bin")[:, 0].tolist() == [100, fill]


def test_one_hot_columns_at_the_end_are_noticed_and_can_be_the_target(tmp_path: Path) -> None:
    rows = [f"{k}.5 {k % 3} {int(k % 2 == 0)} {int(k % 2)}" for k in range(8)]
    (tmp_path / "t.data").write_text("\n".join(rows) + "\n")
    args = ("--source", tmp_path / "t.data", *ALL, "-o", tmp_path / "o")
    warning = made(*args).stderr
    assert "the last 2 columns are one-hot rows" in warning
    assert "Give --label-column 2-3." in warning
    assert made(*args, "--label-column", "2-3").stderr == ""
    assert samples(tmp_path / "o/train.input.bin").shape == (8, 2)
    assert labels(tmp_path / "o/train.output.bin") == [k % 2 for k in range(8)]
    line = refused(*args, "--label-column", "2-9")
    assert "--label-column must be one of" in line
    assert len(line) < 300


def test_several_columns_that_are_no_classes_are_values_with_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,sunny,warm\n1,1,1\n2,0,1\n3,0,0\n")
    made("--source", tmp_path / "t.csv", *ALL, "--label-column", "sunny,warm", "-o", tmp_path / "o")
    assert samples(tmp_path / "o/train.output.bin").tolist() == [[1, 1], [0, 1], [0, 0]]
    assert sidecar(tmp_path / "o/train.input.bin")["tags"] == ["sunny", "warm"]


@pytest.mark.parametrize("header", ["a;b;kind\n", ""])
def test_decimal_commas_are_points(tmp_path: Path, header: str) -> None:
    (tmp_path / "eu.csv").write_text(header + "-0,05889;1,5;x\n0,5;2e-1;y\n7;3,25;x\n")
    made("--source", tmp_path / "eu.csv", *ALL, "-o", tmp_path / "o")
    x = samples(tmp_path / "o/train.input.bin")
    np.testing.assert_allclose(x, [[-0.05889, 1.5], [0.5, 0.2], [7, 3.25]], rtol=1e-6)


def series(path: Path, rows: int) -> Path:
    lines = [f"{k},{2 * k},{'ab'[k // 10 % 2]},p{k // 20}" for k in range(rows)]
    path.write_text("\n".join(["t,v,kind,person", *lines]) + "\n")
    return path


def test_windows_slide_over_a_series_and_splits_share_no_row(tmp_path: Path) -> None:
    path = series(tmp_path / "s.csv", 40)
    made("--source", path, "--leave-out", "person", "--label-column", "kind", "--window", 6,
         "--stride", 2, "-o", tmp_path / "o")  # fmt: skip
    train, test = (samples(tmp_path / f"o/{n}.input.bin") for n in ("train", "test"))
    assert train.shape[1:] == (6, 2)
    assert [int(w[0, 0]) for w in train] == list(range(0, 2 * len(train), 2))
    assert train[..., 0].max() < test[..., 0].min()
    assert (np.diff(train[..., 0], axis=1) == 1).all()
    last = train[:, -1, 0].astype(int)
    assert labels(tmp_path / "o/train.output.bin") == [(k // 10) % 2 for k in last]


def test_windows_stay_in_their_series_and_predict_ahead(tmp_path: Path) -> None:
    path = series(tmp_path / "s.csv", 40)
    made("--source", path, "--leave-out", "kind", "--leave-out", "person", "--label-column", "v",
         "--window", 4, "--horizon", 3, "--regression", "--group-by", "person",
         "--split", "train", "test=0.5", "-o", tmp_path / "o")  # fmt: skip
    starts = []
    for name in ("train", "test"):
        x, y = (samples(tmp_path / f"o/{name}.{r}.bin") for r in ("input", "output"))
        assert x.shape == (14, 4, 2)  # the target is an input too
        assert (y[:, 0] == x[:, -1, 1] + 6).all()
        starts += [{int(v) // 20 for v in x[..., 0].reshape(-1)}]
    assert sorted(map(sorted, starts)) == [[0], [1]]


TS = """# a comment
@problemName Moves
@univariate false
@classLabel true Still Walk
@data
1,2,3:4,5,6:Walk
7,8,9:1,?,3:Still
"""


def test_series_of_the_uea_archive_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "a_TRAIN.ts").write_text(TS)
    (tmp_path / "a_TEST.ts").write_text(TS.replace(":Still", ":Walk"))
    made("--source", tmp_path / "a_TRAIN.ts", "--test-source", tmp_path / "a_TEST.ts",
         "--missing", "zero", "-o", tmp_path / "o")  # fmt: skip
    x = samples(tmp_path / "o/train.input.bin")
    assert x.tolist() == [[[1, 4], [2, 5], [3, 6]], [[7, 1], [8, 0], [9, 3]]]
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["Still", "Walk"]
    assert labels(tmp_path / "o/train.output.bin") == [1, 0]
    assert labels(tmp_path / "o/test.output.bin") == [1, 1]


ARFF = """% weather
@relation weather
@attribute outlook {sunny, rainy}
@attribute 'the heat' real
@attribute play {yes, no}
@data
sunny,85,no
rainy,?,'yes'
"""


def test_tables_of_weka(tmp_path: Path) -> None:
    (tmp_path / "w.arff").write_text(ARFF)
    made("--source", tmp_path / "w.arff", *ALL, "--missing", "zero", "-o", tmp_path / "o")
    assert samples(tmp_path / "o/train.input.bin").tolist() == [[0, 1, 85], [1, 0, 0]]
    assert labels(tmp_path / "o/train.output.bin") == [0, 1]
    columns = sidecar(tmp_path / "o/train.input.bin")["table"]["columns"]
    assert [c["name"] for c in columns] == ["outlook", "the heat", "play"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.ts", TS.replace("4,5,6", "4,5"), "line 6: must hold channels of one length"),
        (
            "a.ts",
            TS.replace("1,?,3:Still", "1,2:Still").replace("7,8,9", "7,8"),
            "line 7: all series",
        ),
        ("a.ts", TS.replace("@data", "1,2"), "line 5: must be a header line"),
        ("a.ts", TS.replace("1,?,3:Still", "1,?,3:?"), "each series must have a target"),
        ("a.ts", "@problemName x\n", "must have a line @data"),
        ("a.ts", TS.replace("1,2,3:", "(1,2),(2,3):"), "line 6: values must stand alone"),
        (
            "w.arff",
            ARFF.replace("real", "relational"),
            "column the heat must hold",
        ),
        ("w.arff", ARFF.replace("sunny,85,no", "{0 sunny}"), "line 7: must be a full row"),
        ("w.arff", "@relation x\n", "must have a line @data"),
    ],
)
def test_damaged_series_are_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    args = ("--source", tmp_path / name, "--missing", "zero", *ALL, "-o", tmp_path / "o")
    assert said in refused(*args)
    assert files(tmp_path / "o") == []


def test_tables_of_a_folder_have_the_same_columns(tmp_path: Path) -> None:
    for name, header in (("a", "acc.x,acc.y"), ("b", "acc.y,acc.x")):
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "1.csv").write_text(f"{header}\n1,2\n3,4\n")
    args = ("--source", tmp_path / "t", *ALL, "-o", tmp_path / "o")
    assert "must have the columns of" in refused(*args)


def test_a_table_in_two_files_is_standardized_by_the_first(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,c,k\n1,x,u\n3,y,v\n")
    (tmp_path / "test.csv").write_text("k,a,c\nv,5,x\n")
    args = ("--source", tmp_path / "train.csv", "--test-source", tmp_path / "test.csv",
            "--one-hot", "c", "--scale", "standardize", "-o", tmp_path / "o")  # fmt: skip
    made(*args)
    assert samples(tmp_path / "o/test.input.bin")[0].tolist() == [3, 1, -1]
    assert labels(tmp_path / "o/test.output.bin") == [1]
    (tmp_path / "test.csv").write_text("k,a,c\nw,5,x\n")
    assert "classes must be u, v, but got w" in refused(*args)


def test_spellings_of_splits(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("".join(f"{k},{k % 2}\n" for k in range(10)))
    args = ("--source", tmp_path / "t.csv", "-o", tmp_path / "o")
    assert "such as --split train=0.8 test=0.2" in refused(*args, "--split", "0.8", "0.2")
    made(*args, "--split", "train=0.7,test=0.3")
    assert samples(tmp_path / "o/train.input.bin").shape == (7, 1)
    made(*args, "--split", "train")
    assert samples(tmp_path / "o/train.input.bin").shape == (10, 1)
    assert "Give train=1.0, or train alone, for all" in refused(*args, "--split", "train=1")


def sounds(root: Path, parts: tuple[str, ...]) -> Path:
    for part in parts:
        for c in "ab":
            (root / part / c).mkdir(parents=True)
            for k in range(10):
                (root / part / c / f"{k}.wav").write_bytes(wav(np.full(4, k / 20), 16000))
    return root


def test_all_parts_of_a_source_are_used_and_validation_can_be_cut_from_train(
    tmp_path: Path,
) -> None:
    args = ("--seconds", 0, "-o", tmp_path / "o")
    made("--source", sounds(tmp_path / "s", ("train", "validation", "test")), *args)
    assert len([n for n in files(tmp_path / "o") if n.endswith("input.bin")]) == 3
    said = made("--source", sounds(tmp_path / "t", ("train", "test")), *args,
                "--split", "train", "validation=0.1", "test").stdout  # fmt: skip
    assert re.findall(r"(\w+): (\d+) samples", said) == [
        ("train", "18"), ("validation", "2"), ("test", "20")
    ]  # fmt: skip


def test_classes_in_file_names_and_files_without_classes(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for k in range(6):
        (tmp_path / f"s/{k % 2}_speaker_{k}.wav").write_bytes(wav(np.full(4, k / 8), 16000))
    args = ("--source", tmp_path / "s", "--seconds", 0, *ALL, "-o", tmp_path / "o")
    assert "--label-pattern, or give --unlabelled" in refused(*args)
    made(*args, "--label-pattern", r"^(\d)_")
    assert labels(tmp_path / "o/train.output.bin") == [0, 0, 0, 1, 1, 1]
    made(*args[:-1], tmp_path / "u", "--unlabelled")
    assert files(tmp_path / "u") == ["train.input.bin", "train.input.bin.json"]
    assert "must match every file name" in refused(*args, "--label-pattern", "x")
    (tmp_path / "z").mkdir()
    (tmp_path / "z/a.doc").write_text("1,2\n")
    assert "it holds 1 .doc files" in refused("--source", tmp_path / "z", "-o", tmp_path / "o")


@pytest.mark.parametrize("scale", ["none", "standardize"])
def test_all_faults_are_listed_at_once(tmp_path: Path, scale: str) -> None:
    root = sounds(tmp_path / "s", ("train", "test"))
    (root / "train/c").mkdir()
    for name in ("a/3.wav", "b/5.wav"):
        (root / "train" / name).write_bytes(b"RIFF")
    words = ("--seconds", 0, "--scale", scale, "-o", tmp_path / "o")
    result = odt("-v", "gen-datafile", "--source", root, *words)
    assert result.exit_code == 1
    assert "3 faults: " in result.stderr
    for said in ("for c", "train/a/3.wav", "train/b/5.wav", "--on-error skip"):
        assert said in result.stderr
    assert files(tmp_path / "o") == []


def test_parquet_names_the_package_that_reads_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    line = refused("--source", tmp_path / "t.parquet", "-o", tmp_path / "o")
    assert "reading Parquet needs pyarrow, which is not installed. Install it: pip" in line


@pytest.mark.parametrize("target", ["kind{}", "0.{:05d}"])
def test_rows_take_little_memory(target: str, tmp_path: Path) -> None:
    """Inputs are in a file; beside them a row has its number, its target and a shared word."""
    rows = 20_000
    lines = [f"{k},{k * 0.5},word{k % 7},{target.format(k if '5' in target else k % 3)}"
             for k in range(rows)]  # fmt: skip
    (tmp_path / "t.csv").write_text("a,b,group,y\n" + "\n".join(lines))
    tracemalloc.start()
    source = open_table(tmp_path / "t.csv", TableOptions(leave_out=("group",)))
    nbytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert source.parts["all"].length == rows
    assert nbytes / rows < 40

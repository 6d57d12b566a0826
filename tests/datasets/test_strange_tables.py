"""Tables as spreadsheets, pandas, WISDM, FER-2013 and people write them."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.datafiles import made, odt, refused, samples, sidecar

from odt.datasets.table_cells import DateCells, NumberCells, VectorCells, find_cells

ALL = ("--split", "train=1.0", "--no-shuffle", "--no-stratify")


def rows(path: Path, text: str, *args: object, encoding: str = "utf-8") -> tuple[list[Any], str]:
    """The inputs that a table of this text becomes, and what is said."""
    path.write_bytes(text.encode(encoding))
    said = made("--source", path, *ALL, *args, "-o", path.parent / "o").stderr
    found: list[Any] = samples(path.parent / "o/train.input.bin").tolist()
    return found, said


def body(line: str, count: int = 6) -> str:
    """Lines with {k} for their number and {c} for a class."""
    return "".join(line.format(k=k, c=k % 2) + "\n" for k in range(count))


@pytest.mark.parametrize(
    ("name", "encoding", "text"),
    [
        ("excel-german.csv", "cp1252", "Größe;Wert;Art\n" + body("{k};{k},5;{c}")),
        ("unicode-text.txt", "utf-16", "a\tb\tk\n" + body("{k}\t{k}.5\t{c}")),
        ("no-bom.csv", "utf-16-le", "a,b,k\n" + body("{k},{k}.5,{c}")),
        ("utf-8.csv", "utf-8-sig", "a,b,k\r\n" + body("{k},{k}.5,{c}").replace("\n", "\r\n")),
        ("sep.csv", "utf-8", "sep=;\na;b;k\n" + body("{k};{k}.5;{c}")),
        ("quoted.csv", "utf-8", '"a", "b", "k"\n' + body('"{k}", "{k}.5", "{c}"')),
        ("empty-end.csv", "utf-8", "a,b,k,\n" + body("{k},{k}.5,{c},") + ",,,\n,,,\n"),
        ("wisdm.txt", "utf-8", body("{k},{k}.5,{c};") + "\n;\n"),
        ("two-in-a-line.txt", "utf-8", body("{k},{k}.5,{c};").replace("\n2", "2", 1)),
        ("uci.data", "utf-8", body("{k},{k}.5,{c}") + "\n"),
        ("spaces.data", "utf-8", body("  {k}   {k}.5 {c} ")),
        ("spaces-commas.txt", "utf-8", body("{k},0 {k},5 {c}")),
        ("bars.csv", "utf-8", "a|b|k\n" + body("{k}|{k}.5|{c}")),
        ("pandas.csv", "utf-8", ",a,b,k\n" + body("{k},{k},{k}.5,{c}")),
        ("shuffled.csv", "utf-8", "Unnamed: 0,a,b,k\n17,0,0.5,0\n3,1,1.5,1\n99,2,2.5,0\n"),
        ("r.csv", "utf-8", '"","a","b","k"\n' + body('"{k}",{k},{k}.5,{c}')),
    ],
)
def test_tables_of_programs(tmp_path: Path, name: str, encoding: str, text: str) -> None:
    found, said = rows(tmp_path / name, text, encoding=encoding)
    assert found == [[k, k + 0.5] for k in range(len(found))]
    assert len(found) == (3 if name == "shuffled.csv" else 6)
    assert ("no name and numbers the rows" in said) == (
        name in ("pandas.csv", "shuffled.csv", "r.csv")
    )
    assert ("read as Windows-1252" in said) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("delimiter", "cells", "numbers"),
    [
        (",", ["$5.00", "$1,234.50", "-$2"], [5, 1234.5, -2]),
        (",", ["1,234", "12,345", "7"], [1234, 12345, 7]),
        (";", ["1.234,50", "7", "-0,5"], [1234.5, 7, -0.5]),
        (";", ["1,5", "3.25", "2e-1"], [1.5, 3.25, 0.2]),
        (";", ["1 234,5", "12\u00a0345", "7"], [1234.5, 12345, 7]),
        (";", ["5,00 €", "EUR 6,50", ""], [5, 6.5, math.nan]),
        (",", ["45%", "7 %", "(3.5)%"], None),
        (",", ["45%", "7 %", "12.5%"], [45, 7, 12.5]),
        (",", ["(1,000.00)", "2.00", "-"], [-1000, 2, math.nan]),
        (",", ["True", "False", "NA"], [1, 0, math.nan]),
        (",", ["yes", "no", "Yes"], [1, 0, 1]),
        (",", ["1.2.3", "4", "5"], None),
        (",", ["2023-01-05", "4", "5"], None),
        (",", ["red", "no", "yes"], None),
        (",", ["y", "on", "1"], None),
    ],
)
def test_numbers_as_people_write_them(
    delimiter: str, cells: Sequence[str], numbers: Sequence[float] | None
) -> None:
    found = find_cells(cells, delimiter)
    if numbers is None:
        assert found is None
    else:
        assert found is not None
        np.testing.assert_array_equal([found.values(c)[0] for c in cells], numbers)


def test_points_between_thousands_beside_decimal_commas(tmp_path: Path) -> None:
    text = "a;b;t;k\n" + body("1.{k}00;{k},5;0.12{k};{c}")
    found, said = rows(tmp_path / "t.csv", text)
    np.testing.assert_allclose(found[2], [1200, 2.5, 0.122], rtol=1e-6)
    assert "'1.000' as 1000 (column a)" in said
    assert isinstance(find_cells(["1.000", "1.200"], ";"), NumberCells)
    found, said = rows(tmp_path / "t.csv", "a;b;k\n" + body("1.{k}00;{k};{c}"))
    assert found[2] == pytest.approx([1.2, 2])  # nothing says that points are between thousands


def test_a_column_of_few_errors_is_one_of_numbers(tmp_path: Path) -> None:
    text = "a,b,k\n" + body("{k},{k},{c}", 9) + "1O,7,0\n"
    (tmp_path / "t.csv").write_text(text)
    line = refused("--source", tmp_path / "t.csv", *ALL, "-o", tmp_path / "o")
    assert "line 11: column a must hold numbers, but got '1O'. Correct it" in line
    found, said = rows(tmp_path / "t.csv", text + "4,5\n", "--on-error", "skip")
    assert len(found) == 9
    assert "2 of 11 lines left out: 1 with a cell that does not fit (line 11), 1 with another " \
        "number of cells (line 12)" in said  # fmt: skip


@pytest.mark.parametrize("value", ["inf", "1e300"])
@pytest.mark.parametrize("missing", ["mean", "median"])
def test_a_line_with_an_infinite_value_leaves_the_statistics_alone(
    value: str, missing: str, tmp_path: Path
) -> None:
    steps = ("--scale", "standardize", "--missing", missing, "--on-error", "skip")
    text = "a,b,k\n" + body("{k},{k},{c}") + ",6,0\n"
    plain, _ = rows(tmp_path / "t.csv", text, *steps)
    found, said = rows(tmp_path / "t.csv", text + f"{value},3,0\n", *steps)
    assert "values must be finite in float32" in said
    assert found == plain, "also of its other column"


@pytest.mark.parametrize("lacks", ["value", "target"])
def test_samples_that_are_left_out_leave_the_statistics_alone(lacks: str, tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    y = np.arange(6, dtype=np.float32)
    if lacks == "value":
        x[5] = np.nan, 1e6
    else:
        x[5], y[5] = 1e6, np.nan
    np.savez(tmp_path / "a.npz", x=x, y=y)
    steps = ("--scale", "standardize", "--missing", "drop", "--missing-target", "drop")
    made("--source", tmp_path / "a.npz", *ALL, *steps, "-o", tmp_path / "o")
    found = samples(tmp_path / "o/train.input.bin")
    np.testing.assert_allclose(found, (x[:5] - x[:5].mean(0)) / x[:5].std(0), rtol=1e-6)


def test_all_columns_of_text_are_named_at_once_with_their_options(tmp_path: Path) -> None:
    lines = [f"2023-0{k % 9 + 1}-01,{'ab'[k % 2]},n{k},{k},{k % 2}" for k in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["when,kind,name,x,k", *lines]) + "\n")
    args = ("--source", tmp_path / "t.csv", *ALL, "-o", tmp_path / "o")
    line = refused(*args)
    assert "3 columns hold text" in line
    options = "--date when --one-hot kind --leave-out name"
    assert options in line
    made(*args, *options.split())
    assert samples(tmp_path / "o/train.input.bin").shape == (30, 4 + 2 + 1)


def test_cells_of_many_numbers_are_vectors_and_usage_names_the_splits(tmp_path: Path) -> None:
    """The form of FER-2013, whose training rows come first."""
    uses = ["Training"] * 1100 + ["PublicTest"] * 3 + ["PrivateTest"] * 2
    lines = [f'{k % 3},"{k} 1 2 {k % 7}",{use}' for k, use in enumerate(uses)]
    path = tmp_path / "faces.csv"
    path.write_text("\n".join(["emotion,pixels,Usage", *lines]) + "\n")
    args = ("--source", path, "-o", tmp_path / "o")
    assert "Usage, names splits" in refused(*args)
    said = made(*args, "--label-column", "emotion", "--no-shuffle").stderr
    assert "train 1100, validation 3, test 2" in said
    found = samples(tmp_path / "o/validation.input.bin")
    assert found.tolist() == [[k, 1, 2, k % 7] for k in (1100, 1101, 1102)]
    path.write_text(path.read_text().replace("\n7,", "\n7,").replace('"5 1 2 5"', '"5 1 2"'))
    assert "line 7: column pixels must hold 4 numbers in each cell" in refused(
        *args, "--label-column", "emotion"
    )
    assert find_cells(["[1, 2.5, 3]", "[4, 5, nan]"], ",") == VectorCells(3)


def test_splits_of_a_table_and_windows(tmp_path: Path) -> None:
    """No window has rows of two splits."""
    lines = [f"{k},{k % 2},{'train' if k < 10 else 'test'}" for k in range(16)]
    (tmp_path / "t.csv").write_text("\n".join(["x,k,set", *lines]) + "\n")
    made("--source", tmp_path / "t.csv", "--label-column", "k", "--window", 4,
         "-o", tmp_path / "o")  # fmt: skip
    train, test = (samples(tmp_path / f"o/{n}.input.bin") for n in ("train", "test"))
    assert (len(train), len(test)) == (7, 3)
    assert train.max() == 9
    assert test.min() == 10


def test_dates_become_turns_of_week_year_and_day(tmp_path: Path) -> None:
    """2023-01-01 is a Sunday, the first day of the year, and 6:00 a quarter of a day."""
    text = "when,k\n2023-01-01 06:00,0\n2023-01-02 00:00,1\n,0\n"
    found, _ = rows(tmp_path / "t.csv", text, "--date", "when", "--missing", "zero")
    sunday, quarter = 2 * math.pi * 6 / 7, math.pi / 2
    wanted = [math.sin(sunday), math.cos(sunday), 0, 1, math.sin(quarter), math.cos(quarter)]
    np.testing.assert_allclose(found[0], wanted, atol=1e-6)
    second = 2 * math.pi / 366
    np.testing.assert_allclose(
        found[1], [0, 1, math.sin(second), math.cos(second), 0, 1], atol=1e-6
    )
    assert found[2] == [0] * 6
    for form, cell in [
        ("%d.%m.%Y", "31.12.2023"), ("%m/%d/%Y", "12/31/2023"), ("%d-%b-%y", "31-Dec-23"),
        ("%B %d, %Y", "December 31, 2023"), ("iso", "2023-12-31T00:00:00Z"),
    ]:  # fmt: skip
        (tmp_path / "d.csv").write_text("d,k\n" + f'"{cell}",0\n"{cell}",1\n')
        made("--source", tmp_path / "d.csv", *ALL, "--date", "d", "-o", tmp_path / "o")
        column = sidecar(tmp_path / "o/train.input.bin")["table"]["columns"][0]
        assert (column["date"], column["parts"]) == (form, ["weekday", "time of year"])
    noon = DateCells("%H:%M", ("time of day",)).values("12:00")
    np.testing.assert_allclose(noon, [0, -1], atol=1e-12)


def test_dates_with_two_readings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("d,k\n01/02/2023,0\n03/04/2023,1\n")
    args = ("--source", tmp_path / "t.csv", *ALL, "-o", tmp_path / "o")
    line = refused(*args, "--date", "d")
    assert "have several readings. Give --date d=%d/%m/%Y or --date d=%m/%d/%Y" in line
    made(*args, "--date", "d=%m/%d/%Y")
    x = samples(tmp_path / "o/train.input.bin")
    january = 2 * math.pi * 1 / 366  # the second of January
    np.testing.assert_allclose(x[0, 2:], [math.sin(january), math.cos(january)], atol=1e-6)
    assert "must hold dates of the form %Y" in refused(*args, "--date", "d=%Y")
    assert "gives d two: %Y, %d" in refused(*args, "--date", "d=%Y", "--date", "d=%d")
    assert "both name d" in refused(*args, "--date", "d", "--one-hot", "d")


def test_missing_inputs_and_targets_are_treated_apart(tmp_path: Path) -> None:
    text = "a,b,y\n1,2,0.5\n,4,1.5\n5,6,\n9,8,2.5\n"
    (tmp_path / "t.csv").write_text(text)
    args = ("--source", tmp_path / "t.csv", *ALL, "-o", tmp_path / "o")
    assert "line 4: the target is missing. Leave such lines out with --missing-target drop" \
        in refused(*args, "--missing", "mean")  # fmt: skip
    line = refused(*args, "--missing-target", "drop")
    assert "line 3: column a: a value is missing (NaN). Give --missing drop" in line
    found, said = rows(tmp_path / "t.csv", text, "--missing", "mean", "--missing-target", "drop")
    assert found == [[1, 2], [5, 4], [9, 8]]  # 5 is the mean of 1 and 9
    assert "1 of 4 lines left out: 1 with a missing target (line 4)" in said
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=np.array([1.5, np.nan, 2]))
    made("--source", tmp_path / "a.npz", *ALL, "--missing-target", "drop", "-o", tmp_path / "o")
    assert samples(tmp_path / "o/train.output.bin").tolist() == [[1.5], [2]]


NEW = 'city,when,price,paid,pixels\nRome,05.03.2024,"$2,000.00",no,1 2\nParis,06.03.2024,$5,,3 4\n'


def test_new_rows_are_read_as_the_record_says(tmp_path: Path) -> None:
    """Columns by name, dates and numbers in their forms, gaps filled, unknown words zeros."""
    lines = [
        f'{k + 1:02d}.12.2023,{("Rome", "Bonn")[k % 2]},"$1,{k:03d}.00",'
        f"{('yes', 'no')[k % 2]},{k} {k}," + ("" if k == 5 else f"{k}.5")
        for k in range(20)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["when,city,price,paid,pixels,y", *lines]) + "\n")
    made("--source", tmp_path / "t.csv", *ALL, "--date", "when", "--one-hot", "city", "--missing",
         "mean", "--missing-target", "drop", "-o", tmp_path / "o")  # fmt: skip
    (tmp_path / "new.csv").write_text(NEW)
    said = made("--source", tmp_path / "new.csv", "--as", tmp_path / "o/train.input.bin.json",
                "-o", tmp_path / "n").stderr  # fmt: skip
    x = samples(tmp_path / "n/new.input.bin")
    assert x[:, 4:6].tolist() == [[0, 1], [0, 0]]  # Bonn, Rome; Paris is unknown
    assert x[:, 6].tolist() == [2000, 5]
    assert x[0, 7] == 0
    assert x[1, 7] == pytest.approx(10 / 19)  # of 19 rows 10 say yes
    assert x[:, 8:].tolist() == [[1, 2], [3, 4]]
    assert "column city: Paris (1)" in said
    row = "Rome,05.03.2024,$1,no,1 2"
    (tmp_path / "new.csv").write_text(f"city,when,price,paid,pixels,y\n{row},\n{row},7\n")
    said = made("--source", tmp_path / "new.csv", "--as", tmp_path / "o/train.input.bin.json",
                "-o", tmp_path / "n").stderr  # fmt: skip
    assert samples(tmp_path / "n/new.output.bin").tolist() == [[7]]
    assert "1 with a missing target (line 2)" in said


def test_gaps_that_the_training_data_did_not_have_say_so(tmp_path: Path) -> None:
    rows(tmp_path / "t.csv", "a,b,k\n" + body("{k},{k},{c}"))
    (tmp_path / "new.csv").write_text("a,b\n1,2\n3,\n")
    line = refused("--source", tmp_path / "new.csv", "--as", tmp_path / "o/train.input.bin.json",
                   "-o", tmp_path / "n")  # fmt: skip
    assert "line 3: column b: a value is missing (NaN). The training data have no missing" in line


def recordings(root: Path, names: Sequence[str], count: int = 30) -> Path:
    for n, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x,y\n" + "".join(f"{100 * n + k},{k}\n" for k in range(count)))
    return root


def test_one_table_for_each_class(tmp_path: Path) -> None:
    root = recordings(tmp_path / "s", ("flex.csv", "punch.csv"))
    said = made("--source", root, *ALL, "-o", tmp_path / "o").stderr
    assert "the classes are the names of the files: flex, punch" in said
    x, y = (samples(tmp_path / f"o/train.{r}.bin") for r in ("input", "output"))
    assert ((x[:, 0] >= 100) == (y[:, 1] == 1)).all()
    made("--source", root, "--window", 5, "-o", tmp_path / "o")
    train, test = (samples(tmp_path / f"o/{n}.input.bin")[..., 0] for n in ("train", "test"))
    for x in (train, test):
        assert {*(x[:, 0] // 100)} == {*(x[:, -1] // 100)} == {0, 1}  # of each file, whole windows
        assert (x[:, 0] // 100 == x[:, -1] // 100).all()
    assert not {*train.ravel()} & {*test.ravel()}


def test_one_table_for_each_recording(tmp_path: Path) -> None:
    """Recordings stay whole, and each split has some of each class."""
    names = [f"{c}/{k}.csv" for c in ("run", "walk") for k in range(4)]
    root = recordings(tmp_path / "s", names)
    made("--source", root, "--window", 10, "-o", tmp_path / "o")
    train, test = (samples(tmp_path / f"o/{n}.input.bin")[..., 0] for n in ("train", "test"))
    assert [len({*(x.ravel() // 100)}) for x in (train, test)] == [6, 2]
    made("--source", root, "--group-by", r"(\d)\.csv", "--split", "train", "test=0.25",
         "-o", tmp_path / "o")  # fmt: skip
    test = samples(tmp_path / "o/test.input.bin")[:, 0] // 100
    assert len({*(test % 4)}) == 1
    root = recordings(tmp_path / "t", [f"{p}/{n}" for p in ("train", "test") for n in names])
    made("--source", root, "-o", tmp_path / "o")
    assert samples(tmp_path / "o/test.input.bin")[:, 0].min() == 800
    (root / "test/run/0.csv").write_text("x,z\n1,2\n")
    line = refused("--source", root, "-o", tmp_path / "o")
    assert re.search(r"run/[01].csv: must have the columns of .*test/run/0.csv", line)
    (root / "test/run/0.csv").write_text("x,y\n1,2\n1,u\n")
    assert "test/run/0.csv line 3: column y must" in refused("--source", root, "-o", tmp_path / "o")


def test_other_files_beside_tables_are_counted(tmp_path: Path) -> None:
    root = recordings(tmp_path / "s", ("flex.csv", "punch.csv"))
    (root / "README.txt").write_text("what it is")
    (root / "plot.svg").write_text("<svg/>")
    said = made("--source", root, *ALL, "-o", tmp_path / "o").stderr
    assert "reads 2 .csv files and leaves out others: 1 .svg, 1 .txt" in said
    assert len(samples(tmp_path / "o/train.input.bin")) == 60


def test_new_tables_of_a_folder(tmp_path: Path) -> None:
    root = recordings(tmp_path / "s", ("flex.csv", "punch.csv"))
    made("--source", root, *ALL, "-o", tmp_path / "o")
    record = tmp_path / "o/train.input.bin.json"
    made("--source", root / "punch.csv", "--as", record, "-o", tmp_path / "n")
    assert samples(tmp_path / "n/new.input.bin")[0].tolist() == [100, 0]
    made("--source", root, "--as", record, "-o", tmp_path / "n")
    assert samples(tmp_path / "n/new.output.bin").sum(axis=0).tolist() == [30, 30]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("t.xlsx", "is a spreadsheet. Save it as CSV"),
        ("t.jsonl", "is a file of JSON lines"),
        ("t.mat", "is a MATLAB file. Read it with scipy.io.loadmat"),
        ("t.tfrecord", "is a TFRecord file. Give a function"),
        ("t.pkl", "is a pickle, which could run code"),
        ("sheet.csv", "a spreadsheet in .xlsx"),
    ],
)
def test_other_kinds_of_tables_are_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 and so on")
    assert said in refused("--source", tmp_path / name, "-o", tmp_path / "o")


def test_lines_above_a_table_are_left_out(tmp_path: Path) -> None:
    text = "Report of May,,\n,,\na,b,k\n" + body("{k},{k},{c}")
    found, said = rows(tmp_path / "t.csv", text)
    assert found == [[k, k] for k in range(6)]
    assert "lines above the table are left out: 2" in said
    found, said = rows(
        tmp_path / "t.csv", "7,,\n" + body("{k},{k},{c}"), "--missing-target", "drop"
    )
    assert "above the table are" not in said  # the first row is a sample with gaps
    (tmp_path / "t.csv").write_text("a,b,k\n")
    line = refused("--source", tmp_path / "t.csv", "-o", tmp_path / "o")
    assert "must have lines below the names of its columns" in line


def test_a_class_called_none_is_explained(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,k\n1,none\n2,low\n3,\n")
    line = refused("--source", tmp_path / "t.csv", "-o", tmp_path / "o")
    assert "line 2: the target is missing (2 lines)" in line
    assert "or rename the class if none is one" in line


def test_new_rows_of_one_cell_with_many_numbers(tmp_path: Path) -> None:
    text = "k,pixels\n" + body('{c},"{k} 1 2"')
    rows(tmp_path / "t.csv", text, "--label-column", "k")
    (tmp_path / "new.txt").write_text("5 6 7\n8 9 10\n")
    made("--source", tmp_path / "new.txt", "--as", tmp_path / "o/train.input.bin.json",
         "-o", tmp_path / "n")  # fmt: skip
    assert samples(tmp_path / "n/new.input.bin").tolist() == [[5, 6, 7], [8, 9, 10]]


def test_a_column_that_counts_the_rows_is_noticed(tmp_path: Path) -> None:
    text = "Id,a,k\n" + "".join(f"{k + 1},{k % 5},{k % 2}\n" for k in range(20))
    (tmp_path / "t.csv").write_text(text)
    result = odt("gen-datafile", "--source", tmp_path / "t.csv", "-o", tmp_path / "o")
    assert "column Id numbers the rows and is an input. Leave it out with --leave-out Id" \
        in result.stderr  # fmt: skip

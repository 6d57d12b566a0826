"""Pictures with tags, values or masks as targets."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.datafiles import files, jpeg, made, plain_picture, refused, samples, sidecar

ALL = ("--split", "train=1.0", "--no-shuffle", "--no-stratify", "--scale", "none")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "p/more").mkdir(parents=True)
    for k in range(3):
        (tmp_path / f"p/{'more/' if k else ''}{k}.png").write_bytes(plain_picture(10 * k))
    return tmp_path


@pytest.mark.parametrize(
    ("table", "targets", "names"),
    [
        ("file,tags\n0.png,sun;sea\n1.png,\n2.png,sea\n", [[1, 1], [0, 0], [1, 0]], ["sea", "sun"]),
        ("file,sea,sun\n2.png,1,1\n1.png,1,0\n", [[1, 1], [1, 0]], ["sea", "sun"]),
        ("file,age\n0.png,1.5\nmore/2.png,2\n", [[1.5], [2]], []),
        ("file,x,y\n0.png,1.5,3\n2.png,2,4\n", [[1.5, 3], [2, 4]], ["x", "y"]),
    ],
)
def test_a_table_gives_tags_or_values(
    photos: Path, table: str, targets: list[list[float]], names: list[str]
) -> None:
    (photos / "t.csv").write_text(table)
    args = ("--source", photos / "p", "--target-source", photos / "t.csv", *ALL)
    made(*args, "-o", photos / "o")
    assert samples(photos / "o/train.output.bin").tolist() == targets
    assert sidecar(photos / "o/train.input.bin").get("tags", []) == names
    x = samples(photos / "o/train.input.bin")[:, 0, 0, 0]
    assert x.tolist() == [10 * int(line.split(".png")[0][-1]) for line in table.split()[1:]]


def test_names_of_several_words_are_tags_with_a_note_or_classes(photos: Path) -> None:
    (photos / "t.csv").write_text("file,breed\n0.png,golden retriever\n1.png,pug\n")
    args = ("--source", photos / "p", "--target-source", photos / "t.csv", *ALL)
    note = made(*args, "-o", photos / "o").stderr
    assert "column breed of" in note
    assert "read as tags: golden, pug, retriever. With --classification, each cell" in note
    assert samples(photos / "o/train.output.bin").tolist() == [[1, 0, 1], [0, 1, 0]]
    made(*args, "--classification", "-o", photos / "c")
    assert sidecar(photos / "c/train.output.bin")["classes"] == ["golden retriever", "pug"]
    assert samples(photos / "c/train.output.bin").tolist() == [[1, 0], [0, 1]]
    made(*args, "--classes", "pug,golden retriever", "-o", photos / "d")
    assert samples(photos / "d/train.output.bin").tolist() == [[0, 1], [1, 0]]
    assert "must be a number, but got 'golden" in refused(*args, "--regression", "-o", photos / "r")


def test_a_table_gives_classes(photos: Path) -> None:
    (photos / "t.csv").write_text("file,kind\n0.png,dog\n1.png,cat\n2.png,dog\n")
    args = ("--source", photos / "p", "--target-source", photos / "t.csv", *ALL)
    made(*args, "-o", photos / "o")
    assert samples(photos / "o/train.output.bin").argmax(axis=1).tolist() == [1, 0, 1]
    (photos / "t.csv").write_text("id,kind\n0,dog\nmore/1,cat\n2,dog\n")  # without suffixes
    made(*args, "-o", photos / "o")
    assert samples(photos / "o/train.output.bin").argmax(axis=1).tolist() == [1, 0, 1]
    (photos / "t.csv").write_text("id,kind\n0,dog\n2,cat\n")
    left = made(*args, "-o", photos / "o").stderr
    assert "left out 1 file that " in left
    assert "t.csv does not name: more/1.png." in left
    (photos / "t.csv").write_text("id,kind\n0,dog\n1,cat\n0.png,dog\n2,dog\n2, dog\n")
    left = made(*args, "-o", photos / "o").stderr
    assert "left out 2 lines of" in left
    assert "t.csv that repeat one before: 0.png, more/2.png." in left
    assert samples(photos / "o/train.output.bin").argmax(axis=1).tolist() == [1, 0, 1]
    for text, rule in (
        ("file,kind\n0.png,dog\n1.png,cat\n0,cat\n", "one target, but 0.png has several."),
        ("file,kind\n7.png,dog\n", "must name files of"),
        ("file,kind\n0.png,dog\n1.png\n", "t.csv: line 3: must have 2 cells"),
        ("file,kind\n0.png,dog\n1.png,\n", "each sample must have a target, but one has ''"),
        ("file,age\n0.png,7\n1.png,na\n", "each sample must have a target, but one has 'na'"),
        ("file,a,b\n0.png,7,1\n1.png,,2\n", "several target columns must hold numbers"),
    ):
        (photos / "t.csv").write_text(text)
        assert rule in refused(*args, "-o", photos / "o")


def mask(values: list[list[int]], kind: str = "L") -> bytes:
    image = Image.fromarray(np.array(values, np.uint8))
    if kind == "P":
        image.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    return jpeg(np.asarray(image)) if kind == "L" else _palette(image)


def _palette(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def test_masks_are_targets_of_the_size_of_the_pictures(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "m").mkdir()
    for k in range(2):
        (tmp_path / f"p/{k}.jpg").write_bytes(jpeg(np.full((4, 8, 3), 9, np.uint8), "JPEG"))
        values = [[0] * 4 + [255] * 4] * 2 + [[0] * 8] * 2
        (tmp_path / f"m/{k}.png").write_bytes(mask(values))
    args = ("--source", tmp_path / "p", "--masks", tmp_path / "m", *ALL, "-o", tmp_path / "o")
    made(*args, "--size", "2x4", "--color", "grayscale")
    assert samples(tmp_path / "o/train.input.bin").shape == (2, 2, 4, 1)
    y = samples(tmp_path / "o/train.output.bin")
    assert y[1, ..., 0].tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]
    values = [[0, 1, 2, 1, 0, 0, 0, 0]] * 4
    for k in range(2):
        (tmp_path / f"m/{k}.png").write_bytes(mask(values, "P"))
    made(*args, "--classes", "sky,sea,land")
    y = samples(tmp_path / "o/train.output.bin")
    assert y.shape == (2, 4, 8, 3)
    assert y.argmax(axis=3)[0].tolist() == values
    assert "values must be 0 … 1" in refused(*args, "--classes", "sky,sea")
    assert "must be noise alone" in refused(*args, "--augment", "flip")
    before = samples(tmp_path / "o/train.output.bin")
    for k in range(2):
        (tmp_path / f"m/{k}.png").rename(tmp_path / f"m/{k}_mask.png")
    made(*args, "--classes", "sky,sea,land")
    assert np.array_equal(samples(tmp_path / "o/train.output.bin"), before)
    (tmp_path / "m/0_mask.png").rename(tmp_path / "m/0.png")
    (tmp_path / "m/1_mask.png").unlink()
    assert "but has none for 1.jpg" in refused(*args)
    assert len(files(tmp_path / "o")) == 4

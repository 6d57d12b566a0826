"""Photos with boxes as targets: formats of annotations, rules for boxes, splits."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.box_files import (
    CLASSES,
    PHOTOS,
    expected,
    voc,
    voc_object,
    write_coco,
    write_createml,
    write_csv,
    write_edge_impulse,
    write_model_maker,
    write_other_csv,
    write_photos,
    write_voc,
    write_yolo,
)
from support.datafiles import files, jpeg, made, odt, refused, samples, sidecar

ALL = ("--split", "all=1.0", "--no-shuffle", "--size", "8x8")
# Format in the record → functions that write the same boxes in it.
WRITERS: dict[str, tuple[Callable[[Path], Path], ...]] = {
    "voc": (write_voc,),
    "coco": (write_coco,),
    "yolo": (write_yolo,),
    "csv": (write_csv, write_other_csv, write_model_maker),
    "edge-impulse": (write_edge_impulse,),
    "createml": (write_createml,),
}
CASES = [(form, writer) for form, writers in WRITERS.items() for writer in writers]


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with photos in p."""
    monkeypatch.chdir(tmp_path)
    write_photos(Path("p"))
    return Path()


def run(root: Path, *args: object, boxes: str = "b") -> str:
    """Makes all samples of the photos; returns what is printed."""
    result = made("--source", root / "p", "--boxes", root / boxes, *ALL, *args, "-o", root / "o")
    return result.output


def fault(root: Path, *args: object, boxes: str = "b") -> str:
    """Returns the error of a run, which must leave no files."""
    line = refused("--source", root / "p", "--boxes", root / boxes, *ALL, *args, "-o", root / "f")
    assert not files(root / "f")
    return line


@pytest.mark.parametrize(("form", "writer"), CASES)
def test_each_format_gives_the_same_boxes(
    photos: Path, form: str, writer: Callable[[Path], Path]
) -> None:
    writer(photos / "b")
    output = run(photos)
    assert np.array_equal(samples(photos / "o/all.output.bin"), expected())
    assert samples(photos / "o/all.input.bin").shape == (4, 8, 8, 3)
    assert "boxes: ant 1, cat 2, dog 3" in output
    for name in ("all.input.bin", "all.output.bin"):
        content = sidecar(photos / "o" / name)
        assert content["boxes"] == {"classes": [*CLASSES], "source": form, "left out": {}}
        assert content["targets"] == "boxes"
        assert content["balance"] == {"ant": 1, "cat": 2, "dog": 3}
    assert content["tensors"] == [{"shape": [3, 5], "dtype": "float32"}]


def test_classes_are_numbered_as_asked(photos: Path) -> None:
    write_voc(photos / "b")
    run(photos, "--classes", "dog,bee,cat,ant")
    order = ("dog", "bee", "cat", "ant")
    assert np.array_equal(samples(photos / "o/all.output.bin"), expected(order))
    assert sidecar(photos / "o/all.output.bin")["balance"]["bee"] == 0


def test_a_class_outside_of_the_list_is_refused(photos: Path) -> None:
    write_voc(photos / "b")
    line = fault(photos, "--classes", "dog,cat")
    assert "b/d.xml: object 3: must have a class of dog, cat, but has ant" in line


def test_photos_without_annotation_are_counted(photos: Path) -> None:
    write_voc(photos / "b")
    (photos / "b/c.xml").unlink()
    note = "1 photo without an annotation in"
    assert note in run(photos)
    assert np.array_equal(samples(photos / "o/all.output.bin"), expected())


def test_boxes_that_cannot_be_used_are_left_out_in_one_line_each(photos: Path) -> None:
    write_voc(photos / "b")
    objects = (
        voc_object("dog", 5, 5, 5, 9)
        + voc_object("dog", 5, 9, 9, 5)
        + voc_object("dog", 1, 1, 9, 9, "<difficult>1</difficult>")
        + "<object><name>dog</name><polygon><x1>1</x1><y1>2</y1></polygon></object>"
    )
    (photos / "b/c.xml").write_text(voc("c.png", 16, 16, objects))
    lines = run(photos).splitlines()
    for text in (
        "2 boxes without area left out: c.png, c.png.",
        "1 box marked as difficult left out: c.png.",
        "1 polygon or rotated box left out: c.png.",
    ):
        assert sum(line.endswith(text) for line in lines) == 1
    assert np.array_equal(samples(photos / "o/all.output.bin"), expected())
    assert sidecar(photos / "o/all.input.bin")["boxes"]["left out"] == {
        "boxes without area": 2,
        "boxes marked as difficult": 1,
        "polygons or rotated boxes": 1,
    }


@pytest.mark.parametrize(
    ("objects", "rule"),
    [
        (voc_object("dog", 1, 1, 17.5, 9), "object 1: must be inside the photo, 16×16 pixels"),
        (voc_object("dog", 1, -1.5, 9, 9), "object 1: must be inside the photo"),
        (voc_object("dog", 16, 1, 17, 9), "object 1: must be inside the photo"),
        (voc_object("dog", 1, 1, 9, float("nan")), "object 1: must have four finite coordinates"),
        (voc_object("dog", 1, 1, 9, float("inf")), "object 1: must have four finite coordinates"),
        ("<object><name>dog</name></object>", "object 1: must have four finite coordinates"),
        (voc_object("", 1, 1, 9, 9), "object 1: must have a class"),
        (voc_object("dog", 1, 1, 9, 9) * 4097, "must have at most 4096 boxes, but has 4097"),
    ],
)
def test_wrong_boxes_are_refused_by_file_and_row(photos: Path, objects: str, rule: str) -> None:
    write_voc(photos / "b")
    (photos / "b/c.xml").write_text(voc("c.png", 16, 16, objects))
    line = fault(photos)
    assert "b/c.xml: " in line
    assert rule in line
    assert "skipped: 1" in run(photos, "--on-error", "skip")
    assert len(samples(photos / "o/all.output.bin")) == 3


def test_a_box_within_a_pixel_of_the_edge_is_clipped(photos: Path) -> None:
    write_voc(photos / "b")
    (photos / "b/c.xml").write_text(voc("c.png", 16, 16, voc_object("dog", -1, 4, 17, 8)))
    run(photos)
    assert samples(photos / "o/all.output.bin")[2, 0].tolist() == [2, 0.25, 0, 0.5, 1]


def test_the_size_is_that_of_the_photo_after_its_rotation(photos: Path) -> None:
    write_voc(photos / "b")
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees when it is shown
    Image.new("RGB", (30, 40)).save(photos / "p/a.png", exif=exif)
    run(photos)
    assert np.array_equal(samples(photos / "o/all.output.bin"), expected())
    Image.new("RGB", (30, 40)).save(photos / "p/a.png")
    line = fault(photos)
    assert "b/a.xml: must state the size of the photo after its EXIF rotation, 30×40" in line
    assert "but has 40×30" in line


def test_an_annotation_of_no_photo_is_refused(photos: Path) -> None:
    write_voc(photos / "b")
    (photos / "b/e.xml").write_text(voc("e.png", 9, 9, ""))
    line = fault(photos)
    assert "must have a photo for each annotation, but 1 annotation is of none" in line
    assert "b/e.xml: e.png" in line
    run(photos, "--on-error", "skip")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('<!DOCTYPE a [<!ENTITY dog "cat">]><annotation>&dog;</annotation>', "a document type"),
        ('<!DOCTYPE annotation SYSTEM "x.dtd"><annotation></annotation>', "a document type"),
        ("<annotation><object>", "must be XML without a document type, but got"),
        ("<annotation>&dog;</annotation>", "undefined entity"),
    ],
)
def test_xml_with_a_document_type_is_refused(photos: Path, text: str, rule: str) -> None:
    write_voc(photos / "b")
    (photos / "b/c.xml").write_text(text)
    line = fault(photos)
    assert "b/c.xml: " in line
    assert rule in line


def test_several_faults_are_reported_together(photos: Path) -> None:
    write_voc(photos / "b")
    (photos / "b/c.xml").write_text(voc("c.png", 15, 16, ""))
    (photos / "b/b.xml").write_text(voc("b.png", 24, 48, voc_object("cat", 1, 1, 90, 9) * 2))
    line = fault(photos)
    assert line.startswith("Error: 2 faults: b/b.xml: object 1: must be inside")
    assert line.index("b.xml: object 2") < line.index("b/c.xml: must state the size")


def test_lists_of_pascal_voc_are_splits(photos: Path) -> None:
    write_voc(photos / "p")
    lists = photos / "p/ImageSets/Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("a\nd\n")
    (lists / "val.txt").write_text("b\n")
    (lists / "trainval.txt").write_text("a\nb\nd\n")
    args = ("--source", photos / "p", "--boxes", photos / "p", "--size", "8x8", "-o", photos / "o")
    output = made(*args).output
    assert np.array_equal(samples(photos / "o/train.output.bin"), expected()[[0, 3]])
    assert np.array_equal(samples(photos / "o/validation.output.bin"), expected()[[1]])
    assert "left out 1 photo outside of train, validation: c.png." in output
    (lists / "train.txt").rename(lists / "other.txt")
    made(*args)
    assert np.array_equal(samples(photos / "o/train.output.bin"), expected()[[0, 3]])
    (lists / "other.txt").rename(lists / "train.txt")
    (lists / "val.txt").write_text("b\nd\n")
    rule = "val.txt: must name no photo of another list, but d.png is in "
    assert rule in refused(*args)
    (lists / "val.txt").write_text("z\n")
    assert "val.txt: must name photos, but z are none" in refused(*args)
    (lists / "val.txt").write_text("b\n")
    (photos / "p/x").mkdir()
    Image.new("RGB", (8, 8)).save(photos / "p/x/b.png")
    assert "val.txt: must name one photo, but b may be b.png, x/b.png" in refused(*args)


def test_a_damaged_file_may_be_that_of_several_photos(photos: Path) -> None:
    write_voc(photos / "b")
    (photos / "b/b.xml").write_text("<annotation>")
    for folder in ("x", "y"):
        (photos / "p" / folder).mkdir()
        Image.new("RGB", (8, 8)).save(photos / "p" / folder / "b.png")
    (photos / "p/b.png").unlink()
    assert "b/b.xml: must be XML without a document type, but got" in fault(photos)


def test_folders_of_photos_are_splits(photos: Path) -> None:
    for split, name in (("train", "a"), ("valid", "b"), ("train", "d")):
        (photos / "s" / split).mkdir(parents=True, exist_ok=True)
        (photos / "p" / f"{name}.png").rename(photos / "s" / split / f"{name}.png")
    write_voc(photos / "b")
    (photos / "b/c.xml").unlink()
    made("--source", photos / "s", "--boxes", photos / "b", "--size", "8x8", "-o", photos / "o")
    assert np.array_equal(samples(photos / "o/train.output.bin"), expected()[[0, 3]])
    assert np.array_equal(samples(photos / "o/validation.output.bin"), expected()[[1]])


@pytest.mark.parametrize("fit", ["crop", "pad", "crop-or-pad"])
def test_boxes_follow_the_fit_of_their_photo(tmp_path: Path, fit: str) -> None:
    """A white box in a black photo is where its target says, whatever the size."""
    for k, (width, height) in enumerate([(60, 40), (40, 60), (97, 31)]):
        pixels = np.zeros((height, width, 3), np.uint8)
        box = (width // 2 - 9, height // 2 - 8, width // 2 + 11, height // 2 + 12)
        pixels[box[1] : box[3], box[0] : box[2]] = 255
        (tmp_path / "p").mkdir(exist_ok=True)
        (tmp_path / f"p/{k}.png").write_bytes(jpeg(pixels))
        (tmp_path / f"p/{k}.xml").write_text(voc(f"{k}.png", width, height, voc_object("x", *box)))
    args = ("--source", tmp_path / "p", "--boxes", tmp_path / "p", "--split", "all=1.0")
    made(*args, "--size", "48x64", "--fit", fit, "-o", tmp_path / "o")
    x, targets = (samples(tmp_path / f"o/all.{role}.bin") for role in ("input", "output"))
    for image, ((label, *corners),) in zip(x, targets, strict=True):
        assert label == 0
        rows, columns = (np.flatnonzero(image[..., 0].max(axis=k) > 0.5) for k in (1, 0))
        seen = (rows[0], columns[0], rows[-1] + 1, columns[-1] + 1)
        assert np.abs(np.array(corners) * (48, 64, 48, 64) - seen).max() <= 1


@pytest.mark.parametrize("change", ["flip", "shift=9", "crop=0.4", "flip,shift=5,crop=0.2"])
def test_boxes_follow_the_augmentation_of_their_photo(tmp_path: Path, change: str) -> None:
    (tmp_path / "p").mkdir()
    for k in range(6):
        pixels = np.zeros((40, 50, 3), np.uint8)
        pixels[14:24, 20 + k : 32 + k] = 255
        (tmp_path / f"p/{k}.png").write_bytes(jpeg(pixels))
        objects = voc_object("x", 20 + k, 14, 32 + k, 24)
        (tmp_path / f"p/{k}.xml").write_text(voc(f"{k}.png", 50, 40, objects))
    args = ("--source", tmp_path / "p", "--boxes", tmp_path / "p", "--split", "all=1.0")
    more = ("--size", "60x64", "--fit", "pad", "--augment", change, "--augment-factor", 3)
    made(*args, *more, "-o", tmp_path / "o")
    x, targets = (samples(tmp_path / f"o/all.{role}.bin") for role in ("input", "output"))
    assert len(np.unique(targets, axis=0)) > 6
    assert (targets[:, :, 0] == 0).all()
    for image, ((_, *corners),) in zip(x, targets, strict=True):
        rows, columns = (np.flatnonzero(image[..., 0].max(axis=k) > 0.5) for k in (1, 0))
        seen = (rows[0], columns[0], rows[-1] + 1, columns[-1] + 1)
        assert np.abs(np.array(corners) * (60, 64, 60, 64) - seen).max() <= 1.5
    made(*args, *more, "-o", tmp_path / "again")
    assert np.array_equal(samples(tmp_path / "again/all.output.bin"), targets)


def test_new_photos_are_prepared_as_the_record_of_boxes_says(photos: Path) -> None:
    write_voc(photos / "b")
    run(photos)
    (photos / "new/2024").mkdir(parents=True)
    (photos / "p/a.png").rename(photos / "new/2024/a.png")
    made("--source", "new", "--as", "o/all.input.bin.json", "-o", "n")
    assert files(Path("n")) == ["new.input.bin", "new.input.bin.json"]  # 2024 is no target
    assert np.array_equal(samples(Path("n/new.input.bin"))[0], samples(Path("o/all.input.bin"))[0])
    assert sidecar(Path("n/new.input.bin"))["boxes"]["classes"] == [*CLASSES]


def test_a_box_that_is_hardly_visible_after_a_crop_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.png").write_bytes(jpeg(np.zeros((20, 40, 3), np.uint8)))
    objects = "".join(
        voc_object("x", *box) for box in ((0, 0, 14, 9), (0, 0, 15, 9), (7, 2, 11, 4))
    )
    (tmp_path / "p/a.xml").write_text(voc("a.png", 40, 20, objects))
    args = ("--source", tmp_path / "p", "--boxes", tmp_path / "p", "--split", "all=1.0")
    made(*args, "--size", "20x20", "--fit", "crop", "-o", tmp_path / "o")  # columns 10 … 30
    target = samples(tmp_path / "o/all.output.bin")[0]
    # 4/14 of the first box stay, 5/15 of the second, 1/4 of the third.
    none = [-1.0, 0, 0, 0, 0]
    assert np.allclose(target, np.array([none, [0, 0, 0, 0.45, 0.25], none]))


def test_data_show_counts_and_draws_boxes(photos: Path) -> None:
    write_voc(photos / "b")
    run(photos, "--size", "64x64")
    shown = odt("data", "show", "o/all.output.bin").output.splitlines()
    assert shown[:3] == [
        "o/all.output.bin: tensor 0: 4 samples of (3, 5) float32",
        "  boxes: ant 1, cat 2, dog 3",
        "  boxes of a sample: 1.5 on average, at most 3; samples without boxes: 1",
    ]
    areas = [(b[3] - b[1]) * (b[4] - b[2]) for b in expected().reshape(-1, 5) if b[0] >= 0]
    least, median, most = np.quantile(np.sqrt(areas), (0, 0.5, 1))
    assert f"{least:.2g} … {most:.2g}, median {median:.2g}" in shown[3]
    odt("data", "show", "o/all.input.bin", "--sheet", "s.png", "--samples", "2")
    sheet = np.asarray(Image.open("s.png")).astype(int)
    assert sheet.shape == (4 + 240 + 14 + 4, 4 + 2 * 244, 3)
    # The second photo is of one color, which a sheet shows as black, with one box on it.
    tile = sheet[4:244, 248:488]
    top, left, bottom, right = np.rint(expected()[1, 0, 1:] * 239).astype(int)
    assert (tile[:, left].sum(axis=1)[top : bottom + 1] > 0).all()
    assert (tile[bottom].sum(axis=1)[left : right + 1] > 0).all()
    inside = tile[top + 3 : bottom - 2, left + 3 : right - 2]
    outside = np.concatenate([tile[:, : left - 2].ravel(), tile[bottom + 3 :].ravel()])
    assert not inside.any()
    assert not outside.any()


def test_options_that_do_not_fit_boxes_are_refused(photos: Path) -> None:
    write_voc(photos / "b")
    for option in (("--stratify",), ("--labels", "sparse"), ("--unlabelled",)):
        assert option[0] in fault(photos, *option)
    assert "must hold boxes (" in fault(photos, boxes="p")
    assert len(PHOTOS) == 4

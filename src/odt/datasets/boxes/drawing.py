"""Draws boxes with their names on pictures."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

Color: TypeAlias = tuple[int, int, int]
# Colors that people with other color vision can tell apart (Okabe and Ito, 2008).
COLORS: tuple[Color, ...] = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (240, 228, 66),
    (0, 114, 178),
    (213, 94, 0),
    (204, 121, 167),
)
TEXT = (0, 0, 0)
EDGE = (255, 255, 255)  # beside the lines, which a picture of the same color would hide
PART_OF_SIDE = 40  # the text is this part of a picture's shorter side
LEAST_TEXT, MOST_TEXT = 10, 40  # pixels
LEAST_SCORE = 0.5  # of a detection that is drawn, by default
DASH = 4  # length of a dash and of a gap, in widths of the line


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box on a picture.

    Attributes:
        y1, x1, y2, x2: its corners, as fractions of the picture.
        text: what is written above it; empty for nothing.
        color: color of its line and behind the text.
        dashed: whether the line is dashed, as that of true boxes beside detections.
    """

    y1: float
    x1: float
    y2: float
    x2: float
    text: str = ""
    color: Color = COLORS[0]
    dashed: bool = False


def true_boxes(rows: Array, names: Sequence[str], *, dashed: bool = False) -> Iterator[DrawnBox]:
    """Yields the boxes of rows (M, 5): class, y1, x1, y2, x2; rows of the class −1 are none.

    Args:
        rows: the rows.
        names: names of the classes; a class without one has its number.
        dashed: whether detections are drawn too.
    """
    for label, *corners in rows.tolist():
        if label >= 0:
            yield _box(int(label), corners, name_of(int(label), names), dashed=dashed)


def detected_boxes(rows: Array, names: Sequence[str]) -> Iterator[DrawnBox]:
    """Yields the boxes of detections (K, 6): class, score, y1, x1, y2, x2; the best one last."""
    for label, score, *corners in sorted(rows.tolist(), key=lambda row: row[1]):
        yield _box(int(label), corners, f"{name_of(int(label), names)} {score:.2f}")


def name_of(label: int, names: Sequence[str]) -> str:
    """Returns the name of a class, or its number if it has none."""
    return names[label] if label < len(names) else str(label)


def _box(label: int, corners: Sequence[float], text: str, *, dashed: bool = False) -> DrawnBox:
    y1, x1, y2, x2 = corners
    return DrawnBox(y1, x1, y2, x2, text, COLORS[label % len(COLORS)], dashed)


def draw_boxes(image: Any, boxes: Iterable[DrawnBox]) -> None:
    """Draws boxes on a picture.

    Args:
        image: image of Pillow in RGB, which is changed.
        boxes: the boxes; later ones are drawn above earlier ones.
    """
    from PIL import ImageDraw

    draw = ImageDraw.Draw(image)
    size = min(max(min(image.size) // PART_OF_SIDE, LEAST_TEXT), MOST_TEXT)
    font = _font(size)
    width = max(1, size // 6)
    for box in boxes:
        # Boxes may be partly outside of the picture; a box inside has at least one pixel.
        x1, x2 = (min(max(x, 0), 1) * (image.width - 1) for x in (box.x1, box.x2))
        y1, y2 = (min(max(y, 0), 1) * (image.height - 1) for y in (box.y1, box.y2))
        corners = [round(v) for v in (x1, y1, max(x1, x2), max(y1, y2))]
        if box.dashed:
            _draw_dashes(draw, corners, box.color, width)
        else:
            draw.rectangle(corners, outline=EDGE, width=width + 1)
            draw.rectangle(corners, outline=box.color, width=width)
        if box.text:
            _write(draw, corners, box, font)


def _draw_dashes(draw: Any, corners: Sequence[int], color: Color, width: int) -> None:
    """Draws a dashed rectangle."""
    x1, y1, x2, y2 = corners
    draw.rectangle(corners, outline=EDGE, width=width)
    length = DASH * width
    for x in range(x1, x2, 2 * length):
        for y in (y1, y2 - width + 1):
            draw.rectangle((x, y, min(x + length, x2), y + width - 1), fill=color)
    for y in range(y1, y2, 2 * length):
        for x in (x1, x2 - width + 1):
            draw.rectangle((x, y, x + width - 1, min(y + length, y2)), fill=color)


def _write(draw: Any, corners: Sequence[int], box: DrawnBox, font: Any) -> None:
    """Writes the text of a box above it, or inside; that of a dashed one inside, at the bottom."""
    text = box.text.encode("latin1", "replace").decode("latin1")  # Pillow's font has no more
    _, _, right, bottom = draw.textbbox((0, 0), text, font=font)
    wide, high = right + 2, bottom + 2
    x = max(0, min(corners[0], draw.im.size[0] - wide))
    y = corners[1] - high if corners[1] >= high else corners[1]
    if box.dashed:
        y = max(0, corners[3] - high)
    draw.rectangle((x, y, x + wide, y + high), fill=box.color)
    draw.text((x + 1, y + 1), text, fill=TEXT, font=font)


def _font(size: int) -> Any:
    """Returns Pillow's own font; releases before 10.1 have it in one size."""
    from PIL import ImageFont

    try:
        return ImageFont.load_default(size)
    except TypeError:
        return ImageFont.load_default()

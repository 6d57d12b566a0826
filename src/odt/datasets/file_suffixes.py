"""Which files are pictures or sounds, by suffix, and what the user can do about others."""

import importlib.util
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from odt.core.storage.reading import printable
from odt.datasets.source import Kind
from odt.text import quantity

PICTURES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".pnm",
)  # fmt: skip
SOUNDS = (".wav", ".wave")
COMPRESSED_SOUNDS = (".flac", ".mp3", ".oga", ".ogg", ".opus")
INSTALL_SOUNDS = "pip install 'odt[sounds]'"
HEIF = (".heic", ".heif", ".hif")
INSTALL_HEIF = "pip install 'odt[heic]'"
AVIF = (".avif",)
# Suffixes of pictures and sounds that are not read.
OTHER_PICTURES = (
    ".arw", ".cr2", ".cr3", ".dng", ".eps", ".ico", ".j2k", ".jp2", ".jxl", ".nef", ".orf",
    ".psd", ".raf", ".rw2", ".svg", ".tga",
)  # fmt: skip
OTHER_SOUNDS = (
    ".3gp", ".aac", ".aif", ".aifc", ".aiff", ".amr", ".au", ".caf", ".m4a", ".mka", ".mp2", ".w64",
    ".wma",
)  # fmt: skip
USUAL_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff")
MAX_SUFFIXES = 6  # in a message


def suffix_of(name: str) -> str:
    """Returns the suffix of a file name in lower case; empty for none."""
    return PurePosixPath(name).suffix.lower()


def has_heif() -> bool:
    """Whether the package that reads HEIC is installed."""
    return importlib.util.find_spec("pillow_heif") is not None


def has_soundfile() -> bool:
    """Whether the package that reads compressed sounds is installed."""
    return importlib.util.find_spec("soundfile") is not None


def suffixes_of(kind: Kind) -> tuple[str, ...]:
    """Returns the suffixes of files of a kind that can be read."""
    if kind == "sound":
        return (*SOUNDS, *COMPRESSED_SOUNDS) if has_soundfile() else SOUNDS
    return (*PICTURES, *AVIF, *HEIF) if has_heif() else (*PICTURES, *AVIF)


def kind_of(name: str) -> Kind:
    """Returns the kind of data of a file, whether or not it can be read; features for others."""
    suffix = suffix_of(name)
    if suffix in (*PICTURES, *AVIF, *HEIF, *OTHER_PICTURES):
        return "image"
    is_sound = suffix in (*SOUNDS, *COMPRESSED_SOUNDS, *OTHER_SOUNDS)
    return "sound" if is_sound else "features"


def remedy_of(suffix: str) -> str:
    """Returns what makes files of a suffix readable; empty if nothing is needed, or none can."""
    if suffix in HEIF:
        return "" if has_heif() else f"to read: {INSTALL_HEIF}"
    if suffix in COMPRESSED_SOUNDS:
        return "" if has_soundfile() else f"to read: {INSTALL_SOUNDS}"
    if suffix in OTHER_SOUNDS:
        return "convert: ffmpeg -i OLD NEW.wav"
    return "convert to JPEG or PNG" if suffix in OTHER_PICTURES else ""


def suffix_counts(names: Iterable[str], *, remedies: bool = True) -> str:
    """Returns the number of files by suffix, as text such as "3 .heic (…), 1 .txt".

    Args:
        names: names of the files.
        remedies: whether to say how pictures and sounds of other suffixes can be read.
    """
    counts = Counter(suffix_of(name) or "without a suffix" for name in names)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [
        f"{count} {printable(suffix)}{_remedy(suffix) if remedies else ''}"
        for suffix, count in ordered[:MAX_SUFFIXES]
    ]
    if others := sum(count for _, count in ordered[MAX_SUFFIXES:]):
        shown.append(quantity(others, "other"))
    return ", ".join(shown)


def _remedy(suffix: str) -> str:
    remedy = remedy_of(suffix)
    return f" ({remedy})" if remedy else ""


def counted_files(count: int) -> str:
    """Returns a number of files in words."""
    return quantity(count, "file")


def split_by_kind(names: Iterable[str], kind: Kind) -> tuple[list[str], list[str]]:
    """Divides file names into those of a kind that can be read, and all others."""
    suffixes = suffixes_of(kind)
    readable: list[str] = []
    others: list[str] = []
    for name in names:
        (readable if suffix_of(name) in suffixes else others).append(name)
    return readable, others


def shown_suffixes(kind: Kind) -> str:
    """Returns the usual suffixes of a kind for messages."""
    if kind == "image":
        return " ".join(USUAL_PICTURES)
    return " ".join((*SOUNDS[:1], *COMPRESSED_SOUNDS) if has_soundfile() else SOUNDS[:1])

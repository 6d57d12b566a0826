"""Folders and archives of pictures or WAV files."""

from dataclasses import replace
from functools import partial

from odt.core.datasets.folders import decode_picture, open_folders
from odt.core.datasets.source import Source
from odt.core.datasets.source_format import Opening, SourceFormat
from odt.core.datasets.tree import open_tree


def open_pictures(opening: Opening) -> Source:
    """Opens a folder or archive of pictures."""
    decode = partial(decode_picture, resize=opening.resize)
    return open_folders(open_tree(opening.path), "image", decode, opening.skip)


def open_sounds(opening: Opening) -> Source:
    """Opens a folder or archive of WAV files."""
    tree = open_tree(opening.path)
    source = open_folders(tree, "sound", opening.sound.decode, opening.skip)
    return replace(source, sound=opening.sound.describe())


FORMATS = (
    SourceFormat("images", open_pictures, contents="folder or archive of images", place=1),
    SourceFormat("wav", open_sounds, contents="folder or archive of WAV files", place=2),
)

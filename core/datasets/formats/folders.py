"""Folders and archives of images or WAV files."""

from dataclasses import replace
from functools import partial

from odt.core.datasets.folders import PICTURES, SOUNDS, decode_picture, open_folders
from odt.core.datasets.source import Source
from odt.core.datasets.source_format import Opening, SourceFormat
from odt.core.datasets.tree import FileTree, Tree, open_tree


def open_pictures(opening: Opening) -> Source:
    """Opens a folder or archive of images."""
    decode = partial(decode_picture, resize=opening.resize)
    return open_folders(_tree(opening), "image", decode, opening.skip, opening.naming)


def open_sounds(opening: Opening) -> Source:
    """Opens a folder or archive of WAV files."""
    decode = opening.sound.decode
    source = open_folders(_tree(opening), "sound", decode, opening.skip, opening.naming)
    return replace(source, sound=opening.sound.describe())


def _tree(opening: Opening) -> Tree:
    """The files of a folder or archive, or one file without a class."""
    loose = opening.naming.unlabelled or opening.naming.classes is not None
    if loose and opening.path.name.lower().endswith((*PICTURES, *SOUNDS)):
        return FileTree(opening.path)
    return open_tree(opening.path)


FORMATS = (
    SourceFormat("images", open_pictures, contents="folder or archive of images", place=1),
    SourceFormat("wav", open_sounds, contents="folder or archive of WAV files", place=2),
)

"""Folders and archives of images or sounds."""

from dataclasses import replace
from functools import partial

from odt.datasets.boxes.box_source import open_with_boxes
from odt.datasets.file_suffixes import kind_of
from odt.datasets.file_targets import open_with_masks, open_with_table
from odt.datasets.folders import Decode, open_folders
from odt.datasets.number_names import with_values, with_values_of_folders
from odt.datasets.picture_files import decode_picture
from odt.datasets.source import Kind, Source
from odt.datasets.source_format import Opening, SourceFormat
from odt.datasets.tree import FileTree, Tree, open_tree
from odt.errors import DataError


def open_pictures(opening: Opening) -> Source:
    """Opens a folder or archive of images."""
    decode = partial(decode_picture, resize=opening.resize)
    tree = _tree(opening)
    if opening.boxes is not None:
        classes = opening.arrays.classes
        return open_with_boxes(tree, decode_picture, opening.boxes, classes, opening.skip)
    if opening.masks is not None:
        masks = open_tree(opening.masks)
        classes = opening.arrays.classes
        return open_with_masks(tree, masks, decode, opening.mask_resize, classes)
    return _folders(opening, tree, "image", decode)


def open_sounds(opening: Opening) -> Source:
    """Opens a folder or archive of sounds."""
    tree = _tree(opening)
    source = _folders(opening, tree, "sound", opening.sound.decode)
    return replace(source, sound=opening.sound.describe())


def _folders(opening: Opening, tree: Tree, kind: Kind, decode: Decode) -> Source:
    """Opens files with a table of targets; or folders as classes, or as numbers for regression."""
    if opening.targets is not None:
        # The names of classes may have several words.
        regression = False if opening.arrays.classes else opening.table.regression
        return open_with_table(tree, kind, decode, opening.targets, regression)
    is_regression = bool(opening.table.regression)
    naming = replace(opening.naming, are_values=is_regression)
    source = open_folders(tree, kind, decode, opening.skip, naming)
    if is_regression:
        return with_values(source)
    # New data for a record without classes; folders do not name boxes.
    if opening.naming.classes == () and not opening.naming.unlabelled:
        return with_values_of_folders(source)
    return source


def _tree(opening: Opening) -> Tree:
    """Returns the files of a folder or archive, or one file without a class."""
    path = opening.path
    if path.is_dir() or kind_of(path.name) == "features":
        return open_tree(path)
    if opening.naming.unlabelled or opening.naming.classes is not None:
        return FileTree(path)
    raise DataError(
        f"{path}: must be a folder or archive with a folder for each class, but is one file. Give "
        "`unlabelled=True` for inputs without targets."
    )


FORMATS = (
    SourceFormat("images", open_pictures, contents="folder or archive of images", place=1),
    SourceFormat("wav", open_sounds, contents="folder or archive of sounds", place=2),
)

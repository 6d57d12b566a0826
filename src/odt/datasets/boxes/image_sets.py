"""Lists of photos for each split, as in the folder ImageSets/Main of Pascal VOC."""

from pathlib import PurePosixPath

from odt.core.storage.reading import listed
from odt.datasets.boxes.photo_names import PhotoNames
from odt.datasets.class_folders import SPLITS
from odt.datasets.tree import Tree
from odt.errors import DataError
from odt.text import plural

FOLDER = ("ImageSets", "Main")
BOTH = "trainval"  # training and validation samples in one list
MAX_LIST = 1 << 28  # bytes


def read_image_sets(tree: Tree, photos: PhotoNames) -> tuple[dict[str, list[str]], list[str]]:
    """Reads the lists train.txt, val.txt, test.txt; trainval.txt if there is no train.txt.

    Photos of trainval.txt that are in val.txt, too, are for validation alone.

    Args:
        tree: folder or archive that may hold the lists.
        photos: the photos.

    Returns:
        Split → photos, sorted, and what is wrong with the lists.

    Raises:
        DataError: if a list cannot be read, or the name in it fits several photos.
    """
    lists = {
        path.stem: str(path)
        for path in map(PurePosixPath, tree.sizes)
        if path.parts[-3:-1] == FOLDER and path.suffix == ".txt"
    }
    splits: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    faults = []
    for stem in (BOTH, *SPLITS):
        if stem not in lists or (stem == BOTH and "train" in lists):
            continue
        where = tree.where(lists[stem])
        text = tree.read(lists[stem], MAX_LIST).decode("utf-8", "replace")
        names = [words[0] for words in map(str.split, text.splitlines()) if words]
        try:
            members = {name: photos.find(name, "") for name in names}
        except DataError as e:
            raise DataError(f"{where}: {e}.") from e
        if lacking := [name for name, photo in members.items() if photo is None]:
            faults.append(f"{where}: must name photos, but {listed(lacking)} are none")
        split = SPLITS.get(stem, "train")
        splits[split] = sorted({photo for photo in members.values() if photo is not None})
        places[split] = where
    if "train" not in lists and "train" in splits:  # those of trainval.txt
        others = {*splits.get("validation", ())}
        splits["train"] = [photo for photo in splits["train"] if photo not in others]
    first: dict[str, str] = {}
    for split, photos_of_split in splits.items():
        twice = [p for p in photos_of_split if first.setdefault(p, split) != split]
        if twice:
            faults.append(
                f"{places[split]}: must name no photo of another list, but {listed(twice)} "
                f"{plural(len(twice), 'is', 'are')} in {places[first[twice[0]]]}, too"
            )
    return splits, faults

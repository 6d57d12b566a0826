"""Personalization: a classifier learns from a few new samples without forgetting the old ones."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from odt.arguments import checked_arguments
from odt.core.export.add_classes import add_classes
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.lowering.class_head import ClassHead, class_head, frozen_hash
from odt.core.model.model import FORMATS, ONNX
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.options.personalize_options import PERSONALIZE_OPTIONS, PersonalizeOptions
from odt.core.recipe.option_values import check_options, list_of_names
from odt.core.storage.atomic_files import remove_leftovers
from odt.core.training.feature_store import FeatureStore, read_store
from odt.data.class_labels import labels_of, match_classes
from odt.data.new_data import NewData, Show, open_source
from odt.data.sources import DataSet
from odt.dataclass import dataclass
from odt.datasets.new_data import new_samples
from odt.datasets.source import Source
from odt.errors import DataError, OdtError, OptionError, warn
from odt.habits import known_arguments
from odt.models.model import Model, Path, load_model
from odt.optimizer import Optimizer
from odt.personalization.replay import Replay
from odt.text import Printed, plural, quantity
from odt.training.callbacks import Logs
from odt.training.option_forms import nbytes
from odt.training.recipes import recipe_of, request_of
from odt.training.trainable import Trainable
from odt.training.trainer import Trainer

SUFFIX = ".features.npz"  # of a store, after the name of its model
FORGETTING = "the model forgets"
NO_BETTER = "the held-back samples do not improve"
Scores: TypeAlias = tuple[Logs | None, Logs | None]  # of the old and the new model


@dataclass(frozen=True, slots=True)
class Personalization(Printed):
    """Result of `personalize`; printed as lines of text.

    Attributes:
        kept: whether the new model was written.
        rolled_back: why the new model was not written; empty if it was written, or if nothing was
            trained.
        path: path of the new model.
        classes: names of all classes; numbers for unknown names.
        new_classes: names of the classes that the model did not have.
        samples: number of new samples.
        held_back: number of new samples that did not train and were used to compare the models.
        before: accuracy, averaged over the classes, and loss of the old model on the samples that
            were held back; None if there were none. The loss is infinite if the model does not have
            their class.
        after: the same values of the new model.
        replayed: number of stored samples that trained with the new ones.
        replay_before: accuracy and loss of the old model on the stored samples; None if there were
            none.
        replay_after: the same values of the new model.
        memory: bytes planned for weights, optimizer state, activations and features.
        store: path of the store of features.
        stored: number of samples in the store.
        store_nbytes: size of the store's file in bytes.
    """

    kept: bool
    rolled_back: str
    path: str
    classes: tuple[str, ...]
    new_classes: tuple[str, ...]
    samples: int
    held_back: int
    before: Logs | None
    after: Logs | None
    replayed: int
    replay_before: Logs | None
    replay_after: Logs | None
    memory: int
    store: str
    stored: int
    store_nbytes: int

    def __str__(self) -> str:
        """Returns the lines that `odt personalize` prints."""
        used = f"{self.samples} new and {self.replayed} stored samples"
        classes = quantity(len(self.classes), "class", "classes")
        lines = [f"{used} of {classes}, {self.memory / 1e6:.1f} MB planned"]
        if self.new_classes:
            lines.append(f"new classes: {', '.join(self.new_classes)}")
        for count, what, was, now in (
            (self.held_back, "new {} held back", self.before, self.after),
            (self.replayed, "stored {}", self.replay_before, self.replay_after),
        ):
            if was and now:
                noun = what.format(plural(count, "sample"))
                lines.append(f"{count} {noun}: {_figures(was)} before; {_figures(now)} after")
        if not self.held_back and (self.kept or self.rolled_back):
            lines.append("no new sample held back: old and new model are not compared on them")
        if self.kept:
            lines.append(f"{self.path}: the personalized model")
        if self.rolled_back:
            lines.append(f"Rolled back: {self.rolled_back}; {self.path} is not written.")
        if self.stored:
            held = quantity(self.stored, "sample")
            lines.append(f"{self.store}: {held}, {self.store_nbytes:,} bytes")
        return "\n".join(lines)


@known_arguments()
@checked_arguments
def personalize(
    model: Model | Path,
    samples: DataSet | NewData | tuple[Any, Any],
    *,
    classes: Sequence[str] | None = None,
    out: Path | None = None,
    store: Path | None = None,
    samples_per_class: int = 20,
    store_bytes: int | str = "1MB",
    sampling: Literal["reservoir", "herding"] = "reservoir",
    held_back: float = 0.2,
    forgetting: float = 0.1,
    epochs: int = 15,
    optimizer: str | Optimizer = "adam",
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    memory_budget: int | str | None = None,
    seed: int = 0,
    show: Show | None = None,
) -> Personalization:
    """Trains the last layer of a classifier on a few new samples, without forgetting the old ones.

    All layers before the last one stay frozen. The features of a sample are their outputs. The
    features of some samples of each class are stored in a file next to the model, and train the
    last layer together with the new samples. Each epoch has the same number of samples of each
    class. Classes that the model does not have are added to its last layer and its metadata.

    The new model is written only if it is better on the new samples that are held back (higher
    accuracy, averaged over the classes, or the same and a lower loss) and does not forget the
    stored ones. Otherwise model and store stay as they were. Both files are replaced atomically,
    the store first; a store with classes that its model does not have yet is valid.

    `odt docs personalization` has the formulas, the format of the store and measurements.

    Args:
        model: a classifier that ends in FULLY_CONNECTED and SOFTMAX, or the path of its file.
        samples: new samples (x, y): inputs (N, …) as in `Trainer.fit`, and labels (N,), class names
            (N,) or one-hot rows (N, C). Or a DataSet of arrays or files, or a NewData: a folder
            that has a folder of photos or sounds for each class. A class may be new.
        classes: names of the classes, in the order of the labels or of the columns of y. They are
            matched with the names in the model or the store, in any order; other names are new
            classes. If a data file comes with class names, these are also matched with `classes`.
            Default: the names that come with the data file. Without names, labels are the numbers
            of the model's classes, and higher labels are new classes.
        out: path of the new model. Default: the model's own file.
        store: path of the stored features. Default: the model's path with ".features.npz". If the
            store is new and no path is given, it is written next to `out`.
        samples_per_class: maximum number of samples to store of each class.
        store_bytes: maximum size of the store's file, such as "1MB" or a number of bytes.
        sampling: samples that are stored: "reservoir" for a random sample of all samples ever seen,
            or "herding" for the samples whose mean is closest to the mean of all (iCaRL).
        held_back: fraction of the new samples of each class that do not train, but decide whether
            the new model is written; at least one sample of a class that has three or more. 0 for
            none.
        forgetting: largest fall of the accuracy on the stored samples, averaged over the classes,
            for which the new model is still written; 1 for any fall.
        epochs: number of epochs; 0 only stores features of the samples, for example of training
            data before the model goes to a device.
        optimizer: name of an optimizer or an object, as in Trainer.
        learning_rate: learning rate of an optimizer that is given by name.
        batch_size: samples per step.
        memory_budget: peak memory of the process, such as "64MB" or a number of bytes.
        seed: random seed of the held-back samples, the reservoir and the order of the samples.
        show: called with each note about new data, such as `print`.

    Raises:
        ModelError: if the model cannot be read or written.
        UnsupportedError: if the model does not end in FULLY_CONNECTED and SOFTMAX, or odt cannot
            compute it.
        DataError: if samples or store do not fit the model, or the store is damaged.
        OptionError: if arguments contradict each other, or the memory budget is too small.
        TrainingError: if the loss is NaN or infinite.
    """
    options = PersonalizeOptions(
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        learning_rate=learning_rate,
        held_back=held_back,
        forgetting=forgetting,
        store=store,
        samples_per_class=samples_per_class,
        store_bytes=store_bytes,
        sampling=sampling,
    )
    check_options(options)
    if not epochs:
        _refuse_unused(options, optimizer)
    source = model if isinstance(model, Model) else load_model(model)
    if source._adapters is not None:
        raise OptionError("model", "must have no adapters", "some", "Merge them with `Model.save`.")
    paths = _paths(source, out, store)
    source._lowered.graphs.check()
    head = class_head(source._lowered.graph, logits=source.format == ONNX)
    show = show or _no_note
    folder, (x, y) = _opened(source, samples, show)
    old, model_classes = _open_store(source, head, paths.old_store)
    names = list_of_names("classes", classes) or (folder.classes if folder is not None else None)
    new = match_classes(labels_of(y, names), model_classes, head.classes)
    if len(new.names) > head.classes and not epochs:
        rule = "must be above 0 for new classes, which must be trained"
        raise OptionError("epochs", rule, epochs)
    old = old.with_names(new.names)
    limit = nbytes(store_bytes, "store_bytes")
    assert limit is not None, "only None has no size"
    count = old.samples_within(samples_per_class, limit)
    with Trainer(
        _with_classes(source, head, new.names),
        loss="sparse_categorical_crossentropy",
        optimizer=optimizer,
        learning_rate=None if isinstance(optimizer, Optimizer) else learning_rate,
        batch_size=batch_size,
        ema=0.0 if len(new.names) > head.classes else None,  # new rows have no history
        memory_budget=memory_budget,
        trainable=Trainable(operators=head.operators),
        cache_frozen="ram",
    ) as trainer:
        replay = Replay(trainer, head, old, new, x, held_back if epochs else 0.0, seed)
        scores: Scores = (None, None)
        replay_scores: Scores = (None, None)
        if epochs:
            _warn_of_missing([new.names[k] for k in replay.missing])
            replay.train(epochs)
            scores = replay.scores(replay.validation)
            replay_scores = replay.scores(replay.stored)
        rolled_back = _reason(scores, replay_scores, forgetting)
        stored = old
        if not rolled_back:
            stored = old.with_samples(replay.new_features, new.labels, count, sampling, seed)
            _write(paths, stored, trainer if epochs else None)
    if folder is not None:
        for remark in folder.remark_notes():
            show(remark)
    return Personalization(
        kept=bool(epochs) and not rolled_back,
        rolled_back=rolled_back,
        path=paths.model,
        classes=new.names,
        new_classes=new.names[head.classes :],
        samples=len(new.labels),
        held_back=len(replay.validation),
        before=scores[0],
        after=scores[1],
        replayed=len(replay.stored),
        replay_before=replay_scores[0],
        replay_after=replay_scores[1],
        memory=replay.memory,
        store=paths.old_store if rolled_back else paths.new_store,
        stored=len(stored),
        store_nbytes=len(stored.encoded()),
    )


def _refuse_unused(options: PersonalizeOptions, optimizer: str | Optimizer) -> None:
    """Raises OptionError for options of training, beside `epochs=0`."""
    chosen = {name: getattr(options, name) for name in ("learning_rate", "held_back", "forgetting")}
    unused = [name for name, v in chosen.items() if v != PERSONALIZE_OPTIONS[name].default]
    if optimizer != "adam":
        unused.insert(0, "optimizer")
    if unused:
        rule = "must be left out with `epochs=0`, which trains nothing"
        raise OptionError(", ".join(unused), rule)


@dataclass(frozen=True, slots=True)
class _Paths:
    """Path of the new model, of the store that is read, and of the store that is written."""

    model: str
    old_store: str
    new_store: str


def _paths(model: Model, out: Path | None, store: Path | None) -> _Paths:
    """Returns the paths; raises OptionError if they do not fit the model or each other."""
    path = model.path if out is None else os.fspath(out)
    suffix = os.path.splitext(path)[1].lstrip(".").lower()
    if suffix in FORMATS and ONNX in (suffix, model.format) and suffix != model.format:
        rule = f"must have the format of the model and its store, {model.format}"
        raise OptionError("out", rule, path)
    old = model.path + SUFFIX if store is None else os.fspath(store)
    new = path + SUFFIX if store is None else old
    if os.path.realpath(new) == os.path.realpath(path):
        raise OptionError("store", "must be another file than the model", new)
    return _Paths(path, old, new)


def _write(paths: _Paths, store: FeatureStore, trainer: Trainer | None) -> None:
    """Writes the store and the model of a trainer, if there is one.

    The store comes first: a store with classes that its model does not have yet is valid.
    """
    for file in {paths.new_store, paths.model}:
        remove_leftovers(os.path.dirname(os.path.realpath(file)))
    store.write(paths.new_store)
    if trainer is not None:
        trainer.export(paths.model)


def _warn_of_missing(classes: Sequence[str]) -> None:
    """Warns of classes without any sample."""
    if classes:
        warn(
            f"classes {', '.join(classes)}: no sample is given or stored, so the model may forget "
            "them. Store features of the training data first, with `epochs=0`."
        )


def _no_note(note: str) -> None:
    """Shows nothing."""


def _reason(held_back: Scores, stored: Scores, forgetting: float) -> str:
    """Returns why the new model is not written; empty if it is.

    Args:
        held_back: results of the old and the new model on the held-back samples.
        stored: the same on the stored samples.
        forgetting: largest accepted fall of the accuracy on the stored samples.
    """
    before, after = held_back
    if before and after and not improves(before, after):
        return NO_BETTER
    before, after = stored
    fall = before["accuracy"] - after["accuracy"] if before and after else 0.0
    return FORGETTING if fall > forgetting else ""


def improves(before: Logs, after: Logs) -> bool:
    """Whether results are better: higher accuracy, or the same and a lower loss.

    With new classes, the accuracy must be higher: the old loss is infinite.

    Args:
        before: accuracy and loss of the old model.
        after: accuracy and loss of the new model.
    """
    lower = after["loss"] < before["loss"] < float("inf")
    return after["accuracy"] > before["accuracy"] or (
        after["accuracy"] == before["accuracy"] and lower
    )


def _figures(logs: Logs) -> str:
    # The old model gives new classes no probability.
    loss = "infinite (new classes)" if math.isinf(logs["loss"]) else f"{logs['loss']:.4f}"
    return f"accuracy {logs['accuracy']:.4f}, loss {loss}"


def _open_store(model: Model, head: ClassHead, path: str) -> tuple[FeatureStore, tuple[str, ...]]:
    """Opens the store of a model, or begins one; returns it with the names of the model's classes.

    Classes of the store that the model does not have are left out.
    """
    count = head.classes
    record = read_record(model._file)
    names = record.classes if record and len(record.classes) == count else ()
    frozen = frozen_hash(model._lowered.graph, head)
    if has_quantized_activations(model._file):
        frozen += " real numbers"  # earlier stores hold the integers of such features
    if not os.path.lexists(path):
        return FeatureStore(frozen, head.width), names
    store = read_store(path)
    if (store.frozen, store.width) != (frozen, head.width):
        raise DataError(
            f"{path}: must hold features of the frozen layers of {model.path}, but was made for "
            "other layers. Give another `store=`, or delete the file."
        )
    first_names = store.names[:count]
    numbers = tuple(map(str, range(count)))  # names of classes that were given by number
    if names and first_names not in (numbers[: len(first_names)], names[: len(first_names)]):
        raise DataError(
            f"{path}: must have the classes of {model.path} in their order, but got other names. "
            "Give another `store=`, or delete the file."
        )
    if len(store.classes) > count:
        others = ", ".join(store.names[count:])
        warn(f"{path}: stored samples of {others} are left out: {model.path} has no such class.")
    if not names and len(first_names) == count and first_names != numbers:
        names = first_names
    return store.with_names(first_names), names


def _opened(
    model: Model, samples: DataSet | NewData | tuple[Any, Any], show: Show
) -> tuple[Source | None, tuple[Any, Any]]:
    """Returns inputs and labels of samples, and their source if they are a folder.

    Raises:
        OptionError: if they are anything else.
    """
    if isinstance(samples, NewData):
        return _open_folder(model, samples, show)
    if isinstance(samples, DataSet):
        return None, (replace(samples, y=None), samples.y)
    if not isinstance(samples, tuple) or len(samples) != 2:
        rule = "must be inputs and labels (x, y), a DataSet or NewData"
        raise OptionError("samples", rule, type(samples).__name__)
    return None, samples


def _open_folder(model: Model, new: NewData, show: Show) -> tuple[Source, tuple[Any, Any]]:
    """Opens a folder with a folder for each class; its samples are inputs and names of classes."""
    record = new.record_for(model._file)
    source = open_source(new.source, record, show, new_classes=True)
    part, *others = source.parts.values()
    if source.faults:
        raise OdtError(f"`source={new.source}`: {source.faults[0]}.")
    if others or part.labels is None or not source.classes:
        parts = ", ".join(source.parts) if others else "none"
        raise OdtError(
            f"`source={new.source}`: must have a folder for each class, but has {parts}. Make data "
            "files with odt gen-datafile for others."
        )
    request = request_of(model, loss="categorical_crossentropy")
    _, specs = recipe_of(model, request, trains=False)
    inputs = new_samples(source, record, specs.input_specs, quantizations=specs.quantizations)
    return source, (inputs, np.array(source.classes)[part.labels])


def _with_classes(model: Model, head: ClassHead, names: Sequence[str]) -> Model:
    """Returns the model with outputs for all classes."""
    count = len(names) - head.classes
    if not count:
        return model
    has_names = any(name != str(k) for k, name in enumerate(names))
    return Model(add_classes(model._file, head, count, names if has_names else ()))

"""Resumes training from a checkpoint: its options, its position and its state."""

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from odt.core.checkpoints import checkpoint, onert_checkpoint
from odt.core.checkpoints.checkpoint import Property
from odt.core.checkpoints.frozen import graph_with_frozen
from odt.core.checkpoints.progress import INPUTS, STORED, Progress
from odt.core.checkpoints.shared_buffers import shared_buffers, with_separate_weights
from odt.core.checkpoints.start import Start
from odt.core.data.dataset import EpochOrder
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import FIXED, Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.options.option import CHECKPOINT, CIRCLE_PLUS, Number, Option
from odt.core.options.training_options import CHECKPOINT_OPTIONS, TRAINING_OPTIONS
from odt.core.recipe.option_values import check_option
from odt.core.runtime.parameters import Parameters
from odt.core.storage.reading import printable, read_input
from odt.core.training.best_epoch import Best
from odt.core.training.trainer import Trainer
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError
from odt.kernels.loss_text import canonical_loss
from odt.kernels.native.library import kernels_in_use
from odt.kernels.registry import LOSSES, OPTIMIZERS
from odt.kernels.rows.schedule_text import parse_schedule
from odt.kernels.rows.scheduledef import Schedule

OWN_SUFFIX = ".odt"
# Options that a resumed run takes from its checkpoint as they are.
RESTORED = tuple(
    name for name, row in CHECKPOINT_OPTIONS.items() if row.stored in (CHECKPOINT, CIRCLE_PLUS)
)


@dataclass(frozen=True, slots=True)
class Resume(Start):
    """The start of a training that resumes from a checkpoint."""

    def training_info(self, graph: Graph) -> dict[str, Any]:
        """Returns the fields of TrainingInfo that the checkpoint holds.

        Args:
            graph: graph as in the file.

        Raises:
            ModelError: if a field has an invalid value.
        """
        if self.checkpoint is None:
            return {}
        progress = with_separate_weights(self.checkpoint.progress, graph)
        optimizer = self.checkpoint.optimizer
        options = {name: getattr(progress, name) for name in RESTORED}
        self._check_option(TRAINING_OPTIONS["optimizer"], optimizer)
        for name, value in options.items():
            self._check_option(TRAINING_OPTIONS[name], value)
        self._check_loss(progress.loss)
        values = dict(self.checkpoint.hyper_parameters)
        rate = values.pop("learning_rate")
        self._check_hyper_parameters(values)
        fields = {
            "optimizer": optimizer,
            "hyper_parameters": values,
            "learning_rate": rate,
            "batch_size": progress.batch,
            "trainable_ops": progress.trainable_ops,
            "trainable_tensors": progress.trainable_tensors,
            "sparse": progress.sparse,
            "rates": progress.rates,
            "dropout": progress.dropout,
            **options,
        }
        if progress.loss:
            fields["loss"] = progress.loss
        return fields | self._schedule(progress.schedule)

    def _schedule(self, text: str) -> dict[str, Any]:
        """Returns the field of the schedule; none for a constant rate or a user-defined class."""
        if not text or text.startswith(Schedule.word):
            return {}
        try:
            return {"schedule": parse_schedule(text)}
        except OptionError as e:
            raise ModelError(f"{self.path}: schedule: {e}") from e

    def _check_option(self, row: Option, value: object) -> None:
        try:
            check_option(row, value)
        except OptionError as e:
            raise ModelError(f"{self.path}: its {row.name} {e.rule}, but got {e.got}") from e

    def _check_loss(self, text: str) -> None:
        try:
            canonical_loss(text or next(iter(LOSSES)))
        except OptionError as e:
            raise ModelError(f"{self.path}: its loss: {e.rule}, but got {e.got}") from e

    def _check_hyper_parameters(self, values: Mapping[str, Property]) -> None:
        """Checks types and bounds of the hyper-parameters of the optimizer."""
        assert self.checkpoint is not None
        rule = OPTIMIZERS[self.checkpoint.optimizer]
        types = {f.name: f.type for f in fields(rule.attrs)}
        limits = {h.name: h.most for h in rule.hyper_parameters if h.below}
        for name, value in values.items():
            most = limits.get(name) or float("inf")
            if (
                type(value) is not types.get(name)
                or isinstance(value, str)
                or not 0 <= value < most
            ):
                raise ModelError(
                    f"{self.path}: {self.checkpoint.optimizer} must have values for "
                    f"{', '.join(types)}, but got {name} = {value!r}"
                )

    def on(self, graphs: LoweredGraphs) -> LoweredGraphs:
        """Returns the graphs with the checkpoint's weights that do not train.

        A checkpoint of onert holds all constants, one in odt's format the frozen weights that were
        added to it, usually none. `restore` sets the weights that train.

        Raises:
            ModelError: if the checkpoint belongs to another graph.
        """
        if self.checkpoint is not None:
            graph = graph_with_frozen(self.checkpoint, self.path, graphs)
        elif self.data:
            graph = onert_checkpoint.with_weights(self.data, self.path, graphs.graph)
        else:
            return graphs
        return graphs if graph is graphs.graph else LoweredGraphs(graph)

    def restore(
        self,
        graph: Graph,
        parameters: Parameters,
        best: Best | None = None,
        *,
        names_only: bool = False,
    ) -> None:
        """Restores parameters; nothing changes unless the whole checkpoint matches.

        Args:
            graph: graph of the parameters.
            parameters: weights and optimizer state.
            best: the best epoch, restored too if the checkpoint compares the same value.
            names_only: whether a nominal checkpoint, which is only compared, is accepted.

        Raises:
            ModelError: if the checkpoint does not match the parameters.
            OptionError: if batch normalization had other statistics.
        """
        if names_only and self.checkpoint is not None and self.checkpoint.is_nominal:
            checkpoint.matching(self.checkpoint, self.path, graph, parameters)
        elif self.checkpoint is None:
            onert_checkpoint.decode(self.data, self.path, graph, parameters)
            parameters.average.reset()
        else:
            before = self.checkpoint.progress
            is_comparable = best is not None and best.monitor.name == before.monitor
            target = best if is_comparable else None
            has_best = checkpoint.BEST in {e.role for e in self.checkpoint.entries}
            copies = target.copies if target else checkpoint.NO_WEIGHTS
            checkpoint.restore(self.checkpoint, self.path, graph, parameters, copies)
            if target is not None and (has_best or not target.copies):
                target.state = before.best

    def restore_before(self, graph: Graph, parameters: Parameters) -> bool:
        """Restores the state before the current epoch, if the checkpoint holds it.

        Raises:
            ModelError: if the checkpoint does not match the parameters.
        """
        before = checkpoint.before_epoch(self.checkpoint) if self.checkpoint else None
        if before is not None:
            checkpoint.restore(before, self.path, graph, parameters)
        return before is not None

    def warning(self, trainer: Trainer, order: EpochOrder) -> str | None:
        """Returns a warning about changed options that change bits of the results, else None."""
        if self.checkpoint is None or self.new_data:
            return None
        now = checkpoint.capture(trainer.graph, trainer.parameters, progress_of(trainer, order))
        absent = {INPUTS: ""}
        old = absent | self.checkpoint.progress.stored() | dict(self.checkpoint.hyper_parameters)
        new = absent | now.progress.stored() | dict(now.hyper_parameters)
        same = {"step", "epoch", "position", "plateau", "best", "monitor", "undo"}
        if not order.shuffle:
            same.add("seed")
        if not shared_buffers(trainer.graph).keys() & trainer.parameters.tensors.keys():
            same.add("tied_by_buffer")
        # A checkpoint converted from onert's format lacks loss and samples; one of artifacts lacks
        # the options that the device chooses.
        optional = ("loss", "samples", "micro_batch", "workers", "kernels", "schedule_steps")
        same |= {name for name in optional if not old[name]}
        if not old["samples"]:  # the order of a run that has not begun
            same |= {"shuffle", "seed", "drop_last", "stratified"}
        rows = [
            f"{name.replace('_', ' ')} {printable(old[name]) or 'none'}, "
            f"now {printable(new[name]) or 'none'}"
            for name in old
            if name not in same and old[name] != new[name]
        ]
        if not rows:
            return None
        return f"{self.path}: results will differ in bits: it was written with {'; '.join(rows)}"


def read_checkpoint(path: str | os.PathLike[str]) -> bytes:
    """Reads the bytes of a checkpoint.

    Raises:
        ModelError: if the file cannot be read.
    """
    return read_input(path, "a checkpoint", ModelError)


def read_resume(path: str | os.PathLike[str]) -> Resume:
    """Reads a checkpoint of odt or onert, detected by its first bytes.

    Raises:
        ModelError: if the file cannot be read, or is a damaged checkpoint of odt.
    """
    name, data = os.fspath(path), read_checkpoint(path)
    if data.startswith(checkpoint.MAGIC):
        return Resume(name, checkpoint.decode(data, name))
    return Resume(name, None, data)


def progress_of(trainer: Trainer, order: EpochOrder) -> Progress:
    """Returns the progress of a trainer before its first step."""
    schedule = trainer.runtime.schedule
    return Progress(
        shuffle=order.shuffle,
        seed=order.seed,
        samples=len(order.samples),
        drop_last=order.drop_last,
        stratified=not isinstance(order.samples, range),
        batch=schedule.batch,
        micro_batch=schedule.micro_batch,
        workers=schedule.workers,
        loss=trainer.info.loss or "",  # losses of single outputs must be given again
        trainable_ops=trainer.info.trainable_ops,
        trainable_tensors=trainer.info.trainable_tensors,
        sparse=trainer.info.sparse,
        rates=trainer.info.rates,
        dropout=trainer.info.dropout,
        kernels=kernels_in_use(),
        schedule=str(trainer.info.schedule or ""),
        schedule_steps=trainer.schedule_steps,
        class_weight=trainer.weighting.classes,
        sample_weight=trainer.weighting.samples,
        augment=trainer.augment,
        input_values=_input_values(trainer.graph),
        **_options(trainer.info),
    )


def _input_values(graph: Graph) -> str:
    """Returns the inputs with values of the user's, by name."""
    texts = []
    for tensor in graph.tensors:
        if tensor.constant_reason == FIXED and tensor.data is not None:
            values = tensor.data.reshape(-1).tolist()
            same = len({*values}) == 1
            texts.append(f"{tensor.name}={','.join(map(str, values[:1] if same else values))}")
    return "; ".join(texts)


def _options(info: TrainingInfo) -> dict[str, Any]:
    """Returns the options that a checkpoint holds; a number is a float, also if it is whole."""
    values = {name: getattr(info, name) for name in STORED}
    return {
        name: float(value) if isinstance(CHECKPOINT_OPTIONS[name].kind, Number) else value
        for name, value in values.items()
    }

"""Checkpoints and exports of a trainer: a base class of `odt.Trainer`."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import odt
from odt.core.checkpoints.resume import changed_constants
from odt.core.checkpoints.saver import Saver
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.integers.stored_values import stored_values
from odt.core.lowering.lower import LoweredGraphs
from odt.core.recipe.option_values import check_word
from odt.core.recipe.resolve import values_used
from odt.errors import OptionError
from odt.kernels.loss_text import is_plugin
from odt.models.model import Path
from odt.training.inference_trainer import InferenceTrainer
from odt.training.option_forms import resume_from

FORMATS = ("tflite", "circle", "onnx")


class SavingTrainer(InferenceTrainer):
    """Saves and restores the state of training, and exports the trained model."""

    @property
    def state(self) -> "odt.CheckpointState":
        """Parameters, optimizer state, properties and step, which can be read and set in place."""
        return odt.CheckpointState.of(self)

    def save_checkpoint(self, path: Path) -> None:
        """Saves weights, optimizer state and position in the data.

        Args:
            path: path of the checkpoint. A name that ends in .odt selects odt's format, from which
                training resumes bit for bit; any other name selects onert's format.

        Raises:
            ModelError: if the file cannot be written.
        """
        self.build()
        self._check_path("path", path)
        self.saver().write_to(os.fspath(path))

    def load_checkpoint(self, path: "Path | odt.CheckpointState") -> None:
        """Restores weights and optimizer state from a checkpoint.

        Args:
            path: path of a checkpoint in odt's or onert's format, or a CheckpointState.

        Raises:
            ModelError: if the file cannot be read or belongs to another model.
            OptionError: if it has other frozen weights, and these cannot be changed now.
        """
        trainer, resume = self.allocate(), resume_from(path)
        frozen = {}
        if resume.own is not None:
            frozen = changed_constants(self._graph, resume.on(self.recipe.graphs).graph)
        if frozen:
            self._check_replaceable()
        resume.restore(trainer.graph, trainer.parameters)
        self.missing.clear()
        self.replace_frozen(frozen)

    def replace_frozen(self, values: Mapping[int, Any]) -> None:
        """Replaces weights that do not train; plans again if one differs.

        Args:
            values: tensor index → values.

        Raises:
            OptionError: during `fit`, with accumulated gradients or a cache of frozen layers.
        """
        trainer, tensors = self.allocate(), list(self._graph.tensors)
        changed = {
            i: new
            for i, new in values.items()
            if not np.array_equal(new, np.asarray(tensors[i].real))
        }
        if not changed:
            return
        self._check_replaceable()
        for i, new in changed.items():
            data = np.array(new, tensors[i].spec.dtype)
            data.flags.writeable = False  # a change in place would miss what is derived from it
            tensors[i] = replace(tensors[i], data=data)
        graphs = LoweredGraphs(replace(self._graph, tensors=tuple(tensors)))
        trainer.use(self.with_frozen_integers(graphs))
        self._graph = graphs.graph

    def _check_replaceable(self) -> None:
        rule = "must have its frozen weights changed"
        if self.fitting:
            raise OptionError("checkpoint", f"{rule} before or after `fit`", "a change during it")
        if self.allocate().caches:
            raise OptionError("cache_frozen", f"{rule} without a cache of their outputs", "one")
        self.allocate().check_no_gradients("checkpoint")

    def saver(self) -> Saver:
        """Returns the writer of checkpoints, which knows the position of the last `fit`."""
        if self._saver is None:
            trainer, before = self.allocate(), self.resume
            self._saver = Saver(None, trainer, self._order, before=before, kept=self.properties)
        return self._saver

    def export(
        self,
        path: Path,
        file_format: str | None = None,
        *,
        float_weights: bool = False,
        training_info: bool = False,
        preprocessing: bool = True,
    ) -> None:
        """Writes the model file with the trained weights; everything else in it stays unchanged.

        Args:
            path: path of the new file.
            file_format: "tflite" or "circle"; "onnx" for an ONNX model. None for the format that
                the path's suffix names, or else the model's format.
            float_weights: whether to store float16 and int8 weights of the model as float32.
            training_info: whether to add training info: a circle+ file.
            preprocessing: whether to store the preprocessing record of the training data in the
                model's metadata, so that `odt predict` takes raw photos, sounds or tables.

        Raises:
            ModelError: if the file cannot be written.
            OptionError: if there is no such format.
        """
        from odt.core.export.exporter import export_model
        from odt.core.export.record_metadata import differing_normalization

        trainer, suffix = self.build(), os.path.splitext(os.fspath(path))[1].lstrip(".")
        if file_format is None:
            file_format = suffix if suffix in FORMATS else self.model.format
        check_word("file_format", file_format, FORMATS)
        used = values_used(self.recipe.lowered.part.graph, trainer.info) if training_info else None
        model, record = self.recipe.model, self.record if preprocessing else None
        if record is not None and (differing := differing_normalization(model, record)):
            old, new = differing
            self.warn(
                f"Warning: {os.fspath(path)}: its TFLite metadata stays as it is and says {old}, "
                f"but the training data have {new}."
            )
        loss = trainer.info.loss
        if record is not None and loss is not None and not is_plugin(loss):
            record = replace(record, loss=loss)
        weights = self._exported()
        export_model(
            model, weights, path, file_format, used, float_weights=float_weights, record=record
        )

    def export_adapters(self, path: Path) -> None:
        """Writes the trained low-rank adapters of a model that `odt.lora` returned.

        Args:
            path: path of the new file, an .npz that holds the adapters and a hash of the model.

        Raises:
            OptionError: if the model has no adapters.
            DataError: if the file cannot be written.
        """
        from odt.core.export.adapter_file import write_adapters

        trainer, adapted = self.build(), self.recipe.lowered.adapted
        if adapted is None:
            rule = "must be a model with adapters"
            raise OptionError("model", rule, self.model.path, "Make them with `odt.lora`.")
        write_adapters(path, adapted.of(trainer.weights()), adapted.graph)

    def _check_path(self, field: str, path: Path | None) -> None:
        """Refuses onert's checkpoints, which hold the tensors of the file, for adapters."""
        if (
            path is not None
            and self.recipe.lowered.adapted
            and not os.fspath(path).endswith(".odt")
        ):
            raise OptionError(field, "must end in .odt for a model with adapters", path)

    def check_export(self, *, float_weights: bool = False, training_info: bool = False) -> None:
        """Checks that `export` will be able to write the weights.

        Args:
            float_weights: as in `export`.
            training_info: as in `export`.

        Raises:
            OptionError: if the circle+ format cannot represent the training info.
            UnsupportedError: if the weights cannot be stored in their type.
        """
        from odt.core.export.exporter import check_format, check_shared_ranges

        trainer = self.build()
        check_format(self.recipe.model, None, float_weights=float_weights)
        if training_info:
            used = values_used(self.recipe.lowered.part.graph, trainer.info)
            encode_training_info(used, len(self.recipe.model.graph.nodes))
        if not float_weights:
            stored_values(self.recipe.lowered.part, self.recipe.dequantized, self._exported())
        check_shared_ranges(self.recipe.model, self._exported())

    def finish(self) -> None:
        """Saves the last checkpoint of `fit` and, with `keep_best`, restores the best weights.

        `fit` calls it at its end, unless it raises a LostFileError.
        """
        if self._saver is not None:
            self._saver.finish()
        self.build().restore_best()

    def rescue(self, path: Path) -> None:
        """Saves weights and optimizer state after the model file was lost (LostFileError).

        Args:
            path: path of the checkpoint, in odt's format.
        """
        self.saver().rescue(os.fspath(path))

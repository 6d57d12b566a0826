"""Trainer: what a user calls to train, evaluate and export a model."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from odt.arguments import checked_arguments
from odt.core.data.protocol import scales_of
from odt.core.options.option import Number
from odt.core.options.training_options import STEP_OPTIONS
from odt.core.recipe.option_values import (
    check_learning_rate,
    check_number,
    check_options,
    check_whole,
)
from odt.core.runtime.parameters import by_name
from odt.core.storage.closing import Closing
from odt.data.sources import ClassWeight
from odt.errors import OdtError, OptionError, warn
from odt.habits import known_arguments, missing_attribute
from odt.kernels.rows.scheduledef import Schedule
from odt.models.model import Model, Path, file_of
from odt.optimizer import Optimizer
from odt.training.opening import open_session
from odt.training.option_forms import Pairs
from odt.training.row_keywords import row_keywords
from odt.training.session import Logs
from odt.training.step_keywords import StepKeywords
from odt.training.trainable import Trainable
from odt.training.weights import Arrays

if TYPE_CHECKING:
    from odt.core.model.record import Record
    from odt.training.callbacks import Callback, History
    from odt.training.checkpoint_state import CheckpointState
    from odt.training.checkpoints import Checkpoints
    from odt.training.evaluation import SessionEvaluation
    from odt.training.rate_test import RateTest

SCALE = Number("a finite number", least=-math.inf)


class Trainer(Closing):
    """Trains, evaluates and exports a model.

    Arguments that are left out come from the checkpoint, then from the training info of a circle+
    file, then from odt's defaults: Adam with learning rate 0.001, batch size 32, all weights
    trainable, and the loss that matches the model's last operator. Memory is planned and allocated
    when training begins. A trainer is a context manager; `close` ends its threads. Several trainers
    can run in several threads; a trainer is used by one thread at a time.

    Attributes:
        model: the model.
        stop_training: set to True to end `fit` after the current batch.
        worse: whether the last `fit` raised the loss by more than the standard deviation of the
            loss over batches.
        record: preprocessing record that `export` stores; `fit` takes it from the JSON file of its
            data file.
    """

    @known_arguments(lambda: Trainer.fit)
    @row_keywords(STEP_OPTIONS, StepKeywords)
    @checked_arguments
    def __init__(
        self,
        model: Model | Path,
        *,
        loss: Any = None,
        optimizer: str | Optimizer | None = None,
        learning_rate: float | Schedule | None = None,
        schedule: Schedule | None = None,
        warmup: int | None = None,
        batch_size: int | None = None,
        teacher: Any = None,
        dropout: float | Pairs[float] | None = None,
        metrics: str | Sequence[str] = (),
        task: str | None = None,
        trainable: Trainable | None = None,
        sparse: Pairs[float] | None = None,
        learning_rate_of: Pairs[float] | None = None,
        reduction: str | None = None,
        output_losses: Pairs[Any] | None = None,
        loss_weights: Pairs[float] | None = None,
        hyper_parameters: Mapping[str, Any] | None = None,
        memory_budget: int | str | None = None,
        micro_batch: int | None = None,
        workers: int | None = None,
        cache_frozen: str | None = None,
        cache_dtype: str | None = None,
        frozen_int8: Any = None,
        keep_best: bool = False,
        monitor: str = "val_loss",
        checkpoint: "Path | CheckpointState | None" = None,
        **steps: Unpack[StepKeywords],
    ) -> None:
        """Reads the model and prepares its training; memory is allocated later.

        Args:
            model: a model or the path of its file.
            loss: name of a loss, such as "huber", or one with its hyper-parameters, such as
                "huber:delta=0.5" or Huber(0.5); `odt docs reference` lists them. A custom loss is
                an object with functions value and gradient of targets and outputs, a pair of these
                functions, or "module:object". For several outputs, a mapping from names of outputs
                to losses, or a list with one for each output; outputs that the mapping does not
                name have no loss.
            optimizer: name of an optimizer, such as "adam", or one with its hyper-parameters, such
                as Adam(1e-3); `odt docs reference` lists them.
            learning_rate: learning rate of an optimizer that is given by name, or a Schedule.
            schedule: learning rate schedule, if `learning_rate` is a number.
            warmup: number of steps in which the learning rate grows linearly before the schedule
                starts.
            batch_size: samples per batch; a batch is a step unless `accumulate` is given.
            teacher: Teacher(…), or the path of a larger model, whose outputs the model learns too.
            dropout: dropout rate of the last trained FULLY_CONNECTED layer: the probability with
                which its inputs become 0 in training. For other layers, a mapping from patterns of
                weight names to rates. The random masks depend on `seed` of `fit`.
            metrics: one or several names, such as "accuracy" or "mean_absolute_error";
                `odt docs reference` lists them.
            task: "boxes" for a detector, whose targets are boxes (N, M, 5): class, y1, x1, y2, x2
                as fractions of a photo, and class -1 in rows without a box. Losses, trained
                layers and other options are then by default those of the detector's family, and
                metrics may be map, map50 and f1.
            trainable: weights that train: last(2), select("head/*"), freeze(...) or Trainable(...).
            learning_rate_of: mapping from patterns of weight names or operators to factors of the
                learning rate, or a sequence of such pairs.
            sparse: mapping from patterns of filter names to the fraction of the output channels
                that trains, or a sequence of such pairs. The channels with the largest norm train.
            hyper_parameters: hyper-parameters of an optimizer that is given by name.
            reduction: sum_over_batch_size or sum.
            output_losses: mapping from names or numbers of outputs to losses or "none", or a
                sequence of such pairs. The name of an output is that of its tensor or that in the
                signature.
            loss_weights: mapping from names or numbers of outputs to weights of their losses, or a
                sequence of such pairs, or a list with one weight for each output.
            memory_budget: peak memory of the process, such as "64MB" or a number of bytes.
            micro_batch: samples that a worker computes at once; chosen by odt if left out.
            workers: number of worker threads; chosen by odt if left out.
            cache_frozen: "ram" or "disk": where to cache the outputs of the frozen layers, so that
                later epochs compute the trained layers only.
            cache_dtype: dtype of the cached values; "float16" halves the size of the cache.
            frozen_int8: inputs (N, …), arrays or the path of a data file, from which the frozen
                layers of a float model are quantized as by `odt.quantize`; they then compute int8.
            keep_best: whether to restore the weights of the epoch with the best monitored value.
            monitor: value that `keep_best`, `patience` and ReduceOnPlateau compare: loss, val_loss,
                or a metric; the prefix val_ selects its validation value.
            checkpoint: path of a checkpoint to resume from, or a CheckpointState.
            **steps: options of the steps of training, which `row_keywords` lists here.

        Raises:
            ModelError: if the model or the checkpoint cannot be read.
            UnsupportedError: if odt cannot compute an operator.
            OptionError: if arguments contradict each other or the model.
        """
        self.model = model if isinstance(model, Model) else Model(file_of(model))
        # The parts of a trainer, which other modules of odt use; users call the methods below.
        self.session = open_session(
            self.model,
            loss=loss,
            optimizer=optimizer,
            learning_rate=learning_rate,
            schedule=schedule,
            warmup=warmup,
            batch_size=batch_size,
            teacher=teacher,
            dropout=dropout,
            metrics=metrics,
            task=task,
            trainable=trainable,
            sparse=sparse,
            learning_rate_of=learning_rate_of,
            reduction=reduction,
            output_losses=output_losses,
            loss_weights=loss_weights,
            hyper_parameters=hyper_parameters,
            memory_budget=memory_budget,
            micro_batch=micro_batch,
            workers=workers,
            cache_frozen=cache_frozen,
            cache_dtype=cache_dtype,
            frozen_int8=frozen_int8,
            keep_best=keep_best,
            monitor=monitor,
            checkpoint=checkpoint,
            **steps,
        )
        self.record: Record | None = None
        self.stop_training = self.worse = False

    # Parts of a trainer that not all scripts use. Their modules are loaded when they are used.

    @cached_property
    def evaluation(self) -> "SessionEvaluation":
        """What evaluates and predicts."""
        from odt.training.evaluation import SessionEvaluation

        return SessionEvaluation(self.session)

    @cached_property
    def checkpoints(self) -> "Checkpoints":
        """What writes and restores checkpoints."""
        from odt.training.checkpoints import Checkpoints

        return Checkpoints(self.session)

    def __repr__(self) -> str:
        return f"Trainer({self.model!r}, {self._options_line})"

    def _repr_html_(self) -> str:
        from odt.models import model_html

        recipe = self.session.recipe
        return model_html.html(recipe.lowered, recipe.info, self._options_line)

    @property
    def _options_line(self) -> str:
        """The options that matter most, in a line."""
        info = self.session.recipe.info
        losses = ", ".join(dict.fromkeys(loss.name for loss in self.session.recipe.losses))
        rate = info.schedule or f"{info.learning_rate:g}"
        return (
            f"loss={losses}, optimizer={info.optimizer}, learning_rate={rate}, "
            f"batch_size={info.batch_size}"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(name, lambda: dir(Trainer), "odt.Trainer", "Trainer")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise OdtError(
            "odt.Trainer: must be neither pickled nor copied, because it holds threads and memory. "
            "Save its state with `save_checkpoint`, and give that to another Trainer."
        )

    # ---- training

    @known_arguments(lambda: Trainer.__init__)
    @checked_arguments
    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int = 1,
        max_steps: int | None = None,
        max_time: float | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool | None = None,
        seed: int | None = None,
        callbacks: "Callback | Sequence[Callback]" = (),
        verbose: int | str = "auto",
        drop_last: bool | None = None,
        stratify: bool | None = None,
        data_length: int | None = None,
        check_data: bool = False,
        patience: int | None = None,
        save_to: Path | None = None,
        save_every: int | None = None,
        properties: Mapping[str, str | int | float] | None = None,
        fine_tune: bool = True,
        class_weight: ClassWeight | None = None,
        sample_weight: Any = None,
        augment: Any = None,
        new_data: bool = False,
    ) -> "History":
        """Trains for a number of epochs.

        Args:
            x: inputs: an array (N, …), a list or mapping of arrays for several inputs, the path of
                a data file, a DataSet, or an iterable of batches (x, y) such as a DataLoader. With
                an iterable, all options but `epochs`, `validation_data`, `callbacks`, `verbose`,
                `class_weight` and `new_data` must be left out.
            y: targets (N, …) in the form of x; left out with a DataSet or an iterable.
            epochs: total number of epochs; those before a resumed checkpoint count.
            max_steps: total number of steps after which training ends; those before a resumed
                checkpoint count.
            max_time: seconds after which training ends.
            validation_split: fraction of the samples used for validation; see `stratify`.
            validation_data: (x, y), (x, y, sample_weight) or a DataSet for validation, instead of
                `validation_split`; or an iterable of batches, if x is one.
            shuffle: whether to shuffle the samples in each epoch. Default: the value in the
                checkpoint, or True.
            seed: random seed of `shuffle`, `stratify` and `augment`, and of the trainer's `qas` and
                `dropout`. Default: the value in the checkpoint, or 0.
            callbacks: one or several objects whose methods are called during training.
            verbose: progress to show: 0 for none, 1 for a progress bar and a line for each epoch on
                standard error, or for curves in a notebook, 2 for a line for each epoch on standard
                output. "auto" stands for 1 in a notebook and if standard error is a terminal, and
                for 0 otherwise, so that logs of scripts stay as they are.
            drop_last: whether to leave out a last batch that is not full; otherwise it trains too,
                and its loss is the mean of its samples. Default: the value in the checkpoint, or
                False.
            stratify: whether to draw the validation samples at random from each class, by `seed`.
                Without it, or if the targets are not classes, the last samples are used.
                Default: the value in the checkpoint, or True.
            data_length: number of samples to use, from the first; None for all.
            check_data: whether to check all samples before the first step.
            patience: early stopping: number of epochs without an improvement of the trainer's
                `monitor` after which training ends.
            save_to: path of a checkpoint, saved after each epoch.
            save_every: number of steps between two saves, instead of an epoch.
            properties: user metadata to store in the checkpoint.
            fine_tune: if no learning rate is given: whether a few steps choose a smaller one for a
                model that is already trained, and whether epochs that raise the loss are undone.
            class_weight: mapping from classes to weights of the losses of their samples in
                training; classes that are left out have the weight 1. Or "balanced": the weight of
                a class is n / (K · n_c), for n samples of K classes, of which n_c have the class.
                Default: the weights in the checkpoint, or none.
            sample_weight: weights of the losses: one for each sample (N,), or one for each position
                (N, …), such as a cell or an anchor. Weights of positions have the shape of the
                target without its last axis, or the whole shape of a target of class numbers. For
                several outputs, a list or mapping of such arrays, with None for weights of 1. May
                also be the path of a data file. An iterable has the weights in its batches: (x, y,
                sample_weight).
            augment: augmentations of the training samples, such as [odt.augment.Flip(), "noise"] or
                "flip,rotate:15". A function f(x, rng) of a sample and a numpy.random.Generator is
                an augmentation, too. `odt docs augmentation` lists them. Default: those in the
                checkpoint, or none.
            new_data: whether the data are other than those of the checkpoint. Training then begins
                at epoch 1, with the weights and the optimizer state of the checkpoint.

        Returns:
            Loss and metrics of each epoch.

        Raises:
            DataError: if the data does not match the model, or holds values that the loss cannot
                use.
            ModelError: if a checkpoint cannot be written.
            OptionError: if arguments contradict each other, the checkpoint or the data.
            TrainingError: if the loss is NaN or infinite.
        """
        from odt.core.options.fit_options import FitOptions

        options = FitOptions(
            epochs=epochs,
            max_steps=max_steps,
            max_time=max_time,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            augment=augment,
            new_data=new_data,
            sample_weight=sample_weight,
            data_length=data_length,
            check_data=check_data,
            class_weight=class_weight,
            validation_split=validation_split,
            stratify=stratify,
            patience=patience,
            save_to=save_to,
            save_every=save_every,
            properties=properties,
        )
        check_options(options)
        from odt.training.fitting import fit

        return fit(self, x, y, validation_data, callbacks, options, verbose, fine_tune)

    @checked_arguments
    def find_rate(
        self,
        x: Any,
        y: Any = None,
        *,
        lowest: float = 1e-7,
        highest: float = 10.0,
        steps: int = 100,
        seed: int = 0,
        sample_weight: Any = None,
    ) -> "RateTest":
        """Suggests a learning rate: trains some steps with a growing rate, then undoes them.

        Source: Smith, Cyclical Learning Rates for Training Neural Networks (2017). The weights and
        the state of the optimizer are the same afterwards; a copy of both is kept meanwhile.

        Args:
            x: inputs, as in `fit`.
            y: targets (N, …), as in `fit`.
            lowest: rate of the first step.
            highest: rate of the last step. The test ends earlier if the loss is not finite, or is
                four times the loss of the weights before the test.
            steps: number of steps, whose rates grow exponentially.
            seed: random seed of the order of the samples.
            sample_weight: weights of the samples' losses, as in `fit`.

        Returns:
            Rates, losses and a suggestion.

        Raises:
            DataError: if the data does not match the model.
            OptionError: if the rates are not in order, or the trainer has a teacher.
        """
        from odt.training.rate_test import find_rate

        check_whole("steps", steps, 1)
        data = self.session.open(x, y, sample_weight)
        return find_rate(self.session, data, lowest, highest, steps, seed)

    # ---- evaluation

    @known_arguments(lambda: Trainer.__init__)
    @checked_arguments
    def evaluate(
        self, x: Any, y: Any = None, sample_weight: Any = None, *, verbose: int | str = "auto"
    ) -> Logs:
        """Computes loss and metrics on samples.

        Args:
            x: inputs, as in `fit`.
            y: targets (N, …), as in `fit`.
            sample_weight: weights of the samples' losses, as in `fit`; metrics are not weighted.
            verbose: 0 for no progress; "auto", 1 and 2 for a progress bar if standard error is a
                terminal, after two seconds.

        Returns:
            Loss and metrics by name.

        Raises:
            DataError: if the data does not match the model, or holds values that the loss cannot
                use.
            OptionError: if `y` is given with a DataSet, or `sample_weight` with an iterable.
        """
        return self.evaluation.evaluate(x, y, sample_weight, verbose)

    @known_arguments(lambda: Trainer.__init__)
    @checked_arguments
    def predict(self, x: Any, *, verbose: int | str = "auto") -> Any:
        """Computes the model's outputs with the current weights.

        For outputs that odt does not compute, such as those of a detector's post-processing, it
        returns the values that training uses as outputs instead.

        Args:
            x: inputs (N, …), as in `fit`.
            verbose: 0 for no progress; "auto", 1 and 2 for a progress bar if standard error is a
                terminal, after two seconds.

        Returns:
            An array (N, …); a list of arrays if the model has several outputs.

        Raises:
            DataError: if the inputs do not match the model.
        """
        return self.evaluation.predict(x, verbose)

    # ---- files

    @checked_arguments
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
            file_format: "tflite" or "circle", to which ONNX models are converted; "onnx" for an
                ONNX model. None for the format that the path's suffix names, or else the model's.
            float_weights: whether to store float16, integer and sparse weights as float32;
                activations of integers become float32 too.
            training_info: whether to add training info: a circle+ file.
            preprocessing: whether to store the preprocessing record of the training data in the
                model's metadata, so that `odt predict` takes raw photos, sounds or tables.

        Raises:
            ModelError: if the file cannot be written.
            OptionError: if there is no such format, or the suffix is that of another kind of file.
            UnsupportedError: if the weights cannot be stored in their type.
        """
        from odt.training.exports import export

        export(
            self.session,
            path,
            file_format,
            float_weights=float_weights,
            training_info=training_info,
            record=self.record if preprocessing else None,
        )

    @checked_arguments
    def export_adapters(self, path: Path) -> None:
        """Writes the trained low-rank adapters of a model that `odt.lora` returned.

        Args:
            path: path of the new file, an .npz that holds the adapters and a hash of the model;
                adapter_model.safetensors, beside which adapter_config.json is then written, as PEFT
                reads them; or a .gguf for llama.cpp, if the model was converted from GGUF.

        Raises:
            OptionError: if the model has no adapters.
            DataError: if the file cannot be written.
        """
        from odt.training.exports import export_adapters

        export_adapters(self.session, path)

    @checked_arguments
    def save_checkpoint(self, path: Path) -> None:
        """Saves weights, optimizer state and position in the data.

        Args:
            path: path of the checkpoint. A name that ends in .odt selects odt's format, from which
                training resumes bit for bit; any other name selects onert's format.

        Raises:
            ModelError: if the file cannot be written.
            OptionError: if it is the file of the model, or the format does not fit the model.
        """
        self.checkpoints.save(path)

    @checked_arguments
    def load_checkpoint(self, path: "Path | CheckpointState") -> None:
        """Restores weights and optimizer state from a checkpoint.

        Args:
            path: path of a checkpoint in odt's or onert's format, or a CheckpointState.

        Raises:
            ModelError: if the file cannot be read or belongs to another model.
            OptionError: if it has other frozen weights, and these cannot be changed now.
        """
        from odt.training.checkpoint_state import resume_from

        self.checkpoints.load(resume_from(path))

    @property
    def state(self) -> "CheckpointState":
        """Parameters, optimizer state, properties and step, which can be read and set in place."""
        from odt.training.checkpoint_state import state_of

        return state_of(self.checkpoints)

    @classmethod
    @checked_arguments
    def from_artifacts(
        cls,
        folder: Path,
        *,
        checkpoint: "Path | CheckpointState | None" = None,
        check: bool = True,
        **options: Any,
    ) -> "Trainer":
        """Makes a trainer from a folder that `generate_artifacts` or `odt artifacts` wrote.

        Args:
            folder: the folder.
            checkpoint: a checkpoint of this device to resume from, instead of the folder's.
            check: whether to train the first steps on synthetic data, in another trainer, and to
                compare their losses with those of the workstation.
            **options: arguments of Trainer, which override the recipe.

        Raises:
            ModelError: if a file is missing, changed or newer than this version of odt, the
                checkpoint is another model's, or the first losses are not those of the workstation.
        """
        from odt.training.first_steps import trainer_from_folder

        return trainer_from_folder(cls, folder, checkpoint, check, **options)

    # ---- loops written by hand

    @checked_arguments
    def train_on_batch(
        self,
        x: Any,
        y: Any,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
    ) -> Logs:
        """Runs one training step; returns loss and metrics before the update.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of samples or positions, as in `fit`.
            class_weight: mapping from classes to weights of their samples' losses.

        Raises:
            DataError: if shapes do not match the model, or values cannot be used.
            OptionError: if the trainer has a cache of frozen layers or a teacher, or a class or
                weight is invalid.
            TrainingError: if the loss is NaN or infinite.
        """
        session = self.session
        if session.detection is not None:
            warn(session.detection.batch_warning())
        data = session.open_batch(x, y, sample_weight, class_weight=class_weight)
        core = session.build(scales=scales_of(data.weights))
        return session.logs(core.batch(data, data.length, update=True))

    def test_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> Logs:
        """Returns loss and metrics of a batch without an update.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of samples or positions, as in `fit`.

        Raises:
            DataError: if shapes do not match the model, or values cannot be used.
            OptionError: if the trainer has a cache of frozen layers or a teacher.
        """
        return self.evaluation.evaluate_batch(x, y, sample_weight)

    @checked_arguments
    def forward_backward(
        self, x: Any, y: Any, scale: float = 1.0, sample_weight: Any = None
    ) -> float:
        """Adds the gradients of a batch to `gradients`, for custom training loops.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            scale: factor of the loss and its gradients, such as 1/K to average K batches.
            sample_weight: weights of samples or positions, as in `fit`. Give them from the first
                batch on: they cannot begin while gradients are accumulated.

        Returns:
            The loss multiplied by `scale`.

        Raises:
            TrainingError: if the loss is not finite; accumulated gradients are then discarded.
            DataError: if shapes do not match the model; or if values cannot be used, such as a
                label out of range: accumulated gradients are then discarded.
            OptionError: if weights of samples begin while gradients are accumulated, the update is
                lazy, or the trainer has a cache of frozen layers or a teacher.
        """
        check_number("scale", scale, SCALE)
        data = self.session.open_batch(x, y, sample_weight)
        core = self.session.build(scales=scales_of(data.weights))
        return core.accumulate(data, data.length, scale)

    def apply_gradients(self) -> None:
        """Updates the weights with `gradients`, then clears them."""
        self.session.build().apply_gradients()

    @property
    def gradients(self) -> Arrays:
        """Accumulated gradients by weight name; can be read and set in place."""
        core = self.session.build()
        return Arrays(lambda: by_name(core.graph, core.gradients))

    @property
    def weights(self) -> Arrays:
        """Trainable weights by name; can be read and set in place.

        With a moving average (`ema=`; quantized models have one by default), which `predict` and
        `export` use, arrays are read-only after the first step: `weights[name] = values` sets the
        weight and its average.
        """
        core = self.session.build()
        graph = core.graph
        parameters = core.parameters
        return Arrays(
            lambda: by_name(graph, parameters.tensors),
            lambda: by_name(graph, parameters.averages()),
        )

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next update; can be set between batches without a schedule.

        An update with the rate 0 changes the optimizer's state only.
        """
        parameters = self.session.build().parameters
        assert parameters.optimizer is not None, "parameters that train have an optimizer"
        return parameters.optimizer.rate(parameters.step + 1)

    @learning_rate.setter
    @checked_arguments
    def learning_rate(self, value: float) -> None:
        if value != 0:
            check_learning_rate(value)
        core = self.session.build()
        optimizer = core.parameters.optimizer
        assert optimizer is not None, "parameters that train have an optimizer"
        if optimizer.schedule:
            raise OptionError(
                "learning_rate",
                f"follows the schedule {optimizer.schedule}",
                f"{value:g}",
                "Leave the schedule out to set the rate.",
            )
        self.session.rate_is_set = True
        core.undo = None  # a rate that is set is not lowered
        optimizer.learning_rate = value

    def close(self) -> None:
        """Ends the worker threads; weights stay readable."""
        if "evaluation" in vars(self):
            self.evaluation.close()
        self.session.close()

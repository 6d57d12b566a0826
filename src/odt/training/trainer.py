"""Trainer: `fit` and the search for a learning rate."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import odt
from odt.core.checkpoints.progress import Progress
from odt.core.checkpoints.saver import Saver
from odt.core.data.sample_weights import ClassWeights, Weighting, checksum
from odt.core.recipe.option_values import check_whole
from odt.data.run_samples import arrange
from odt.data.sources import ClassWeight, class_weighted, is_batches, recorded
from odt.errors import OptionError
from odt.models.habits import known_arguments
from odt.models.model import Path
from odt.training.callbacks import Callback, History
from odt.training.fit_warnings import clipped_activations
from odt.training.fitting import Fit, pair
from odt.training.saving_trainer import SavingTrainer

if TYPE_CHECKING:
    from odt.core.training.input_pipeline import InputPipeline

NEW_RUN = Progress(shuffle=True, drop_last=False, stratified=True)


class Trainer(SavingTrainer):
    """Trains, evaluates and exports a model.

    Arguments that are left out come from the checkpoint, then from the training info of a circle+
    file, then from odt's defaults: Adam with learning rate 0.001, batch size 32, all weights
    trainable, and the loss that matches the model's last operator. Memory is planned and allocated
    when training begins, or by `build`. A trainer is a context manager; `close` ends its threads.
    Several trainers can run in several threads; a trainer is used by one thread at a time.

    Attributes:
        model: the model.
        stop_training: set to True to end `fit` after the current batch.
        fitting: whether `fit` runs.
        worse: whether the loss after the last `fit` is above that before it by more than its spread
            over batches.
        record: preprocessing record that `export` stores; `fit` takes it from the JSON file of its
            data file.
        feed: pipeline of `augment` in the last `fit`; None for none.
    """

    feed: "InputPipeline | None" = None

    @classmethod
    def from_artifacts(
        cls,
        folder: Path,
        *,
        checkpoint: "Path | odt.CheckpointState | None" = None,
        check: bool = True,
        **options: Any,
    ) -> "Trainer":
        """Makes a trainer from a folder that `generate_artifacts` or `odt artifacts` wrote.

        Args:
            folder: the folder.
            checkpoint: a checkpoint of this device to resume from, instead of the folder's.
            check: whether to train the first steps on synthetic data, in another trainer, and to
                compare their losses with those of the desk.
            **options: arguments of Trainer, which override the recipe.

        Raises:
            ModelError: if a file is missing, changed or newer than this version of odt, the
                checkpoint is another model's, or the first losses are not those of the desk.
        """
        return odt.Artifacts.trainer(cls, folder, checkpoint, check, **options)

    @known_arguments(lambda: odt.Trainer.__init__)
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
        callbacks: Callback | Sequence[Callback] = (),
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
    ) -> History:
        """Trains for a number of epochs.

        Args:
            x: inputs: an array (N, …), a list or mapping of arrays for several inputs, the path of
                a data file, a DataSet, or an iterable of batches (x, y) such as a DataLoader.
            y: targets (N, …) in the form of x; left out with a DataSet or an iterable.
            epochs: total number of epochs; those before a resumed checkpoint count.
            max_steps: total number of steps after which training ends; those before a resumed
                checkpoint count.
            max_time: seconds after which training ends.
            validation_split: fraction of the samples used for validation; see `stratify`.
            validation_data: (x, y), (x, y, sample_weight) or a DataSet for validation, instead of
                `validation_split`.
            shuffle: whether to shuffle the samples in each epoch. Default: the value in the
                checkpoint, or True.
            seed: random seed of `shuffle` and of the validation split. Default: the value in the
                checkpoint, or 0.
            callbacks: one or several objects whose methods are called during training.
            drop_last: whether to leave out a last batch that is not full; otherwise it trains too,
                and its loss is the mean of its samples. Default: the value in the checkpoint, or
                False.
            stratify: whether to draw the validation samples at random from each class, by `seed`.
                Without it, or if the targets are not classes, the last samples are used.
                Default: the value in the checkpoint, or True.
            data_length: number of samples to use, from the first; None for all.
            check_data: whether to check all samples before the first step.
            patience: early stopping: number of epochs without a lower validation loss after which
                training ends.
            save_to: path of a checkpoint, saved after each epoch.
            save_every: number of steps between two saves, instead of an epoch.
            properties: user metadata to store in the checkpoint.
            fine_tune: whether a few steps choose a smaller learning rate for a model that is
                already trained, and epochs that raise the loss are undone, if no rate is given.
            class_weight: mapping from classes to weights of their samples' losses in training, 1
                for others; or "balanced": n / (K · n_c) for n samples of K classes, n_c of them of
                the class. Default: the weights in the checkpoint, or none.
            sample_weight: weights of the samples' losses (N,), or the path of a data file. An
                iterable gives them in its batches: (x, y, sample_weight).
            augment: augmentations of the training samples, such as [odt.augment.Flip(), "noise"] or
                "flip,rotate:15", or functions f(x, rng) of a sample and a numpy.random.Generator.
                docs/augmentation.md lists them. Default: those in the checkpoint, or none.
            new_data: whether to train on other data than the checkpoint was trained on: from epoch
                1, with its weights and optimizer state.

        Returns:
            Loss and metrics of each epoch.

        Raises:
            DataError: if the data does not match the model, or holds values that the loss cannot
                use.
            OptionError: if arguments contradict each other.
            TrainingError: if the loss is NaN or infinite.
        """
        for field, value, least in (
            ("epochs", epochs, 0),
            ("data_length", data_length, 1),
            ("seed", seed, 0),
            ("patience", patience, 1),
            ("save_every", save_every, 0),
        ):
            check_whole(field, value, least)
        self._check_path("save_to", save_to)
        self.stop_training = self.worse = False
        self.resume = self.resume.on_new_data() if new_data else self.resume
        run = Fit(self, callbacks, epochs, max_steps, max_time)
        if is_batches(x, y):
            if sample_weight is not None:
                raise OptionError(
                    "sample_weight",
                    "must be in the batches (x, y, sample_weight) of an iterable",
                    "it as an argument",
                )
            if augment:
                raise OptionError(
                    "augment", "must be left out with an iterable of batches", augment
                )
            with self._in_fit():
                run.batches(x, validation_data, class_weight)
            return run.history
        data = self.open(x, y, sample_weight)
        held = self.open(*pair(validation_data)) if validation_data is not None else None
        self.record = recorded(x) or self.record
        before = self.resume.progress if self.resume.own else NEW_RUN
        samples = arrange(
            data,
            self.samples.losses,
            self.recipe.info.step_samples,
            length=data_length,
            fraction=validation_split,
            stratify=before.stratified if stratify is None else stratify,
            shuffle=before.shuffle if shuffle is None else shuffle,
            seed=before.seed if seed is None else seed,
            drop_last=before.drop_last if drop_last is None else drop_last,
            held=held,
        )
        self._order = samples.order
        if validation_split and not len(samples.validation):
            self.warn(
                f"Warning: `validation_split={validation_split:g}`: no sample is left for "
                f"validation: all {samples.count} train."
            )
        classes: ClassWeights = ()
        given = checksum(data.weights)
        class_weight = dict(before.class_weight) if class_weight is None else class_weight
        if class_weight:
            losses, training = self.samples.losses, samples.order.samples
            data, classes = class_weighted(data, losses, class_weight, training)
            samples = replace(samples, data=data)
        augment = before.augment if augment is None else augment
        changes = odt.augment.chosen(augment) if augment else ()
        trainer = self.build(
            samples.count + (held.length if held else 0),
            weighted=samples.all.weights is not None,
            prepared=self.prepared(changes),
        )
        trainer.augment = ",".join(map(str, changes))
        trainer.parameters.mask_seed = samples.order.seed
        trainer.weighting = Weighting(classes, given)
        self._saver = Saver(
            os.fspath(save_to) if save_to is not None else None,
            trainer,
            self._order,
            every=save_every or 0,
            properties=properties,
            before=self.resume,
            kept=self.properties,
        )
        fine_tune = fine_tune and self.recipe.lowered.adapted is None  # adapters begin at zero
        with self._in_fit():
            run.samples(samples, self._saver, patience, check_data, fine_tune, changes)
        self.warn(clipped_activations(self.build()))
        return run.history

    @contextmanager
    def _in_fit(self) -> Iterator[None]:
        self.fitting = True
        try:
            yield
        finally:
            self.fitting = False

    def prepared(self, augment: Any) -> int:
        """Bytes of the batches that an augmentation prepares.

        Args:
            augment: argument of `fit`.
        """
        if not augment:
            return 0
        specs = (*self.samples.input_specs, *self.samples.target_specs)
        if self.teacher is not None:
            specs = (*specs, self.samples.losses[0][1])
        return odt.augment.batches_nbytes(specs, self.recipe.info.batch_size, augment)

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
    ) -> "odt.RateTest":
        """Suggests a learning rate: trains some steps with a growing rate, then undoes them.

        Source: Smith, Cyclical Learning Rates for Training Neural Networks (2017). The weights and
        the state of the optimizer are the same afterwards; a copy of both is kept meanwhile.

        Args:
            x: inputs, as in `fit`.
            y: targets (N, …), as in `fit`.
            lowest: rate of the first step.
            highest: rate of the last step. The test ends earlier if the loss is not finite or four
                times as high as that of the weights before the test.
            steps: number of steps, whose rates grow exponentially.
            seed: random seed of the order of the samples.
            sample_weight: weights of the samples' losses, as in `fit`.

        Returns:
            Rates, losses and a suggestion.

        Raises:
            OptionError: if the rates are not in order.
        """
        check_whole("steps", steps, 1)
        return odt.RateTest.run(self, x, y, lowest, highest, steps, seed, sample_weight)

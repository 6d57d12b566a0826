"""Options, data and memory of a trainer: the base class of BatchTrainer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

import odt
from odt.core.checkpoints.saver import Saver
from odt.core.data import dataset
from odt.core.data.dataset import EpochOrder
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.record import Record
from odt.core.recipe.option_values import check_whole
from odt.core.recipe.sequences import need_sequences
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.storage.closing import Closing
from odt.core.storage.mapped_pages import DATA_PAGES
from odt.core.training import trainer as engine
from odt.core.training.frozen_cache import FrozenCache, cache_policy, needs_samples
from odt.core.training.metrics import fitting_metrics, kept_nbytes, monitored_name
from odt.core.training.passes import Result
from odt.core.training.results import Epoch
from odt.data.sources import samples_of, weights_of
from odt.errors import (
    DataError,
    ModelError,
    OdtError,
    OptionError,
    warn,
)
from odt.kernels.rows.scheduledef import Schedule
from odt.models.habits import TRAINER, known_arguments, missing_attribute
from odt.models.model import Model, Path, file_of
from odt.optimizer import Optimizer
from odt.training import option_forms as forms
from odt.training.option_forms import Pairs
from odt.training.recipes import recipe_of, request_of
from odt.training.trainable import Trainable

Array: TypeAlias = np.ndarray[Any, Any]
Logs: TypeAlias = dict[str, float]


class BaseTrainer(Closing):
    """A model with the options of its training, and the memory that training takes."""

    _runs_singly = False  # whether a sample may be a single run of a model that keeps state

    @known_arguments(lambda: odt.Trainer.fit)
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
        accumulate: int | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        ema: float | None = None,
        quant_ranges: Literal["file", "follow", "follow-all"] | None = None,
        qas: bool | None = None,
        teacher: Any = None,
        dropout: float | Pairs[float] | None = None,
        metrics: str | Sequence[str] = (),
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
        checkpoint: "Path | odt.CheckpointState | None" = None,
    ) -> None:
        """Reads the model and prepares its training; memory is allocated later.

        Args:
            model: a model or the path of its file.
            loss: name of a loss, such as "huber", or one with its hyper-parameters, such as
                "huber:delta=0.5" or Huber(0.5); docs/reference.md lists them. A custom loss is an
                object with functions value and gradient of targets and outputs, a pair of these
                functions, or "module:object". A mapping from names of outputs to losses, or a list
                of one for each output, gives other outputs none.
            optimizer: name of an optimizer, such as "adam", or one with its hyper-parameters, such
                as Adam(1e-3); docs/reference.md lists them.
            learning_rate: learning rate of an optimizer that is given by name, or a Schedule.
            schedule: learning rate schedule, if `learning_rate` is a number.
            warmup: number of steps in which the learning rate grows linearly before the schedule
                starts.
            batch_size: samples per batch; a batch is a step unless `accumulate` is given.
            accumulate: batches per step of `fit`, whose gradients are accumulated.
            clip_norm: gradient clipping: largest norm of all gradients together; 0 for none.
            clip_value: gradient clipping: largest magnitude of a gradient's values; 0 for none.
            teacher: Teacher(…), or the path of a larger model, whose outputs the model learns too.
            ema: decay of an exponential moving average of the weights, which validation,
                `evaluate`, `predict` and `export` use; 0 for none. If left out, 0.95 for quantized
                models without `qas`, and none for others.
            quant_ranges: ranges of the activations of a quantized model: "file", as in the file,
                the default; "follow", they follow the values that training sees, and weights that
                share a scale are equalized; "follow-all", those of the model's outputs too.
            qas: whether to keep the weights of a quantized model as integers in memory, and update
                them with quantization-aware scaling; docs/quantization.md.
            dropout: dropout rate of the last trained FULLY_CONNECTED layer: the probability with
                which its inputs become 0 in training. For other layers, a mapping from patterns of
                weight names to rates. The random masks depend on `seed` of `fit`.
            metrics: one or several names, such as "accuracy" or "mean_absolute_error";
                docs/reference.md lists them.
            trainable: weights that train: last(2), select("head/*"), freeze(...) or Trainable(...).
            learning_rate_of: mapping from patterns of weight names or operators to factors of the
                learning rate; or pairs.
            sparse: mapping from patterns of filter names to the fraction of the output channels
                that trains, those with the largest norm; or pairs.
            hyper_parameters: hyper-parameters of an optimizer that is given by name.
            reduction: sum_over_batch_size or sum.
            output_losses: mapping from names or numbers of outputs to losses, or "none"; or pairs.
                Outputs have the names of their tensors and those of the signature.
            loss_weights: mapping from names or numbers of outputs to weights of their losses; or
                pairs, or a list of one for each output.
            memory_budget: peak memory that training may use, such as "64MB" or a number of bytes.
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

        Raises:
            ModelError: if the model or the checkpoint cannot be read.
            UnsupportedError: if odt cannot compute an operator.
            OptionError: if arguments contradict each other or the model.
        """
        check_whole("micro_batch", micro_batch, 1)
        check_whole("workers", workers, 1)
        self.model = model if isinstance(model, Model) else Model(file_of(model))
        if not self._runs_singly:
            need_sequences(file_of(self.model))
        self.resume = forms.resume_from(checkpoint)
        self.properties = dict(self.resume.properties)
        self.missing: set[str] = set()
        self.teacher = None if teacher is None else odt.Teacher.of(teacher)
        request = request_of(
            self.model,
            loss=loss,
            optimizer=optimizer,
            learning_rate=learning_rate,
            schedule=schedule,
            warmup=warmup,
            batch_size=batch_size,
            accumulate=accumulate,
            clip_norm=clip_norm,
            clip_value=clip_value,
            ema=ema,
            quant_ranges=quant_ranges,
            qas=qas,
            teacher=self.teacher,
            dropout=dropout,
            trainable=trainable,
            sparse=sparse,
            learning_rate_of=learning_rate_of,
            reduction=reduction,
            output_losses=output_losses,
            loss_weights=loss_weights,
            hyper_parameters=hyper_parameters,
        )
        self.recipe, self.samples = recipe_of(self.model, request, self.resume.training_info)
        names, logits = forms.words_of(metrics), self.samples.logits[0]
        self.metrics = fitting_metrics(names, *self.samples.losses[0], logits=logits)
        self._asked = dict(zip(self.metrics, names, strict=False))
        self.memory_budget = forms.nbytes(memory_budget)
        self.stop_training = self.fitting = False
        self.rate_is_set = self.rate_is_chosen = False
        self._micro_batch, self._workers = micro_batch, workers
        self._cache = cache_policy(cache_frozen, cache_dtype)
        self._frozen_int8 = frozen_int8
        if frozen_int8 is not None:
            from odt.core.quantization.frozen_int8 import check_frozen_int8

            check_frozen_int8(self.recipe.model)
        self._keep_best, self._monitor = keep_best, monitor
        self._engine: engine.Trainer | None = None
        self._saver: Saver | None = None
        self._order = EpochOrder(range(0))
        self._graph = self.recipe.graph
        self.record: Record | None = None
        self.worse = False
        self.epoch: Epoch | None = None
        self.cache: FrozenCache | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("Trainer", name, TRAINER)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise OdtError(
            "odt.Trainer: must be neither pickled nor copied, because it holds threads and memory. "
            "Save its state with `save_checkpoint`, and give that to another Trainer."
        )

    # ---- data and memory

    def open(
        self, x: Any, y: Any = None, sample_weight: Any = None, *, targets: bool = True
    ) -> dataset.DataSet:
        """Checks samples against the model.

        Args:
            x: inputs: arrays (N, …), the path of a data file, or a DataSet.
            y: targets: arrays (N, …), also by name; or the path of a data file; None with a
                DataSet.
            sample_weight: weights (N,) or the path of a data file; None for 1.
            targets: whether targets are needed; False for prediction.

        Raises:
            DataError: if shapes, dtypes or numbers of samples do not match the model, or targets
                are missing.
        """
        data = x
        if not isinstance(data, dataset.DataSet):
            try:
                data = samples_of(x, y, self.samples)
            except DataError as e:
                if not targets or not self.recipe.lowered.left_out:
                    raise
                left_out = describe_left_out(self.recipe.lowered, "training")
                raise DataError(f"{e} {left_out}") from e
            if self.memory_budget is not None:
                data.limit_mapped(DATA_PAGES)
        if targets and not data.targets:
            raise DataError("y: must be given to train or evaluate, but got None.")
        if sample_weight is not None:
            data = data.weighted(weights_of(sample_weight, data.length))
        return data

    def open_batch(self, x: Any, y: Any, sample_weight: Any = None) -> dataset.DataSet:
        """Checks the samples of one step against the model.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights (N,); None for 1.

        Raises:
            DataError: if shapes or dtypes do not match the model, or there are more samples than
                the batch size.
            OptionError: if the trainer has a cache of frozen layers.
        """
        if self._cache:
            raise needs_samples()
        data, most = self.open(x, y, sample_weight), self.recipe.info.batch_size
        if self.teacher is not None:
            raise OptionError("teacher", "must come with `fit` on arrays or files", "a batch")
        if data.length > most:
            raise DataError(
                f"x: a batch must have at most {most} samples, but got {data.length}. Give the "
                "trainer a larger `batch_size=`."
            )
        return data

    def build(
        self, samples: int = 0, *, weighted: bool = False, prepared: int = 0
    ) -> engine.Trainer:
        """Plans and allocates the memory of training; later calls return the same engine.

        Args:
            samples: number of samples, for `cache_frozen`, a teacher and metrics such as AUC.
            weighted: whether samples have weights.
            prepared: bytes of the batches that `augment` prepares.

        Raises:
            UnsupportedError: if the model cannot be trained.
            OptionError: if the model cannot be trained with these options.
            ModelError: if the checkpoint is nominal and parameters have no values yet.
        """
        trainer = self.allocate(samples, weighted=weighted, prepared=prepared)
        if self.missing:
            raise ModelError(
                f"{self.resume.path}: must hold values to resume from, but is nominal: it holds "
                "only names and shapes. Set them: `Trainer.state.copy_buffer_to_parameters`."
            )
        return trainer

    def allocate(
        self, samples: int = 0, *, weighted: bool = False, prepared: int = 0
    ) -> engine.Trainer:
        """Does what `build` does, even while parameters of a nominal checkpoint are missing.

        Args:
            samples: as for `build`.
            weighted: as for `build`.
            prepared: as for `build`.
        """
        if self._engine is None:
            batch, output = self.recipe.info.batch_size, self.samples.losses[0][1]
            taught = self.teacher.nbytes(self.samples, samples) if self.teacher else 0
            m, w = self.resume.schedule(batch, self._micro_batch, self._workers)
            graphs = self.resume.on(self.recipe.graphs)
            self._graph = graphs.graph
            graphs = self.with_frozen_integers(graphs)
            self._engine = core = engine.Trainer(
                graphs,
                self.recipe.info,
                micro_batch=m,
                workers=w,
                budget=self.memory_budget,
                metrics=self.metrics,
                keep=self._cache and replace(self._cache, samples=samples),
                keep_best=self._keep_best,
                monitor=monitored_name(self._monitor, self._asked),
                weighted=weighted,
                reserves={
                    "prepared batches": prepared,
                    "a teacher's outputs": taught,
                    "outputs kept for metrics": kept_nbytes(self.metrics, samples, output),
                },
            )
            self.recipe.model.release_pages()  # the weights that train are copied
            if self.resume.path:
                self.missing = self.resume.missing
                self.resume.restore(self._graph, core.parameters, core.best, names_only=True)
            if core.plateau:
                core.plateau.state = self.resume.progress.plateau
        if weighted:
            self._engine.weigh()
        return self._engine

    def with_frozen_integers(self, graphs: LoweredGraphs) -> LoweredGraphs:
        """Returns graphs in which the frozen part computes integers, where it does.

        Args:
            graphs: graphs of the model, or with other frozen weights.

        Raises:
            OptionError: if `frozen_int8` is given, but nothing is frozen, or with other weights
                than those of the model file.
        """
        if self._frozen_int8 is not None:
            from odt.core.quantization.frozen_int8 import frozen_in_int8

            if graphs is not self.recipe.graphs:
                rule = "must come with the frozen weights of the model file"
                raise OptionError("frozen_int8", rule, "others", "Export the checkpoint first.")
            return frozen_in_int8(self.recipe, partial(samples_of, self._frozen_int8, None))
        if self.recipe.computes_integers(graphs):
            from odt.core.recipe.frozen_integers import frozen_in_integers

            return frozen_in_integers(self.recipe)
        return graphs

    @property
    def rate_is_default(self) -> bool:
        """Whether neither the user nor the model nor a schedule gives the learning rate."""
        origin = self.recipe.origins["learning_rate"]
        if self.resume.path:
            is_default = origin == "checkpoint" and bool(self.resume.progress.undo)
        else:
            is_default = origin == "default"
        return is_default and not self.rate_is_set and not self.recipe.info.schedule

    def device_options(self) -> dict[str, Any]:
        """Returns the options that neither checkpoints nor circle+ files hold, by argument."""
        info, cache = self.recipe.info, self._cache
        return {
            "memory_budget": self.memory_budget,
            "micro_batch": self._micro_batch,
            "workers": self._workers,
            "metrics": tuple(self._asked.values()),
            "cache_frozen": cache and ("disk" if cache.on_disk else "ram"),
            "cache_dtype": cache and cache.dtype and cache.dtype.name,
            "output_losses": info.output_losses,
            "loss_weights": info.loss_weights,
        }

    def logs(self, result: Result, prefix: str = "") -> Logs:
        """Returns loss and metrics by name; metrics have the names given to the trainer.

        Args:
            result: loss and metrics of a batch or an epoch.
            prefix: text before each name, such as "val_".
        """
        metrics = {self._asked.get(n, n): value for n, value in result.metrics.items()}
        return {f"{prefix}{n}": v for n, v in {"loss": result.loss, **metrics}.items()}

    def warn(self, message: str | None) -> None:
        """Issues an OdtWarning, if there is a message.

        Args:
            message: text of the warning; None for no warning.
        """
        if message:
            warn(message)

    def close(self) -> None:
        """Ends the worker threads; weights stay readable."""
        if self._engine is not None:
            self._engine.close()

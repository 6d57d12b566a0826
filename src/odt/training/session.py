"""Model, options and memory of a trainer, which its other parts share."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from odt.core.checkpoints.start import Start
from odt.core.data import dataset
from odt.core.data.protocol import Scales
from odt.core.data.sample_weights import BALANCED, weighs_classes
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import changed_constants
from odt.core.model.model import Model as File
from odt.core.options.session_options import SessionOptions
from odt.core.options.training_options import BATCH
from odt.core.recipe.prepare import Recipe
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.storage.closing import Closing
from odt.core.storage.free_memory import resident_nbytes
from odt.core.storage.mapped_pages import DATA_PAGES
from odt.core.training import trainer as engine
from odt.core.training.metrics import (
    fitting_metrics,
    metrics_nbytes,
    monitored_name,
    user_names,
)
from odt.core.training.passes import Result
from odt.core.training.results import Epoch
from odt.data.sources import ClassWeight, class_weighted, samples_of, with_weights
from odt.errors import DataError, ModelError, OptionError
from odt.kernels.native.target import other_target
from odt.models.model import Model
from odt.training import option_forms as forms
from odt.training.teacher import Teacher, outputs_nbytes

if TYPE_CHECKING:
    from odt.core.training.frozen_cache import CachePolicy, FrozenCache
    from odt.core.training.input_pipeline import InputPipeline
    from odt.training.detection import Detection

Logs: TypeAlias = dict[str, float]

EXPORTED = "the export"  # bytes that a budget counts for it: key of LEAVE_OUT
# Modules that a budget counts: those that fit it, train, and write the trained model.
COUNTED = (
    *("odt.core.model.runtime_rules", "odt.core.planning.budget.fit_budget"),
    *("odt.core.checkpoints.resume", "odt.core.data.joined", "odt.core.data.split"),
    *("odt.training.checkpoints", "odt.training.default_rate", "odt.training.evaluation"),
    *("odt.training.fitting", "odt.training.integer_form", "odt.training.pipelines"),
    *("odt.training.teacher_outputs", "odt.kernels.families.class_counts"),
    *("odt.core.export.exporter", "odt.core.export.record_metadata"),
    *("flatbuffers", "tempfile", "zipfile"),
)


class Session(Closing):
    """A model with the options of its training, and the memory that training takes.

    Attributes:
        model: the model.
        recipe: how the model trains.
        samples: specs of one sample.
        resume: checkpoint from which training resumes.
        options: options of the trainer beside its recipe.
        properties: user metadata of checkpoints.
        missing: names of parameters that have no values yet.
        teacher: teacher of the model; None for none.
        detection: how boxes train the model; None for other targets.
        metrics: names of the metrics, as the engine has them.
        memory_budget: bytes that the process may use; None for no limit.
        micro_batch: samples that a worker computes at once; None to choose them.
        workers: number of worker threads; None to choose it.
        graph: graph that trains, with its frozen weights as they are now.
        outputs: whether steps of training compute the outputs too, for a caller that reads them;
            to be set before memory is allocated.
        fitting: whether `fit` runs.
        rate_is_set: whether the learning rate was set after the trainer was made.
        rate_is_chosen: whether `fit` has chosen a rate in place of the default.
        steps: most steps of the current `fit`; None if an iterable gives the batches.
        epoch: results of the last epoch of `fit`; None before it.
        cache: outputs of frozen layers in the last `fit`; None for none.
        feed: pipeline of augmented batches in the last `fit`; None for none.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        samples: SampleSpecs,
        resume: Start,
        options: SessionOptions,
        *,
        teacher: Teacher | None = None,
        micro_batch: int | None = None,
        workers: int | None = None,
        frozen_int8: Any = None,
        detection: "Detection | None" = None,
    ) -> None:
        """Plans nothing yet.

        Args:
            model: the model.
            recipe: how it trains.
            samples: specs of one sample.
            resume: checkpoint from which training resumes.
            options: options of the trainer beside its recipe.
            teacher: teacher of the model; None for none.
            micro_batch: as in `Trainer`, like all that follow.
            workers: as in `Trainer`.
            frozen_int8: as in `Trainer`.
            detection: how boxes train the model; None for other targets.

        Raises:
            OptionError: if arguments contradict each other or the model.
        """
        self.model = model
        self.detection = detection
        self.recipe = recipe
        self.resume = resume
        self.teacher = teacher
        self.samples = samples
        self.options = options
        self.properties = dict(resume.properties)
        self.missing: set[str] = set()
        names = forms.metric_names(options.metrics)
        if detection is not None:
            names = tuple(name for name in names if name not in detection.metrics)
        logits = samples.logits[0]
        loss, output = samples.losses[0]
        self.metrics = fitting_metrics(names, loss, output, logits=logits)
        self._names = user_names(names, loss, output, logits=logits)
        self.memory_budget = forms.nbytes(options.memory_budget)
        self.micro_batch = micro_batch
        self.workers = workers
        self._cache_policy: CachePolicy | None = None
        if options.cache_frozen is not None or options.cache_dtype is not None:
            from odt.core.training.frozen_cache import cache_policy

            self._cache_policy = cache_policy(options.cache_frozen, options.cache_dtype)
        if self._cache_policy and recipe.info.batch_norm == BATCH:
            rule = 'must be left out with `batch_norm="batch"`, since layers depend on the batch'
            raise OptionError("cache_frozen", rule, options.cache_frozen)
        self._frozen_int8 = frozen_int8
        if frozen_int8 is not None:
            from odt.core.quantization.frozen_int8 import check_frozen_int8

            check_frozen_int8(recipe.model)
        self._engine: engine.Trainer | None = None
        self.graph = recipe.graph
        self.outputs = bool(detection and detection.metrics)
        self.fitting = self.rate_is_set = self.rate_is_chosen = False
        self.steps: int | None = None
        self.epoch: Epoch | None = None
        self.cache: FrozenCache | None = None
        self.feed: InputPipeline | None = None

    # ---- data

    def open(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        targets: bool = True,
        trains: bool = False,
    ) -> dataset.DataSet:
        """Checks samples against the model.

        Args:
            x: inputs: arrays (N, …), the path of a data file, or a DataSet.
            y: targets: arrays (N, …), also by name; or the path of a data file; None with a
                DataSet.
            sample_weight: weights of samples or positions, as of `with_weights`; None for 1.
            targets: whether targets are needed; False for prediction.
            trains: whether training reads the samples.

        Raises:
            DataError: if shapes, dtypes or numbers of samples do not match the model, or targets
                are missing.
            OptionError: if targets are given with a DataSet.
        """
        data = x
        if not isinstance(data, dataset.DataSet):
            try:
                if self.detection is not None:
                    data = self.detection.open(x, y, self.samples, targets=targets, trains=trains)
                else:
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
            data = with_weights(data, sample_weight, self.samples)
        return data

    def open_batch(
        self,
        x: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        class_weight: ClassWeight | None = None,
    ) -> dataset.DataSet:
        """Checks the samples of one step against the model.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of samples or positions; None for 1.
            class_weight: weights of classes; None for 1.

        Raises:
            DataError: if shapes or dtypes do not match the model, or there are more samples than
                the batch size.
            OptionError: if the trainer has a cache of frozen layers or a teacher, or weights of
                classes are to be balanced.
        """
        weights = class_weight if weighs_classes(class_weight) else None
        if weights == BALANCED:
            raise OptionError(
                "class_weight",
                "must be weights by class for batches",
                f"{BALANCED}, which needs all samples",
            )
        if self._cache_policy:
            from odt.core.training.frozen_cache import needs_samples

            raise needs_samples()
        data = self.open(x, y, sample_weight)
        most = self.recipe.info.batch_size
        if self.teacher is not None:
            raise OptionError("teacher", "must come with `fit` on arrays or files", "a batch")
        if data.length > most:
            raise DataError(
                f"x: a batch must have at most {most} samples, but got {data.length}. Give the "
                "trainer a larger `batch_size=`."
            )
        if weights is not None:
            data, _ = class_weighted(data, self.samples.losses, weights)
        return data

    # ---- memory

    def build(
        self,
        samples: int = 0,
        *,
        scales: Scales = Scales.BATCH,
        prepared: int = 0,
        shuffled: bool = True,
    ) -> engine.Trainer:
        """Plans and allocates the memory of training; later calls return the same engine.

        Args:
            samples: number of samples, for `cache_frozen`, a teacher and metrics such as AUC.
            scales: what has weights.
            prepared: bytes of the batches that `augment` prepares.
            shuffled: whether the samples are shuffled.

        Raises:
            UnsupportedError: if the model cannot be trained.
            OptionError: if the model cannot be trained with these options.
            ModelError: if the checkpoint is nominal and parameters have no values yet.
        """
        trainer = self.allocate(samples, scales=scales, prepared=prepared, shuffled=shuffled)
        if self.missing:
            raise ModelError(
                f"{self.resume.path}: must hold values to resume from, but is nominal: it holds "
                "only names and shapes. Set them: `Trainer.state.copy_buffer_to_parameters`."
            )
        return trainer

    def allocate(
        self,
        samples: int = 0,
        *,
        scales: Scales = Scales.BATCH,
        prepared: int = 0,
        shuffled: bool = True,
    ) -> engine.Trainer:
        """Does what `build` does, even while parameters of a nominal checkpoint are missing.

        Args:
            samples: as for `build`.
            scales: as for `build`.
            prepared: as for `build`.
            shuffled: as for `build`.
        """
        if self._engine is None:
            batch = self.recipe.info.batch_size
            _, output = self.samples.losses[0]
            taught = outputs_nbytes(self.teacher, self.samples, samples) if self.teacher else 0
            micro_batch, workers = self.resume.schedule(batch, self.micro_batch, self.workers)
            graphs = self.resume.on(self.recipe.graphs)
            self.graph = graphs.graph
            graphs = self.with_frozen_integers(graphs)
            process = exported = 0
            if self.memory_budget is not None:
                if shuffled or self.rate_is_default:
                    import_module("numpy.random")  # 3 MB beside the modules below
                for name in COUNTED:
                    import_module(name)
                process = process_nbytes(self.recipe.model)
                exported = 0 if other_target() else self.recipe.export_nbytes
            self._engine = core = engine.Trainer(
                graphs,
                self.recipe.info,
                micro_batch=micro_batch,
                workers=workers,
                budget=self.memory_budget,
                metrics=self.metrics,
                outputs=self.outputs,
                cache=self._cache_policy and replace(self._cache_policy, samples=samples),
                keep_best=self.options.keep_best,
                monitor=monitored_name(self.options.monitor, self._names),
                scales=scales,
                reserves={
                    "prepared batches": prepared,
                    "a teacher's outputs": taught,
                    "outputs kept for metrics": metrics_nbytes(self.metrics, samples, output),
                    EXPORTED: exported,
                },
                process=process,
            )
            self.recipe.model.release_pages()  # the weights that train are copied
            if self.resume.path:
                self.missing = self.resume.missing
                self.resume.restore(self.graph, core.parameters, core.best, names_only=True)
            if core.plateau:
                core.plateau.state = self.resume.progress.plateau
        self._engine.weigh(scales)
        return self._engine

    def prepared_nbytes(self, augment: Any, scales: Scales) -> int:
        """Returns the bytes of the batches that an augmentation prepares.

        Args:
            augment: argument of `fit`.
            scales: what has weights.
        """
        if not augment:
            return 0
        from odt.training.pipelines import batches_nbytes, weight_specs

        weights = weight_specs(self.samples, scales)
        specs = (*self.samples.input_specs, *self.samples.target_specs, *weights)
        if self.teacher is not None:
            _, output = self.samples.losses[0]
            specs = (*specs, output, *weights[:1])
        return batches_nbytes(specs, self.recipe.info.batch_size, augment)

    # ---- weights that do not train

    def with_frozen_integers(self, graphs: LoweredGraphs) -> LoweredGraphs:
        """Returns graphs whose frozen part computes integers, if the options or the model ask so.

        Args:
            graphs: graphs of the model, perhaps with other frozen weights.

        Raises:
            OptionError: if `frozen_int8` is given, but nothing is frozen or the frozen weights are
                not those of the model file.
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

    def replace_frozen(self, values: Mapping[int, Any]) -> None:
        """Replaces weights that do not train; plans again if one differs.

        Args:
            values: tensor index → values.

        Raises:
            OptionError: during `fit`, with accumulated gradients or a cache of frozen layers.
        """
        trainer = self.allocate()
        tensors = list(self.graph.tensors)
        changed = {
            i: new
            for i, new in values.items()
            if not np.array_equal(new, np.asarray(tensors[i].real))
        }
        if not changed:
            return
        self.check_replaceable()
        for i, new in changed.items():
            data = np.array(new, tensors[i].spec.dtype)
            data.flags.writeable = False  # a change in place would miss what is derived from it
            tensors[i] = tensors[i].with_values(data)
        graphs = LoweredGraphs(replace(self.graph, tensors=tuple(tensors)))
        trainer.use(self.with_frozen_integers(graphs))
        self.graph = graphs.graph

    def check_replaceable(self) -> None:
        """Checks that weights that do not train can be replaced now.

        Raises:
            OptionError: during `fit`, with accumulated gradients or a cache of frozen layers.
        """
        rule = "must have its frozen weights changed"
        if self.fitting:
            raise OptionError("checkpoint", f"{rule} before or after `fit`", "a change during it")
        if self.allocate().caches:
            raise OptionError("cache_frozen", f"{rule} without a cache of their outputs", "one")
        self.allocate().check_no_gradients("checkpoint")

    # ---- facts

    def exported(self) -> dict[int, Any]:
        """Returns all that training changed, by tensor of the file.

        These are weights, into which adapters are merged, ranges of activations, and running
        statistics of batch normalization.
        """
        trainer = self.build()
        adapted = self.recipe.lowered.adapted
        changed = changed_constants(self.recipe.graph, self.graph)
        weights = {**changed, **trainer.weights()}
        if adapted is not None:
            weights = adapted.merged(weights)
        running = {i: a.copy() for i, a in trainer.parameters.statistics.arrays.items()}
        return {**weights, **trainer.parameters.ranges.current(), **running}

    @property
    def has_frozen_int8(self) -> bool:
        """Whether the frozen layers compute int8 with ranges from inputs of the user."""
        return self._frozen_int8 is not None

    @property
    def rate_is_default(self) -> bool:
        """Whether neither the user nor the model nor a schedule gives the learning rate."""
        origin = self.recipe.origins["learning_rate"]
        if self.resume.path:
            is_default = origin == "checkpoint" and bool(self.resume.progress.undo)
        else:
            is_default = origin == "default"
        return is_default and not self.rate_is_set and not self.recipe.info.schedule

    @property
    def may_lower_rate(self) -> bool:
        """Whether `fit` may choose a lower rate than the default before its first epoch."""
        undoes = self.build().undo is not None
        return undoes and not self.rate_is_chosen and self.resume.checkpoint is None

    def device_options(self) -> dict[str, Any]:
        """Returns the options that neither checkpoints nor circle+ files hold, by argument."""
        info = self.recipe.info
        cache = self._cache_policy
        return {
            "memory_budget": self.memory_budget,
            "micro_batch": self.micro_batch,
            "workers": self.workers,
            "metrics": tuple(self._names.values()),
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
        metrics = {self._names.get(n, n): value for n, value in result.metrics.items()}
        return {f"{prefix}{n}": v for n, v in {"loss": result.loss, **metrics}.items()}

    def epoch_logs(self, epoch: Epoch) -> Logs:
        """Returns loss and metrics of an epoch by name; validation values begin with `val_`."""
        logs = self.logs(epoch.training)
        if epoch.validation:
            logs |= self.logs(epoch.validation, "val_")
        return logs

    @property
    def monitor(self) -> str:
        """Name of the monitored value in the logs."""
        name = monitored_name(self.options.monitor, self._names)
        bare = name.removeprefix("val_")
        return name.removesuffix(bare) + self._names.get(bare, bare)

    def close(self) -> None:
        """Ends the worker threads; weights stay readable."""
        if self._engine is not None:
            self._engine.close()


def process_nbytes(model: File | None = None) -> int:
    """Returns the bytes of the process that will train, before it does; 0 for a C program.

    Args:
        model: the model, if it has been read. Pages of its file, of which a forecast counts those
            that training reads, are released.
    """
    if model is not None:
        model.release_pages()
    return 0 if other_target() else resident_nbytes()

"""Opens the session of a model from the arguments of `odt.Trainer`."""

from typing import Any

from odt.collector import paused_collector
from odt.core.checkpoints.start import Start
from odt.core.options.schedule_options import DIVISION_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS, SessionOptions
from odt.core.recipe.option_values import check_option, check_options
from odt.core.recipe.sequences import need_sequences
from odt.models.model import Model, file_of
from odt.training.option_forms import metric_names
from odt.training.recipes import recipe_of, request_of
from odt.training.session import Session
from odt.training.teacher import teacher_of


@paused_collector()
def open_session(
    model: Model,
    *,
    single_runs: bool = False,
    teacher: Any = None,
    micro_batch: int | None = None,
    workers: int | None = None,
    frozen_int8: Any = None,
    **options: Any,
) -> Session:
    """Opens the session of a model; plans nothing yet.

    Args:
        model: the model.
        single_runs: whether a sample may be a single run of a model that keeps state.
        teacher: as in `Trainer`, like all that follow.
        micro_batch: as in `Trainer`.
        workers: as in `Trainer`.
        frozen_int8: as in `Trainer`.
        options: the other arguments of `Trainer`.

    Raises:
        ModelError: if the checkpoint cannot be read.
        UnsupportedError: if odt cannot compute an operator.
        OptionError: if arguments contradict each other or the model.
    """
    check_option(DIVISION_OPTIONS["micro_batch"], micro_batch)
    check_option(DIVISION_OPTIONS["workers"], workers)
    if not single_runs:
        need_sequences(file_of(model))
    values = {name: options.pop(name) for name in SESSION_OPTIONS if name in options}
    session_options = SessionOptions(**values)
    check_options(session_options)
    resume = Start()
    if session_options.checkpoint is not None:
        from odt.training.checkpoint_state import resume_from

        resume = resume_from(session_options.checkpoint)
    teacher = teacher_of(teacher)
    detection = None
    if session_options.task is not None:
        from odt.training.detection import Detection

        detection = Detection(model, metric_names(session_options.metrics))
        if resume.checkpoint is None:
            options |= detection.defaults(options)
        else:  # which has all of them but losses by output
            options |= detection.default_losses(options)
    request = request_of(model, teacher=teacher, **options)
    return Session(
        model,
        *recipe_of(model, request, resume.training_info),
        resume,
        session_options,
        teacher=teacher,
        micro_batch=micro_batch,
        workers=workers,
        frozen_int8=frozen_int8,
        detection=detection,
    )

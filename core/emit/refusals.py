"""What a C program cannot do: refused in one message, with what to do instead."""

from collections.abc import Iterable, Iterator, Sequence

from odt.core.options.training_options import STEP_OPTIONS
from odt.core.planning.plan import Call, Phase
from odt.core.runtime.program import Program
from odt.core.training.trainer import Trainer
from odt.errors import UnsupportedError
from odt.kernels.native.binding import Calls, Run, without_checks
from odt.kernels.registry import INTEGER
from odt.kernels.rows.schedules import IN_C

LOSS = "loss "  # begins the labels of the calls of losses
REMEDIES = {"accumulate": "Leave `accumulate=` out; `micro_batch=` divides a large batch, too."}


def check_step(trainer: Trainer, programs: Sequence[Program], path: str) -> None:
    """Raises UnsupportedError if a step has parts that are no compiled calls.

    Args:
        trainer: the trainer.
        programs: the programs of its computations.
        path: path of the model, for messages.
    """
    reasons = [*_options(trainer)] or [*_calls(programs)]  # which options may ask for
    if reasons:
        parts = "; ".join(part for part, _ in reasons)
        remedies = " ".join(dict.fromkeys(remedy for _, remedy in reasons))
        raise UnsupportedError(
            f"{path}: its training step cannot be a C program, because it has {parts}. {remedies}"
        )
    are_compiled = all(_is_compiled(runs) for program in programs for runs in program.runs)
    assert are_compiled, "each call that is not compiled has a reason"


def _options(trainer: Trainer) -> Iterator[tuple[str, str]]:
    """Yields what the trainer's options ask for, and what to do instead."""
    info = trainer.info
    parameters = trainer.parameters
    assert parameters.optimizer is not None, "a trainer has one"
    if info.schedule and type(info.schedule) not in IN_C:
        yield f"the schedule {info.schedule}", "Give `schedule=cosine`."
    for name, row in STEP_OPTIONS.items():
        if not row.compiled and getattr(info, name) != row.default:
            yield f"the option `{name}=`", REMEDIES.get(name, f"Leave `{name}=` out.")
    if not _is_compiled(parameters.rounding):
        yield "weights of other types than float32", "Give a model with weights of float32."
    if parameters.has_sparse_integers:
        yield "sparse weights of integers", "Leave `qas=` out."
    if info.sparse:
        yield "filters that train in part", "Leave `sparse=` out."
    if parameters.optimizer.rule.compiled is None:
        yield f"the optimizer {info.optimizer}, which is not compiled", "Give `optimizer=adam`."


def _calls(programs: Sequence[Program]) -> Iterator[tuple[str, str]]:
    """Yields calls that are not compiled, and what to do."""
    calls = {
        entry.label: entry
        for program in programs
        for entry, runs in zip(program.plan.entries, program.runs, strict=True)
        if isinstance(entry, Call) and not _is_compiled(runs)
    }
    forward = {label for label, call in calls.items() if call.phase is Phase.FORWARD}
    for label, call in calls.items():
        if label.startswith(LOSS) and getattr(call.attrs, "label_smoothing", False):
            remedy = "Give the `loss=` without label smoothing."
        elif label.startswith(LOSS):
            remedy = "Give another `loss=`."
        elif INTEGER in label:  # its row has kernels of C for 8 bits alone
            remedy = "Give a model whose activations are float32 or int8."
        elif call.phase is Phase.FORWARD:
            remedy = "Replace these operators in the model."
        else:
            remedy = "Train only what follows these operators: give `trainable=`."
        # The label of a gradient begins with that of its operator, which may be refused already.
        if call.phase is Phase.FORWARD or label.rpartition(" ")[0] not in forward:
            yield f"{label}, which is not compiled", remedy


def _is_compiled(runs: Iterable[Run]) -> bool:
    """Whether calls are loops in C, apart from checks."""
    return all(isinstance(loop, Calls) for run in runs for loop in without_checks(run))

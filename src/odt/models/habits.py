"""Names that users of other frameworks try, and what odt has instead."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from odt.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])

# Arguments of Keras and PyTorch → what to write.
ARGUMENTS = {
    "verbose": "Give it to `fit`, `evaluate` or `predict`.",
    "lr": "Give `learning_rate=` to odt.Trainer.",
    "steps_per_epoch": "`max_steps=` of Trainer.fit ends training, `data_length=` uses the first "
    "samples.",
    "steps": "All samples are used: give fewer of them.",
    "validation_steps": "All validation samples are used: give fewer of them.",
    "validation_freq": "Validation follows each epoch.",
    "validation_batch_size": "Give `batch_size=` to odt.Trainer.",
    "initial_epoch": "Resume with `checkpoint=` of odt.Trainer, which knows the epoch.",
    "return_dict": "The results are a mapping.",
    "max_queue_size": "Leave it out.",
    "use_multiprocessing": "Leave it out; `workers=` of odt.Trainer sets the threads.",
    "run_eagerly": "Leave it out.",
    "jit_compile": "Leave it out.",
    "weighted_metrics": "Give `metrics=`, which are not weighted.",
    "device": "odt computes on the processor.",
}
TRAINER = {
    "compile": "odt.Trainer takes loss, optimizer and metrics when it is made.",
    "get_weights": "`weights` has them by name.",
    "set_weights": "`weights[name] = values` sets them.",
    "optimizer": "`learning_rate` reads and sets the rate; `state` has the optimizer's state.",
    "lr": "`learning_rate` reads and sets the rate.",
    "summary": "`model.summary()` has the operators.",
    "layers": "`model.nodes` are the operators, `weights` the weights by name.",
    "save": "`export` writes the model, `save_checkpoint` the state of training.",
    "save_weights": "`save_checkpoint` saves weights and optimizer.",
    "load_weights": "`load_checkpoint` restores weights and optimizer.",
    "history": "`fit` returns it.",
    "state_dict": "`state` has weights and optimizer; `save_checkpoint` saves them.",
    "fit_generator": "`fit` takes iterables of batches.",
}
MODEL = {
    **dict.fromkeys(
        ("fit", "compile", "evaluate", "predict", "train_on_batch"),
        "odt.Trainer(model) trains, evaluates and predicts.",
    ),
    "weights": "`parameters` has them by name.",
    "get_weights": "`parameters` has them by name; a Trainer's `weights` can be set.",
    "layers": "`nodes` are the operators.",
    "trainable": "`trainable=` of odt.Trainer selects what trains.",
}


def known_arguments(*others: Callable[[], Callable[..., Any]]) -> Callable[[F], F]:
    """Makes a function say what to write instead of an argument that it does not have.

    Args:
        others: return other functions that may have the argument, such as the constructor.
    """

    def decorate(function: F) -> F:
        names = frozenset(_arguments(function))

        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            if not options.keys() <= names:
                check_arguments(options, function, *(other() for other in others))
            return function(*args, **options)

        return checked  # type: ignore[return-value]  # the same signature

    return decorate


def check_arguments(
    options: Mapping[str, Any], function: Callable[..., Any], *others: Callable[..., Any]
) -> None:
    """Raises OptionError with what to write instead of an argument that a function does not have.

    Args:
        options: arguments by name.
        function: the function.
        others: other functions that may have the argument.
    """
    if unknown := sorted(options.keys() - set(_arguments(function))):
        raise _unknown(unknown[0], function, [*others])


def _arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of a function's arguments, without self."""
    if hasattr(function, "__signature__"):
        return tuple(name for name in function.__signature__.parameters if name != "self")
    code = getattr(function, "__wrapped__", function).__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return tuple(name for name in names if name != "self")


def _unknown(
    name: str, function: Callable[..., Any], others: list[Callable[..., Any]]
) -> OptionError:
    import difflib

    where = _shown(function)
    rule = f"is no argument of {where}"
    remedy = ARGUMENTS.get(name, "")
    for other in others:
        if not remedy and name in _arguments(other):
            remedy = f"Give it to {_shown(other)}."
    if not remedy:
        names = _arguments(function)
        close = difflib.get_close_matches(name, names, 1)
        remedy = f"Did you mean {close[0]}?" if close else f"It has {', '.join(names)}."
    return OptionError(name, rule, remedy=remedy)


def _shown(function: Callable[..., Any]) -> str:
    name = function.__name__
    return "odt.Trainer" if name == "__init__" else f"Trainer.{name}"


def missing_attribute(what: str, name: str, habits: Mapping[str, str]) -> AttributeError:
    """Returns the error of an attribute that an object does not have."""
    hint = habits.get(name, "")
    return AttributeError(f"odt.{what} has no attribute {name!r}. {hint}".rstrip())

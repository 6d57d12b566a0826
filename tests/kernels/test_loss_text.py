"""A loss with hyper-parameters as one text: parsed, written, refused."""

import pytest

from odt.errors import OptionError
from odt.kernels.loss_text import canonical_loss, format_loss, parse_loss


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("huber", "huber", {}),
        ("Huber: delta = 5e-1", "huber", {"delta": 0.5}),
        ("mean-absolute-error", "mean_absolute_error", {}),
        ("mae", "mean_absolute_error", {}),
        (
            "binary-focal-crossentropy:apply-class-balancing=true,gamma=0",
            "binary_focal_crossentropy",
            {"apply_class_balancing": True, "gamma": 0.0},
        ),
    ],
)
def test_a_text_is_name_and_hyper_parameters(
    text: str, name: str, values: dict[str, object]
) -> None:
    assert parse_loss(text) == (name, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hubr", r"^`loss=`: must be one of `categorical_crossentropy`, .* but got hubr$"),
        ("huber:detla=1", r"^`loss=`: `huber` has the options `delta`, but got detla$"),
        ("mse:delta=1", r"`mean_squared_error` has the options none, but got delta$"),
        ("huber:delta=1,DELTA=2", r"^`loss=`: must have `delta` only once, but got huber:"),
        ("huber:delta", r"`delta` of `huber` must be a number, 0 or more, but got nothing$"),
        ("huber:delta=-1", r"0 or more, but got -1$"),
        ("huber:delta=nan", r"0 or more, but got nan$"),
        ("huber:delta=inf", r"0 or more, but got inf$"),
        (
            "cce:label-smoothing=2",
            r"`label_smoothing` of `categorical_crossentropy` must be .* and at most 1",
        ),
        (
            "binary_focal_crossentropy:apply_class_balancing=1",
            r"must be true or false, but got 1$",
        ),
        ("huber:delta=0", r"`delta` of `huber` must be above 0, but got 0$"),
    ],
)
def test_invalid_losses_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_loss(text)


def test_the_canonical_text_leaves_defaults_out() -> None:
    assert canonical_loss("Huber:delta=1.0") == "huber"
    assert canonical_loss("huber:Delta=0.5") == "huber:delta=0.5"


@pytest.mark.parametrize("delta", [0.1, 1e-30, 2 / 3])
def test_a_text_keeps_every_bit_of_a_value(delta: float) -> None:
    assert parse_loss(format_loss("huber", {"delta": delta})) == ("huber", {"delta": delta})

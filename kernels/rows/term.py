"""Term, an expression in C in place of a number: with terms, a formula returns its own C code."""

from math import cos, sqrt
from typing import TypeVar, overload

from odt.dataclass import dataclass

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Term:
    """An expression in C of type double.

    Attributes:
        text: the expression, in parentheses unless it is a name or a call.
    """

    text: str

    def __add__(self, other: "Term | float") -> "Term":
        return Term(f"({self.text} + {c_text(other)})")

    def __radd__(self, other: float) -> "Term":
        return Term(f"({c_text(other)} + {self.text})")

    def __sub__(self, other: "Term | float") -> "Term":
        return Term(f"({self.text} - {c_text(other)})")

    def __rsub__(self, other: float) -> "Term":
        return Term(f"({c_text(other)} - {self.text})")

    def __mul__(self, other: "Term | float") -> "Term":
        return Term(f"({self.text} * {c_text(other)})")

    def __rmul__(self, other: float) -> "Term":
        return Term(f"({c_text(other)} * {self.text})")

    def __truediv__(self, other: "Term | float") -> "Term":
        return Term(f"({self.text} / {c_text(other)})")

    def __rtruediv__(self, other: float) -> "Term":
        return Term(f"({c_text(other)} / {self.text})")

    def __floordiv__(self, other: float) -> "Term":
        return Term(f"floor({self.text} / {c_text(other)})")

    def __lt__(self, other: float) -> "Term":
        return Term(f"({self.text} < {c_text(other)})")

    def __le__(self, other: float) -> "Term":
        return Term(f"({self.text} <= {c_text(other)})")

    def __pow__(self, exponent: float) -> "Term":
        return Term(f"pow({self.text}, {c_text(exponent)})")

    def __rpow__(self, base: float) -> "Term":
        return Term(f"pow({c_text(base)}, {self.text})")


def c_text(value: Term | float) -> str:
    """Returns a term or a number as C, with all bits of a double."""
    return value.text if isinstance(value, Term) else repr(float(value))


@overload
def root(value: float) -> float: ...
@overload
def root(value: Term) -> Term: ...
def root(value: Term | float) -> Term | float:
    """Returns the square root."""
    return Term(f"sqrt({value.text})") if isinstance(value, Term) else sqrt(value)


@overload
def cosine(value: float) -> float: ...
@overload
def cosine(value: Term) -> Term: ...
def cosine(value: Term | float) -> Term | float:
    """Returns the cosine of an angle in radians."""
    return Term(f"cos({value.text})") if isinstance(value, Term) else cos(value)


@overload
def chosen(condition: bool, a: Number, b: Number) -> Number: ...
@overload
def chosen(condition: Term, a: Term | float, b: Term | float) -> Term: ...
def chosen(condition: Term | bool, a: Term | float, b: Term | float) -> Term | float:
    """Returns a if a condition holds, else b."""
    if isinstance(condition, Term):
        return Term(f"({condition.text} ? {c_text(a)} : {c_text(b)})")
    return a if condition else b

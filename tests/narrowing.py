"""What a test knows of a value and its type does not say: the test fails where it is mistaken."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """A value that is not None here."""
    assert value is not None
    return value


def expect(kind: type[T], value: object) -> T:
    """A value of this class."""
    assert isinstance(value, kind), value
    return value

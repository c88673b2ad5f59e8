"""Checks the names that callers pass: a database can hold them, and a person can read them."""

from stepwell.errors import InvalidInput


def checked(name: str, value: str | None) -> str | None:
    """`value` unchanged, if it can be stored.

    Raises:
        InvalidInput: it has a lone surrogate, which no encoding can write.
    """
    if value is not None:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                f"{name} is not text: {value!r} has half of a character.",
                "Decode it with the encoding that it was written in.",
            ) from None
    return value

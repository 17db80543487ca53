"""The ways in which calls name a context."""

from __future__ import annotations

from typing import Annotated

from attndb._checked import Expected, is_integer, is_text
from attndb._errors import InvalidArgumentError

Context = Annotated[
    str | int,
    Expected(
        "a name, '#id' or an id", lambda value: is_text(value) or is_integer(value)
    ),
]


def context_text(context: Context | None) -> str:
    """Returns the text that the native half takes: a name or "#id"; empty for None."""
    if context is None:
        return ""
    if not isinstance(context, str):
        return f"#{context}"
    if not context:
        raise InvalidArgumentError("context: expected a name, '#id' or an id, found ''")
    return context

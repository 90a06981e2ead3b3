"""A dataclass from JSON's values: every key known, every value of its type, or the place is told."""

import dataclasses
import difflib
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ordered_memory.config.checks import require
from ordered_memory.errors import InputError

Config = TypeVar("Config")


def from_dict(kind: type[Config], values: Any, where: str, parts: dict[str, Any] | None = None) -> Config:
    """A dataclass from JSON's values, each key and type checked. `parts` gives the type of fields typed Any."""
    require(isinstance(values, dict), f"{where}: not a JSON object")
    hints = get_type_hints(kind) | (parts or {})
    names = [item.name for item in dataclasses.fields(kind) if item.init]  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1)
            known = f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(names)}"
            raise InputError(f"{where}: unknown key {key!r}: {known}")
    made = {key: _value(hints[key], value, f"{where}: {key}") for key, value in values.items()}
    try:
        return kind(**made)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    """The value, if it is of the type that the field names."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, value, where)
    options = get_args(hint)
    if get_origin(hint) is Literal:
        require(value in options, f"{where} is {value!r}, and must be one of {', '.join(map(repr, options))}")
        return value
    if get_origin(hint) in (Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        return _value(next(option for option in options if option is not type(None)), value, where)
    if (kind := get_origin(hint)) in (tuple, list):
        require(isinstance(value, list | tuple), f"{where} is {value!r}, and must be a list")
        return kind(_value(options[0], item, where) for item in value)
    fits = isinstance(value, int | float if hint is float else hint) and isinstance(value, bool) == (hint is bool)
    require(fits, f"{where} is {value!r}, and must be of type {hint.__name__}")
    return value

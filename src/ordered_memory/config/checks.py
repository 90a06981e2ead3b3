"""What a setting must be, told in words where it is not."""

import math
import re

from ordered_memory.errors import InputError


def require(holds: bool, message: str) -> None:
    """Refuse a value in words."""
    if not holds:
        raise InputError(message)


def require_rate(name: str, value: float) -> None:
    require(0 <= value < 1, f"{name} is {value}, and must be at least 0 and less than 1")


def require_positive(name: str, value: float) -> None:
    require(0 < value < math.inf, f"{name} is {value}, and must be greater than 0, and finite")


def require_not_negative(name: str, value: float) -> None:
    require(0 <= value < math.inf, f"{name} is {value}, and must be at least 0, and finite")


def require_divides(name: str, value: int, size: int) -> None:
    require(size % value == 0, f"{name} is {value}, and must divide the hidden size, {size}")


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def parse_duration(text: str) -> float:
    """Seconds of 90s, 5m, 1h30m or 45 (seconds)."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    require(0 < total < math.inf, f"budget is {text!r}, and must be a time such as 90s, 5m or 1h30m")
    return total

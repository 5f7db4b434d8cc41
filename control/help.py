"""What `--help` says of a command's settings: their names and defaults, as they are declared."""

from __future__ import annotations

from pydantic import SecretStr

from schemas.programs import PROGRAMS
from schemas.settings import variables

_KNOWN = variables(*(group for groups in PROGRAMS.values() for group in groups))


def settings(*names: str) -> str:
    """Name environment variables with their defaults; raises `KeyError` for one that no program reads."""
    return f"Settings: {', '.join(map(_with_default, names))}."


def _with_default(name: str) -> str:
    group, field = _KNOWN[name]
    value = group.model_fields[field].get_default(call_default_factory=True)
    shown = value.get_secret_value() if isinstance(value, SecretStr) else value
    return f"{name} ({'none' if shown in (None, {}) else shown})"

"""YAML documents that people write: read once, every problem said at once, with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from schemas.settings import SettingsError

T = TypeVar("T", bound=BaseModel)
# What YAML's errors quote of the text: a name that stands there by mistake may be a secret.
_QUOTED = re.compile(r"'[^'<>]{2,}'")


def read_document(path: Path, model: type[T], load: Callable[[str], Any]) -> T:
    """Read a file into a model; `load` turns text into plain values (a safe YAML loader).

    Raises `SettingsError` that names the file and, for each problem, the path inside it.
    """
    return validate_document(str(path), _load(path, load), model)


def validate_document(where: str, content: Any, model: type[T]) -> T:
    """Check plain values against a model; raises `SettingsError` with all problems."""
    if not isinstance(content, dict):
        raise SettingsError(where, ["must be a mapping of names to values"])
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise SettingsError(where, [_say(e) for e in error.errors(include_input=False)]) from None


def _load(path: Path, load: Callable[[str], Any]) -> Any:
    try:
        return load(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(str(path), ["no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), [f"cannot be read: {error}"]) from None
    except Exception as error:
        # The loader is the caller's, so its error class is not known here; YAML's carry their place.
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = _QUOTED.sub("'...'", getattr(error, "problem", None) or "is not YAML")
        raise SettingsError(str(path), [f"{place}{problem}"]) from None


def _say(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"]) or "whole file"
    if error["type"] == "extra_forbidden":
        return f"{path}: unknown name"
    if error["type"] == "missing":
        return f"{path}: is missing"
    return f"{path}: {str(error['msg']).removeprefix('Value error, ')}"

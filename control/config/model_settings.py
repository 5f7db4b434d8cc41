"""What a models file says, one setting a line, and whether the keys that it names are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from control.config import hiding
from control.config.document import Origin, Setting
from schemas.catalog import Catalog
from schemas.settings import FILE, SettingsError, secret

_KEY = "api_key_env"


def rows(known: Catalog, environ: Mapping[str, str], *, check_keys: bool) -> Iterator[Setting]:
    """Walk through the file; with `check_keys` a key that cannot be used is a problem."""
    for alias, model in known.models.items():
        for setting in _walk(f"models.{alias}", model, str(known.path)):
            is_key = setting.name.endswith(f".{_KEY}") and setting.value
            yield _with_key(setting, environ, check_keys=check_keys) if is_key else setting


def _walk(place: str, part: Any, file: str, *, given: bool = True) -> Iterator[Setting]:
    if isinstance(part, BaseModel):
        for name in type(part).model_fields:
            own = given and name in part.model_fields_set
            yield from _walk(f"{place}.{name}", getattr(part, name), file, given=own)
    elif isinstance(part, list):
        for number, one in enumerate(part):
            yield from _walk(f"{place}.{number}", one, file, given=given)
    else:
        origin = Origin.MODELS_FILE if given else Origin.DEFAULT
        value = None if part is None else hiding.plain(str(part))
        yield Setting(name=place, value=value, origin=origin, file=file if given else None, is_set=given)


def _with_key(setting: Setting, environ: Mapping[str, str], *, check_keys: bool) -> Setting:
    """Say whether the variable is set, as a worker reads it: its file wins."""
    name = setting.value or ""
    path = environ.get(name + FILE, "")
    is_set = bool(path or environ.get(name, "").strip())
    # What is neither set nor written as variables are may be the key itself.
    shown = name if is_set or name.isupper() else hiding.HIDDEN
    note = f"set by {name}{FILE} {hiding.path(path)}" if path else ("set" if is_set else "not set: no key is sent")
    problem = _problem(name, {name + FILE: path} if path else environ) if is_set and check_keys else None
    return setting.model_copy(update={"value": shown, "is_set": is_set, "note": note, "problem": problem})


def _problem(name: str, environ: Mapping[str, str]) -> str | None:
    try:
        secret(name, environ)
    except SettingsError as error:
        return hiding.without("; ".join(error.problems), environ.values())
    return None

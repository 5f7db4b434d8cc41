"""Reads every setting of the programs asked for, each with its origin and what speaks against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from control.config import hiding, model_settings
from control.config.document import ConfigDocument, Origin, Setting
from schemas import catalog
from schemas.endpoints import EndpointSettings, ModelsSettings
from schemas.settings import FILE, Settings, SettingsError, is_secret, secret, variables

Programs = Mapping[str, tuple[type[Settings], ...]]
_FOR_ONE = ("LLM_BASE_URL", "LLM_API_KEY", "LLM_API_KEY_FILE")
_MODEL, _MODELS_FILE = "LLM_MODEL", "MODELS_FILE"


@dataclass(slots=True)
class Found:
    """Settings by name, problems of theirs, and problems of none."""

    settings: dict[str, Setting] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def change(self, name: str, **values: Any) -> None:
        """Say something more of a setting."""
        self.settings[name] = self.settings[name].model_copy(update=values)

    def blame(self, problem: str) -> None:
        """Put a problem, which begins with the variable's name, beside its setting."""
        name, _, said = problem.partition(" ")
        for known in (name, name.removesuffix(FILE)):
            if known in self.settings:
                before = self.settings[known].problem
                self.change(known, problem=f"{before}; {said}" if before else said)
                return
        self.problems.append(problem)


def collect(programs: Programs, environ: Mapping[str, str], load: Callable[[str], Any]) -> ConfigDocument:
    """Read the environment, the files of secrets and the models file; `load` turns YAML into plain values."""
    found = Found()
    groups = tuple(dict.fromkeys(group for groups in programs.values() for group in groups))
    for name, (group, own) in variables(*groups).items():
        readers = [program for program, its in programs.items() if name in variables(*its)]
        found.settings[name] = _setting(name, group, own, environ).model_copy(update={"programs": readers})
    for problem in dict.fromkeys(problem for group in groups for problem in _problems(group, environ)):
        found.blame(problem)
    if _MODELS_FILE in found.settings and environ.get(_MODELS_FILE):
        _add_models(found, groups, environ, load)
    return ConfigDocument(settings=list(found.settings.values()), problems=found.problems)


def _setting(name: str, group: type[Settings], own: str, environ: Mapping[str, str]) -> Setting:
    hidden = is_secret(group, own)
    text, path = environ.get(name, ""), environ.get(name + FILE, "") if hidden else ""
    if path:
        return Setting(
            name=name,
            value=_of_file(name, path),
            origin=Origin.FILE,
            file=hiding.path(path),
            is_secret=True,
            is_set=True,
        )
    if not text:
        return Setting(name=name, value=_default(group, own), is_secret=hidden)
    shown = hiding.secret(text.strip()) if hidden else _shown(name, group, own, text)
    return Setting(name=name, value=shown, origin=Origin.ENVIRONMENT, is_secret=hidden, is_set=True)


def _of_file(name: str, path: str) -> str | None:
    try:
        return hiding.secret(secret(name, {name + FILE: path}).get_secret_value())
    except SettingsError:
        return None


def _shown(name: str, group: type[Settings], own: str, text: str) -> str:
    if name.endswith(FILE):
        return hiding.path(text)
    is_properties = getattr(group.model_fields[own].annotation, "__origin__", None) is dict
    return hiding.properties(text) if is_properties else hiding.plain(text)


def _default(group: type[Settings], own: str) -> str | None:
    value = group.model_fields[own].get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        return hiding.secret(value.get_secret_value())
    return None if value is None or value == {} else str(value)


def _problems(group: type[Settings], environ: Mapping[str, str]) -> list[str]:
    try:
        group.read(environ)
    except SettingsError as error:
        # A path that looks like none may be the secret itself.
        paths = [environ.get(name + FILE, "") for name, (_, own) in variables(group).items() if is_secret(group, own)]
        return [hiding.without(problem, paths) for problem in error.problems]
    return []


def _add_models(
    found: Found, groups: tuple[type[Settings], ...], environ: Mapping[str, str], load: Callable[[str], Any]
) -> None:
    """Show what the models file says, and what it settles besides."""
    asks = any(issubclass(group, EndpointSettings) for group in groups)
    try:
        known = catalog.read(ModelsSettings.read(environ), load)
    except SettingsError as error:
        for problem in error.problems:
            _blame_file(found, problem)
        return
    assert known is not None
    if not environ.get(_MODEL):
        value, path = hiding.plain(known.default), str(known.path)
        found.change(_MODEL, value=value, origin=Origin.MODELS_FILE, file=path, note="the first of the models file")
    for name in _FOR_ONE:
        if name in found.settings and environ.get(name):
            found.change(name, note=f"not used: {_MODELS_FILE} wins")
    readers = found.settings[_MODELS_FILE].programs
    for setting in model_settings.rows(known, environ, check_keys=asks):
        found.settings[setting.name] = setting.model_copy(update={"programs": readers})


def _blame_file(found: Found, problem: str) -> None:
    place, _, said = problem.partition(": ")
    if place == "models" or place.startswith("models."):
        found.settings[place] = Setting(name=place, origin=Origin.MODELS_FILE, problem=said)
    elif place.startswith(f"{_MODEL} "):
        found.blame(problem)
    else:
        found.blame(f"{_MODELS_FILE} {problem}")

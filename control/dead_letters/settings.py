"""What the commands are told from outside: the environment and the options, every problem at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from control.dead_letters.filters import Asked, read_filters
from control.dead_letters.letters import Place
from control.dead_letters.options import ShowOptions
from schemas.message import id_problem
from schemas.settings import DatabaseSettings, GroupSettings, KafkaSettings, SettingsError, TopicSettings

T = TypeVar("T")


class LetterSettings:
    """All groups that the commands need, and the filters; raises `SettingsError` with every problem at once."""

    def __init__(self, environ: Mapping[str, str], asked: Asked, now: datetime, others: Sequence[str] = ()) -> None:
        problems: list[str] = []
        self.kafka = _read(lambda: KafkaSettings.read(environ), problems)
        self.topics = _read(lambda: TopicSettings.read(environ), problems)
        self.group = _read(lambda: GroupSettings.read(environ), problems)
        self.database = _read(lambda: DatabaseSettings.read(environ), problems)
        self.filters = _read(lambda: read_filters(asked, self.topics, now), problems)
        problems += [f"options: {problem}" for problem in others]
        if problems:
            raise LettersSettingsError(problems)


class LettersSettingsError(SettingsError):
    """Problems of settings and of options together; each line says which."""

    def __init__(self, problems: list[str]) -> None:
        Exception.__init__(self, "\n".join(problems))
        self.problems = problems


def show_problems(options: ShowOptions) -> list[str]:
    """Say what is wrong with what `show` was asked for: one message by its place, or one row by job and id."""
    if options.ref is not None:
        if options.job is not None or options.id is not None:
            return ["REF and --job with --id: give one of the two"]
        return [] if Place.parse(options.ref) else [f"REF {options.ref[:300]!r} is not topic/partition/offset"]
    if options.job is None or options.id is None:
        return ["name a letter: its REF (topic/partition/offset, as `list` shows it), or --job and --id"]
    problem = id_problem(options.id)
    return [f"--id {problem}"] if problem else []


def _read(read: Callable[[], T], problems: list[str]) -> T:
    try:
        return read()
    except SettingsError as error:
        problems += str(error).splitlines()
        return None  # type: ignore[return-value]

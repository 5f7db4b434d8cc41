"""`.env.example` names every setting, with its default, and every line of it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from schemas.programs import PROGRAMS
from schemas.settings import Settings, variables
from worker.settings import WorkerSettings

GROUPS = tuple(dict.fromkeys(group for groups in PROGRAMS.values() for group in groups))
EXAMPLE = Path(__file__).resolve().parents[2] / ".env.example"


def lines() -> dict[str, str]:
    kept = [line for line in EXAMPLE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in kept)


def test_every_setting_is_in_the_example_and_nothing_else() -> None:
    assert set(lines()) == set(variables(*GROUPS))


@pytest.mark.parametrize("name", sorted(set(variables(*GROUPS)) - {"LLM_BASE_URL"}))
def test_the_example_shows_the_default(name: str) -> None:
    group, field = variables(*GROUPS)[name]
    bare: dict[str, str] = {"LLM_BASE_URL": "http://localhost:8000/v1"}
    example = _plain(getattr(group.read({**bare, name: lines()[name]}), field))
    assert example == _plain(getattr(group.read(bare), field))


def test_the_example_is_a_complete_set_for_a_worker() -> None:
    assert WorkerSettings(lines()).default_model == "default"


def _plain(value: object) -> object:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def test_every_group_is_of_some_program_or_a_part_of_one_that_is() -> None:
    ours = {group for group in _below(Settings) if not group.__module__.startswith("tests")}
    assert ours <= {base for group in GROUPS for base in group.__mro__}


def _below(group: type[Settings]) -> set[type[Settings]]:
    return {found for sub in group.__subclasses__() for found in ({sub} | _below(sub))}


def test_a_worker_reads_the_groups_that_are_said_to_be_its() -> None:
    read = {type(value) for value in vars(WorkerSettings(lines())).values() if isinstance(value, Settings)}
    assert read == set(PROGRAMS["worker"])

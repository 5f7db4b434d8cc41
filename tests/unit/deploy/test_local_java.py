"""Which Java is new enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local import java
from deploy.local.errors import MissingError


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('openjdk version "21" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_feature_release_is_read_from_every_form_of_version(text: str, release: int | None) -> None:
    assert java.parse_version(text) == release


def test_the_first_java_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    old, broken, good, newer = (tmp_path / name for name in ("old", "broken", "good", "newer"))
    assert java.pick([(old, 11), (broken, None), (good, 17), (newer, 25)]) == good


def test_without_one_the_error_names_what_was_seen_and_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"old is Java 11.*set JAVA_HOME") as raised:
        java.pick([(tmp_path / "old", 11)])
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    program = tmp_path / "path" / "java"
    program.parent.mkdir()
    program.touch(mode=0o755)
    found = java.candidates({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(program.parent)})
    assert [next(found), next(found)] == [tmp_path / "home" / "bin" / "java", program]


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java.version_of(tmp_path / "nothing") is None

"""The jars of Kafka are exactly those of the lock, or nothing runs."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import pytest

from deploy.local import jars, resolvers
from deploy.local.jars import Jar
from deploy.local.resolvers import Coordinates

BODY = b"a jar"
DIGEST = hashlib.sha256(BODY).hexdigest()
JAR = Jar(PurePosixPath("org/example/thing/1.2/thing-1.2.jar"), DIGEST)


def test_a_lock_reads_back_as_it_was_written_sorted_by_path() -> None:
    other = Jar(PurePosixPath("a/b/1/b-1.jar"), "0" * 64)
    assert jars.parse_lock(jars.render_lock([JAR, other])) == (other, JAR)


@pytest.mark.parametrize("line", ["abc  a/b/1/b-1.jar", f"{'0' * 64}  b-1.jar", "0" * 64])
def test_a_line_that_is_not_one_of_a_lock_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a line of a lock file"):
        jars.parse_lock(line)


def test_coordinates_are_read_from_the_path() -> None:
    assert JAR.coordinates == Coordinates("org.example", "thing", "1.2")


def test_a_folder_with_exactly_the_locked_jars_has_no_differences(tmp_path: Path) -> None:
    tmp_path.joinpath("thing-1.2.jar").write_bytes(BODY)
    assert jars.differences(tmp_path, [JAR]) == []


def test_missing_foreign_and_altered_jars_are_each_named(tmp_path: Path) -> None:
    tmp_path.joinpath("thing-1.2.jar").write_bytes(b"altered")
    tmp_path.joinpath("foreign.jar").write_bytes(BODY)
    missing = Jar(PurePosixPath("a/b/1/b-1.jar"), "0" * 64)
    found = jars.differences(tmp_path, [JAR, missing])
    assert found[:2] == ["b-1.jar is missing", "foreign.jar is not in the lock"]
    assert found[2].startswith("thing-1.2.jar has SHA-256 ")
    assert found[2].endswith(f", not {DIGEST}")


def test_the_committed_lock_follows_the_pom() -> None:
    locked = {jar.coordinates for jar in jars.parse_lock(jars.LOCK.read_text())}
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    direct = ElementTree.parse(resolvers.POM).findall("m:dependencies/m:dependency", space)
    wanted = {
        Coordinates(*(each.findtext(f"m:{name}", "", space) for name in ("groupId", "artifactId", "version")))
        for each in direct
    }
    assert len(wanted) == 3
    assert wanted <= locked


def test_ivy_is_told_each_jar_and_to_resolve_nothing_itself() -> None:
    module = ElementTree.fromstring(resolvers.ivy_module([JAR.coordinates]))
    (dependency,) = module.findall("dependencies/dependency")
    assert (dependency.get("org"), dependency.get("name"), dependency.get("rev")) == JAR.coordinates
    assert dependency.get("transitive") == "false"


def test_the_cache_folder_can_be_set(tmp_path: Path) -> None:
    assert jars.cache_root({"HEADRACE_CACHE": str(tmp_path)}) == tmp_path
    assert jars.cache_root({}).parts[-2:] == (".headrace", "cache")

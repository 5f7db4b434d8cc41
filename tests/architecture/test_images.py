"""The rules of the images, read without a container engine: locked, small, without root, without what is private."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

import pyspark
import pytest

from deploy.local import jars
from schemas.spark_jars import DELTA
from tests.architecture.compose_file import ROOT, dockerfile, parse_dockerfile, services

OURS = ("worker", "spark", "kafka")
USERS = {"worker": "10001:10001", "spark": "10001:10001", "kafka": "1000:1000"}
FOLDER = ROOT / "deploy" / "docker"


def project() -> dict[str, Any]:
    """The project file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))


def ignored(path: str) -> bool:
    """Whether `.dockerignore` keeps a path out: of the lines that match it or a parent, the last decides."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf8").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        parts = PurePosixPath(path).parts
        heads = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        if any(fnmatch(head, pattern) or fnmatch(f"/{head}", pattern.removeprefix("**")) for head in heads):
            verdict = not line.startswith("!")
    return verdict


@pytest.mark.parametrize("name", OURS)
def test_an_image_runs_as_a_numbered_user(name: str) -> None:
    """An orchestrator can tell that it is not root, and compose runs it as the same."""
    assert dockerfile(name).final.of("USER") == [USERS[name]]


@pytest.mark.parametrize(("name", "service"), [("worker", "worker"), ("spark", "producer")])
def test_compose_builds_what_a_plain_build_does(name: str, service: str) -> None:
    """The base is the same by default, and one variable of that name replaces it."""
    built = services()[service]
    assert built["build"]["dockerfile"] == f"deploy/docker/{name}.Dockerfile"
    assert built["build"]["args"] == dockerfile(name).arguments
    assert built["user"] == USERS[name]


@pytest.mark.parametrize("name", OURS)
def test_every_base_is_a_build_argument(name: str) -> None:
    """So that a mirror, a digest or another distribution can be named."""
    file = dockerfile(name)
    stages = {stage.name for stage in file.stages}
    for stage in file.stages:
        assert stage.base in stages or stage.base in {f"${{{argument}}}" for argument in file.arguments}
    assert all(re.search(r":\d[\w.-]+$", default) for default in file.arguments.values())


@pytest.mark.parametrize("name", OURS)
def test_packages_come_from_the_lock_with_hashes(name: str) -> None:
    """pip takes hashed packages only, uv the lock as it is; the wheel's own build tools are hashed too."""
    runs = [line for stage in dockerfile(name).stages for line in stage.of("RUN")]
    commands = [part for line in runs for part in re.split(r"&&|\|\|", line.replace("\\\n", " "))]
    installs = [command for command in commands if re.search(r"\bpip install\b", command)]
    assert all("--require-hashes" in command or "--no-deps /dist/*.whl" in command for command in installs)
    assert all("--locked --no-dev" in command for command in commands if "uv sync" in command)
    assert all("--require-hashes" in command for command in commands if "uv build" in command)
    assert len(installs) == (1 if name == "kafka" else 2)


@pytest.mark.parametrize("name", OURS)
def test_an_image_has_no_build_tools(name: str) -> None:
    """The final stage installs nothing and copies nothing but what was built."""
    final = dockerfile(name).final
    assert not any(re.search(r"apt-get|pip|uv ", line) for line in final.of("RUN"))
    assert all(re.match(r"--from=(packages|jars|build) /opt/", line) for line in final.of("COPY"))
    assert not any("/opt/tools" in line for line in final.of("COPY"))


@pytest.mark.parametrize("name", OURS)
def test_images_build_with_every_builder(name: str) -> None:
    """Mounts of a RUN and flags of a COPY that only newer builders know stay away."""
    lines = [line for stage in dockerfile(name).stages for _, line in stage.instructions]
    assert not any(re.search(r"--mount=|--chmod=|--link\b|<<", line) for line in lines)


def test_the_worker_image_has_no_java() -> None:
    """Its base is a plain Python."""
    worker = dockerfile("worker")
    assert worker.arguments.keys() == {"PYTHON_IMAGE"}
    assert not any("java" in line for stage in worker.stages for _, line in stage.instructions)


def test_kafka_and_spark_share_their_first_layers() -> None:
    """The same steps up to the locked packages are built once."""
    spark, kafka = dockerfile("spark"), dockerfile("kafka")
    assert kafka.arguments == spark.arguments
    assert [stage.name for stage in spark.stages[:2]] == ["base", "packages"]
    assert kafka.stages[:2] == spark.stages[:2]


@pytest.mark.parametrize("name", ["worker", "spark"])
def test_a_change_of_our_code_leaves_the_packages_alone(name: str) -> None:
    """The layer of hundreds of megabytes is built, pushed and pulled only when the lock changes."""
    stages = {stage.name: stage for stage in dockerfile(name).stages}
    assert [line for line in stages["packages"].of("COPY") if "build-tools" not in line] == [
        "pyproject.toml uv.lock ./"
    ]
    assert "--from=packages /opt/packages /opt/packages" in stages[None].of("COPY")


def test_every_package_reaches_the_build_and_nothing_private_does() -> None:
    """A package that is added to the wheel must be let through; `.env` and keys never are."""
    wheel = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for needed in [
        *(f"{package}/__init__.py" for package in wheel),
        "pyproject.toml",
        "uv.lock",
        "README.md",
        "LICENSE",
    ]:
        assert (ROOT / needed).is_file()
        assert not ignored(needed), f"{needed} must be let through by .dockerignore"
    for path in ("deploy/docker/kafka/start.sh", "deploy/docker/build-tools.txt", "deploy/local/kafka-jars.sha256"):
        assert not ignored(path)
    for path in (".env", ".git/config", ".venv/bin/python", ".headrace/local.env", "tests/conftest.py", "data/x.csv"):
        assert ignored(path), f"{path} must not reach a build"
    for path in ("deploy/docker/dev-secrets/database-url", "worker/__pycache__/app.pyc", "worker/app.pyc"):
        assert ignored(path), f"{path} must not reach a build"


def test_build_tools_are_those_of_the_project() -> None:
    """The wheel is built by the version that the project names, with uv of an exact version."""
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (FOLDER / "build-tools.txt").read_text(), re.MULTILINE))
    assert project()["build-system"]["requires"] == [f"hatchling=={pinned['hatchling']}"]
    assert "uv" in pinned


def test_the_delta_jars_are_those_that_the_backfill_names() -> None:
    """Coordinates in the error message and jars in the image are of one version."""
    locked = {jar.coordinates for jar in jars.parse_lock((FOLDER / "delta-jars.sha256").read_text())}
    assert tuple((DELTA.coordinates(pyspark.__version__) or "").split(":")) in locked


def test_continued_lines_are_read_as_one_instruction() -> None:
    """The reader that the tests above rest on."""
    file = parse_dockerfile("ARG A=b:1\nFROM ${A} AS x\n# no\nRUN one \\\n && two\nFROM x\nUSER 1\n")
    assert file.arguments == {"A": "b:1"}
    assert file.stages[0].of("RUN") == ["one \\\n && two"]
    assert file.final.of("USER") == ["1"]

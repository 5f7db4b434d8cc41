"""Two ways to fetch jars from the configured registry: Maven, and the Ivy that ships inside pyspark."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from xml.sax.saxutils import quoteattr

from deploy.local import steps
from deploy.local.errors import StartError, UnreachableError, known_cause
from deploy.local.steps import Watch

POM = Path(__file__).with_name("kafka-pom.xml")
_FAULT = re.compile(r"^\[ERROR\].*|.*(?:UNRESOLVED|FAILED DOWNLOADS|Exception|ERROR|not found).*", re.MULTILINE)


class Coordinates(NamedTuple):
    """Where an artifact stands in a Maven repository."""

    group: str
    artifact: str
    version: str


class Resolver(Protocol):
    """A program that fetches artifacts into a folder."""

    @property
    def log(self) -> Path:
        """Where the program's output goes."""

    def fetch(self, wanted: Sequence[Coordinates], target: Path, watch: Watch) -> None:
        """Put the jars into `target`; raise UnreachableError when they cannot be had."""


def available(java: Path) -> Iterator[Resolver]:
    """Yield the resolvers that this machine has, best first."""
    mvn = shutil.which("mvn")
    if mvn:
        yield Maven(Path(mvn), java)
    ivy = find_ivy()
    if ivy:
        yield Ivy(ivy, java)


def find_ivy() -> Path | None:
    """Return the Ivy jar of the installed pyspark, if there is one."""
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    return next((jar for folder in folders or () for jar in Path(folder, "jars").glob("ivy-*.jar")), None)


@dataclass(frozen=True)
class Maven:
    """`mvn dependency:copy-dependencies` on the committed POM."""

    mvn: Path
    java: Path
    log: Path = Path(tempfile.gettempdir(), f"headrace-mvn-{os.getpid()}.log")

    def fetch(self, wanted: Sequence[Coordinates], target: Path, watch: Watch) -> None:
        """Resolve the POM; `wanted` is what it resolves to, so it is not needed here."""
        self.copy(target, watch, flat=True)

    def copy(self, target: Path, watch: Watch, *, flat: bool) -> None:
        """Copy the POM's jars into `target`, flat or in the layout of a repository."""
        command: list[str | Path] = [
            *(self.mvn, "--batch-mode", "--file", POM, "dependency:copy-dependencies"),
            *(f"-DoutputDirectory={target}", "-DincludeScope=runtime"),
            f"-Dmdep.useRepositoryLayout={'false' if flat else 'true'}",
        ]
        environ = {**os.environ, "JAVA_HOME": str(self.java.parent.parent)}
        _run(command, "Maven", self.log, watch, environ)


@dataclass(frozen=True)
class Ivy:
    """`org.apache.ivy.Main` on a module that names each jar, so that Ivy resolves nothing by itself."""

    jar: Path
    java: Path
    log: Path = Path(tempfile.gettempdir(), f"headrace-ivy-{os.getpid()}.log")

    def fetch(self, wanted: Sequence[Coordinates], target: Path, watch: Watch) -> None:
        """Fetch exactly the wanted jars, keeping nothing in Ivy's own cache."""
        with tempfile.TemporaryDirectory(prefix="headrace-ivy-") as scratch:
            settings, module = Path(scratch, "settings.xml"), Path(scratch, "ivy.xml")
            settings.write_text(ivy_settings(Path(scratch, "cache")))
            module.write_text(ivy_module(wanted))
            pattern = f"{target}/[artifact]-[revision].[ext]"
            command: list[str | Path] = [
                *(self.java, "-cp", self.jar, "org.apache.ivy.Main"),
                *("-settings", settings, "-ivy", module, "-retrieve", pattern),
            ]
            _run(command, "Ivy", self.log, watch, dict(os.environ))


def ivy_settings(cache: Path) -> str:
    """Settings with Ivy's built-in default repository, which follows Maven's layout."""
    return (
        '<ivysettings><settings defaultResolver="default"/>'
        f"<caches defaultCacheDir={quoteattr(str(cache))}/>"
        '<resolvers><ibiblio name="default" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
    )


def ivy_module(wanted: Iterable[Coordinates]) -> str:
    """A module that depends on each wanted jar and on nothing these depend on."""
    lines = "".join(
        f'<dependency org="{each.group}" name="{each.artifact}" rev="{each.version}"'
        ' transitive="false" conf="default->default"/>\n'
        for each in wanted
    )
    return (
        '<ivy-module version="2.0"><info organisation="headrace" module="local-kafka"/>'
        f'<configurations><conf name="default"/></configurations>\n<dependencies>\n{lines}</dependencies>'
        "</ivy-module>"
    )


def _run(command: Sequence[str | Path], name: str, log: Path, watch: Watch, environ: dict[str, str]) -> None:
    log.unlink(missing_ok=True)
    try:
        steps.run(command, f"Fetching the jars of Kafka with {name}", log, watch, env=environ)
    except StartError as error:
        text = log.read_text(errors="replace")
        if known_cause(text):
            raise
        faults = _FAULT.findall(text)
        raise UnreachableError(
            f"{name} could not fetch the jars of Kafka ({(faults or ['no reason given'])[0].strip()[:160]}); "
            f"check the network and the registry's settings, then try again (log: {log})."
        ) from error
    log.unlink(missing_ok=True)

"""The jars that formats need and the wheel of Spark does not hold: which, how they show, what a session is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from schemas import jdbc
from schemas.job import Job

_DELTA = "io.delta:delta-spark_{spark}_2.13:4.4.0"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
_ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:1.12.0"
_ICEBERG_EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
# The versions of Spark that Iceberg's release has a jar for.
_ICEBERG_SPARKS = frozenset({"4.0", "4.1"})
EXTENSIONS = "spark.sql.extensions"


class Presence(Enum):
    """What became of the search for a class: it loads, there is none, or it was built for another Spark."""

    FITS = "fits"
    MISSING = "missing"
    MISFIT = "misfit"


@dataclass(frozen=True, slots=True)
class Need:
    """Jars that one format needs.

    `package`: Maven coordinates, `{spark}` standing for Spark's version, None if not known; `shows`: a class that is
    there when they are; `extension`: of the session's SQL; `defaults`: of its configuration.
    """

    wanted_by: str
    package: str | None
    shows: str
    sparks: frozenset[str] = frozenset()
    extension: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)

    def coordinates(self, spark: str) -> str | None:
        """The package for one version of Spark, such as `4.2.0`."""
        return self.package.format(spark=minor(spark)) if self.package else None


DELTA = Need("format delta", _DELTA, _DELTA_EXTENSION, extension=_DELTA_EXTENSION, defaults=_DELTA_CATALOG)
ICEBERG = Need("format iceberg", _ICEBERG, _ICEBERG_CATALOG, _ICEBERG_SPARKS, _ICEBERG_EXTENSION)


def needs(job: Job, target: bool = True) -> list[Need]:
    """What a job needs to read its source and, with `target`, to write its target."""
    formats = {job.source.format, *([job.target.format] if target else [])}
    found = [need for name, need in (("delta", DELTA), ("iceberg", ICEBERG)) if name in formats]
    if job.source.format == "jdbc" and (driver := jdbc.driver(job.source)):
        found.append(Need("format jdbc", driver.package, driver.name))
    return found


def problems(found: Iterable[tuple[Need, Presence]], spark: str) -> list[str]:
    """Say what is missing, in one line with all packages, and what this version of Spark cannot load."""
    unfit, missing = [], []
    for need, presence in found:
        if presence is not Presence.FITS and need.sparks and minor(spark) not in need.sparks:
            unfit.append(_unfit(need, spark))
        elif presence is Presence.MISFIT:
            unfit.append(f"{need.wanted_by}: its jar was built for another Spark than {spark}: {_how([need], spark)}")
        elif presence is Presence.MISSING:
            missing.append(need)
    if not missing:
        return unfit
    names = " and ".join(need.wanted_by for need in missing)
    return [*unfit, f"{names}: the jars are not there: {_how(missing, spark)}"]


def settings(needed: Iterable[Need], extensions: str) -> dict[str, str]:
    """The extensions of a session, given those that its starter settled."""
    names = [name for name in extensions.split(",") if name]
    wanted = [need.extension for need in needed if need.extension and need.extension not in names]
    return {EXTENSIONS: ",".join([*names, *wanted])} if wanted else {}


def defaults(needed: Iterable[Need]) -> dict[str, str]:
    """Settings of a session unless its starter settled them."""
    return {name: value for need in needed for name, value in need.defaults.items()}


def unsettled(needed: Sequence[Need], found: Callable[[str], str]) -> list[str]:
    """Say what a running session was not started with; `found` gives the value of a setting, or an empty text."""
    wanted = [(need.wanted_by, name, value) for need in needed for name, value in need.defaults.items()]
    wanted += [(need.wanted_by, EXTENSIONS, need.extension) for need in needed if need.extension]
    return [
        f"{wanted_by}: start the Spark Connect server with --conf {name}={value}"
        for wanted_by, name, value in wanted
        if value not in found(name).split(",")
    ]


def minor(spark: str) -> str:
    """`4.2` of `4.2.0`."""
    return ".".join(spark.split(".")[:2])


def _unfit(need: Need, spark: str) -> str:
    newest = max(need.sparks)
    return (
        f"{need.wanted_by}: there is no jar of it for Spark {minor(spark)} yet: run this job with Spark {newest} "
        f"(pip install 'pyspark=={newest}.*') and `spark-submit --packages {need.coordinates(newest)} ...`"
    )


def _how(missing: Iterable[Need], spark: str) -> str:
    packages = [need.coordinates(spark) or f"(the package of {need.shows})" for need in missing]
    return f"start with `spark-submit --packages {','.join(packages)} ...`"

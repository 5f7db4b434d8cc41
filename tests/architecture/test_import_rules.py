"""Who may import whom; the layers of the worker; each driver in its adapter."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.architecture.sources import PACKAGES, ROOT, Module, matches, modules

PROGRAMS = tuple(package for package in PACKAGES if package != "schemas")
DRIVERS = ("confluent_kafka", "httpx", "httpx_aiohttp", "aiohttp", "psycopg", "psycopg_pool", "prometheus_client",
           "uvloop", "jsonschema_rs")  # fmt: skip
# Each driver, and the files of the worker that may know it.
KNOWN_TO = {
    "confluent_kafka": {
        f"worker.{name}" for name in ("consumer", "commits", "flow", "dead_letters", "messages", "watch")
    },
    "psycopg": {"worker.store"},
    "psycopg_pool": {"worker.store"},
    "prometheus_client": {"worker.metrics", "worker.genai", "worker.health"},
    "jsonschema_rs": {"worker.validation"},
    "uvloop": {"worker.__main__", "worker.attempt"},
    "yaml": {"worker.settings"},
}
ADAPTERS = {
    f"worker.{name}"
    for name in (
        "consumer",
        "commits",
        "flow",
        "endpoint",
        "store",
        "dead_letters",
        "watch",
        "health",
        "http_connection",
        "http_server",
        "metrics",
        "genai",
    )
}
# What decides may not act: no waiting, no clock, no chance, no log, no files.
ACTING = """asyncio time random logging socket threading subprocess os io pathlib secrets sys urllib http signal
    datetime.datetime.now""".split()


def name_of(module: Module) -> str:
    return module.name


def breaches(module: Module, forbidden: tuple[str, ...]) -> list[str]:
    return sorted({found for found in module.imports() for prefix in forbidden if matches(found, prefix)})


@pytest.mark.parametrize("module", modules("schemas"), ids=name_of)
def test_what_crosses_boundaries_imports_no_program_and_no_driver(module: Module) -> None:
    assert breaches(module, (*PROGRAMS, *DRIVERS, "pyspark", "yaml", "tests")) == []
    if module.name not in {"schemas.tables", "schemas.table_parts"} and not matches(
        module.name, "schemas.migrations"
    ):
        assert breaches(module, ("sqlalchemy", "alembic")) == []


@pytest.mark.parametrize("package", PROGRAMS)
def test_programs_do_not_import_each_other_nor_the_tests(package: str) -> None:
    others = tuple(program for program in PROGRAMS if program != package)
    found = {m.name: found for m in modules(package) if (found := breaches(m, (*others, "tests", "bench")))}
    # Direct mode runs the worker inside Spark.
    found = {name: what for name, what in found.items() if name != "producer.direct" or breaching(what, "worker")}
    assert found == {}


def breaching(found: list[str], allowed: str) -> list[str]:
    return [name for name in found if not matches(name, allowed)]


@pytest.mark.parametrize("module", [m for m in modules("worker") if matches(m.name, "worker.core")], ids=name_of)
def test_the_core_decides_and_touches_nothing(module: Module) -> None:
    assert breaches(module, (*ACTING, *DRIVERS)) == []
    outside = {found for found in module.imports() if matches(found, "worker") and not matches(found, "worker.core")}
    assert outside - {"worker"} == set()
    assert not any(isinstance(node, ast.Await | ast.AsyncFunctionDef) for node in ast.walk(module.tree))


@pytest.mark.parametrize("driver", sorted(KNOWN_TO))
def test_each_driver_is_known_to_its_adapter_only(driver: str) -> None:
    knowing = {module.name for module in modules("worker") if breaches(module, (driver,))}
    assert knowing <= KNOWN_TO[driver]


def test_the_main_path_knows_ports_and_no_adapter() -> None:
    main = {
        "worker.loop",
        "worker.asking",
        "worker.writer",
        "worker.leases",
        "worker.drain",
        "worker.upstreams",
        "worker.parts",
    }
    for module in modules("worker"):
        if module.name in main:
            assert breaches(module, (*DRIVERS, *ADAPTERS, "worker.app")) == []


def test_only_the_composition_root_knows_the_adapters() -> None:
    """`serving` is its part that builds endpoints, since the models file changes while the worker runs."""
    knowing = {
        module.name
        for module in modules("worker")
        if module.name not in ADAPTERS and breaches(module, tuple(ADAPTERS))
    }
    assert knowing <= {"worker.app", "worker.direct", "worker.serving"}


def test_the_environment_is_read_at_the_entries_only() -> None:
    reading = {
        module.name
        for package in PACKAGES
        for module in modules(package)
        if "os.environ" in module.text or "os.getenv" in module.text
    }
    # A task of Spark is a process of its own, whose entry is `direct`.
    entries = {"__main__", "cli", "job", "session", "direct"}
    assert {name for name in reading if name.rsplit(".", 1)[-1] not in entries} == set()


def test_import_linter_agrees() -> None:
    linter = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(linter, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


def test_whoever_publishes_loads_nothing_of_a_worker_and_whoever_answers_nothing_of_kafka() -> None:
    for entry, absent in (("producer.job", "worker"), ("producer.direct", "confluent_kafka")):
        check = f"import sys, {entry}; sys.exit({absent!r} in sys.modules)"
        done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, timeout=60, check=False)
        assert done.returncode == 0, f"{entry} loads {absent}"

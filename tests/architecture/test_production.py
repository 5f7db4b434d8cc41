"""The production overlay: nothing that comes with the tree, every secret a file for those who need it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import yaml

from control.roles import GRANTS, OWNER
from schemas.fleet import FleetSettings
from schemas.settings import (
    DatabaseSettings,
    ExporterSettings,
    GroupSettings,
    KafkaSettings,
    LogSettings,
    TopicSettings,
    variables,
)
from tests.architecture.compose_file import ROOT, services
from tests.composed import BASE, DIGEST, PRODUCTION, REQUIRED, Config, config, no_compose
from tests.encrypted import ACLS

RESET = "!reset"
OURS = ("migrate", "worker", "exporter", "producer", "backfill", "scheduled-backfill")
# Whose rights in the database a service works with.
ROLE = {"migrate": "owner", "exporter": "reader", "scheduled-backfill": "backfill"}
KAFKA = ("migrate", "worker", "producer")
LEFT_OUT = {"kafka", "postgres", "simulator"}
KNOWN = variables(
    FleetSettings, KafkaSettings, TopicSettings, DatabaseSettings, LogSettings, ExporterSettings, GroupSettings
)
DOCS = ROOT / "docs" / "production.md"
needs_compose = pytest.mark.skipif(no_compose() is not None, reason=f"not merged here: {no_compose()}")


class _Loader(yaml.SafeLoader):
    """Reads Compose's own tags."""


def _override(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    return loader.construct_sequence(node, deep=True)  # type: ignore[arg-type]


_Loader.add_constructor("!reset", lambda *_: RESET)
_Loader.add_constructor("!override", _override)


@cache
def overlay() -> Config:
    """The file as it stands, variables not filled in."""
    found: Config = yaml.load(PRODUCTION.read_text(encoding="utf8"), _Loader)
    return found


def changed(name: str) -> Config:
    """What the overlay says of a service."""
    found: Config = overlay()["services"][name]
    return found


def test_every_service_is_left_out_changed_or_meant_as_it_is() -> None:
    """A new service of the base has to be thought of here."""
    assert {name for name, said in overlay()["services"].items() if said == RESET} == LEFT_OUT
    assert services().keys() == {*LEFT_OUT, *OURS, "grafana", "prometheus"}
    assert overlay()["services"].keys() == {*LEFT_OUT, *OURS}


@pytest.mark.parametrize("name", OURS)
def test_images_are_published_ones_by_digest(name: str) -> None:
    """Nothing is built where it runs, and no tag can move."""
    assert changed(name)["build"] == RESET
    assert re.fullmatch(r"\$\{(WORKER|SPARK)_IMAGE:\?[^}]*@sha256:[^}]*\}", changed(name)["image"])


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_the_role_that_it_needs_and_holds_no_other_secret(name: str) -> None:
    """One address of the database a program, in a file."""
    role = ROLE.get(name, name)
    assert f"headrace_{role}" in {OWNER, *GRANTS}
    given, secrets = changed(name)["environment"], changed(name)["secrets"]
    assert given["DATABASE_URL_FILE"] == f"/run/secrets/{role}-database-url"
    own = {f"{role}-database-url", "postgres-ca"}
    if name in KAFKA:
        own |= {f"{role}-kafka-password", "kafka-ca"}
    assert set(secrets) - {"llm-api-key"} == own
    assert ("llm-api-key" in secrets) is (name == "worker")
    inside = {value for value in given.values() if str(value).startswith("/run/secrets/")}
    assert inside <= {f"/run/secrets/{secret}" for secret in secrets}


@pytest.mark.parametrize("name", OURS)
def test_servers_are_checked_and_passwords_travel_encrypted(name: str) -> None:
    """By the certificate and its name; only those who use Kafka know where it is."""
    given = changed(name)["environment"]
    assert (given["PGSSLMODE"], given["PGSSLROOTCERT"]) == ("verify-full", "/run/secrets/postgres-ca")
    if name in KAFKA:
        role = ROLE.get(name, name)
        assert (given["KAFKA_SECURITY_PROTOCOL"], given["KAFKA_SSL_CA_LOCATION"]) == (
            "SASL_SSL",
            "/run/secrets/kafka-ca",
        )
        assert given["KAFKA_SASL_USERNAME"] == f"headrace-{role}"
        assert f"allow headrace-{role} " in ACLS.read_text()
    else:
        assert given.get("KAFKA_BOOTSTRAP_SERVERS", RESET) == RESET


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting(name: str) -> None:
    """Ours, or the database library's own."""
    theirs = {"PGSSLMODE", "PGSSLROOTCERT"}
    for variable in changed(name)["environment"].keys() - theirs:
        assert {variable, variable.removesuffix("_FILE")} & KNOWN.keys(), variable


def test_no_secret_has_a_default() -> None:
    """All lie in one folder that somebody names."""
    text = PRODUCTION.read_text()
    assert "dev-secrets" not in text
    for name, secret in overlay()["secrets"].items():
        found = re.fullmatch(r"\$\{HEADRACE_SECRETS(:\?[^}]+)?\}/([\w.-]+)", secret["file"])
        assert found
        assert found[2].removesuffix(".pem") == name


def test_what_must_be_set_says_so_and_is_documented() -> None:
    """Each required variable, and each file of the folder."""
    asked = dict(re.findall(r"\$\{(\w+):\?([^}]+)\}", PRODUCTION.read_text()))
    assert asked.keys() == REQUIRED.keys()
    docs = DOCS.read_text(encoding="utf8")
    for name in (*REQUIRED, *(secret["file"].rpartition("/")[2] for secret in overlay()["secrets"].values())):
        assert f"`{name}`" in docs, name


@needs_compose
@pytest.mark.parametrize("name", REQUIRED)
def test_compose_names_what_is_missing(name: str) -> None:
    """And does nothing."""
    found, said = config(BASE, PRODUCTION, **{k: v for k, v in REQUIRED.items() if k != name})
    assert found is None
    assert f"required variable {name} is missing a value: name " in said


@needs_compose
def test_compose_merges_both_files_without_a_word() -> None:
    """No server of ours, no known password, nobody but loopback, every image by digest or version."""
    found, said = config(BASE, PRODUCTION, **REQUIRED)
    assert found is not None, said
    assert said == ""
    assert not found["services"].keys() & LEFT_OUT
    text = str(found)
    assert "dev-secrets" not in text
    assert "simulator" not in text
    assert "headrace-local-only" not in text
    for name in OURS:
        service = found["services"][name]
        assert service["image"].endswith(DIGEST)
        assert "build" not in service
        assert service["depends_on" if name != "migrate" else "secrets"]
        assert set(service.get("depends_on", {})) <= {"migrate"}
    assert found["services"]["worker"]["volumes"][0]["target"] == "/etc/headrace"
    assert "LLM_BASE_URL" not in found["services"]["worker"]["environment"]


@needs_compose
@pytest.mark.parametrize("files", [(BASE,), (BASE, PRODUCTION)], ids=["trial", "production"])
def test_what_compose_will_run_is_confined(files: tuple[Any, ...]) -> None:
    """Of the merged file, since a merge can take away what a file says."""
    found, said = config(*files, **REQUIRED)
    assert found is not None, said
    for name, service in found["services"].items():
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name
        assert service.get("read_only", False) is (name != "kafka")
        assert int(service["mem_limit"]) > 0
        assert service["pids_limit"] > 0
        assert not {"container_name", "hostname", "network_mode", "privileged"} & service.keys()
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", [])), name
        if name not in {"kafka", "postgres"}:
            assert re.fullmatch(r"\d+:\d+", service["user"])
            assert not service["user"].startswith("0:")
        for variable, value in service.get("environment", {}).items():
            assert not re.search(r"PASSWORD$|API_KEY$|DATABASE_URL$|TOKEN$", variable) or not value, variable
    for name in ("worker", "exporter", "migrate"):
        assert "ports" not in found["services"][name]
    assert found["services"]["grafana"]["environment"]["GF_AUTH_ANONYMOUS_ENABLED"] == "false"
    assert found["services"]["grafana"]["secrets"]

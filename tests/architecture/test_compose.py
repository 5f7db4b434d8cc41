"""The rules of `docker-compose.yml`, read without a container engine: scaling, stops, order, secrets, exposure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy.engine import make_url

from backfill import arguments as backfill
from deploy.local import jars
from producer.arguments import parse
from producer.refusals import problems
from producer.settings import read_job, read_settings
from schemas.fleet import FleetSettings
from schemas.settings import DatabaseSettings, ExporterSettings, KafkaSettings, LogSettings, TopicSettings, variables
from simulator.settings import read_settings as read_simulator
from tests.architecture.compose_file import ROOT, compose, compose_text, environment, seconds, services
from worker.settings import WorkerSettings

ALL = sorted(services())
PYTHON = ("exporter", "migrate", "simulator", "worker")
SPARK = ("producer", "backfill")
SCHEDULED = "scheduled-backfill"
ONE_SHOT = {"migrate", *SPARK}
OBSERVING = ("exporter", "grafana", "prometheus")
SECRET_WORD = re.compile(r"PASSWORD|SECRET|TOKEN|API_KEY|DATABASE_URL")
KNOWN = variables(FleetSettings, KafkaSettings, TopicSettings, DatabaseSettings, LogSettings, ExporterSettings)
# The images of others that write to their own root file system.
WRITES_ITS_ROOT = {"kafka"}


def secret_file(name: str) -> Path:
    """Where a secret lies by default."""
    return ROOT / str(compose()["secrets"][name]["file"])


def seen_by(service: str) -> dict[str, str]:
    """A service's environment, with its secrets where they lie on this machine."""
    return {
        name: str(secret_file(value.removeprefix("/run/secrets/"))) if value.startswith("/run/secrets/") else value
        for name, value in environment(services()[service]).items()
    }


@pytest.mark.parametrize("name", ALL)
def test_every_service_can_be_scaled(name: str) -> None:
    """A fixed name makes `--scale` an error, whatever the service."""
    assert not {"container_name", "hostname", "network_mode", "scale"} & services()[name].keys()


def test_workers_publish_no_port() -> None:
    """Two workers cannot have the same port of the host."""
    assert "ports" not in services()["worker"]


@pytest.mark.parametrize("name", ALL)
def test_ports_are_published_on_loopback_only(name: str) -> None:
    """Postgres and Kafka of the file have well-known passwords or none."""
    for port in services()[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_a_worker_drains_before_it_would_be_killed() -> None:
    """The drain has its budget, plus a fifth of it for the main path's end, plus time to leave."""
    worker = services()["worker"]
    drain = float(environment(worker)["DRAIN_SECONDS"])
    assert drain == FleetSettings.model_fields["drain_seconds"].default
    assert seconds(worker["stop_grace_period"]) >= drain * 1.2 + 10
    assert "DRAIN_SECONDS:-" not in compose_text(), "one number without the other would end in a kill"


@pytest.mark.parametrize("name", ALL)
def test_services_are_confined(name: str) -> None:
    """No capability, no way to gain one, bounded memory, processes and logs."""
    service = services()[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"].keys() >= {"max-size", "max-file"}
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert 0 < service["pids_limit"] <= 1024
    assert not {"privileged", "pid", "ipc", "devices"} & service.keys()
    assert service.get("read_only", False) is (name not in WRITES_ITS_ROOT)
    assert set(service.get("cap_add", [])) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}


@pytest.mark.parametrize("name", sorted({*PYTHON, *SPARK, SCHEDULED}))
def test_our_programs_run_as_a_numbered_user(name: str) -> None:
    """A name could be root in another image."""
    service = services()[name]
    assert service["user"] == "10001:10001"
    assert "cap_add" not in service
    assert service["tmpfs"] == ["/tmp"] if name in PYTHON else "/tmp" in service["volumes"]


@pytest.mark.parametrize("name", ALL)
def test_an_init_passes_signals_on(name: str) -> None:
    """An init without the capability KILL cannot stop a program that has changed its user."""
    assert services()[name]["init"] is ("cap_add" not in services()[name])


@pytest.mark.parametrize("name", sorted(set(ALL) - ONE_SHOT - {SCHEDULED}))
def test_programs_that_stay_are_checked_and_restarted(name: str) -> None:
    """Each has a health check, and comes back after a crash but not after a stop."""
    assert services()[name]["restart"] == "unless-stopped"
    assert services()[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


@pytest.mark.parametrize("name", sorted(ONE_SHOT))
def test_one_shot_programs_are_not_restarted(name: str) -> None:
    """Their end is what others wait for."""
    assert "restart" not in services()[name]


def test_the_backfill_can_run_on_a_schedule() -> None:
    """As the one-shot does, and again by itself; whether it does is told by the alert HeadraceBackfillStale."""
    scheduled, once = services()[SCHEDULED], services()["backfill"]
    assert backfill.parse(scheduled["command"]).watch == 900
    assert (ROOT / "deploy" / "docker" / "example" / scheduled["command"][1]).is_file()
    assert scheduled["restart"] == "unless-stopped"
    own = {"profiles", "command", "restart"}
    assert {k: v for k, v in scheduled.items() if k not in own} == {k: v for k, v in once.items() if k not in own}
    alerts = (ROOT / "deploy" / "prometheus" / "rules" / "alerts.yml").read_text()
    assert "alert: HeadraceBackfillStale" in alerts


def test_health_checks_ask_the_port_that_is_listened_on() -> None:
    """The worker's, the exporter's and the simulator's."""
    worker, simulator = services()["worker"], services()["simulator"]
    assert f":{environment(worker)['METRICS_PORT']}/healthz" in worker["healthcheck"]["test"][-1]
    exporter = services()["exporter"]
    assert f":{ExporterSettings.read(environment(exporter)).port}/healthz" in exporter["healthcheck"]["test"][-1]
    assert f":{read_simulator(environment(simulator)).port}/healthz" in simulator["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", sorted(set(ALL) - {"kafka", "postgres", "simulator", *OBSERVING}))
def test_order_is_by_condition(name: str) -> None:
    """Started is not ready: only a healthy server or a finished program counts."""
    needed: dict[str, Any] = services()[name]["depends_on"]
    for other, how in needed.items():
        wanted = "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
        assert how == {"condition": wanted}
    assert needed.keys() >= {"kafka", "postgres"} | ({"migrate"} if name != "migrate" else set())


def test_a_plain_start_needs_no_profile() -> None:
    """Everything but the one-shot jobs, and those who only look on, comes up at once."""
    assert {name for name in ALL if "profiles" in services()[name]} == {*SPARK, *OBSERVING, SCHEDULED}
    assert services()[SCHEDULED]["profiles"] == ["schedule"]
    assert all(services()[name]["profiles"] == ["spark"] for name in SPARK)
    assert all(services()[name]["profiles"] == ["observability"] for name in OBSERVING)


@pytest.mark.parametrize("name", ALL)
def test_secrets_travel_as_files(name: str) -> None:
    """The environment of a container is shown by `docker inspect`."""
    service = services()[name]
    for variable, value in service.get("environment", {}).items():
        if not SECRET_WORD.search(variable):
            continue
        assert variable.endswith("_FILE")
        assert value.removeprefix("/run/secrets/") in service["secrets"]
    assert set(service.get("secrets", [])) <= compose()["secrets"].keys()


def test_grafana_lets_nobody_in_by_a_known_password() -> None:
    """None comes with the tree, and who names none does not get to see it."""
    given = environment(services()["grafana"])
    assert given["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana-admin-password"
    assert "${HEADRACE_GRAFANA_PASSWORD_FILE:-./grafana-admin-password}" in compose_text()
    assert "grafana-admin-password" in (ROOT / ".gitignore").read_text().splitlines()
    assert given["GF_AUTH_ANONYMOUS_ENABLED"] == given["GF_USERS_ALLOW_SIGN_UP"] == "false"


def test_grafana_finds_its_dashboards_and_prometheus_its_targets() -> None:
    """Paths and names of three files agree."""
    grafana, prometheus = services()["grafana"], services()["prometheus"]
    folder = ROOT / "deploy" / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((folder / "dashboards" / "headrace.yml").read_text())["providers"]
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in grafana["volumes"]
    assert "./deploy/grafana/provisioning:/etc/grafana/provisioning:ro" in grafana["volumes"]
    assert environment(grafana)["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].startswith(provider["options"]["path"])
    assert source["url"] == f"http://prometheus:{prometheus['ports'][0].rpartition(':')[2]}"
    config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    scraped = {job["job_name"]: job for job in config["scrape_configs"]}
    (found,) = scraped["worker"]["dns_sd_configs"]
    assert (found["names"], found["type"]) == (["worker"], "A")
    assert str(found["port"]) == environment(services()["worker"])["METRICS_PORT"]
    assert scraped["exporter"]["honor_labels"] is True
    (found,) = scraped["exporter"]["dns_sd_configs"]
    assert (found["names"], found["type"]) == (["exporter"], "A")
    assert str(found["port"]) == environment(services()["exporter"])["EXPORTER_PORT"]


def test_the_exporter_needs_the_tables_and_no_kafka() -> None:
    """It looks on: nothing waits for it, and no port of it is published."""
    exporter = services()["exporter"]
    assert exporter["command"] == ["headrace", "exporter"]
    assert exporter["depends_on"] == {
        "postgres": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }
    assert "ports" not in exporter
    assert exporter["image"] == services()["worker"]["image"]
    assert ExporterSettings.read(environment(exporter)).host == "0.0.0.0"
    assert DatabaseSettings.read(seen_by("exporter")).url.get_secret_value().startswith("postgresql://")


def test_the_passwords_of_the_file_agree() -> None:
    """A clean tree starts without a manual step."""
    url = make_url(secret_file("database-url").read_text().strip())
    given = environment(services()["postgres"])
    assert url.password == secret_file("postgres-password").read_text().strip()
    assert (url.host, url.port, url.username, url.database) == (
        "postgres",
        5432,
        given["POSTGRES_USER"],
        given["POSTGRES_DB"],
    )


def test_the_database_is_in_utf_8() -> None:
    """In a container without a locale, Postgres would take bytes for text."""
    assert environment(services()["postgres"])["LANG"] == "C.UTF-8"


@pytest.mark.parametrize("name", [*SPARK, "migrate", "worker", "exporter"])
def test_every_variable_is_a_setting(name: str) -> None:
    """A misspelt one would be ignored in silence."""
    given = {variable.removesuffix("_FILE") for variable in services()[name]["environment"]}
    assert given - {"SPARK_DRIVER_MEMORY"} <= KNOWN.keys()


def test_a_worker_accepts_its_settings() -> None:
    """By default it asks the simulator, at the port where that listens."""
    settings = WorkerSettings(seen_by("worker"))
    simulator = read_simulator(environment(services()["simulator"]))
    assert settings.fleet.base_url == f"http://simulator:{simulator.port}/v1"
    assert simulator.host == settings.fleet.metrics_host == "0.0.0.0"


def test_every_address_is_open_inside_the_container_only() -> None:
    """Outside of one, nothing listens on all addresses unless told to."""
    assert FleetSettings.model_fields["metrics_host"].default == "127.0.0.1"
    assert ExporterSettings.read({}).host == "127.0.0.1"
    assert read_simulator({}).host == "127.0.0.1"


def test_kafka_tells_each_client_an_address_it_can_reach() -> None:
    """Containers are told the service's name, the host its own loopback and the published port."""
    kafka = services()["kafka"]
    given = environment(kafka)
    advertised = dict(pair.split("://") for pair in given["KAFKA_ADVERTISED_LISTENERS"].split(","))
    listening = dict(pair.split("://") for pair in given["KAFKA_LISTENERS"].split(","))
    ((host, published, inside),) = [port.split(":") for port in kafka["ports"]]
    assert advertised == {"INTERNAL": f"kafka{listening['INTERNAL']}", "HOST": f"{host}:{published}"}
    assert listening["HOST"] == f":{inside}"
    assert given["KAFKA_INTER_BROKER_LISTENER_NAME"] == "INTERNAL"
    assert "HOST://127.0.0.1:${KAFKA_PORT:-9092}" in compose_text(), "the published port can be chosen"
    for name in (*SPARK, "migrate", "worker"):
        assert environment(services()[name])["KAFKA_BOOTSTRAP_SERVERS"] == advertised["INTERNAL"]


def test_kafka_is_the_version_of_the_local_stack() -> None:
    """One version is tested and shipped."""
    version = jars.kafka_version(jars.parse_lock(jars.LOCK.read_text()))
    assert services()["kafka"]["image"] == f"apache/kafka:{version}"


def test_kafka_makes_no_topic_by_itself() -> None:
    """Topics are made by `headrace topics` alone, before any worker starts."""
    assert environment(services()["kafka"])["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    assert services()["migrate"]["command"][-1] == "headrace migrate && headrace topics"


@pytest.mark.parametrize("name", ALL)
def test_images_are_named_exactly_and_can_be_replaced(name: str) -> None:
    """Each image and each base is a variable whose default has a version."""
    service = services()[name]
    images = [service["image"], *service.get("build", {}).get("args", {}).values()]
    for image in images:
        assert re.search(r":[\w.-]*\d[\w.-]*$|^headrace-\w+:local$", image), image
        assert re.search(rf"\${{\w+_IMAGE:-{re.escape(image)}}}", compose_text()), f"{image} cannot be replaced"


@pytest.mark.parametrize("name", SPARK)
def test_jobs_read_their_files_and_write_the_warehouse(name: str) -> None:
    """The folder with job file and data cannot be written to."""
    volumes = services()[name]["volumes"]
    assert "./deploy/docker/example:/jobs:ro" in volumes
    assert "warehouse:/warehouse" in volumes
    assert "warehouse" in compose()["volumes"]
    assert services()[name]["working_dir"] == "/jobs"
    assert services()[name]["entrypoint"] == ["spark-submit", f"/app/{name}/job.py"]
    assert (ROOT / name / "job.py").is_file()


def test_the_example_is_a_job_that_can_run() -> None:
    """Its columns exist and its table goes to the volume."""
    path = ROOT / "deploy" / "docker" / "example" / "reviews.yaml"
    job = read_job(path).job
    settings = read_settings(seen_by("producer"))
    assert not problems(job, parse(["--job", str(path)]), settings)
    assert job.source.path is not None
    columns = (path.parent / job.source.path).read_text(encoding="utf8").splitlines()[0].split(",")
    assert {job.id, *job.clean.columns} <= set(columns)
    assert str(job.target.path).startswith("/warehouse/")

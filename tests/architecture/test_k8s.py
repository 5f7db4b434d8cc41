"""The manifests of `deploy/k8s`: valid, confined, and in step with the numbers and names of the programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from deploy.prometheus import operator
from schemas import topics
from schemas.fleet import FleetSettings
from schemas.job import Job
from schemas.models import ModelsFile
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

FOLDER = ROOT / "deploy" / "k8s"
VERSION = "1.37"
CUSTOM = ("keda.sh/", "monitoring.coreos.com/", "sparkoperator.k8s.io/")
KNOWN = variables(FleetSettings, KafkaSettings, TopicSettings, DatabaseSettings, LogSettings, ExporterSettings)

Manifest = dict[str, Any]


def read(text: str) -> list[Manifest]:
    """All documents of one YAML text."""
    return [document for document in yaml.safe_load_all(text) if document]


def manifests() -> list[Manifest]:
    """All resources as they stand in the files, which are complete in themselves."""
    files = [path for path in sorted(FOLDER.rglob("*.yaml")) if path.name != "kustomization.yaml"]
    return [document for path in files for document in read(path.read_text(encoding="utf8"))]


def of_kind(kind: str, name: str = "headrace-worker") -> Manifest:
    """The one resource of that kind and name."""
    found = [one for one in manifests() if one["kind"] == kind and one["metadata"]["name"] == name]
    assert len(found) == 1
    return found[0]


def pods() -> list[tuple[str, Manifest]]:
    """The pod specifications of all our workloads of Kubernetes' own kinds."""
    found = []
    for one in manifests():
        if one["apiVersion"].startswith(CUSTOM):
            continue
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            found.append((one["metadata"]["name"], spec["template"]["spec"]))
    return found


WORKER: Manifest = of_kind("Deployment")["spec"]["template"]["spec"]


def environment(container: Manifest) -> dict[str, str]:
    """What a container is given by value, settings included where it asks for them."""
    asked = {"configMapRef": {"name": "headrace-settings"}} in container.get("envFrom", [])
    settings: dict[str, str] = dict(of_kind("ConfigMap", "headrace-settings")["data"]) if asked else {}
    return settings | {one["name"]: one["value"] for one in container.get("env", [])}


def name_of(manifest: Manifest) -> str:
    """Kind and name, to tell tests apart."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


@pytest.mark.parametrize("manifest", manifests(), ids=name_of)
def test_every_manifest_is_valid(manifest: Manifest) -> None:
    """Kubernetes' own kinds against its schema, unknown fields refused; others are told apart by their group."""
    if not manifest["apiVersion"].startswith(CUSTOM):
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    assert manifest["metadata"]["labels"]["app.kubernetes.io/name"] == "headrace"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here; the files are checked as they stand")
@pytest.mark.parametrize("name", ["base", "autoscaling", "monitoring"])
def test_every_kustomization_renders(name: str) -> None:
    """All resources of its folder come out, in the namespace, from a registry that is named in one place."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / name)], capture_output=True, text=True, timeout=60, check=True
    )
    rendered = read(done.stdout)
    for manifest in rendered:
        assert manifest["metadata"]["namespace"] == "headrace"
        if not manifest["apiVersion"].startswith(CUSTOM):
            kubernetes_validate.validate(manifest, VERSION, strict=True)
    assert len(rendered) >= sum(len(read(path.read_text())) for path in _resources(FOLDER / name))
    assert not re.search(r"image: headrace-\w+$", done.stdout, re.MULTILINE)


def _resources(folder: Path) -> list[Path]:
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [folder / name for name in named if name.endswith(".yaml")]


@pytest.mark.parametrize("folder", ["base", "autoscaling", "monitoring"])
def test_every_file_is_named_by_its_kustomization(folder: str) -> None:
    """A file that nobody names is applied by nobody."""
    assert set(_resources(FOLDER / folder)) == set((FOLDER / folder).glob("*.yaml")) - {
        FOLDER / folder / "kustomization.yaml"
    }


@pytest.mark.parametrize(("name", "pod"), pods(), ids=[name for name, _ in pods()])
def test_pods_are_confined(name: str, pod: Manifest) -> None:
    """Not root, nothing to write to but /tmp, no capability, no token of the cluster, bounded memory."""
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


@pytest.mark.parametrize(("name", "pod"), pods(), ids=[name for name, _ in pods()])
def test_every_variable_is_a_setting_and_every_secret_a_file(name: str, pod: Manifest) -> None:
    """A misspelt one would be ignored in silence; a secret in the environment shows in descriptions of the pod."""
    for container in pod["containers"]:
        given = environment(container)
        assert {name for name in given if not {name, name.removesuffix("_FILE")} & KNOWN.keys()} <= {
            "SPARK_DRIVER_MEMORY"
        }
        for variable, value in given.items():
            if re.search(r"PASSWORD|API_KEY|DATABASE_URL", variable):
                assert variable.endswith("_FILE")
                assert value.startswith("/run/secrets/headrace/")
        assert all("valueFrom" not in one for one in container.get("env", []))


def test_a_worker_drains_before_it_would_be_killed() -> None:
    """The drain has its budget, plus a fifth of it for the main path's end, plus time to leave."""
    drain = float(environment(WORKER["containers"][0])["DRAIN_SECONDS"])
    assert WORKER["terminationGracePeriodSeconds"] >= drain * 1.2 + 10


def test_probes_and_scrapes_ask_the_port_that_is_listened_on() -> None:
    """By the name of the port, whose number is the setting."""
    container = WORKER["containers"][0]
    port = int(environment(container)["METRICS_PORT"])
    assert container["ports"] == [{"name": "metrics", "containerPort": port}]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert of_kind("Service")["spec"]["ports"][0]["port"] == port
    assert of_kind("NetworkPolicy")["spec"]["ingress"][0]["ports"] == [{"port": port}]
    assert environment(container)["METRICS_HOST"] == "0.0.0.0"


def test_the_models_file_can_change_while_workers_run() -> None:
    """A mount by subPath never changes; the file parses as the worker reads it."""
    container = WORKER["containers"][0]
    mount = next(one for one in container["volumeMounts"] if one["name"] == "models")
    assert "subPath" not in mount
    assert environment(container)["MODELS_FILE"] == f"{mount['mountPath']}/models.yaml"
    ModelsFile.model_validate(yaml.safe_load(of_kind("ConfigMap", "headrace-models")["data"]["models.yaml"]))


def test_the_same_memory_as_in_compose() -> None:
    """One number for the same program, wherever it runs."""
    assert WORKER["containers"][0]["resources"]["limits"]["memory"] == "512Mi"
    assert services()["worker"]["mem_limit"] == "512m"


class TestAutoscaler:
    """Workers for the work that there is, and for what the provider lets run."""

    spec: Manifest = of_kind("ScaledObject")["spec"]

    def test_it_scales_the_workers_and_never_to_nothing(self) -> None:
        """New topics, probes of a dead endpoint and the group's place need one."""
        assert self.spec["scaleTargetRef"]["name"] == of_kind("Deployment")["metadata"]["name"]
        assert self.spec["minReplicaCount"] >= 1

    def test_no_more_workers_than_partitions(self) -> None:
        """Those beyond would have nothing; those without lag count for nothing."""
        lag = self._trigger("lag")
        assert self.spec["maxReplicaCount"] <= topics.PARTITIONS
        assert lag["limitToPartitionsWithLag"] == "true"
        assert lag["topic"].startswith(f"{topics.PROMPTS_PREFIX}.")
        assert lag["consumerGroup"] == GroupSettings.model_fields["group"].default

    def test_it_begins_where_workers_begin(self) -> None:
        """Else the lag of a new group would be 0."""
        assert self._trigger("lag")["offsetResetPolicy"] == "earliest"

    def test_both_are_counted_in_workers_and_the_smaller_counts(self) -> None:
        """The formula divides the lag by the trigger's own threshold; the room is by 70 % of MAX_IN_FLIGHT."""
        modifiers = self.spec["advanced"]["scalingModifiers"]
        names = {one["name"] for one in self.spec["triggers"]}
        assert modifiers["formula"] == f"max(1, min(lag / {self._trigger('lag')['lagThreshold']}, room))"
        assert set(re.findall(r"\b(lag|room)\b", modifiers["formula"])) == names
        assert modifiers["target"] == "1"
        calls = int(re.search(r"/ (\d+)", self._trigger("room")["query"])[1])  # type: ignore[index]
        held = int(environment(WORKER["containers"][0])["MAX_IN_FLIGHT"])
        assert 0.65 * held <= calls <= 0.75 * held

    def test_scaling_down_waits_for_calls(self) -> None:
        """Longer than the drain, one at a time."""
        behaviour = self.spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        assert behaviour["stabilizationWindowSeconds"] >= 300
        assert behaviour["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 120}]

    def _trigger(self, name: str) -> dict[str, str]:
        return next(one["metadata"] for one in self.spec["triggers"] if one["name"] == name)


class TestMonitoring:
    """Prometheus finds workers and exporter under the names that dashboards and alerts ask for."""

    exporter: Manifest = of_kind("Deployment", "headrace-exporter")["spec"]["template"]["spec"]["containers"][0]

    def test_the_rules_are_those_of_the_files(self) -> None:
        """Else: python -m deploy.prometheus."""
        assert operator.MANIFEST.read_text(encoding="utf8") == operator.manifest()
        written = of_kind("PrometheusRule", "headrace")["spec"]["groups"]
        files = [
            yaml.safe_load(path.read_text()) for path in sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
        ]
        assert written == [group for file in files for group in file["groups"]]

    def test_probes_and_scrapes_of_the_exporter_ask_the_port_that_is_listened_on(self) -> None:
        """By the name of the port, whose number is the setting, on an address that others reach."""
        settings = ExporterSettings.read(environment(self.exporter))
        assert self.exporter["ports"] == [{"name": "metrics", "containerPort": settings.port}]
        assert self.exporter["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert of_kind("Service", "headrace-exporter")["spec"]["ports"][0]["port"] == settings.port
        policy = of_kind("NetworkPolicy", "headrace-exporter")["spec"]
        assert policy["ingress"][0]["ports"] == [{"port": settings.port}]
        assert settings.host == "0.0.0.0"

    @pytest.mark.parametrize("program", ["worker", "exporter"])
    def test_a_monitor_finds_its_service_and_names_its_job(self, program: str) -> None:
        """The scrape job has the name that compose gives it, and keeps the exporter's own label."""
        monitor = of_kind("ServiceMonitor", f"headrace-{program}")["spec"]
        service = of_kind("Service", f"headrace-{program}")
        assert monitor["selector"]["matchLabels"] == service["metadata"]["labels"]
        assert service["metadata"]["labels"][monitor["jobLabel"]] == program
        config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
        shipped = next(job for job in config["scrape_configs"] if job["job_name"] == program)
        (endpoint,) = monitor["endpoints"]
        assert endpoint["port"] == service["spec"]["ports"][0]["name"]
        assert endpoint.get("honorLabels", False) == shipped.get("honor_labels", False)
        assert endpoint["interval"] == config["global"]["scrape_interval"]

    def test_the_exporter_is_the_same_program_as_in_compose(self) -> None:
        """With the same memory, and no more than it needs to know."""
        assert self.exporter["command"] == services()["exporter"]["command"]
        assert self.exporter["resources"]["limits"]["memory"] == "256Mi"
        assert services()["exporter"]["mem_limit"] == "256m"
        assert not [name for name in environment(self.exporter) if name.startswith("KAFKA_")]


# Which Secret a workload mounts: each program has a user of its own.
SECRETS = {
    "headrace-worker": "headrace",
    "headrace-migrate": "headrace-owner",
    "headrace-backfill-reviews": "headrace-backfill",
    "headrace-exporter": "headrace-reader",
}


@pytest.mark.parametrize(("name", "pod"), pods(), ids=[name for name, _ in pods()])
def test_every_program_has_a_secret_of_its_own(name: str, pod: Manifest) -> None:
    """Whoever takes one over has the rights of that one alone; README.md makes them all."""
    (secret,) = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    assert secret == SECRETS[name]
    readme = (FOLDER / "README.md").read_text(encoding="utf8")
    assert f"create secret generic {secret} " in readme
    for value in environment(pod["containers"][0]).values():
        if value.startswith("/run/secrets/headrace/") and "KAFKA" not in value:
            assert f"--from-file={value.rpartition('/')[2]}" in readme


def test_rights_are_given_where_tables_are_made() -> None:
    """At each release, by the owner."""
    migrate = dict(pods())["headrace-migrate"]["containers"][0]
    assert migrate["command"][-1] == "headrace migrate --roles && headrace topics"


def test_two_backfills_never_run_at_once() -> None:
    """And a missed time is not made up for hours later."""
    spec = of_kind("CronJob", "headrace-backfill-reviews")["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert 0 < spec["startingDeadlineSeconds"] < 15 * 60


def test_jobs_name_files_that_are_in_the_images() -> None:
    """The same paths as in compose."""
    backfill = dict(pods())["headrace-backfill-reviews"]["containers"][0]
    assert backfill["command"][:2] == services()["backfill"]["entrypoint"]
    producer = of_kind("SparkApplication", "headrace-producer-reviews")["spec"]
    assert producer["mainApplicationFile"] == f"local://{services()['producer']['entrypoint'][1]}"
    jobs = of_kind("ConfigMap", "headrace-jobs")["data"]
    assert producer["arguments"][1] == backfill["command"][-1] == f"/jobs/{next(iter(jobs))}"


def test_the_example_job_is_a_job() -> None:
    """As the producer would read it."""
    for text in of_kind("ConfigMap", "headrace-jobs")["data"].values():
        Job.model_validate(yaml.safe_load(text))

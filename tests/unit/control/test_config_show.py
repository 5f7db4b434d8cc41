"""`headrace config show`: every setting with its origin, problems beside it, and no secret whatever is wrong."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from control.cli import app
from control.config import hiding
from schemas.programs import PROGRAMS
from schemas.settings import is_secret, variables

CANARY = "s3cret-canary-7f"
ENDPOINT = {"LLM_BASE_URL": "http://llm:8000/v1"}
GROUPS = tuple(dict.fromkeys(group for groups in PROGRAMS.values() for group in groups))
SECRETS = sorted(name for name, (group, own) in variables(*GROUPS).items() if is_secret(group, own))
MODELS = """
models:
  small:
    endpoints: [{base_url: "http://a/v1", api_key_env: A_KEY, rpm: 60}]
    price: {input_per_million: 1, output_per_million: 2}
"""
DATABASES = (
    CANARY,
    f"mysql://u:{CANARY}@h/d",
    f"postgresql://u:{CANARY}/x@h/d",
    f"postgresql://u:x@{CANARY}@h/d",
    f"postgresql://u:{CANARY}?x@h/d",
    f"postgresql://h?password={CANARY}",
    f"postgresql://h?password=p@{CANARY}",
    f"postgresql://h?password={CANARY}@p",
    f"postgresql://u@h/d?sslmode=require&password={CANARY}",
    f"postgresql://u@h/d?sslpassword={CANARY}",
)
ADDRESSES = (
    f"http://me:{CANARY}@h/v1",
    f"http://{CANARY}@h/v1",
    f"http://me:{CANARY}/x@h/v1",
    f"http://h/v1?key={CANARY}",
    f"http://h/v1#{CANARY}",
    f"grpc://me:{CANARY}@h:4317",
)
PROPERTIES = (
    f"linger.ms=5,ssl.key.password={CANARY}",
    f"ssl.key.password=a,{CANARY}",
    f"ssl.key.password=a,x={CANARY},linger.ms=5",
    f"sasl.password={CANARY}",
    f"sasl.oauthbearer.client.secret={CANARY}",
    f"sasl.oauthbearer.config=scope={CANARY}",
    f"ssl.key.pem={CANARY}",
    f"sasl.jaas.config={CANARY}",
    f"linger.ms=5,{CANARY}",
    f"Some {CANARY}=1",
    f"http.proxy=http://u:{CANARY}@h",
)


def show(*words: str, **settings: str) -> Result:
    mine = dict.fromkeys(name for name in os.environ if name.startswith(("KAFKA_", "LLM_", "DATABASE_")))
    return CliRunner().invoke(app, ["config", "show", *words], env={**mine, **settings}, catch_exceptions=False)


def told(*words: str, **settings: str) -> dict[str, dict[str, Any]]:
    return {setting["name"]: setting for setting in json.loads(show("--json", *words, **settings).stdout)["settings"]}


def test_every_setting_of_every_program_is_there_with_its_default() -> None:
    found = told(**ENDPOINT)
    assert set(found) == set(variables(*GROUPS))
    assert found["PROMPTS_PARTITIONS"] == {
        "name": "PROMPTS_PARTITIONS",
        "value": "12",
        "origin": "default",
        "file": None,
        "is_secret": False,
        "is_set": False,
        "programs": ["worker", "producer", "headrace"],
        "note": None,
        "problem": None,
    }
    assert found["DATABASE_URL"]["value"] == "postgresql://headrace@localhost:5432/headrace"
    assert found["DATABASE_URL"]["programs"] == list(PROGRAMS)
    assert found["EXPORTER_PORT"]["programs"] == ["exporter"]


def test_one_program_needs_nothing_of_the_others() -> None:
    ended = show("--program", "exporter")
    assert ended.exit_code == 0
    assert [line.split("\t")[0] for line in ended.stdout.splitlines()] == [
        "DATABASE_URL",
        "EXPORTER_HOST",
        "EXPORTER_PORT",
        "3 settings",
    ]
    unknown = show("--program", "spark")
    assert unknown.exit_code == 2
    assert "there are worker, producer, backfill, exporter, headrace" in unknown.stderr


def test_origins_are_told(tmp_path: Path) -> None:
    models, key, url = tmp_path / "models.yaml", tmp_path / "key", tmp_path / "url"
    models.write_text(MODELS)
    key.write_text(CANARY)
    url.write_text(f"postgresql://u:{CANARY}@db:5432/d\n")
    found = told(
        MODELS_FILE=str(models),
        A_KEY_FILE=str(key),
        DATABASE_URL_FILE=str(url),
        MAX_IN_FLIGHT="8",
        LLM_BASE_URL="http://x/v1",
    )
    origins = {name: (found[name]["value"], found[name]["origin"], found[name]["file"]) for name in found}
    assert origins["MAX_IN_FLIGHT"] == ("8", "environment", None)
    assert origins["DATABASE_URL"] == ("postgresql://u:***@db:5432/d", "file", str(url))
    assert origins["LLM_MODEL"] == ("small", "models_file", str(models))
    assert origins["models.small.endpoints.0.rpm"] == ("60", "models_file", str(models))
    assert origins["models.small.timeouts.read"] == ("120", "default", None)
    assert origins["LLM_BASE_URL"] == ("http://x/v1", "environment", None)
    assert found["LLM_BASE_URL"]["note"] == "not used: MODELS_FILE wins"
    assert found["models.small.endpoints.0.api_key_env"]["value"] == "A_KEY"
    assert found["models.small.endpoints.0.api_key_env"]["is_set"]
    assert not any(setting["problem"] for setting in found.values())


def test_a_key_that_is_not_set_is_told_and_what_may_be_the_key_itself_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(MODELS)
    found = told(MODELS_FILE=str(path))["models.small.endpoints.0.api_key_env"]
    assert (found["value"], found["is_set"], found["note"]) == ("A_KEY", False, "not set: no key is sent")
    path.write_text(MODELS.replace("A_KEY", "sk_live_canary"))
    assert told(MODELS_FILE=str(path))["models.small.endpoints.0.api_key_env"]["value"] == "***"


def test_problems_stand_beside_their_values_and_end_with_2(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("models: {small: {endpoints: [{base_url: nowhere, rpm: 0}], prise: 1}}")
    wrong = {"MAX_IN_FLIGHT": "many", "KAFKA_SECURITY_PROTOCOL": "none", "DATABASE_URL": "mysql://x"}
    ended = show("--json", MODELS_FILE=str(path), **wrong)
    assert ended.exit_code == 2
    document = json.loads(ended.stdout)
    assert document["exit_code"] == 2
    found = {setting["name"]: setting for setting in document["settings"] if setting["problem"]}
    places = {"models.small.endpoints.0.base_url", "models.small.endpoints.0.rpm", "models.small.prise"}
    assert set(found) == {*wrong, *places}
    assert found["MAX_IN_FLIGHT"]["value"] == "many"
    assert found["DATABASE_URL"]["problem"].startswith("must look like postgresql://")
    for broken in (tmp_path / "not-here.yaml", tmp_path):
        assert told(MODELS_FILE=str(broken))["MODELS_FILE"]["problem"]
    missing = show("--program", "worker")
    assert missing.exit_code == 2
    assert "PROBLEM: together: set LLM_BASE_URL (one endpoint) or MODELS_FILE (several)" in missing.stdout


def leaks(tmp_path: Path) -> list[dict[str, str]]:
    """Every secret in each place that it can be in, well or badly."""
    models = tmp_path / "models.yaml"
    models.write_text(MODELS)
    found: list[dict[str, str]] = []
    for name in SECRETS:
        value = f"postgresql://u:{CANARY}@h/d" if name == "DATABASE_URL" else CANARY
        good, broken = tmp_path / f"{name}.good", tmp_path / f"{name}.broken"
        good.write_text(value)
        broken.write_text(f"{value}\n{value}")
        found += [{name: value}, {name: f"{value}\nx"}, {f"{name}_FILE": str(good)}, {f"{name}_FILE": str(broken)}]
        found += [{name: value, f"{name}_FILE": str(good)}, {f"{name}_FILE": CANARY}]
    found += [{"DATABASE_URL": value} for value in DATABASES]
    found += [{name: value} for name in ("LLM_BASE_URL", "OTEL_EXPORTER_OTLP_ENDPOINT") for value in ADDRESSES]
    found += [{"KAFKA_BOOTSTRAP_SERVERS": f"{value}@h:9092"} for value in (f"u:{CANARY}", f"SASL_SSL://u:{CANARY}")]
    found += [{name: value} for name in ("KAFKA_PRODUCER_CONF", "KAFKA_CONSUMER_CONF") for value in PROPERTIES]
    keys = ({"A_KEY": CANARY}, {"A_KEY": f"{CANARY}\n{CANARY}"}, {"A_KEY_FILE": str(broken)}, {"A_KEY_FILE": CANARY})
    return found + [{"MODELS_FILE": str(models), **key} for key in keys]


def test_no_secret_comes_out_of_any_setting_in_any_form(tmp_path: Path) -> None:
    """In plain lines, as JSON, and on a terminal."""
    cases = leaks(tmp_path)
    assert {"DATABASE_URL", "KAFKA_SASL_PASSWORD", "LLM_API_KEY"} <= set(SECRETS)
    forms: tuple[tuple[list[str], dict[str, str]], ...] = (([], {}), (["--json"], {}), ([], {"FORCE_COLOR": "1"}))
    for case, (words, look) in itertools.product(cases, forms):
        shown = show(*words, **{**ENDPOINT, "COLUMNS": "400", **case, **look})
        assert shown.exit_code in (0, 2)
        assert len(shown.output) > 900
        assert CANARY not in shown.output, case


@pytest.mark.parametrize(
    "content",
    [
        "models: [%s",
        "models: {a: {endpoints: [{base_url: 'http://u:%s@h/v1'}]}}",
        "models: {a: {endpoints: [{base_url: 'http://h/v1', api_key: %s}]}}",
        "models: {a: {endpoints: [{base_url: 'http://h/v1', api_key: *%s}]}}",
    ],
)
def test_a_secret_in_a_broken_models_file_does_not_come_out(content: str, tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(content.replace("%s", CANARY))
    ended = show(MODELS_FILE=str(path))
    assert ended.exit_code == 2
    assert "PROBLEM" in ended.output
    assert CANARY not in ended.output


def test_a_terminal_gets_a_table_and_no_colour_where_none_is_wanted() -> None:
    plain = show(**ENDPOINT).stdout
    coloured = show("--program", "worker", FORCE_COLOR="1", COLUMNS="200").stdout
    uncoloured = show("--program", "worker", FORCE_COLOR="1", NO_COLOR="1", COLUMNS="200").stdout
    assert "\x1b[" not in plain
    assert "\t" in plain
    assert "\t" not in coloured
    assert "\x1b[1msetting" in coloured
    assert "\x1b[3" not in uncoloured


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("linger.ms=5, batch.size=9", "linger.ms=5,batch.size=9"),
        ("ssl.key.location=/etc/k.pem,linger.ms=5", "ssl.key.location=/etc/k.pem,linger.ms=5"),
        ("linger.ms=5,sasl.password=x", "linger.ms=5,sasl.password=***"),
        ("sasl.password=x,linger.ms=5", "sasl.password=***,***"),
        ("linger.ms=5,words", "linger.ms=5,***"),
    ],
)
def test_properties_are_shown_up_to_the_first_that_may_be_secret(text: str, shown: str) -> None:
    assert hiding.properties(text) == shown

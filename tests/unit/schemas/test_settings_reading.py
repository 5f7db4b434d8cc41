"""The environment is read once: defaults, all problems at once, in words that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.fleet import FleetSettings
from schemas.settings import DatabaseSettings, KafkaSettings, LogSettings, SettingsError, TopicSettings, variables
from worker.settings import WorkerSettings

ENDPOINT = {"LLM_BASE_URL": "http://llm:8000/v1"}
MODELS = """
models:
  small: {endpoints: [{base_url: "http://a:8000/v1", api_key_env: A_KEY}, {base_url: "http://b:8000/v1"}]}
  large: {endpoints: [{base_url: "https://c/v1/", model: big-1, api_key_env: C_KEY}]}
"""


@pytest.fixture
def models_file(tmp_path: Path) -> Path:
    path = tmp_path / "models.yaml"
    path.write_text(MODELS)
    return path


def problems(environ: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        WorkerSettings(environ)
    return caught.value.problems


def test_one_endpoint_is_enough_and_the_rest_has_its_defaults() -> None:
    settings = WorkerSettings(ENDPOINT)
    fleet = settings.fleet
    assert (fleet.max_in_flight, fleet.drain_seconds, fleet.metrics_port, fleet.group) == (
        256,
        25,
        9400,
        "headrace-worker",
    )
    assert fleet.metrics_host == "127.0.0.1"
    assert settings.kafka.bootstrap_servers == "localhost:9092"
    assert settings.topics.prompts == r"^headrace\.prompts(\..+)?$"
    assert (settings.topics.partitions, settings.topics.dead_letters) == (12, "headrace.dead-letters")
    assert settings.database.url.get_secret_value() == "postgresql://headrace@localhost:5432/headrace"
    assert (settings.log.level, settings.log.format) == ("INFO", "json")
    assert fleet.outage_hours == 24
    assert settings.default_model == "default"


def test_an_empty_variable_is_an_absent_one() -> None:
    empty = dict.fromkeys(variables(FleetSettings, KafkaSettings, TopicSettings, DatabaseSettings, LogSettings), "")
    assert WorkerSettings(empty | ENDPOINT).fleet == WorkerSettings(ENDPOINT).fleet


def test_every_problem_is_said_at_once() -> None:
    found = problems(
        {
            "LLM_BASE_URL": "llm:8000",
            "MAX_IN_FLIGHT": "many",
            "DRAIN_SECONDS": "0",
            "METRICS_PORT": "70000",
            "KAFKA_SECURITY_PROTOCOL": "TLS",
            "PROMPTS_PARTITIONS": "0",
            "DATABASE_URL": "mysql://x",
            "LOG_LEVEL": "LOUD",
            "LOG_FORMAT": "xml",
        }
    )
    named = {problem.split()[0] for problem in found}
    assert named >= {
        "LLM_BASE_URL",
        "MAX_IN_FLIGHT",
        "DRAIN_SECONDS",
        "METRICS_PORT",
        "KAFKA_SECURITY_PROTOCOL",
        "PROMPTS_PARTITIONS",
        "DATABASE_URL",
        "LOG_LEVEL",
        "LOG_FORMAT",
    }


def test_without_an_endpoint_it_says_what_to_set() -> None:
    assert any("LLM_BASE_URL" in problem and "MODELS_FILE" in problem for problem in problems({}))


@pytest.mark.parametrize("url", ["http://llm:8000/v1", "http://llm:8000/v1/", " http://llm:8000/v1// "])
def test_a_trailing_slash_of_the_base_url_makes_no_difference(url: str) -> None:
    assert WorkerSettings({"LLM_BASE_URL": url}).fleet.base_url == "http://llm:8000/v1"


@pytest.mark.parametrize(
    "url", ["ftp://llm", "llm:8000", "http://", "http://me:pw@llm/v1", "http://llm/v1?key=x", "//llm"]
)
def test_a_base_url_that_cannot_be_one(url: str) -> None:
    assert [problem.split()[0] for problem in problems({"LLM_BASE_URL": url})] == ["LLM_BASE_URL"]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_each_common_form_of_a_database_address_is_the_plain_one(scheme: str) -> None:
    url = DatabaseSettings.read({"DATABASE_URL": f"{scheme}://u:p@h:1/d?sslmode=require"}).url
    assert url.get_secret_value() == "postgresql://u:p@h:1/d?sslmode=require"


def test_the_models_file_wins_over_the_plain_settings(models_file: Path) -> None:
    settings = WorkerSettings(ENDPOINT | {"MODELS_FILE": str(models_file), "A_KEY": " ka\n", "C_KEY": "kc"})
    assert list(settings.models) == ["small", "large"]
    assert settings.default_model == "small"
    assert {name: key() for name, key in settings.keys.items()} == {None: "", "A_KEY": "ka", "C_KEY": "kc"}
    assert settings.models["large"].endpoints[0].base_url == "https://c/v1"


def test_the_default_alias_is_llm_model_if_the_file_knows_it(models_file: Path) -> None:
    environ = {"MODELS_FILE": str(models_file), "LLM_MODEL": "large"}
    assert WorkerSettings(environ).default_model == "large"
    assert any("LLM_MODEL tiny" in problem for problem in problems(environ | {"LLM_MODEL": "tiny"}))


def test_the_one_endpoint_is_known_by_its_model() -> None:
    settings = WorkerSettings(ENDPOINT | {"LLM_MODEL": "qwen"})
    assert (settings.default_model, list(settings.models)) == ("qwen", ["qwen"])


def test_a_models_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.yaml"
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: no such file"):
        WorkerSettings({"MODELS_FILE": str(path)})


@pytest.mark.parametrize("topic", ["a b", "", "../x", "x" * 250])
def test_a_prompts_topic_that_kafka_refuses(topic: str) -> None:
    environ = {"PROMPTS_TOPIC": topic} if topic else {"DEAD_LETTER_TOPIC": "a b"}
    with pytest.raises(SettingsError, match="legal topic name"):
        TopicSettings.read(environ)


def test_an_expression_that_is_none_is_a_problem_and_not_a_crash() -> None:
    with pytest.raises(SettingsError, match="PROMPTS_TOPIC"):
        TopicSettings.read({"PROMPTS_TOPIC": "^headrace[", "DEAD_LETTER_TOPIC": "letters"})


@pytest.mark.parametrize(
    ("prompts", "letters"),
    [("^headrace", "headrace.dead-letters"), ("^.*", "letters"), ("mine", "mine"), ("^a|letters", "letters")],
)
def test_dead_letters_are_never_read_as_prompts(prompts: str, letters: str) -> None:
    with pytest.raises(SettingsError, match="DEAD_LETTER_TOPIC"):
        TopicSettings.read({"PROMPTS_TOPIC": prompts, "DEAD_LETTER_TOPIC": letters})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        LogSettings.read({}).level = "DEBUG"  # type: ignore[misc]


def test_two_workers_on_one_machine_have_two_names() -> None:
    settings = WorkerSettings(ENDPOINT)
    assert settings.worker != settings.worker

"""The job file with its output schema, and the environment."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from producer.settings import read_job, read_settings
from schemas.models import Price
from schemas.settings import SettingsError

JOB = """
job: reviews
source: {format: parquet, path: data/reviews}
id: review_id
prompt: {template: "{text}"}
target: {format: parquet, path: /lake/labelled}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_relative_paths_start_at_the_job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, JOB)
    monkeypatch.chdir(tmp_path)
    file = read_job(Path("job.yaml"))

    assert file.locate(file.job.source.path or "") == f"file://{tmp_path}/data/reviews"
    assert file.locate(file.job.target.path or "") == "/lake/labelled"
    assert file.locate("s3a://lake/x") == "s3a://lake/x"


def test_the_output_schema_becomes_a_response_format(tmp_path: Path) -> None:
    (tmp_path / "my label.json").write_text('{"type": "object"}', encoding="utf-8-sig")
    file = read_job(write(tmp_path, JOB + "output: {json_schema: my label.json}"))

    assert file.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "my_label", "schema": {"type": "object"}, "strict": True},
    }


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read"), (b"{", "is not JSON"), (b"[1]", "must hold a JSON object"), (b"\xff", "is not JSON")],
)
def test_an_unusable_output_schema_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "label.json").write_bytes(content)
    with pytest.raises(SettingsError, match=rf"output.json_schema: label.json {problem}"):
        read_job(write(tmp_path, JOB + "output: {json_schema: label.json}"))


def test_problems_of_all_groups_come_at_once() -> None:
    environ = {"DATABASE_URL": "mysql://x", "KAFKA_SECURITY_PROTOCOL": "none", "PROMPTS_PARTITIONS": "0"}
    with pytest.raises(SettingsError) as raised:
        read_settings(environ)
    assert [problem.split()[0] for problem in raised.value.problems] == [
        "KAFKA_SECURITY_PROTOCOL",
        "PROMPTS_PARTITIONS",
        "DATABASE_URL",
    ]


def test_no_secret_shows() -> None:
    settings = read_settings({"KAFKA_SASL_PASSWORD": "hunter2", "DATABASE_URL": "postgresql://a:hunter2@db/x"})
    assert "hunter2" not in repr(settings)


def test_prices_are_read_without_any_key(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    endpoint = "endpoints: [{base_url: 'http://a/v1', api_key_env: NOT_SET_HERE}]"
    price = "price: {input_per_million: 1, output_per_million: 2}"
    file.write_text(f"models: {{a: {{{endpoint}, {price}}}, b: {{{endpoint}}}}}")
    found = read_settings({"MODELS_FILE": str(file)}).catalog
    assert found is not None
    assert found.default == "a"
    assert found.price(None) == found.price("a") == Price(input_per_million=Decimal(1), output_per_million=Decimal(2))
    assert found.price("b") is found.price("c") is None
    assert read_settings({}).catalog is None


def test_a_default_that_the_file_does_not_know_and_a_broken_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("models: {a: {endpoints: [{base_url: 'http://a/v1'}]}}")
    with pytest.raises(SettingsError, match=r"LLM_MODEL b is no alias of .*; it knows a"):
        read_settings({"MODELS_FILE": str(file), "LLM_MODEL": "b"})
    file.write_text("models: {a: {endpoints: []}}")
    with pytest.raises(SettingsError, match=r"models\.a\.endpoints"):
        read_settings({"MODELS_FILE": str(file)})

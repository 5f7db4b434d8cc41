"""Secrets come from a variable or a file, are stripped, and are never shown."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.settings import DatabaseSettings, KafkaSettings, SettingsError
from worker.settings import WorkerSettings

CANARY = "s3cret-canary-7f"
ENDPOINT = {"LLM_BASE_URL": "http://llm:8000/v1"}
Reader = Callable[[dict[str, str]], object]
SECRETS: list[tuple[str, Reader]] = [
    ("LLM_API_KEY", lambda environ: WorkerSettings(ENDPOINT | environ)),
    ("KAFKA_SASL_PASSWORD", KafkaSettings.read),
    ("DATABASE_URL", DatabaseSettings.read),
]


def good(name: str, secret: str) -> str:
    return f"postgresql://u:{secret}@h/d" if name == "DATABASE_URL" else secret


@pytest.mark.parametrize(("name", "read"), SECRETS)
def test_a_secret_is_shown_by_nothing(name: str, read: Reader) -> None:
    found = read({name: good(name, CANARY)})
    shown = [repr(found), str(found), repr(vars(found)), *(repr(value) for value in vars(found).values())]
    assert CANARY not in "".join(shown)


@pytest.mark.parametrize(("name", "read"), SECRETS)
def test_a_secret_with_a_line_break_inside_is_refused_without_being_shown(name: str, read: Reader) -> None:
    for broken in (f"{CANARY}\n{CANARY}", f"{CANARY}\r{CANARY}", f"\n{CANARY}\r\nx\n"):
        with pytest.raises(SettingsError, match=f"{name} holds a line break inside") as caught:
            read({name: good(name, broken)})
        assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("special", ["/", "@", "%zz", "?a/b@", ":1/"])
def test_a_password_that_is_not_percent_encoded_is_refused_before_a_driver_shows_its_parts(special: str) -> None:
    with pytest.raises(SettingsError, match=r"DATABASE_URL must .*percent-encode") as caught:
        DatabaseSettings.read({"DATABASE_URL": f"postgresql://u:{CANARY}{special}{CANARY}@h:1/d"})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "rest",
    [
        "/d",
        "u@h",
        "u:a%40b%2Fc@h:5432/d",
        "u@[::1]:5432/d",
        "u:p@a:1,b:2/d?sslmode=require",
        "%2Frun%2Fpostgres/d",
        "u@/d?host=/tmp/x",
    ],
)
def test_an_address_that_libpq_takes_is_taken(rest: str) -> None:
    assert DatabaseSettings.read({"DATABASE_URL": f"postgresql://{rest}"}).url.get_secret_value().endswith(rest)


@pytest.mark.parametrize("value", [CANARY, f"http://{CANARY}@[", f"mysql://u:{CANARY}@h/d"])
def test_an_error_about_a_secret_does_not_show_it(value: str) -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL") as caught:
        DatabaseSettings.read({"DATABASE_URL": value})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_an_error_about_an_address_does_not_show_the_password_in_it() -> None:
    with pytest.raises(SettingsError, match="LLM_BASE_URL") as caught:
        WorkerSettings({"LLM_BASE_URL": f"http://me:{CANARY}@llm/v1"})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_white_space_around_a_secret_is_taken_off() -> None:
    assert WorkerSettings(ENDPOINT | {"LLM_API_KEY": f" \t{CANARY}\r\n"}).keys[None]() == CANARY


@pytest.mark.parametrize(("name", "read"), SECRETS)
def test_each_secret_is_also_read_from_a_file(name: str, read: Reader, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(good(name, CANARY) + "\n")
    found = read({f"{name}_FILE": str(path)})
    assert _secret_of(found) == good(name, CANARY)


def _secret_of(found: object) -> str:
    if isinstance(found, WorkerSettings):
        return found.keys[None]()
    if isinstance(found, KafkaSettings):
        assert found.sasl_password is not None
        return found.sasl_password.get_secret_value()
    assert isinstance(found, DatabaseSettings)
    return found.url.get_secret_value()


@pytest.mark.parametrize(("name", "read"), SECRETS)
def test_a_variable_and_its_file_together_are_a_problem(name: str, read: Reader, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(good(name, "x"))
    with pytest.raises(SettingsError, match=f"{name} and {name}_FILE are both set"):
        read({name: good(name, CANARY), f"{name}_FILE": str(path)})


@pytest.mark.parametrize(("name", "read"), SECRETS)
def test_a_file_that_cannot_be_read_is_named_with_its_path(name: str, read: Reader, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "nowhere", tmp_path, binary):
        with pytest.raises(SettingsError, match=f"{name}_FILE {path} cannot be read"):
            read({f"{name}_FILE": str(path)})


def test_keys_of_the_models_file_are_read_by_their_names(tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("models: {m: {endpoints: [{base_url: 'http://a/v1', api_key_env: A_KEY}]}}")
    (tmp_path / "key").write_text(f" {CANARY}\n")
    environ = {"MODELS_FILE": str(models), "A_KEY_FILE": str(tmp_path / "key")}
    assert WorkerSettings(environ).keys["A_KEY"]() == CANARY
    for wrong in ({"A_KEY": f"{CANARY}\n{CANARY}"}, {"A_KEY_FILE": str(tmp_path / "nowhere")}):
        with pytest.raises(SettingsError, match="A_KEY") as caught:
            WorkerSettings({"MODELS_FILE": str(models)} | wrong)
        assert CANARY not in str(caught.value)

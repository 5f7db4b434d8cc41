from __future__ import annotations

from pathlib import Path

import pytest

from simulator.script import Script
from simulator.settings import Settings, SettingsError, read_settings


def test_nothing_set_gives_the_defaults() -> None:
    assert read_settings({}) == Settings("127.0.0.1", 8090, "0", 0.0, None, Script())
    assert read_settings({"SIMULATOR_PORT": "", "SIMULATOR_SCRIPT": "", "SIMULATOR_LEDGER": ""}) == Settings()


def test_everything_is_read(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"status": 500}]')
    settings = read_settings(
        {
            "SIMULATOR_HOST": "0.0.0.0",
            "SIMULATOR_PORT": "0",
            "SIMULATOR_SEED": "seven",
            "SIMULATOR_LATENCY_MS": "2.5",
            "SIMULATOR_LEDGER": str(tmp_path / "ledger"),
            "SIMULATOR_SCRIPT": str(script),
        }
    )
    assert (settings.host, settings.port, settings.seed, settings.latency_ms) == ("0.0.0.0", 0, "seven", 2.5)
    assert settings.ledger == tmp_path / "ledger"
    assert settings.script.rules[0].action.status == 500


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"statuss": 500}, {"hang": 1}]')
    environ = {"SIMULATOR_PORT": "70000", "SIMULATOR_LATENCY_MS": "slow", "SIMULATOR_SCRIPT": str(script)}
    with pytest.raises(SettingsError) as caught:
        read_settings(environ)
    assert str(caught.value).splitlines() == [
        "SIMULATOR_PORT: must be a number from 0 to 65535, got '70000'",
        "SIMULATOR_LATENCY_MS: must be a number from 0 to 86400000, got 'slow'",
        f"SIMULATOR_SCRIPT: {script}: the script has problems:",
        "  rules[0].statuss: unknown field, did you mean status?",
        "  rules[1].hang: must be true or false, got 1",
    ]


@pytest.mark.parametrize("port", ["80.5", "-1", "nan", "http"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(SettingsError, match="SIMULATOR_PORT"):
        read_settings({"SIMULATOR_PORT": port})


def test_a_script_that_is_missing_is_named() -> None:
    with pytest.raises(SettingsError, match="cannot read /nowhere/script: No such file"):
        read_settings({"SIMULATOR_SCRIPT": "/nowhere/script"})

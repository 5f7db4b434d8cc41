"""The settings of the simulator, read from the environment in this one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.reading import ScriptError, parse_script
from simulator.script import Script


class SettingsError(ValueError):
    """Settings that cannot be used; the text has one line per fault."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to listen and how to behave; `latency_ms` holds for rules that set none."""

    host: str = "127.0.0.1"
    port: int = 8090
    seed: str = "0"
    latency_ms: float = 0.0
    ledger: Path | None = None
    script: Script = field(default_factory=Script)


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Reads every `SIMULATOR_` variable; raises `SettingsError` with all problems at once."""
    problems: list[str] = []
    port = _number(environ, "SIMULATOR_PORT", 8090, 65535, problems)
    latency_ms = _number(environ, "SIMULATOR_LATENCY_MS", 0, 86_400_000, problems)
    script = _script(environ.get("SIMULATOR_SCRIPT", ""), problems)
    if problems:
        raise SettingsError("\n".join(problems))
    ledger = environ.get("SIMULATOR_LEDGER", "")
    return Settings(
        host=environ.get("SIMULATOR_HOST") or "127.0.0.1",
        port=int(port),
        seed=environ.get("SIMULATOR_SEED") or "0",
        latency_ms=latency_ms,
        ledger=Path(ledger) if ledger else None,
        script=script,
    )


def _number(environ: Mapping[str, str], name: str, default: float, most: float, problems: list[str]) -> float:
    raw = environ.get(name) or str(default)
    try:
        value = float(raw)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most or (name.endswith("PORT") and value != int(value)):
        problems.append(f"{name}: must be a number from 0 to {most:.0f}, got {raw!r}")
        return default
    return value


def _script(path: str, problems: list[str]) -> Script:
    if not path:
        return Script()
    try:
        return parse_script(Path(path).read_bytes())
    except OSError as error:
        problems.append(f"SIMULATOR_SCRIPT: cannot read {path}: {error.strerror}")
    except ScriptError as error:
        problems.append(f"SIMULATOR_SCRIPT: {path}: {error}")
    return Script()

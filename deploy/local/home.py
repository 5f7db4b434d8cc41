"""The kept stack of a working copy: `.headrace/local` with its data, `.headrace/local.env` for programs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.local import scratch
from deploy.local.kafka import Kafka
from deploy.local.postgres import Postgres, PostgresOptions
from deploy.local.stack import LocalStack

DEFAULT_HOME = Path(__file__).parents[2] / ".headrace"


class Home:
    """Where one kept stack lives: `<path>/local/` and `<path>/local.env`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.folder = self.path / "local"
        self.env_file = self.path / "local.env"

    def stack(self) -> LocalStack:
        """Return the stack, running or not; its Postgres survives a power cut."""
        postgres = Postgres(self.folder / "postgres", PostgresOptions(durable=True))
        return LocalStack(self.folder, Kafka(self.folder / "kafka"), postgres)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold off every other command on this stack."""
        self.path.mkdir(parents=True, exist_ok=True)
        with self.path.joinpath("local.lock").open("w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield

    def write_env(self, values: Mapping[str, str]) -> None:
        """Write the settings, readable by their owner alone; a reader sees the old file or the new one."""
        fresh = self.env_file.with_suffix(".env.new")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        os.replace(fresh, self.env_file)

    def wipe(self) -> None:
        """Kill what runs and remove every trace of the stack, save what was downloaded."""
        postgres = self.stack().postgres.folder
        for folder in (self.folder, postgres):
            scratch.clear(folder)
        self.env_file.unlink(missing_ok=True)

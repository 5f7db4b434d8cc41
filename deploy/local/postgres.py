"""A real Postgres of its own: own cluster, own port on loopback, own password."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from deploy.local import accounts, ports, postgres_binaries, processes, steps
from deploy.local.processes import Identity
from deploy.local.server import Server
from deploy.local.steps import Watch

GRACE_S = 30.0
NAME = "headrace"


@dataclass(frozen=True)
class PostgresOptions:
    """What a caller may change: server settings, and whether data survive a power cut (slower)."""

    settings: Mapping[str, str] = field(default_factory=dict)
    durable: bool = False


class Postgres:
    """A server whose cluster, log and port live in `folder`; any process may stop what another started."""

    def __init__(self, folder: Path, options: PostgresOptions | None = None) -> None:
        self.options = options or PostgresOptions()
        self.account = accounts.other_account()
        self.wanted = folder.absolute()
        self.folder = accounts.reachable_folder(self.wanted, self.account)
        self.server = Server("Postgres", self.folder)
        self.data = self.folder / "data"

    @property
    def url(self) -> str:
        """URL of the database `headrace` for its owner, a superuser; it holds the password."""
        return self.url_of(NAME)

    def url_of(self, database: str) -> str:
        """URL of another database of this server."""
        password = self.folder.joinpath("password").read_text()
        return f"postgresql://{NAME}:{password}@{self.address}/{database}"

    @property
    def address(self) -> str:
        """`host:port`, without the password."""
        return f"{ports.HOST}:{self._port()}"

    @property
    def pid(self) -> int | None:
        """The server's process id; None when it does not run."""
        identity = self.server.running()
        return identity.pid if identity else None

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.server.log

    def start(self, watch: Watch | None = None) -> Postgres:
        """Start the server and wait until it answers; do nothing when it runs already.

        Raises MissingError without a Postgres on the machine, UnreachableError when it does not answer in time,
        StartError when it ends by itself.
        """
        watch = watch or Watch()
        identity = self.server.running() or self._launch(watch)
        self.server.wait_until(self.answers, identity, watch)
        self._create_database()
        return self

    def answers(self) -> bool:
        """Whether the server answers a query."""
        try:
            with psycopg.connect(self.url_of("postgres"), connect_timeout=5) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except (psycopg.OperationalError, FileNotFoundError):
            return False

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End the server: connections are cut, the data are in order. SIGQUIT ends it without a checkpoint."""
        self.server.stop(number, GRACE_S)

    def kill(self) -> None:
        """End the server and its backends at once, as a crash does; what is committed stays."""
        self.server.stop(signal.SIGKILL, GRACE_S)
        self._end_orphans()

    def restart(self, watch: Watch | None = None) -> Postgres:
        """Stop the server if it runs and start it on the same data and port."""
        self.stop()
        return self.start(watch)

    def _port(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        return ports.remembered(self.folder / "ports.json", ("client",))["client"]

    def _launch(self, watch: Watch) -> Identity:
        self._prepare_folder()
        programs = self._programs()
        if not self.data.joinpath("PG_VERSION").exists():
            self._init(programs, watch)
        self._end_orphans()
        self._forget_reused_pid()
        ports.require_free("Postgres", [self._port()], self.folder / "ports.json")
        settings = {"listen_addresses": ports.HOST, "port": str(self._port()), **self._settings()}
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return self.server.launch([programs / "postgres", "-D", self.data, *flags], **self._popen())

    def _end_orphans(self) -> None:
        """End the backends that outlive a killed server; while they run, no other may use its data."""
        for backend in processes.working_in(self.data, "postgres"):
            processes.end(backend, signal.SIGKILL, GRACE_S)

    def _forget_reused_pid(self) -> None:
        """Remove Postgres's own lock file when its pid, after a crash, belongs to some other program.

        Postgres asks only whether the pid is in use, so it would refuse to start. Called when the
        recorded server does not run; with the pid unused Postgres itself decides, which is safer.
        """
        lock = self.data / "postmaster.pid"
        recorded = processes.recorded(self.server.pid_file)
        if not recorded or not lock.exists():
            return
        if lock.read_text().split()[0] == str(recorded.pid) and processes.identify(recorded.pid):
            lock.unlink()

    def _settings(self) -> dict[str, str]:
        # Without fsync a killed server loses nothing, only a machine that loses power does.
        speed = {} if self.options.durable else {"fsync": "off", "full_page_writes": "off"}
        return {"unix_socket_directories": "", **speed, **self.options.settings}

    def _popen(self) -> dict[str, Any]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {"cwd": self.folder, "env": environ, **(self.account.popen if self.account else {})}

    def _prepare_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        accounts.require_own(self.folder)
        self.folder.chmod(0o711)
        password = self.folder / "password"
        if not password.exists():
            password.touch(mode=0o600)
            password.write_text(secrets.token_urlsafe(18))

    def _programs(self) -> Path:
        """The server's programs, copied to where its user can run them if they lie out of reach."""
        found = postgres_binaries.find()
        if accounts.can_reach(found, self.account):
            return found
        return postgres_binaries.copy_to(found, self.folder / "programs")

    def _init(self, programs: Path, watch: Watch) -> None:
        fresh = self.folder / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        password = self.folder / "password.init"
        shutil.copy(self.folder / "password", password)
        for path in (fresh, password):
            accounts.hand_over(path, self.account)
        command: list[str | Path] = [
            *(programs / "initdb", "-D", fresh, "--username", NAME, "--pwfile", password),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        ]
        try:
            steps.run(command, "Creating the Postgres cluster", self.log, watch, **self._popen())
        finally:
            password.unlink()
        fresh.rename(self.data)

    def _create_database(self) -> None:
        with (
            contextlib.suppress(psycopg.errors.DuplicateDatabase),
            psycopg.connect(self.url_of("postgres"), autocommit=True) as connection,
        ):
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))

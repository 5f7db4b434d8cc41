"""`headrace exporter`."""

from __future__ import annotations

import os
import signal
import threading
import time

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from control.ends import ending, stop
from control.exporter.reading import Reader
from control.exporter.series import series
from control.exporter.serving import Server
from control.exporter.sharing import Shared
from control.help import settings as named
from schemas.settings import DatabaseSettings, ExporterSettings, SettingsError
from schemas.statuses import ExitCode

SETTINGS = (
    f"{named('DATABASE_URL', 'EXPORTER_HOST', 'EXPORTER_PORT')} Port 0 takes a free one."
    " Exit codes: 0 told to stop, 1 cannot listen there, 2 wrong settings."
    " A database that is away ends nothing: headrace_exporter_up is 0 then."
)


def exporter() -> None:
    """Serve what the database knows of every job and of the fleet to Prometheus, until it is told to stop.

    Example: EXPORTER_HOST=0.0.0.0 headrace exporter
    """
    with ending():
        settings, database = _settings()
    shared = Shared(Reader(database).read, time.monotonic, _tell)
    try:
        server = Server(settings.host, settings.port, lambda: series(shared.latest()))
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        stop(ExitCode.FAILED, f"cannot listen on {where}: {error.strerror}. Choose EXPORTER_HOST and EXPORTER_PORT.")
    _serve(server, f"http://{settings.host}:{server.port}/metrics")


def _settings() -> tuple[ExporterSettings, DatabaseSettings]:
    settings, database = ExporterSettings.read(os.environ), DatabaseSettings.read(os.environ)
    try:
        conninfo_to_dict(database.url.get_secret_value())
    except psycopg.Error:
        # What it says would show a part of the address, which may be the password.
        raise SettingsError("settings", ["DATABASE_URL cannot be read as an address of Postgres"]) from None
    return settings, database


def _serve(server: Server, address: str) -> None:
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        _tell(f"exporter: {address}")
        stopped.wait()
        server.shutdown()


def _tell(line: str) -> None:
    typer.echo(line, err=True)

"""The local Kafka and Postgres: they answer, die, come back with their data, and leave nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from deploy.local import ports, processes, stack
from deploy.local.errors import LocalStackError, StartError
from deploy.local.kafka import Kafka
from deploy.local.kafka_config import KafkaOptions
from deploy.local.postgres import Postgres, PostgresOptions
from tests.services import KafkaService, PostgresService

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
OWNER = """
import sys
from deploy.local.stack import throwaway_postgres
with throwaway_postgres() as server:
    print(server.pid, server.folder.parent, flush=True)
    sys.stdin.read()
"""


def wait_for(state: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until a state holds; fail after the deadline."""
    deadline = time.monotonic() + seconds
    while not state():
        assert time.monotonic() < deadline, "the state was not reached"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    """Whether no process has this pid."""
    return processes.identify(pid) is None


def publish(servers: str, topic: str, count: int) -> int:
    """Publish numbered messages; return how many were acknowledged."""
    acknowledged = 0

    def count_it(error: KafkaError | None, _message: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, str(number), on_delivery=count_it)
    assert producer.flush(30) == 0
    return acknowledged


def consume(servers: str, topic: str, count: int) -> set[bytes]:
    """Read a topic from its begin as a group of the new protocol until `count` messages came."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values: set[bytes] = set()
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
        values.update(message.value() or b"" for message in consumer.consume(count, 1) if not message.error())
    consumer.close()
    return values


def headrace_local(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a stack of its own."""
    command = [sys.executable, "-m", "deploy.local", "--home", str(home), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_shared_kafka_answers(kafka: KafkaService) -> None:
    assert AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=10).brokers


def test_the_shared_postgres_gives_fresh_databases(postgres: PostgresService) -> None:
    first, second = postgres.new_database(), postgres.new_database()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE t (i int)")
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT to_regclass('t')").fetchone() == (None,)
    postgres.drop_database(first)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)


def test_a_killed_kafka_keeps_what_it_acknowledged_and_comes_back_at_its_address() -> None:
    with stack.throwaway_kafka(KafkaOptions(overrides={"message.max.bytes": "54321"})) as server:
        servers, pid = server.bootstrap_servers, server.pid
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("kept", 3)])["kept"].result(10)
        assert publish(servers, "kept", 200) == 200
        server.kill()
        assert pid is not None
        assert gone(pid)
        assert ports.is_free(int(servers.split(":")[1]))
        server.start()
        assert server.bootstrap_servers == servers
        assert len(consume(servers, "kept", 200)) == 200
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        settings = admin.describe_configs([resource])[resource].result(10)
        assert settings["message.max.bytes"].value == "54321"


def test_clients_of_the_second_listener_are_sent_through_the_proxy() -> None:
    with stack.throwaway_kafka(KafkaOptions(proxy_port=19_999)) as server:
        proxied = AdminClient({"bootstrap.servers": f"{ports.HOST}:{server.proxied_port}", "log_level": 0})
        assert [broker.port for broker in proxied.list_topics(timeout=10).brokers.values()] == [19_999]
        direct = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        assert [str(broker.port) for broker in direct.list_topics(timeout=10).brokers.values()] == [
            server.bootstrap_servers.split(":")[1]
        ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGINT])
def test_a_postgres_that_ends_keeps_what_is_committed(number: signal.Signals) -> None:
    with stack.throwaway_postgres(PostgresOptions(settings={"work_mem": "5MB"})) as server:
        url = server.url
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
        if number is signal.SIGKILL:
            server.kill()
        else:
            server.stop(number)
        assert server.pid is None
        assert server.start().url == url
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (1000,)
            assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)


def test_backends_that_outlive_a_killed_server_do_not_hold_off_the_next_start() -> None:
    with stack.throwaway_postgres() as server:
        busy = psycopg.connect(server.url, autocommit=True)
        busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 1000000000)")
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: server.pid is None)
        assert server.start().answers()
        busy.close()


def test_a_password_is_asked_for_on_every_way_in() -> None:
    with stack.throwaway_postgres() as server:
        wrong = server.url.replace("headrace:", "headrace:x", 1)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)


def test_a_throwaway_stack_leaves_neither_process_nor_folder() -> None:
    with stack.throwaway() as servers:
        pids = [servers.kafka.pid, servers.postgres.pid]
        folders = [servers.folder, servers.postgres.folder]
        assert servers.env["KAFKA_BOOTSTRAP_SERVERS"] == servers.kafka.bootstrap_servers
    assert all(pid is not None and gone(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)


def test_a_killed_owner_leaves_neither_process_nor_folder() -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert not gone(int(pid))
        owner.kill()
    wait_for(lambda: gone(int(pid)) and not Path(folder).exists())


def test_a_start_that_fails_is_told_in_one_line_that_names_a_log_that_is_there() -> None:
    with (
        pytest.raises(StartError, match="unrecognized configuration parameter") as raised,
        stack.throwaway_postgres(PostgresOptions(settings={"no_such_setting": "1"})),
    ):
        pytest.fail("it started")
    text = str(raised.value)
    log = Path(text.partition("(log: ")[2].removesuffix(")."))
    assert "\n" not in text
    assert log.exists()
    log.unlink()
    log.parent.rmdir()
    log.parent.parent.rmdir()


def test_a_remembered_port_that_another_program_holds_is_named(tmp_path: Path) -> None:
    server = Kafka(tmp_path)
    port = int(server.bootstrap_servers.split(":")[1])
    with (
        socket.create_server((ports.HOST, port)),
        pytest.raises(LocalStackError, match=f"Port {port} .* is taken"),
    ):
        server.start()
    assert server.pid is None


def test_up_is_idempotent_and_down_keeps_the_data_unless_told_to_wipe(tmp_path: Path) -> None:
    assert headrace_local(tmp_path, "status").returncode == 4
    first = headrace_local(tmp_path, "up", "--no-init")
    assert first.returncode == 0, first.stderr
    env = tmp_path.joinpath("local.env")
    assert env.stat().st_mode & 0o777 == 0o600
    values = dict(line.split("=", 1) for line in env.read_text().splitlines())
    assert values.keys() == {"KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL"}
    with psycopg.connect(values["DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE kept ()")
    assert "Already up" in headrace_local(tmp_path, "up", "--no-init").stdout
    assert headrace_local(tmp_path, "status").returncode == 0
    assert headrace_local(tmp_path, "down").returncode == 0
    assert not env.exists()
    assert headrace_local(tmp_path, "up", "--no-init").returncode == 0
    with psycopg.connect(values["DATABASE_URL"]) as connection:
        assert connection.execute("SELECT to_regclass('kept')::text").fetchone() == ("kept",)
    folder = Postgres(tmp_path / "local" / "postgres").folder
    assert headrace_local(tmp_path, "down", "--wipe").returncode == 0
    assert not folder.exists()
    assert not tmp_path.joinpath("local").exists()


def test_an_interrupted_start_leaves_nothing_running(tmp_path: Path) -> None:
    # A shell that starts tests in the background lets them, and all that they start, ignore an interrupt.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "deploy.local"]
    command += ["--home", str(tmp_path), "up", "--no-init"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as starting:
        pid_file = tmp_path / "local" / "kafka" / "kafka.pid"
        wait_for(pid_file.exists)
        wait_for(lambda: processes.recorded(pid_file) is not None)
        identity = processes.recorded(pid_file)
        starting.send_signal(signal.SIGINT)
        _, said = starting.communicate(timeout=60)
    assert (starting.returncode, said) == (3, "Interrupted; nothing was left running.\n")
    assert identity is not None
    assert not processes.is_alive(identity)
    assert Postgres(tmp_path / "local" / "postgres").pid is None
    assert headrace_local(tmp_path, "down", "--wipe").returncode == 0

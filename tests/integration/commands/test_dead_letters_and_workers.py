"""Dead letters with real workers: seen, replayed, answered; those that die again keep their line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from schemas import kafka as properties
from schemas.message import Unreadable
from schemas.settings import KafkaSettings
from schemas.statuses import DeadLetter
from tests.fleet import Fleet, fleet, wait_for
from tests.integration.commands.letters import (
    body,
    bury,
    command,
    command_of_its_own,
    headers_of,
    topic_messages,
    wait_for_leaders,
)
from tests.services import KafkaService, PostgresService
from tests.simulated import Simulated, simulated
from worker.dead_letters import KafkaDeadLetters
from worker.messages import record_of

pytestmark = pytest.mark.integration
FILTERED = {"rules": [{"match": {"id_prefix": "bad"}, "finish_reason": "content_filter"}]}


@pytest.fixture
def endpoint() -> Iterator[Simulated]:
    with simulated() as running:
        yield running


@pytest.fixture
def world(kafka: KafkaService, postgres: PostgresService, endpoint: Simulated, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(kafka.bootstrap_servers, postgres.new_database(), tmp_path, endpoint.base_url) as made:
        wait_for_leaders(made)
        yield made


def settled(world: Fleet) -> None:
    """Wait until the workers have dealt with everything."""
    wait_for(lambda: world.lag() == 0, 60, lambda: f"lag {world.lag()}")


def listed(world: Fleet, *words: str) -> dict[str, dict[str, Any]]:
    return {letter["id"]: letter for letter in command(world, "list", "--json", *words).objects}


def replayed(world: Fleet, *words: str) -> dict[str, Any]:
    ended = command(world, "replay", "--json", *words)
    assert ended.code == 0, ended.err
    return ended.object


def test_poison_and_failed_rows_from_death_to_answer(world: Fleet, endpoint: Simulated) -> None:
    endpoint.set_script(FILTERED)
    world.start()
    world.publish_raw(b"poison", b"not json")
    world.publish(
        [{"id": f"bad-{n}", "prompt": f"What of {n}?"} for n in range(3)] + [{"id": "good", "prompt": "Why?"}]
    )
    world.wait_until_ended(4)
    upgraded = bury(world, body(world, "late", "From a newer producer"), key=b"late")
    wait_for(lambda: len(world.dead_letters()) == 2, 30)
    settled(world)
    found = listed(world)
    assert {id_: letter["reason"] for id_, letter in found.items()} == {
        "poison": "not_json",
        "late": "unknown_version",
        **{f"bad-{n}": "filtered" for n in range(3)},
    }
    assert "http_status: 200" in command(world, "show", "--job", world.job, "--id", "bad-1").out
    assert "__connect.errors.stage: parse" in command(world, "show", found["poison"]["letter"]).out
    dry = replayed(world, "--dry-run")
    assert (dry["matched"], dry["would_send"]) == (5, 4)
    assert [left["why"] for left in dry["left_alone"]] == ["still_unreadable"]
    endpoint.set_script({"rules": []})
    assert replayed(world)["acknowledged"] == 4
    world.wait_until_ended(5)
    wait_for(lambda: world.statuses() == {("succeeded", None): 5}, 60, lambda: str(world.statuses()))
    settled(world)
    after = listed(world)
    assert set(after) == {"poison", "late"}
    assert after["poison"]["replays"] == []
    (replay,) = after["late"]["replays"]
    assert (replay["letter"], replay["status"]) == (upgraded, "succeeded")
    assert command(world, "list").out.splitlines()[1].endswith("\treplayed: succeeded")
    calls = endpoint.stats(ids=True)["ids"]
    assert {id_: calls[id_]["calls"] for id_ in ("good", "late", "bad-0", "bad-1", "bad-2")} == {
        "good": 1,
        "late": 1,
        "bad-0": 2,
        "bad-1": 2,
        "bad-2": 2,
    }
    again = replayed(world)
    assert (again["sent"], sorted(left["why"] for left in again["left_alone"])) == (
        0,
        ["replayed_before", "still_unreadable"],
    )
    assert command_of_its_own(world, "list", "--kind", "failed").err == "no dead letter matches\n"


def test_a_row_that_fails_again_is_another_letter_of_the_same_line(world: Fleet, endpoint: Simulated) -> None:
    endpoint.set_script(FILTERED)
    world.start()
    world.publish([{"id": "bad-1", "prompt": "Why?"}])
    world.wait_until_ended(1)
    settled(world)
    letters = []
    for calls in (2, 3):
        letters.append(listed(world)["bad-1"]["letter"])
        assert replayed(world)["sent"] == 1
        wait_for(lambda: len(world.rows("attempts")) == calls and world.ended() == 1, 60)  # noqa: B023
        settled(world)
    letters.append(listed(world)["bad-1"]["letter"])
    assert len(set(letters)) == 3
    headers = [headers_of(message) for message in topic_messages(world, world.topic)]
    lines = [(h.get("headrace.replay.of"), h.get("headrace.replay.root")) for h in headers]
    assert lines == [(None, None), (letters[0], letters[0]), (letters[1], letters[0])]
    line = command(world, "show", "--job", world.job, "--id", "bad-1", "--json").object["replays"]
    assert [(link["letter"], link["replayed_as"]) for link in line] == list(pairwise(letters))
    # The one that is replayed was not replayed before; those before it are not asked for again.
    assert replayed(world, "--dry-run")["would_send"] == 1


async def test_a_message_that_dies_unread_again_keeps_its_line(world: Fleet) -> None:
    first = bury(world, body(world, "r-1"))
    assert replayed(world)["sent"] == 1
    (message,) = topic_messages(world, world.topic)
    settings = KafkaSettings(bootstrap_servers=world.kafka)
    older = KafkaDeadLetters(properties.producer(settings), world.dead_letter_topic, world.job, "older-release")
    assert await older.put(record_of(message, "log/0"), Unreadable(DeadLetter.VERSION, "v"))
    older.close()
    second = f"{world.dead_letter_topic}/0/1"
    (letter,) = [one for one in command(world, "list", "--json").objects if one["letter"] == second]
    assert letter["replay_of"] == first
    assert replayed(world)["sent"] == 1
    headers = [headers_of(message) for message in topic_messages(world, world.topic)]
    assert [h["headrace.replay.of"] for h in headers] == [first, second]
    assert [h["headrace.replay.root"] for h in headers] == [first, first]
    assert "__connect.errors.class.name" not in headers[1]
    world.start()
    wait_for(lambda: world.statuses() == {("succeeded", None): 1}, 60)
    settled(world)
    assert len(world.rows("attempts")) == 1
    assert {part["why"] for part in replayed(world)["left_alone"]} == {"replayed_before"}
    assert {part["why"] for part in replayed(world, "--again")["left_alone"]} == {"answered"}
    line = command(world, "show", second, "--json").object
    assert (line["replay_of"], [link["letter"] for link in line["replays"]]) == (first, [first, second])
    assert {link["status"] for link in line["replays"]} == {"succeeded"}

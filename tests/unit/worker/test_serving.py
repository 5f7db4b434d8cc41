"""The models file is followed while the worker runs; one with a problem changes nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.virtual_time import virtual
from worker.serving import LOOK_SECONDS, Serving
from worker.settings import WorkerSettings


def endpoint(host: str, **fields: Any) -> dict[str, Any]:
    return {"base_url": f"http://{host}:8000/v1", **fields}


def write(path: Path, **models: list[dict[str, Any]]) -> None:
    path.write_text(yaml.safe_dump({"models": {alias: {"endpoints": some} for alias, some in models.items()}}))


def spoil(path: Path, content: str | None) -> None:
    path.unlink() if content is None else path.write_text(content)


class World:
    """A worker's endpoints, following a file."""

    def __init__(self, path: Path, **environ: str) -> None:
        self.serving = Serving(WorkerSettings({"MODELS_FILE": str(path), **environ}))
        self.upstreams = self.serving.upstreams
        self.changes = 0
        self.running = asyncio.create_task(self.serving.run(self._changed))

    def _changed(self) -> None:
        self.changes += 1

    async def look(self) -> None:
        await asyncio.sleep(1.5 * LOOK_SECONDS)

    async def end(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await self.serving.close()


def served(world: World, alias: str = "small") -> dict[str, float]:
    return {upstream.name: upstream.weight for upstream in world.upstreams.all if upstream.alias == alias}


@virtual
async def _grey_release(path: Path) -> None:
    write(path, small=[endpoint("a", weight=1, rpm=600)])
    world = World(path)
    (old,) = world.upstreams.all
    held = await world.upstreams.admit("small") if not old.meter.shares else None
    old.limiter.limit, old.inside = 77.0, 3
    write(path, small=[endpoint("a", weight=9, rpm=1200, max_concurrency=50), endpoint("b", weight=1)])
    await world.look()
    assert (world.changes, served(world)) == (1, {"a:8000": 9, "b:8000": 1})
    assert world.upstreams.all[0] is old, "what was learned of an endpoint that stays is kept"
    assert (old.limiter.limit, old.inside, old.rpm, held) == (50, 3, 1200, None)
    write(path, small=[endpoint("b", weight=1)])
    await world.look()
    assert served(world) == {"b:8000": 1}
    assert (await world.upstreams.admit("small")).upstream.name == "b:8000"
    await world.end()


def test_weights_limits_and_endpoints_follow_the_file(tmp_path: Path) -> None:
    _grey_release(tmp_path / "models.yaml")


@virtual
async def _bad_file(path: Path) -> None:
    write(path, small=[endpoint("a")])
    world = World(path)
    for content in ("models: [", "models: {small: {endpoints: [{base_url: nowhere}]}}", ""):
        spoil(path, content)
        await world.look()
    spoil(path, None)
    await world.look()
    assert (world.changes, served(world)) == (0, {"a:8000": 1})
    write(path, small=[endpoint("c", api_key_env="OTHER_KEY")])
    await world.look()
    assert served(world) == {"c:8000": 1}
    await world.end()


def test_a_file_with_a_problem_changes_nothing_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        _bad_file(tmp_path / "models.yaml")
    told = [vars(record)["what"] for record in caplog.records if record.getMessage() == "models.unusable"]
    assert len(told) == 3
    assert "base_url: must look like" in told[1]


@virtual
async def _gone_and_back(path: Path) -> None:
    write(path, small=[endpoint("a", max_concurrency=1)], large=[endpoint("l")])
    world = World(path)
    held = await world.upstreams.admit("small")
    waiting = asyncio.create_task(world.upstreams.admit("small"))
    write(path, large=[endpoint("l")])
    await world.look()
    later = asyncio.create_task(world.upstreams.admit("small"))
    world.upstreams.leave(held)
    await world.look()
    assert not waiting.done()
    assert not later.done()
    assert world.upstreams.faults == {"model small": "is not in the models file"}
    assert world.upstreams.default == "large"
    write(path, small=[endpoint("b", max_concurrency=9)], large=[endpoint("l")])
    await world.look()
    assert {(await waiting).upstream.name, (await later).upstream.name} == {"b:8000"}
    assert world.upstreams.faults == {}
    await world.end()


def test_callers_of_an_alias_that_has_gone_wait_until_it_is_back(tmp_path: Path) -> None:
    _gone_and_back(tmp_path / "models.yaml")

"""Claims are kept alive while their owner lives, and only those it still holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.fakes.samples import work
from tests.fakes.store import FakeStore, Tables
from tests.fakes.virtual_time import now, virtual, wall
from worker.core.claims import Claim, Verdict
from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.leases import Leases
from worker.ports import Work


class Recording(FakeStore):
    """Remembers when which claims were renewed; the next `failures` renewals fail."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(Tables(wall), "a")
        self.failures = list(failures)
        self.renewals: list[tuple[float, list[str]]] = []

    async def renew(self, works: Sequence[Work]) -> list[bool]:
        self.renewals.append((now() - 1000, [work.prompt.id for work in works]))
        if self.failures:
            raise self.failures.pop(0)
        return await super().renew(works)


async def claimed(store: FakeStore, *ids: str) -> list[Work]:
    works = [work(id_) for id_ in ids]
    for one, claim in zip(works, await store.claim(works), strict=True):
        one.claim = claim
    return works


@virtual
async def test_all_held_claims_are_renewed_together_every_twenty_seconds() -> None:
    store = Recording()
    leases = Leases(store, 20)
    for one in await claimed(store, "a", "b"):
        leases.hold(one)
    running = asyncio.create_task(leases.run())
    await asyncio.sleep(61)
    assert store.renewals == [(20, ["a", "b"]), (40, ["a", "b"]), (60, ["a", "b"])]
    running.cancel()


@virtual
async def test_a_claim_outlives_any_call_while_its_owner_lives() -> None:
    store = Recording()
    leases = Leases(store, 20)
    (held,) = await claimed(store, "a")
    leases.hold(held)
    running = asyncio.create_task(leases.run())
    for _ in range(60):
        await asyncio.sleep(10)
        (other,) = await FakeStore(store.tables, "b").claim([work("a")])
        assert other.verdict is Verdict.LIVE
    running.cancel()
    await asyncio.sleep(61)
    (other,) = await FakeStore(store.tables, "b").claim([work("a")])
    assert (other.verdict, other.lost) == (Verdict.LOST, True)


@pytest.mark.parametrize("error", [StoreUnavailableError("OperationalError"), StoreRefusedError("DataError")])
def test_a_failed_renewal_is_repeated_before_the_lease_is_over_and_stops_nobody(error: Exception) -> None:
    @virtual
    async def renewed() -> None:
        store = Recording(error, error)
        leases = Leases(store, 20)
        leases.hold((await claimed(store, "a"))[0])
        running = asyncio.create_task(leases.run())
        await asyncio.sleep(45)
        assert [at for at, _ in store.renewals] == [20, 22, 24, 44]
        running.cancel()

    renewed()


@virtual
async def test_without_claims_the_store_is_left_alone() -> None:
    store = Recording()
    running = asyncio.create_task(Leases(store, 20).run())
    await asyncio.sleep(100)
    assert store.renewals == []
    running.cancel()


def test_a_newer_claim_of_a_key_takes_the_place_of_the_older_one() -> None:
    leases = Leases(Recording(), 20)
    older, newer = work("a", "v1"), work("a", "v2")
    older.claim, newer.claim = Claim(Verdict.NEW, 1), Claim(Verdict.NEWER, 2)
    leases.hold(older)
    leases.hold(newer)
    leases.drop(older)
    assert (leases.held, leases.find(newer.key), len(leases)) == ([newer], newer, 1)
    assert (older.fenced, newer.fenced) == (True, False)
    leases.drop(newer)
    leases.drop(newer)
    assert (leases.held, leases.find(newer.key), len(leases)) == ([], None, 0)


@virtual
async def test_a_claim_that_was_taken_over_is_let_go_and_known_to_be_fenced() -> None:
    store = Recording()
    leases = Leases(store, 20)
    kept, taken = await claimed(store, "kept", "taken")
    leases.hold(kept)
    leases.hold(taken)
    await FakeStore(store.tables, "b").claim([work("taken", "another version", offset=9)])
    running = asyncio.create_task(leases.run())
    await asyncio.sleep(21)
    assert leases.held == [kept]
    assert (kept.fenced, taken.fenced) == (False, True)
    leases.hold(taken)
    assert not taken.fenced
    running.cancel()


@virtual
async def test_a_claim_is_sure_for_less_than_its_lease_from_before_the_statement_was_sent() -> None:
    store = Recording()
    leases = Leases(store, 20)
    kept, taken = await claimed(store, "kept", "taken")
    leases.vouch([kept, taken], now())
    assert kept.sure_until == taken.sure_until == 1040
    leases.hold(kept)
    leases.hold(taken)
    await FakeStore(store.tables, "b").claim([work("taken", "another version", offset=9)])
    running = asyncio.create_task(leases.run())
    await asyncio.sleep(21)
    assert (kept.sure_until, taken.sure_until) == (1060, 1040)
    running.cancel()


@virtual
async def test_a_renewal_that_fails_vouches_for_nobody() -> None:
    store = Recording(*[StoreUnavailableError("OperationalError")] * 30)
    leases = Leases(store, 20)
    (held,) = await claimed(store, "a")
    leases.vouch([held], now())
    leases.hold(held)
    running = asyncio.create_task(leases.run())
    await asyncio.sleep(50)
    assert held.sure_until == 1040 < now()
    running.cancel()

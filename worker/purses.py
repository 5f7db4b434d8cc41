"""The purses of this worker, one for each run that has a budget, kept filled from what the run's budget has left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any

from worker import fleet_sql
from worker.account import Account
from worker.core.amounts import Amount, at_most
from worker.core.budget import SILENT_SECONDS, Draw, Limits, charge
from worker.core.outcome import Outcome
from worker.errors import StoreRefusedError, StoreUnavailableError
from worker.ports import Work
from worker.upstreams import Admission

log = logging.getLogger(__name__)

Ask = Callable[[str, Mapping[str, Any]], Awaitable[list[tuple[Any, ...]]]]
Run = tuple[str, str | None]

# A budget that is set, or raised, is heard of within this time.
_LOOK_SECONDS = 2.0
_TICK_SECONDS = 0.25
_BREATH_SECONDS = 0.02
_LATER_SECONDS = 0.5
_RECLAIM_SECONDS = 15.0
_LINE_EVERY_SECONDS = 60.0
_GOODBYE_SECONDS = 2.0
# So many looks after its last call a run is forgotten.
_FORGOTTEN_LOOKS = 30


class Purses:
    """Lets calls leave that can be paid for; `alive` tells how many workers the fleet has. For one event loop.

    A run that nobody has asked about yet is looked up once, before its first call; one without a budget costs a look
    into a table. While the database is away what was granted may be spent for a while, and then calls wait.
    """

    def __init__(self, ask: Ask, worker: str, alive: Callable[[], int]) -> None:
        self._ask = ask
        self._worker = worker
        self._alive = alive
        # None is a run without a budget.
        self._known: dict[Run, Account | None] = {}
        self._accounts: dict[tuple[str, str], Account] = {}
        self._strangers: dict[Run, Account] = {}
        self._used: set[Run] = set()
        self._reserved: dict[Admission, tuple[Account, Amount]] = {}
        self._hungry = asyncio.Event()
        self._look_at = self._told = float("-inf")
        self._looks = 0

    @property
    def waiting(self) -> int:
        """Calls that wait for money."""
        return sum(account.waits for account in (*self._accounts.values(), *self._strangers.values()))

    def pay(self, work: Work, admission: Admission) -> bool:
        """Reserve what a call may take, if it has to be paid for; says whether it may leave."""
        run = (work.prompt.job, work.prompt.run)
        account = self._known.get(run, _UNKNOWN)
        self._used.add(run)
        if account is None:
            return True
        if account is _UNKNOWN or not account.can_price(admission.upstream.price):
            return False
        held = account.purse.take(_most(admission), _now())
        if held is None or account.purse.low:
            self._hungry.set()
        if held is None:
            return False
        self._reserved[admission] = account, held
        return True

    async def money(self, work: Work, admission: Admission) -> None:
        """Wait until there may be money for the call that could not be paid for."""
        run = (work.prompt.job, work.prompt.run)
        account = self._known.get(run, _UNKNOWN)
        if account is _UNKNOWN:
            account = self._strangers.setdefault(run, Account(run[0], run[1] or ""))
        if account is not None:
            self._hungry.set()
            await account.wait(_most(admission), work.alias, admission.upstream.price)

    def settle(self, admission: Admission, outcome: Outcome) -> None:
        """Count an ended call."""
        if (held := self._reserved.pop(admission, None)) is None:
            return
        account, amount = held
        account.purse.settle(amount, charge(outcome, admission.upstream.price, amount))
        account.wake(_now())

    async def run(self) -> None:
        """Keep the purses filled until cancelled."""
        while True:
            self._hungry.clear()
            try:
                await self._turn()
            except (StoreUnavailableError, StoreRefusedError) as error:
                self._tell(error)
                await asyncio.sleep(_LATER_SECONDS)
            await asyncio.sleep(_BREATH_SECONDS)
            await self._hungry_or(_TICK_SECONDS if self.waiting else 4 * _TICK_SECONDS)

    async def close(self) -> None:
        """Give back what no call holds; a database that is away is not waited for."""
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                for account in self._accounts.values():
                    account.purse.close()
                    await self._draw(account, [])
        except (StoreUnavailableError, StoreRefusedError, TimeoutError) as error:
            log.warning("budget.not_given_back", extra={"what": str(error)})

    async def _turn(self) -> None:
        if self._strangers or (self._known and _now() >= self._look_at):
            await self._look()
        # In the order in which they were due: one whose draw fails, and ends the turn, does not come first again.
        for account in sorted(self._accounts.values(), key=lambda account: account.next_at):
            if account.unpriced:
                await self._refuse(account)
            if _now() >= account.next_at and account.purse.due(bool(account.waiting), _now()):
                await self._draw(account, [*account.waiting.values()])

    async def _look(self) -> None:
        """Learn which runs have a budget, of those that are new and of those that were heard of lately."""
        self._look_at, self._looks = _now() + _LOOK_SECONDS, self._looks + 1
        runs = [*({**self._known, **self._strangers})]
        values = {"job": [job for job, _ in runs], "run": [run or "" for _, run in runs]}
        found = {(job, run): rest for job, run, *rest in await self._ask(fleet_sql.BUDGETS, values)}
        for run in runs:
            self._learn(run, found.get((run[0], run[1] or "")))
        if self._looks % _FORGOTTEN_LOOKS == 0:
            self._known = {run: account for run, account in self._known.items() if account or run in self._used}
            self._used.clear()

    def _learn(self, run: Run, budget: list[Any] | None) -> None:
        if budget is None:
            self._close(self._known.get(run))
            self._known[run] = None
        else:
            of, usd, tokens = budget
            account = self._accounts.setdefault((run[0], of), Account(run[0], of))
            account.purse.limits = Limits(usd, tokens)
            account.look_at_prices()
            self._known[run] = account
        if (stranger := self._strangers.pop(run, None)) is not None:
            stranger.wake_all()

    def _close(self, account: Account | None) -> None:
        """A budget has gone: whoever waits for it may go."""
        if account is not None:
            self._accounts.pop((account.job, account.run), None)
            account.wake_all()

    async def _draw(self, account: Account, waiting: list[Amount]) -> None:
        draw = account.purse.draw(waiting, _now())
        account.next_at = _now() + _LATER_SECONDS
        rows = await self._ask(fleet_sql.DRAW, {**account.key, "worker": self._worker, **self._values(draw)})
        if not rows:
            # The next look learns that there is no budget any more.
            self._look_at = _now()
            return
        word, usd, tokens = rows[0]
        account.purse.drawn(Amount(usd, int(tokens)), draw)
        account.next_at = _now() + (_BREATH_SECONDS if word == "granted" else _LATER_SECONDS)
        account.wake(_now())
        if word == "used_up":
            log.warning("budget.used_up", extra=account.key)
        elif word == "later" and draw.stuck:
            await self._reclaim(account)

    def _values(self, draw: Draw) -> dict[str, Any]:
        amounts = ("keeps", "spent", "reserved", "smallest", "largest", "wish")
        pairs = {name: _pair(getattr(draw, name)) for name in amounts}
        return {**pairs, "workers": max(1, self._alive()), "stuck": draw.stuck}

    async def _reclaim(self, account: Account) -> None:
        """What the dead were granted and did not spend may be what is lacking."""
        if _now() < account.reclaim_at:
            return
        account.reclaim_at = _now() + _RECLAIM_SECONDS
        values = {**account.key, "silent": SILENT_SECONDS}
        for worker, _, _ in await self._ask(fleet_sql.RECLAIM, values):
            log.info("budget.reclaimed", extra={**account.key, "of": worker})

    async def _refuse(self, account: Account) -> None:
        """A budget in money and a model without a price: nobody could say when it is used up."""
        log.error("budget.no_price", extra={**account.key, "model": account.unpriced})
        await self._ask(fleet_sql.PAUSE_FOR_BUDGET, account.key)
        account.unpriced = ""

    async def _hungry_or(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hungry.wait()
        except TimeoutError:
            return

    def _tell(self, error: Exception) -> None:
        if _now() - self._told >= _LINE_EVERY_SECONDS:
            self._told = _now()
            log.warning("budget.unheard", extra={"waiting": self.waiting, "what": str(error)})


_UNKNOWN = Account("", "")


def _most(admission: Admission) -> Amount:
    upstream = admission.upstream
    return at_most(upstream.price, upstream.meter.estimate, admission.size)


def _pair(amount: Amount) -> list[Decimal]:
    return [amount.usd, Decimal(amount.tokens)]


def _now() -> float:
    return asyncio.get_running_loop().time()

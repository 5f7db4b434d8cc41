"""`python -m worker`: read the settings, work, tell how it went."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import uvloop

from schemas.settings import SettingsError
from schemas.statuses import ExitCode
from worker.app import App
from worker.errors import WrongSettingsError
from worker.logs import set_up
from worker.settings import WorkerSettings


def main() -> int:
    """Run one worker; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m worker", description="Answer prompts from Kafka into Postgres.")
    parser.epilog = (
        "Example: LLM_BASE_URL=http://vllm:8000/v1 python -m worker. All settings come from the environment "
        "(KAFKA_BOOTSTRAP_SERVERS, DATABASE_URL, ...): `headrace config show --program worker` tells them. Exit "
        "codes: 0 done, 1 failed, 2 settings."
    )
    parser.parse_args()
    try:
        settings = WorkerSettings(os.environ)
        set_up(settings.log)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_work(settings))
    except (SettingsError, WrongSettingsError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.WRONG_SETTINGS


async def _work(settings: WorkerSettings) -> ExitCode:
    return await App(settings).run()


if __name__ == "__main__":
    sys.exit(main())

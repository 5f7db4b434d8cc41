"""`python -m simulator`: settings from the environment, then serve until stopped."""

from __future__ import annotations

import argparse
import os
import sys

from simulator.server import run
from simulator.settings import SettingsError, read_settings


def main() -> int:
    """Runs the simulator; gives the exit code: 0 stopped, 1 could not listen, 2 settings or script wrong."""
    about = "Answer as an OpenAI-compatible API would."
    parser = argparse.ArgumentParser(prog="python -m simulator", description=about)
    parser.epilog = (
        "Example: SIMULATOR_PORT=8090 python -m simulator. All settings come from the environment: SIMULATOR_HOST "
        "(127.0.0.1), SIMULATOR_PORT (8090), SIMULATOR_SCRIPT, SIMULATOR_SEED (0), SIMULATOR_LATENCY_MS (0), "
        "SIMULATOR_LEDGER. Exit codes: 0 stopped, 1 could not listen, 2 settings or script wrong."
    )
    parser.parse_args()
    try:
        settings = read_settings(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"simulator: the settings are wrong\n{error}\n")
        return 2
    try:
        run(settings)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        sys.stderr.write(f"simulator: cannot listen on {where} or open the ledger: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

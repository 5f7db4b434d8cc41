"""Lines for the end of a test run, from whichever process has something to tell."""

from __future__ import annotations

import pytest

_LINES = pytest.StashKey[dict[str, list[str]]]()


def tell(config: pytest.Config, section: str, line: str) -> None:
    """Keep a line for the summary, under a heading."""
    lines = config.stash.setdefault(_LINES, {}).setdefault(section, [])
    if line not in lines:
        lines.append(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the lines of a process of its own over to the one that prints."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["told"] = session.config.stash.get(_LINES, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take the lines of another process in."""
    told = getattr(node, "workeroutput", {}).get("told", {})
    for section, lines in told.items():
        for line in lines:
            tell(node.config, section, line)  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print them."""
    for section, lines in sorted(terminalreporter.config.stash.get(_LINES, {}).items()):
        terminalreporter.section(section)
        for line in sorted(lines):
            terminalreporter.write_line(line)

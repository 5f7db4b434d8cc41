"""Calls of the Kafka client that no program may make."""

from __future__ import annotations

import pytest

from tests.architecture.sources import PACKAGES, Module, modules

# Librdkafka 2.x aborts the whole process when a coordinator has moved between two of these questions; a consumer that
# is nobody's member asks the same by `committed`, and waits where the group is changing hands.
_DEADLY = "list_consumer_group_offsets"


@pytest.mark.parametrize("module", [m for package in PACKAGES for m in modules(package)], ids=lambda m: m.name)
def test_no_program_asks_the_admin_client_for_the_offsets_of_a_group(module: Module) -> None:
    assert _DEADLY not in module.text

"""The Spark jobs keep to what Spark Connect has too: no JVM, no RDD, no context."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import Module, modules

_CLASSIC = re.compile(
    r"\b_jvm\b|\b_jsc\b|\.rdd\b|\bsparkContext\b|\bSparkContext\b|\b_jsparkSession\b|\.toJSON\(|\b_jdf\b"
)
# The settings of the starter, jars that do not fit, Hadoop's file systems and the signal that spark-submit gets are
# told by the JVM alone; under Spark Connect none of this is reached.
ADAPTERS = {"producer.jvm", "backfill.jvm"}


@pytest.mark.parametrize("module", [*modules("producer"), *modules("backfill")], ids=lambda module: module.name)
def test_nothing_but_the_adapters_needs_a_jvm_at_hand(module: Module) -> None:
    found = {match.group() for match in _CLASSIC.finditer(module.text)}
    assert module.name in ADAPTERS or found == set()

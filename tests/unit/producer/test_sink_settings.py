"""Properties that the Kafka client does not take are told before anything is read."""

from __future__ import annotations

import pytest

from producer.errors import WrongJobError
from producer.sink import check_topic
from schemas.settings import KafkaSettings


@pytest.mark.parametrize("conf", ["no.such.property=1", "batch.size=many", "max.in.flight=99"])
def test_a_wrong_property_is_named_and_its_value_is_not(conf: str) -> None:
    settings = KafkaSettings.read({"KAFKA_PRODUCER_CONF": conf, "KAFKA_SASL_PASSWORD": "hunter2"})
    with pytest.raises(WrongJobError, match="KAFKA_PRODUCER_CONF") as raised:
        check_topic(settings, "headrace.prompts.reviews")
    assert conf.partition("=")[0] in str(raised.value)
    assert "hunter2" not in str(raised.value)

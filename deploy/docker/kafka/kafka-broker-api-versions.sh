#!/usr/bin/env bash
# The same tool under the same name as in Kafka's own distribution; the health check asks it.
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xmx96m} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "/opt/kafka/libs/*" \
  org.apache.kafka.tools.BrokerApiVersionsCommand "$@"

#!/usr/bin/env bash
# Write server.properties from the environment, format the data folder once, and become the broker.
# KAFKA_LISTENERS becomes listeners, KAFKA_LOG_DIRS becomes log.dirs, and so on.
set -euo pipefail

settings=/tmp/server.properties
run=(java -cp "/opt/kafka/libs/*")

env | grep '^KAFKA_' | grep -v '^KAFKA_HEAP_OPTS=' \
  | awk '{ at = index($0, "="); name = tolower(substr($0, 7, at - 7)); gsub("_", ".", name); print name substr($0, at) }' \
  >"$settings"
if [ ! -e "${KAFKA_LOG_DIRS:?}/meta.properties" ]; then
  "${run[@]}" kafka.tools.StorageTool format --cluster-id "${CLUSTER_ID:?}" --config "$settings"
fi
# The options are several words on purpose.
# shellcheck disable=SC2086
exec "${run[@]}" ${KAFKA_HEAP_OPTS:--Xms256m -Xmx512m} -XX:+ExitOnOutOfMemoryError \
  -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties kafka.Kafka "$settings"

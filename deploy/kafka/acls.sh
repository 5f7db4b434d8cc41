#!/usr/bin/env bash
# What each program may do in Kafka, for brokers with an authorizer; the names of topics and group are the defaults.
# KAFKA_ACLS="kafka-acls.sh --bootstrap-server kafka:9093 --command-config admin.properties" deploy/kafka/acls.sh
set -euo pipefail

allow() {
  # Several words on purpose.
  # shellcheck disable=SC2086
  ${KAFKA_ACLS:?set it to kafka-acls.sh with its --bootstrap-server and --command-config} \
    --add --force --allow-principal "User:$1" "${@:2}"
}

# `headrace topics`
allow headrace-owner --operation Create --operation Describe --topic headrace. --resource-pattern-type prefixed
# A worker looks whether a topic is compacted, too.
allow headrace-worker --operation Read --operation Describe --operation DescribeConfigs --topic headrace.prompts --resource-pattern-type prefixed
allow headrace-worker --operation Read --group headrace-worker
allow headrace-worker --operation Write --operation Describe --topic headrace.dead-letters
# The producer makes the topic of its job.
allow headrace-producer --operation Create --operation Write --operation Describe --operation DescribeConfigs --topic headrace.prompts --resource-pattern-type prefixed
# `headrace status`, `doctor`, `reconcile` and `dead-letters`, which publishes letters again
allow headrace-operator --operation Read --operation Write --operation Describe --operation DescribeConfigs --topic headrace. --resource-pattern-type prefixed
allow headrace-operator --operation Describe --group headrace-worker

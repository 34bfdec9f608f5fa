#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The mullion Authors.
#
# Process 1 of a container with a whole cluster: `docker run --privileged IMAGE [flags of mullion up]`.
# It starts the cluster, waits, and stops the cluster when the container is stopped. With anything
# but flags it runs that program instead. bash takes care of processes whose parents have ended.
set -u

if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  exec "$@"
fi

# A group of cgroup v2 that has members can have no controllers below it. As in containers of kind and
# of Docker's own, the members move into a group of theirs.
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
  mkdir -p /sys/fs/cgroup/process1
  while read -r process; do
    echo "$process" >/sys/fs/cgroup/process1/cgroup.procs 2>/dev/null # it may have ended, or be the kernel's
  done </sys/fs/cgroup/cgroup.procs
fi

stop() {
  mullion stop
  exit
}
trap stop TERM INT
mullion up --kubeconfig none "$@" &
wait $! || exit
while :; do
  sleep 86400 &
  wait $!
done

#!/usr/bin/env bash
# Stop one lab cluster, newest first, and only what up.sh started: each pid comes from a pid file of this cluster and
# is ended only if it was started in this cluster's directory (a recycled pid is left alone).
#
#   down.sh NAME [--wipe]      --wipe forgets its objects, keys and logs too
set -uo pipefail

NAME=${1:?down.sh NAME [--wipe]}; shift
LAB=${LAB:-${TMPDIR:-/tmp}/kuberneteslab}
HERE=$LAB/clusters/$NAME
STOP_TENTHS=50 # an API server with open watches takes a minute to stop by itself

is_ours() { [ "$(readlink "/proc/$1/cwd" 2>/dev/null)" = "$(readlink -f "$HERE")" ]; }

for program in kwok kube-controller-manager kube-apiserver etcd; do
  file=$HERE/run/$program.pid
  [ -s "$file" ] || continue
  pid=$(tr -dc 0-9 <"$file")
  if is_ours "$pid"; then
    kill "$pid"
    for ((tenth = 0; tenth < STOP_TENTHS; tenth++)); do is_ours "$pid" || break; sleep 0.1; done
    is_ours "$pid" && kill -9 "$pid"
  fi
  rm -f "$file"
done
if [ "${1:-}" = --wipe ]; then rm -rf "$HERE"; fi
exit 0

#!/usr/bin/env bash
# Stop one lab cluster, and only what up.sh started: each pid comes from a pid file of this cluster and is
# ended only if its command line names this cluster (a recycled pid is left alone).
#
#   down.sh NAME [--wipe] [--db]      --wipe forgets jobs, keys and accounting; --db stops MariaDB too
set -uo pipefail

NAME=${1:?down.sh NAME [--wipe] [--db]}; shift
LAB=${LAB:-${TMPDIR:-/tmp}/slurmlab}
HERE=$LAB/clusters/$NAME
DB=$LAB/db
wipe=0 db=0
for flag in "$@"; do
  case $flag in --wipe) wipe=1 ;; --db) db=1 ;; *) echo "down.sh: unknown flag $flag" >&2; exit 2 ;; esac
done

is_ours() { # the daemons name this cluster's files, except slurmdbd: its environment does
  local words
  words=$({ tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null) || return 1
  [[ $words == *"$HERE/"* ]] && return 0
  [[ $words == *slurmdbd* ]] && { tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | grep -qxF "SLURM_CONF=$HERE/etc/slurm.conf"
}

pids=()
for file in "$HERE"/run/slurmrestd.pid "$HERE"/run/slurmd-*.pid "$HERE"/run/slurmctld.pid "$HERE"/run/slurmdbd.pid "$HERE"/munge/munged.pid; do
  [ -s "$file" ] || continue
  pid=$(tr -dc 0-9 <"$file")
  if is_ours "$pid"; then kill "$pid"; pids+=("$pid"); fi
done
for ((tenth = 0; tenth < 150; tenth++)); do
  alive=0
  for pid in "${pids[@]}"; do is_ours "$pid" && alive=1; done
  [ $alive = 0 ] && break
  sleep 0.1
done
for pid in "${pids[@]}"; do is_ours "$pid" && kill -9 "$pid"; done

if [ $wipe = 1 ]; then
  rm -rf "$HERE"
  [ -S "$DB/sock" ] && mariadb --no-defaults --socket="$DB/sock" -uroot -e "DROP DATABASE IF EXISTS slurm_$NAME"
fi
if [ $db = 1 ] && [ -s "$DB/pid" ]; then
  pid=$(cat "$DB/pid")
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$DB/data" && kill "$pid"
fi
exit 0

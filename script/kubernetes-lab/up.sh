#!/usr/bin/env bash
# Bring up one Kubernetes control plane on loopback with Volcano's definitions and played nodes: etcd, kube-apiserver,
# kube-controller-manager, kwok. Idempotent: starts what does not run, and objects survive. Some 5 s when it is new.
#
#   up.sh NAME PORTBASE
#
# ports    PORTBASE API server (TLS), +1 and +2 etcd, +3 controller manager, +4 kwok
# result   $LAB/clusters/NAME/{ca.crt,token,admin.kubeconfig,log,...}; the last line is the API server's address
#
# There is no scheduler and no kubelet: who binds a pod to a node has it run there as stages.yaml plays it.
# etcd asks nobody who they are: whoever is on this machine can read and write it. Keep no secrets in a lab.
#
# settings (environment)
#   LAB     where everything lives              BIN     the four programs (build.sh --where)
#   CRDS    definitions to apply, one a file named as the definition is
set -euo pipefail

NAME=${1:?up.sh NAME PORTBASE}
BASE=${2:?port base}
SCRIPTS=$(cd "$(dirname "$0")" && pwd)
LAB=${LAB:-${TMPDIR:-/tmp}/kuberneteslab}
BIN=${BIN:-$("$SCRIPTS/build.sh" --where)} || { echo "kubernetes-lab: run $SCRIPTS/build.sh first" >&2; exit 1; }
CRDS=${CRDS:-$SCRIPTS/../../simulator/volcano/crds}
HERE=$LAB/clusters/$NAME
API=https://127.0.0.1:$BASE
ETCD=http://127.0.0.1:$((BASE + 1))
PEER=http://127.0.0.1:$((BASE + 2))
CONTROLLERS=(
  namespace-controller serviceaccount-controller root-ca-certificate-publisher-controller garbage-collector-controller
  job-controller node-lifecycle-controller taint-eviction-controller pod-garbage-collector-controller
  resourcequota-controller disruption-controller
)

for program in openssl curl setsid; do
  command -v $program >/dev/null || { echo "kubernetes-lab: $program is missing" >&2; exit 1; }
done
umask 077 # keys and the admin's token are the owner's
mkdir -p "$HERE/certs" "$HERE/log" "$HERE/run"
cd "$HERE"

make_certificates() {
  cd certs
  openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 365 -subj /CN=muster-lab
  openssl req -newkey rsa:2048 -nodes -keyout api.key -out api.csr -subj /CN=kube-apiserver
  openssl x509 -req -in api.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out api.crt -days 365 \
    -extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost")
  openssl genrsa -out tokens.key 2048 # signs the tokens of service accounts
  openssl rsa -in tokens.key -pubout -out tokens.pub
  cp ca.crt ..
  cd ..
}

write_admin() {
  openssl rand -hex 16 >token
  echo "$(cat token),admin,admin,system:masters" >certs/admins.csv
  cat >admin.kubeconfig <<EOF
apiVersion: v1
kind: Config
current-context: $NAME
clusters: [{name: $NAME, cluster: {server: "$API", certificate-authority: "$HERE/ca.crt"}}]
users: [{name: admin, user: {token: "$(cat token)"}}]
contexts: [{name: $NAME, context: {cluster: $NAME, user: admin}}]
EOF
}

is_running() { # the daemons' working directory is this cluster's
  local pid
  pid=$(cat "run/$1.pid" 2>/dev/null) || return 1
  [ "$(readlink "/proc/$pid/cwd" 2>/dev/null)" = "$(readlink -f "$HERE")" ]
}

start() { # start PROGRAM ARGUMENT... in a session of its own, away from our pipes
  local program=$1; shift
  is_running "$program" && return
  setsid nohup "$BIN/$program" "$@" >>"log/$program.log" 2>&1 </dev/null &
  echo $! >"run/$program.pid"
}

call() { curl -s --cacert ca.crt -H "Authorization: Bearer $(cat token)" "$@"; }

await() { # await WHAT URL: until it answers 200
  local until=$((SECONDS + 60)) code=000
  while [ "$code" != 200 ]; do
    if [ $SECONDS -ge $until ]; then
      echo "kubernetes-lab: $NAME: $1 did not come up (last answer $code); the end of its log:" >&2
      tail -n 8 log/kube-apiserver.log >&2
      exit 1
    fi
    code=$(call -o /dev/null -w '%{http_code}' "$2") || true
    [ "$code" = 200 ] || sleep 0.1
  done
}

apply_definitions() {
  local file name kind=apis/apiextensions.k8s.io/v1/customresourcedefinitions
  for file in "$CRDS"/*.yaml; do
    name=$(basename "$file" .yaml)
    call -S --fail-with-body -o run/answer.json -X PATCH --data-binary "@$file" \
      -H 'Content-Type: application/apply-patch+yaml' "$API/$kind/$name?fieldManager=muster-lab&force=true" ||
      { echo "kubernetes-lab: $NAME: $name was refused: $(cat run/answer.json)" >&2; exit 1; }
  done
}

[ -s ca.crt ] || make_certificates 2>log/certificates.log
[ -s admin.kubeconfig ] || write_admin

# A lab need not survive a power cut: without the wait for the disk etcd answers at once.
start etcd --data-dir data --unsafe-no-fsync \
  --listen-client-urls "$ETCD" --advertise-client-urls "$ETCD" \
  --listen-peer-urls "$PEER" --initial-advertise-peer-urls "$PEER" --initial-cluster "default=$PEER"
start kube-apiserver --etcd-servers="$ETCD" --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port="$BASE" \
  --tls-cert-file=certs/api.crt --tls-private-key-file=certs/api.key --client-ca-file=ca.crt \
  --token-auth-file=certs/admins.csv --authorization-mode=RBAC \
  --service-account-issuer=https://kubernetes.default.svc \
  --service-account-key-file=certs/tokens.pub --service-account-signing-key-file=certs/tokens.key \
  --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true --endpoint-reconciler-type=none
await "the API server" "$API/readyz"
apply_definitions
start kube-controller-manager --kubeconfig=admin.kubeconfig --leader-elect=false \
  --service-account-private-key-file=certs/tokens.key --root-ca-file=ca.crt \
  --controllers="$(IFS=,; echo "${CONTROLLERS[*]}")" --secure-port=$((BASE + 3)) --bind-address=127.0.0.1
# Without leases that are renewed, nodes become NotReady once a minute.
start kwok --kubeconfig admin.kubeconfig --config "$SCRIPTS/stages.yaml" --manage-all-nodes=true \
  --node-lease-duration-seconds=40 --server-address "127.0.0.1:$((BASE + 4))"
await "Volcano's API" "$API/apis/batch.volcano.sh/v1alpha1/jobs"
echo "$API"

#!/usr/bin/env bash
# Bring up one complete Slurm 22.05 cluster on loopback, without systemd: munge, MariaDB, slurmdbd,
# slurmctld, one slurmd a node, slurmrestd. Idempotent; several clusters may start at once.
#
#   up.sh NAME PORTBASE GPUKIND
#
# ports    PORTBASE slurmctld, +1 slurmrestd, +2 slurmdbd, +10 ... one a node
# result   $LAB/clusters/NAME/{env.sh,etc/slurm.conf,etc/jwt_hs256.key,log,...}; env.sh sets SLURM_CONF,
#          REST and token [user] [seconds]
#
# settings (environment)
#   LAB            where everything lives           MINJOBAGE     seconds a finished job stays readable
#   NODES GPUS     nodes, GPUs of each              SLURMDTIMEOUT seconds until a dead node is DOWN
#   CPUS MEM       threads, MiB of each node        MSGTIMEOUT    how long slurmrestd waits for slurmctld
#   LEAF SPINE     nodes a leaf, leaves a spine     CREDEXPIRE    also the delay before a requeued job
#   ACCT           1: with accounting (slurmdbd)    USERS TEAMS   who may submit, and to which accounts
#
# As root, slurmctld runs as `slurm`, slurmrestd as `nobody`, and the users of USERS are made if missing.
# As anybody else everything runs as oneself, jobs too.
set -euo pipefail

NAME=${1:?up.sh NAME PORTBASE GPUKIND}
BASE=${2:?port base}
KIND=${3:?GPU kind}
LAB=${LAB:-${TMPDIR:-/tmp}/slurmlab}
NODES=${NODES:-16} GPUS=${GPUS:-8} CPUS=${CPUS:-128} MEM=${MEM:-1000000}
LEAF=${LEAF:-4} SPINE=${SPINE:-$NODES}
ACCT=${ACCT:-1}
MINJOBAGE=${MINJOBAGE:-600} SLURMDTIMEOUT=${SLURMDTIMEOUT:-300} MSGTIMEOUT=${MSGTIMEOUT:-5} CREDEXPIRE=${CREDEXPIRE:-5}
TEAMS=${TEAMS:-ml vision language speech}
HERE=$LAB/clusters/$NAME
DB=$LAB/db
HOST=$(hostname -s)

if [ "$(id -u)" = 0 ]; then
  OWNER=slurm NODEOWNER=root DBOWNER=mysql ROOT=1
  RESTD=(env SLURM_JWT=daemon setpriv --reuid=nobody --regid=nogroup --clear-groups)
else
  OWNER=$(id -un) NODEOWNER=$(id -un) DBOWNER=$(id -un) ROOT=0
  # slurmrestd refuses to run as SlurmUser unless its own check is off
  RESTD=(env SLURM_JWT=daemon SLURMRESTD_SECURITY=disable_user_check)
fi
USERS=${USERS:-$([ $ROOT = 1 ] && echo mia ben || id -un)}

number() { printf '%03d' "$1"; }
give() { local who=$1; shift; if [ $ROOT = 1 ]; then chown "$who:" "$@"; fi; }
is_listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
await() { # await WHAT SECONDS COMMAND...
  local what=$1 until=$((SECONDS + $2)); shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || { echo "slurm-lab: $NAME: $what did not come up; see $HERE/log" >&2; exit 1; }
    sleep 0.1
  done
}

need_programs() {
  local missing=() program
  for program in munged slurmctld slurmd slurmrestd scontrol sinfo; do command -v $program >/dev/null || missing+=($program); done
  if [ "$ACCT" = 1 ]; then for program in slurmdbd sacctmgr mariadbd; do command -v $program >/dev/null || missing+=($program); done; fi
  [ ${#missing[@]} = 0 ] || { echo "slurm-lab: missing: ${missing[*]}; on Debian 12: apt-get install slurmctld slurmd slurmdbd" \
    "slurmrestd slurm-client slurm-wlm-basic-plugins slurm-wlm-jwt-plugin slurm-wlm-mysql-plugin munge mariadb-server" >&2; exit 3; }
}

make_people() {
  local user
  [ $ROOT = 1 ] || return 0
  mkdir -p "$LAB" && exec 8>"$LAB/people.lock" && flock 8
  for user in $USERS; do id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"; done
  exec 8>&-
}

make_tree() {
  mkdir -p "$HERE"/{etc,log,run,state,spool,munge,dev} "$LAB/bin"
  chmod 755 "$HERE" "$HERE"/{etc,log,run,state,spool,munge,dev}
  give "$OWNER" "$HERE"/{log,run,state}
  # The daemons judge by argv[0]: as "slurmctld-wlm" they drop every Gres= without a word.
  local daemon
  for daemon in slurmctld slurmd slurmstepd; do ln -sfn "/usr/sbin/$daemon-wlm" "$LAB/bin/$daemon"; done
  [ -s "$HERE/munge/munge.key" ] || (umask 077; head -c 1024 /dev/urandom >"$HERE/munge/munge.key"; chmod 400 "$HERE/munge/munge.key")
  [ -s "$HERE/etc/jwt_hs256.key" ] || (umask 077; head -c 32 /dev/urandom >"$HERE/etc/jwt_hs256.key")
  give "$OWNER" "$HERE/etc/jwt_hs256.key"
  # A GPU without a device file counts as none; links to /dev/null pass and need no mknod.
  local gpu
  for ((gpu = 0; gpu < GPUS; gpu++)); do ln -sfn /dev/null "$HERE/dev/gpu$gpu"; done
}

all_nodes() { echo "$NAME-n[$(number 0)-$(number $((NODES - 1)))]"; }

write_slurm_conf() {
  cat <<CONF
ClusterName=$NAME
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$BASE
SlurmUser=$OWNER
SlurmdUser=$NODEOWNER
StateSaveLocation=$HERE/state
SlurmdSpoolDir=$HERE/spool/%n
SlurmctldPidFile=$HERE/run/slurmctld.pid
SlurmdPidFile=$HERE/run/slurmd-%n.pid
SlurmctldLogFile=$HERE/log/slurmctld.log
SlurmdLogFile=$HERE/log/slurmd-%n.log
AuthType=auth/munge
AuthInfo=socket=$HERE/munge/munge.sock,cred_expire=$CREDEXPIRE
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$HERE/etc/jwt_hs256.key
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
# hardware is played: believe this file, not the machine
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
TopologyPlugin=topology/tree
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,sched_min_interval=100000,bf_window=10080,nohold_on_prolog_fail
PriorityType=priority/multifactor
PriorityWeightQOS=100000
PriorityWeightAge=1000
PriorityCalcPeriod=1
EnforcePartLimits=ALL
ReturnToService=1
SlurmctldTimeout=120
SlurmdTimeout=$SLURMDTIMEOUT
MessageTimeout=$MSGTIMEOUT
TCPTimeout=2
MinJobAge=$MINJOBAGE
KillWait=2
InactiveLimit=0
BatchStartTimeout=30
CompleteWait=0
CONF
  if [ "$ACCT" = 1 ]; then cat <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((BASE + 2))
AccountingStoragePass=socket=$HERE/munge/munge.sock
AccountingStorageTRES=gres/gpu,gres/gpu:$KIND
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment,job_script
CONF
  else echo "AccountingStorageType=accounting_storage/none"; fi
  echo "include $HERE/etc/nodes.conf"
  echo "PartitionName=batch Nodes=$(all_nodes) Default=YES MaxTime=14-0 DefMemPerCPU=1000 State=UP"
}

write_nodes_and_topology() { # features name the leaf and the spine, since REST shows no topology
  local first last leaf=0 spine=-1 leaves=()
  : >"$HERE/etc/nodes.conf"; : >"$HERE/etc/topology.conf"
  for ((first = 0; first < NODES; first += LEAF, leaf++)); do
    last=$((first + LEAF - 1)); ((last < NODES)) || last=$((NODES - 1))
    spine=$((leaf / SPINE))
    leaves[spine]="${leaves[spine]:+${leaves[spine]},}leaf$(number $leaf)"
    echo "NodeName=$NAME-n[$(number $first)-$(number $last)] NodeHostname=$HOST NodeAddr=127.0.0.1" \
      "Port=[$((BASE + 10 + first))-$((BASE + 10 + last))] Sockets=2 CoresPerSocket=$((CPUS / 4)) ThreadsPerCore=2" \
      "RealMemory=$MEM Gres=gpu:$KIND:$GPUS Feature=$KIND,leaf$(number $leaf),spine$(number $spine) State=UNKNOWN" >>"$HERE/etc/nodes.conf"
    echo "SwitchName=leaf$(number $leaf) Nodes=$NAME-n[$(number $first)-$(number $last)]" >>"$HERE/etc/topology.conf"
  done
  for spine in "${!leaves[@]}"; do echo "SwitchName=spine$(number "$spine") Switches=${leaves[spine]}"; done >>"$HERE/etc/topology.conf"
  if [ ${#leaves[@]} -gt 1 ]; then # topology/tree wants one root
    echo "SwitchName=core Switches=spine[$(number 0)-$(number $((${#leaves[@]} - 1)))]" >>"$HERE/etc/topology.conf"
  fi
}

write_config() {
  write_slurm_conf >"$HERE/etc/slurm.conf"
  write_nodes_and_topology
  echo "NodeName=$(all_nodes) Name=gpu Type=$KIND File=$HERE/dev/gpu[0-$((GPUS - 1))]" >"$HERE/etc/gres.conf"
  echo "CgroupAutomount=no" >"$HERE/etc/cgroup.conf"
  chmod 644 "$HERE"/etc/*.conf
  cat >"$HERE/env.sh" <<ENV
export SLURM_CONF=$HERE/etc/slurm.conf
export REST=http://127.0.0.1:$((BASE + 1))
token() { scontrol token username=\${1:-${USERS%% *}} lifespan=\${2:-3600} | sed s/^SLURM_JWT=//; }
ENV
}

start_munge() {
  munge -S "$HERE/munge/munge.sock" -n >/dev/null 2>&1 && return 0
  munged --key-file="$HERE/munge/munge.key" --socket="$HERE/munge/munge.sock" --pid-file="$HERE/munge/munged.pid" \
    --log-file="$HERE/munge/munged.log" --seed-file="$HERE/munge/munged.seed" --num-threads=10
  await munge 10 munge -S "$HERE/munge/munge.sock" -n
}

sql() { mariadb --no-defaults --socket="$DB/sock" -uroot -e "$1"; }

start_database() { # one MariaDB for all clusters of a lab, made and started under a lock
  mkdir -p "$DB"
  exec 9>"$DB/lock"; flock 9
  if ! mariadb-admin --no-defaults --socket="$DB/sock" -uroot ping >/dev/null 2>&1; then
    chmod 755 "$DB"; give "$DBOWNER" "$DB"
    [ -d "$DB/data/mysql" ] || mariadb-install-db --no-defaults --user="$DBOWNER" --datadir="$DB/data" \
      --auth-root-authentication-method=normal --skip-test-db >"$DB/install.log" 2>&1
    setsid mariadbd --no-defaults --user="$DBOWNER" --datadir="$DB/data" --socket="$DB/sock" --pid-file="$DB/pid" --skip-networking \
      --innodb-buffer-pool-size=64M --innodb-log-file-size=64M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 \
      --performance-schema=off --max-allowed-packet=16M </dev/null >"$DB/mariadbd.log" 2>&1 9>&- &
    await MariaDB 60 mariadb-admin --no-defaults --socket="$DB/sock" -uroot ping
  fi
  exec 9>&-
  sql "CREATE DATABASE IF NOT EXISTS slurm_$NAME; CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY 'slurm';
       GRANT ALL ON slurm_$NAME.* TO 'slurm'@'localhost';"
}

start_accounting() {
  cat >"$HERE/etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$HERE/munge/munge.sock
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$HERE/etc/jwt_hs256.key
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((BASE + 2))
SlurmUser=$OWNER
LogFile=$HERE/log/slurmdbd.log
PidFile=$HERE/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_$NAME
CONF
  chmod 600 "$HERE/etc/slurmdbd.conf"; give "$OWNER" "$HERE/etc/slurmdbd.conf"
  is_listening $((BASE + 2)) || MYSQL_UNIX_PORT="$DB/sock" slurmdbd # reads slurmdbd.conf beside $SLURM_CONF
  await slurmdbd 60 is_listening $((BASE + 2))
  await slurmdbd 30 sacctmgr -n list cluster
}

make_associations() { # before slurmctld, so that it starts knowing them; each call costs half a second
  [ -e "$HERE/state/associations.done" ] && return 0
  local teams=${TEAMS// /,} users=${USERS// /,}
  sacctmgr -i -Q add cluster "$NAME" >/dev/null || true
  sacctmgr -i -Q add qos guaranteed Priority=1000 >/dev/null || true
  sacctmgr -i -Q add qos spot Priority=10 >/dev/null || true
  sacctmgr -i -Q add account "$teams" Description=team Organization=muster QOS=normal,guaranteed,spot DefaultQOS=normal >/dev/null || true
  sacctmgr -i -Q add user "$users" Account="$teams" DefaultAccount="${TEAMS%% *}" QOS=normal,guaranteed,spot DefaultQOS=normal >/dev/null || true
  touch "$HERE/state/associations.done"
}

start_nodes() {
  local i node
  for ((i = 0; i < NODES; i++)); do
    node=$NAME-n$(number $i); mkdir -p "$HERE/spool/$node"
    is_listening $((BASE + 10 + i)) || "$LAB/bin/slurmd" -f "$SLURM_CONF" -N "$node" -d "$LAB/bin/slurmstepd"
  done
  await "$NODES nodes" 90 are_nodes_ready
}
are_nodes_ready() { [ "$(sinfo -h -N -o '%T' | grep -cxE 'idle|allocated|mixed|drained|draining|reserved')" = "$NODES" ]; }

start_rest() {
  is_listening $((BASE + 1)) && return 0
  local plugins=v0.0.38
  [ "$ACCT" = 1 ] && plugins=v0.0.38,dbv0.0.38 # dbv* is fatal without slurmdbd
  setsid "${RESTD[@]}" slurmrestd -f "$SLURM_CONF" -a rest_auth/jwt -s "$plugins" -t 8 "127.0.0.1:$((BASE + 1))" \
    </dev/null >>"$HERE/log/slurmrestd.log" 2>&1 &
  echo $! >"$HERE/run/slurmrestd.pid"
  await slurmrestd 20 is_listening $((BASE + 1))
}

need_programs
make_people
make_tree
write_config
export SLURM_CONF=$HERE/etc/slurm.conf
start_munge
if [ "$ACCT" = 1 ]; then start_database; start_accounting; make_associations; fi
is_listening "$BASE" || "$LAB/bin/slurmctld" -f "$SLURM_CONF"
await slurmctld 60 scontrol ping
start_nodes
start_rest
echo "slurm-lab: $NAME is up after ${SECONDS} s; . $HERE/env.sh"

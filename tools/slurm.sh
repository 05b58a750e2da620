#!/usr/bin/env bash
# A Slurm of three nodes on this machine, for tests: on loopback only, and in one folder.
#
#   slurm.sh FOLDER up          start munge, the controller and the nodes n1, n2, n3
#   slurm.sh FOLDER kill NODE   kill the node and its jobs
#   slurm.sh FOLDER cut NODE    suspend the daemon of the node; its jobs continue
#   slurm.sh FOLDER freeze NODE suspend the daemon of the node and its jobs
#   slurm.sh FOLDER thaw NODE   resume the jobs of a frozen node, not its daemon
#   slurm.sh FOLDER mend NODE   resume the daemon, or start it again
#   slurm.sh FOLDER lose        kill the controller, and start it again without its saved state
#   slurm.sh FOLDER down        end everything that was started
#
# SLURM_PORT is the first of four ports (default 27817). Needs root and, on Debian, the packages
# slurmctld, slurmd, slurm-client and munge. Clients find the cluster by SLURM_CONF=FOLDER/slurm.conf.
set -euo pipefail

folder=$(realpath -m "$1")
task=$2
port=${SLURM_PORT:-27817}
export SLURM_CONF=$folder/slurm.conf
mkdir -p "$folder/pids" "$folder/log"

fail() { echo "slurm.sh: $*" >&2; exit 1; }

# The start time of a process. With the process id, it identifies a process, even if the id is used again.
since() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

daemon() { # NAME COMMAND...
  local name=$1
  shift
  setsid "$@" >>"$folder/log/$name" 2>&1 </dev/null &
  echo "$! $(since $!)" >"$folder/pids/$name"
}

pid() { # NAME: prints the number of a living process
  local number start
  read -r number start 2>/dev/null <"$folder/pids/$1" || return 1
  [ -n "$start" ] && [ "$(since "$number")" = "$start" ] && echo "$number"
}

wait_for() { # SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "no success: $*"
    sleep 0.1
  done
}

all_idle() { [ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" = 3 ]; }

descendants() { # PID
  local child
  for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do descendants "$child"; done
  echo "$1"
}

# The supervisors of a node's jobs: they write to the log of its daemon.
supervisors() { # NODE
  local process
  for process in /proc/[0-9]*; do
    [ "$(cat "$process/comm" 2>/dev/null)" = slurmstepd ] || continue
    if ls -l "$process/fd" 2>/dev/null | grep -qF "$folder/log/slurmd-$1"; then basename "$process"; fi
  done
}

configure() {
  local socket=$folder/munge.socket node
  cat >"$SLURM_CONF" <<END
ClusterName=throstle-test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n
PlugStackConfig=/dev/null
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=100000,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=15
KillWait=5
CompleteWait=0
MessageTimeout=20
SlurmdParameters=config_overrides
JobRequeue=1
PartitionName=gpu Nodes=n[1-3] Default=YES MaxTime=INFINITE DefaultTime=10 State=UP
END
  for node in 1 2 3; do
    mkdir -p "$folder/spool-n$node"
    echo "NodeName=n$node NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + node)) CPUs=8" \
      >>"$SLURM_CONF"
  done
}

start_node() { daemon "$1" slurmd -D -N "$1" -f "$SLURM_CONF"; }

case $task in
up)
  for program in munged slurmctld slurmd sinfo; do
    command -v $program >/dev/null || fail "\`$program\` is not installed"
  done
  mkdir -p "$folder/state"
  configure
  (umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
  daemon munged munged --foreground --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
    --pid-file="$folder/munged.pid" --seed-file="$folder/munged.seed" --log-file="$folder/log/munged.log"
  wait_for 30 munge -S "$folder/munge.socket" -n
  daemon slurmctld slurmctld -D -f "$SLURM_CONF"
  wait_for 30 scontrol ping
  for node in n1 n2 n3; do start_node $node; done
  wait_for 60 all_idle
  ;;
kill)
  number=$(pid "$3") && kill -KILL "$number"
  for supervisor in $(supervisors "$3"); do
    for process in $(descendants "$supervisor"); do kill -KILL "$process" 2>/dev/null || true; done
  done
  ;;
cut) kill -STOP "$(pid "$3")" ;;
freeze)
  kill -STOP "$(pid "$3")"
  for supervisor in $(supervisors "$3"); do
    # The supervisor itself is first, so that it sees no other end.
    for process in $(descendants "$supervisor" | tac); do kill -STOP "$process" || true; done
  done
  ;;
thaw)
  for supervisor in $(supervisors "$3"); do
    for process in $(descendants "$supervisor"); do kill -CONT "$process" || true; done
  done
  ;;
mend) if number=$(pid "$3"); then kill -CONT "$number"; else start_node "$3"; fi ;;
lose)
  number=$(pid slurmctld) && kill -KILL "$number"
  rm -rf "$folder/state"
  mkdir -p "$folder/state"
  daemon slurmctld slurmctld -D -c -f "$SLURM_CONF"
  wait_for 30 scontrol ping
  ;;
down)
  scancel --user=root >/dev/null 2>&1 || true
  for name in n1 n2 n3; do
    for supervisor in $(supervisors $name); do
      for process in $(descendants "$supervisor"); do kill -KILL "$process" 2>/dev/null || true; done
    done
  done
  for name in n1 n2 n3 slurmctld munged; do
    if number=$(pid $name); then kill -CONT "$number"; kill -KILL "$number"; fi
  done
  ;;
*) fail "unknown task \`$task\`" ;;
esac

#!/usr/bin/env bash
# A private Slurm on this machine: munged, slurmctld and NODES slurmd (node0, node1, …); ends when stdin closes.
#   usage: slurm_world.sh FOLDER NODES      prints "ready" when all nodes are idle, or "skip: REASON" with exit status 77
# Then SLURM_CONF=FOLDER/slurm.conf sbatch, srun, squeue, scancel, scontrol, sinfo work. Logs are in FOLDER.
# Measured on two busy processors with 22.05.8, which Debian 12 has (in brackets: what this slurm.conf sets against the default):
#   this script      1.3 s to "ready", 0.02 s to the end
#   sbatch           returns after 0.02 s; script runs after 0.1-0.9 s, its first step 0.1 s later; the script is run from a copy ($0)
#   sbatch --wait    looks after 2, 10, 42 s, so noticed an end up to 30 s late (longer jobs: not measured); squeue shows it in 0.05 s;
#                    its exit status is the script's
#   srun             0.03-0.06 s; 137 for a process that died of SIGKILL; others of the step keep running without --kill-on-bad-exit=1;
#                    a second step on the same processor waits without --overlap; if srun dies, its processes are killed within 1 s
#   stdin            the script's is /dev/null, so a step's is a pipe that ends at once, with --input=none too; srun with an open pipe
#                    hands it on, and its end within 0.01 s
#   scancel --signal=TERM JOB          TERM to the steps' processes only, 0.02 s; srun and the script continue: the clean way to end a step
#   scancel --full --signal=TERM JOB   TERM to script, sruns and steps; the sruns then kill their steps at once: no final messages
#   scancel --batch --signal=TERM JOB  TERM to the script only (bash handles it when its child has ended; sooner in "wait")
#   scancel JOB, scontrol requeue JOB  CONT and TERM to all, and the sruns kill at once, as above: a step has 0.01 s or less; what is
#                    left is killed after KillWait [10 s instead of 30]
#   requeue          starts again after 5.7 s [cred_expire=5, default 120], SLURM_RESTART_COUNT counts; needs --open-mode=append to keep
#                    the output; a killed step or a script that fails is not requeued, a lost node is, 29 s after [SlurmdTimeout=10
#                    instead of 300]
# array throttle   scontrol update JobId=J ArrayTaskThrottle=N: 0.01 s, more tasks run 0.1-0.9 s later; 0 is no throttle at all; a lower
#                  one ends no task; scontrol hold J lets none start and running ones continue, release J undoes it; hold and throttle
#                  also hold for tasks that are requeued; scancel --signal=TERM J_T prints "try again later" though the step got it
# het job          sbatch script with "#SBATCH hetjob": one script, on the first node; srun --het-group=1; requeue J: both parts again
# Nothing outlives this script, not even if it is killed with -9: Slurm runs in a process namespace whose init dies with it. So the
# process numbers that jobs and FOLDER/*.pid know are not those seen from here: nsenter -t $(cat FOLDER/init.pid) -p -m ps/kill ….
set -uo pipefail
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

skip() { echo "skip: $*" >&3; exit 77; }
fail() { echo "error: slurm_world: $*" >&2; exit 1; }

if [ "${1:-}" != --inside ]; then
  exec 3>&1 1>&2 # Only "ready" and "skip" go to stdout; no server may hold it open.
  [ $# -eq 2 ] || { echo "usage: slurm_world.sh FOLDER NODES" >&2; exit 2; }
  [[ $2 =~ ^[0-9]{1,2}$ ]] && [ "$2" -ge 1 ] || { echo "usage: NODES is 1 to 99" >&2; exit 2; }
  [ "$(id -u)" -eq 0 ] || skip "slurmd needs root"
  for program in munged slurmctld slurmd sinfo srun sbatch unshare setpriv python3; do
    command -v $program >/dev/null || skip "$program is not installed"
  done
  mkdir -p "$1" && folder=$(cd "$1" && pwd -P) || fail "$1 cannot be made"
  [[ $folder != *[[:space:],%\"\\]* ]] || fail "$folder: no blanks, commas, quotes, backslashes or % here, slurm.conf takes them apart"
  [ ${#folder} -lt 90 ] || fail "$folder: too long for a socket in it"
  why=$(unshare --fork --pid --mount-proc true 2>&1) || skip "no namespaces of our own are allowed here: $why"
  rm -f "$folder/init.pid"
  setpriv --pdeathsig KILL unshare --fork --kill-child --pid --mount bash "$0" --inside "$folder" "$2" <&0 &
  trap '{ kill -9 $!; wait; } 2>/dev/null; exit 143' INT TERM HUP
  wait $! # Ends when stdin closes.
  exit
fi

# From here on: init of the namespace. When it ends, all in it do.
folder=$2 nodes=$3
read -r pid _ </proc/self/stat && echo "$pid" >"$folder/init.pid" && mount -t proc proc /proc || fail "no /proc of our own"
servers_log=$folder/servers.log
say_why() { fail "$1: $(tail -qn 3 "$servers_log" "$folder"/*ctld.log "$folder"/slurmd.*.log 2>/dev/null | tr '\n' ' ')"; }

# Free ports, from below those that the kernel hands out.
ports=($(python3 - $((nodes + 1)) <<'END'
import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    s = socket.socket()
    try:
        s.bind(("0.0.0.0", random.randrange(20000, 32000)))
        held.append(s)
    except OSError:
        pass
print(*(s.getsockname()[1] for s in held))
END
)) || fail "no free ports"

mkdir -p "$folder/state" && dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 status=none && chmod 400 "$folder/munge.key" ||
  fail "no key can be made"
# Nodes claim processors that the machine need not have (config_overrides). cred_expire is also how long a requeued job waits.
{
  cat <<END
ClusterName=world
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdSpoolDir=$folder/spool.%n
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmdLogFile=$folder/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
JobRequeue=1
KillWait=10
MinJobAge=300
SlurmdTimeout=10
ReturnToService=2
END
  for ((n = 0; n < nodes; ++n)); do
    echo "NodeName=node$n NodeHostname=localhost NodeAddr=127.0.0.1 Port=${ports[n + 1]} CPUs=8 RealMemory=4000 State=UNKNOWN"
  done
  echo "PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP"
} >"$folder/slurm.conf" || fail "no slurm.conf can be written"
export SLURM_CONF=$folder/slurm.conf

munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
  --seed-file="$folder/munged.seed" --log-file="$folder/munged.log" --num-threads=2 </dev/null >>"$servers_log" 2>&1 3>&- &
tries=0
until [ -S "$folder/munge.socket" ]; do
  kill -0 $! 2>/dev/null && ((++tries < 500)) || say_why "munged does not start"
  sleep 0.02
done
slurmctld -D -c </dev/null >>"$servers_log" 2>&1 3>&- &
controller=$!
for ((n = 0; n < nodes; ++n)); do
  mkdir -p "$folder/spool.node$n"
  slurmd -D -N "node$n" </dev/null >>"$servers_log" 2>&1 3>&- &
done

tries=0
until [ "$(sinfo -h -N -o %T 2>/dev/null 3>&- | grep -cx idle)" = "$nodes" ]; do
  kill -0 $controller 2>/dev/null && ((++tries < 300)) || say_why "not all nodes are idle"
  sleep 0.1
done
echo ready >&3
while read -r _; do :; done

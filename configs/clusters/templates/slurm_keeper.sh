#!/bin/bash
# Submits the script $1 of a job or, if $2 is "array", of a job array, and keeps it until standard input
# ends or the job is over. `look` fails if the controller does not answer, which ends nothing. The node is
# ready when a task has run in five looks, so that the program, the key and the head are the right ones;
# later the launcher submits a job that ended again.
#
# The last line "tasks N" on standard input is the number of tasks of an array that may run; at least one
# may until the node is ready. A throttle of 0 would be none in Slurm: the array is held instead. A throttle
# ends no task: the newest ones beyond N get SIGTERM, return their leases, and are queued again by their
# script.
#
# scancel without --full sends SIGTERM to the steps for a graceful shutdown; a job that is still running
# after 5 s is cancelled.
job=$(sbatch --parsable "$1") || exit 2
job=${job%%;*}
trap 'scancel "$job" 2>/dev/null' EXIT
echo "{\"job\": \"$job\"}"
want=1 throttle=1 held='' running=0 looks=0 up=0 ready='' tasks=''
look() {
  tasks=$(squeue -h -r -o '%T %K' -j "$job" 2>&1) && return
  [[ $tasks == *"Invalid job id"* ]] && tasks=''
}
ended() {
  outputs=$(ls -t "${1%.sbatch}".*out 2>/dev/null | head -n 1)
  echo "the job $job ended: $(scontrol show job "$job" 2>/dev/null | grep -o -E '(JobState|Reason|ExitCode)=[^ ]*' | sort -u | tr '\n' ' '); last output: $(grep -v -E '^(srun|slurmstepd)' "$outputs" 2>/dev/null | tail -n 1)" >&2
  exit 1
}
follow() {
  local want=$want
  [ -n "$ready" ] || [ "$want" -gt 0 ] || want=1
  if [ "$want" -eq 0 ]; then
    [ -n "$held" ] || { scontrol hold "$job" && held=yes; }
  else
    [ "$throttle" -eq "$want" ] || { scontrol update JobId="$job" ArrayTaskThrottle="$want" && throttle=$want; }
    [ -z "$held" ] || { scontrol release "$job" && held=''; }
  fi
  for id in $(sort -k 2 -n -r <<<"$tasks" | awk -v n=$((running - want)) '$1 == "RUNNING" && n-- > 0 { print $2 }'); do
    scancel --signal=TERM "${job}_$id"
  done
}
while read -r -t 1 line; got=$?; [ $got -eq 0 ] || [ $got -gt 128 ]; do
  if [[ $got -eq 0 && $line =~ ^tasks\ ([0-9]+)$ ]]; then
    want=${BASH_REMATCH[1]}
  elif [ -n "$ready" ] && [ $((++looks % 5)) -ne 0 ]; then
    continue
  fi
  look || continue
  running=$(grep -c '^RUNNING' <<<"$tasks")
  [ -n "$tasks" ] || ended "$1"
  if [ -z "$ready" ]; then
    [ -z "$(squeue -h -r -t FAILED -o %K -j "$job" 2>/dev/null)" ] || ended "$1"
    up=$(((up + 1) * (running > 0)))
    [ $up -lt 5 ] || { ready=yes && echo '{"ready": ""}'; }
  fi
  [ "$2" != array ] || follow 2>/dev/null
done
scancel --state=PENDING "$job" 2>/dev/null
scancel --signal=TERM "$job" 2>/dev/null
for _ in $(seq 25); do
  look && ! grep -q -E '^(RUNNING|COMPLETING)' <<<"$tasks" && exit 0
  sleep 0.2
done

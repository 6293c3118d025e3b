#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "launcher/cluster/hosts/array_throttle.h"
#include "launcher/cluster/hosts/remote_host.h"

namespace emplace::launcher {
namespace {

/// Submits the script $1 of a job or, if $2 is "array", of a job array, and keeps it until standard input
/// ends or the job is over. `look` fails if the controller does not answer, which ends nothing. The node is
/// ready when a task has run in five looks, so that the program, the key and the head are the right ones;
/// later the launcher submits a job that ended again.
///
/// The last line "tasks N" on standard input is the number of tasks of an array that may run; at least one
/// may until the node is ready. A throttle of 0 would be none in Slurm: the array is held instead. A throttle
/// ends no task: the newest ones beyond N get SIGTERM, return their leases, and are queued again by their
/// script.
///
/// scancel without --full sends SIGTERM to the steps for a graceful shutdown; a job that is still running
/// after 5 s is cancelled.
constexpr const char* kKeeper = R"sh(
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
)sh";

/// Returns the #SBATCH lines of jobs of both kinds.
std::string directives(const NodePlan& node, const std::string& run_name, std::size_t tasks,
                       const std::string& output) {
  std::string name = "emplace-" + run_name + "-" + node.node;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  std::string text = "#SBATCH --job-name=" + name + "\n";
  text += fmt::format("#SBATCH --ntasks={}\n", tasks);
  text += "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output=\"" + output + "\"\n";
  if (node.memory > 0) {
    const std::int64_t mib = std::max<std::int64_t>(1, node.memory * static_cast<std::int64_t>(tasks) >> 20);
    text += fmt::format("#SBATCH --mem={}M\n", mib);
  }
  for (const std::string& option : node.options) text += "#SBATCH " + option + "\n";
  return text;
}

/// Returns the line that runs a command in each task of the job. --export=ALL also works if the options of
/// the node start the job without an environment; srun does not read the processors of a task from the job.
std::string step_of(const std::string& command) {
  return "[ -z \"${SLURM_CPUS_PER_TASK:-}\" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n"
         "srun --export=ALL --kill-on-bad-exit=0 bash -c " +
         shell_word("exec " + command) + "\nstatus=$?\n";
}

/// Returns the script of a job with a task for each process.
std::string job_script(const std::vector<NodePlan>& processes, const std::string& head,
                       const std::string& run_name, std::filesystem::path output) {
  const NodePlan& first = processes.front();
  const bool many = processes.size() > 1;
  std::string text = "#!/bin/bash\n# Node '" + first.node +
                     "' of a run. It ends with the run's head; the job is requeued if a task fails.\n";
  text += directives(first, run_name, processes.size(), output.replace_extension(".out").string());
  text += "\n" + export_lines(first.environment);
  std::string line;
  for (const std::string& word : join_words(first, head))
    line += (line.empty() ? "" : " ") +
            (many && word == first.name ? shell_word(first.node + "/") + "$SLURM_PROCID" : shell_word(word));
  text += step_of(line);
  // 143: ended by SIGTERM, not a failure; 2, 126, 127: bad input or no program, which would fail again.
  text += "[ $status -ne 143 ] || exit 0\n";
  text +=
      "case $status in 0 | 2 | 126 | 127) ;; *) scontrol requeue \"$SLURM_JOB_ID\" ;; esac\nexit $status\n";
  return text;
}

/// Returns the script of a job array with a task for each process that an elastic node may have.
std::string array_script(const NodePlan& node, const std::string& head, const std::string& run_name,
                         std::filesystem::path output) {
  std::string text = "#!/bin/bash\n# A process of node '" + node.node +
                     "' of a run. It ends with the run's head; `emplace up` sets how many run at a time.\n";
  text += directives(node, run_name, 1, output.replace_extension(".%a.out").string());
  text += fmt::format("#SBATCH --array=0-{}%{}\n", node.max_processes - 1, ArrayThrottle::kFirst);
  text += "\n" + export_lines(node.environment) + step_of(shell_line(join_words(node, head)));
  // Over 128: asked to leave by SIGTERM, or killed. It waits in the queue until the run wants it again.
  text += "[ $status -le 128 ] || scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"\n";
  text += "exit $status\n";
  return text;
}

}  // namespace

Result<Program> slurm_program(const std::vector<NodePlan>& processes, const std::string& head,
                              const std::string& run_name, const std::filesystem::path& script) {
  const bool elastic = processes.front().max_processes > 0;
  std::error_code ignored;
  std::filesystem::create_directories(script.parent_path(), ignored);
  EMPLACE_TRY(write_private_file(script, elastic ? array_script(processes.front(), head, run_name, script)
                                                 : job_script(processes, head, run_name, script)));
  return Program{
      "/bin/bash", {"-c", kKeeper, "emplace-slurm", script.string(), elastic ? "array" : "job"}, {}};
}

}  // namespace emplace::launcher

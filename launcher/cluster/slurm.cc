#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "launcher/cluster/remote_host.h"

namespace emplace::launcher {
namespace {

/// Submits the script and waits until its job is over. scancel without --full sends SIGTERM to the steps for
/// a graceful shutdown; a job that is still running after 5 s is cancelled.
constexpr const char* kKeeper = R"sh(
job=$(sbatch --parsable "$1") || exit 2
job=${job%%;*}
trap 'scancel "$job" 2>/dev/null' EXIT
echo "{\"job\": \"$job\"}"
state() { squeue -h -o %T -j "$job" 2>/dev/null; }
while read -r -t 1 line || [ $? -gt 128 ]; do
  [ -n "$(state)" ] && continue
  echo "the batch job $job ended: $(scontrol show job "$job" 2>/dev/null | grep -o -E '(JobState|Reason|ExitCode)=[^ ]*' | tr '\n' ' '); last output: $(tail -n 1 "${1%.sbatch}.out" 2>/dev/null)" >&2
  exit 1
done
scancel --signal=TERM "$job" 2>/dev/null
for _ in $(seq 25); do
  [ -z "$(state)" ] && exit 0
  sleep 0.2
done
)sh";

}  // namespace

Result<Program> slurm_program(const std::vector<NodePlan>& processes, const std::string& head,
                              const std::string& run_name, const std::filesystem::path& script) {
  const NodePlan& first = processes.front();
  const bool many = processes.size() > 1;
  std::filesystem::path output = script;
  output.replace_extension(".out");
  std::string text = "#!/bin/bash\n";
  text += "# Node '" + first.node +
          "' of a run. It ends with the run's head; the job is requeued if a task fails.\n";
  std::string name = "emplace-" + run_name + "-" + first.node;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  text += "#SBATCH --job-name=" + name + "\n";
  text += fmt::format("#SBATCH --ntasks={}\n", processes.size());
  text += "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output=\"" + output.string() + "\"\n";
  if (first.memory > 0) {
    const std::int64_t mib =
        std::max<std::int64_t>(1, first.memory * static_cast<std::int64_t>(processes.size()) >> 20);
    text += fmt::format("#SBATCH --mem={}M\n", mib);
  }
  for (const std::string& option : first.options) text += "#SBATCH " + option + "\n";
  std::string line;
  for (const std::string& word : join_words(first, head))
    line += " " +
            (many && word == first.name ? shell_word(first.node + "/") + "$SLURM_PROCID" : shell_word(word));
  text += "\n" + export_lines(first.environment);
  // --export=ALL also works if the options above start the job without an environment.
  text += "srun --export=ALL --kill-on-bad-exit=0 bash -c " + shell_word("exec" + line) + "\n";
  // 143: ended by SIGTERM, not a failure; 2: bad input, would fail again.
  text += "status=$?\n[ $status -ne 143 ] || exit 0\n";
  text += "[ $status -eq 0 ] || [ $status -eq 2 ] || scontrol requeue \"$SLURM_JOB_ID\"\nexit $status\n";
  std::error_code ignored;
  std::filesystem::create_directories(script.parent_path(), ignored);
  EMPLACE_TRY(write_private_file(script, text));
  return Program{"/bin/bash", {"-c", kKeeper, "emplace-slurm", script.string()}, {}};
}

}  // namespace emplace::launcher

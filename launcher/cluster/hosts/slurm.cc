#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "base/text/words.h"
#include "launcher/cluster/hosts/array_throttle.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "launcher/cluster/hosts/templates.h"

namespace emplace::launcher {
namespace {

/// Returns the script of a job with a task for each process, or of a job array with a job for each process
/// that an elastic node may have.
std::string script_of(const std::vector<NodePlan>& processes, const std::string& head,
                      const std::string& run_name, std::filesystem::path output) {
  const NodePlan& node = processes.front();
  const bool elastic = node.max_processes > 0;
  const std::size_t tasks = processes.size();
  std::string name = "emplace-" + run_name + "-" + node.node;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  std::string text = fmt::format(
      R"(#!/bin/bash
# Node '{}' of a run. It ends with the run's head; {}.
#SBATCH --job-name={}
#SBATCH --ntasks={}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output="{}"
)",
      node.node, elastic ? "`emplace up` sets how many run at a time" : "the job is requeued if a task fails",
      name, tasks, output.replace_extension(elastic ? ".%a.out" : ".out").string());
  if (node.memory > 0) {
    const std::int64_t bytes = node.memory * static_cast<std::int64_t>(tasks);
    text += fmt::format("#SBATCH --mem={}M\n", std::max<std::int64_t>(1, bytes >> 20));
  }
  for (const std::string& option : node.options) text += "#SBATCH " + option + "\n";
  if (elastic)
    text += fmt::format("#SBATCH --array=0-{}%{}\n", node.max_processes - 1, ArrayThrottle::kFirst);
  std::string line = "exec";
  for (const std::string& word : join_words(node, head))
    line += " " + (tasks > 1 && word == node.name ? shell_word(node.node + "/") + "$SLURM_PROCID"
                                                  : shell_word(word));
  // --export=ALL also works if the options of the node start the job without an environment; srun does not
  // read the processors of a task from the job.
  text += "\n" + export_lines(node.environment) +
          "[ -z \"${SLURM_CPUS_PER_TASK:-}\" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n"
          "srun --export=ALL --kill-on-bad-exit=0 bash -c " +
          shell_word(line) + "\nstatus=$?\n";
  // Over 128: asked to leave by SIGTERM, or killed. It waits in the queue until the run wants it again.
  if (elastic)
    text += "[ $status -le 128 ] || scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"\n";
  // 143: ended by SIGTERM, not a failure; 2, 126, 127: bad input or no program, which would fail again.
  if (!elastic)
    text +=
        "[ $status -ne 143 ] || exit 0\n"
        "case $status in 0 | 2 | 126 | 127) ;; *) scontrol requeue \"$SLURM_JOB_ID\" ;; esac\n";
  return text + "exit $status\n";
}

}  // namespace

Result<Program> slurm_program(const std::vector<NodePlan>& processes, const std::string& head,
                              const std::string& run_name, const std::filesystem::path& script) {
  const bool elastic = processes.front().max_processes > 0;
  std::error_code ignored;
  std::filesystem::create_directories(script.parent_path(), ignored);
  EMPLACE_TRY(write_private_file(script, script_of(processes, head, run_name, script)));
  return Program{
      "/bin/bash",
      {"-c", std::string{kSlurmKeeper}, "emplace-slurm", script.string(), elastic ? "array" : "job"},
      {}};
}

}  // namespace emplace::launcher

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "runtime/process/run_command.h"

namespace emplace::launcher {
namespace {

/// Instruction sets of x86-64-v3 that baseline x86-64 lacks, by their names in /proc/cpuinfo.
constexpr std::array<const char*, 9> kInstructions{"avx", "avx2", "bmi1",  "bmi2", "f16c",
                                                   "fma", "abm",  "movbe", "xsave"};

std::vector<std::string> ssh_arguments(const NodePlan& node, const std::string& command) {
  std::vector<std::string> arguments{"-o", "BatchMode=yes",         "-o", "ConnectTimeout=10",
                                     "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};
  arguments.insert(arguments.end(), node.options.begin(), node.options.end());
  arguments.insert(arguments.end(), {"--", node.host, command});
  return arguments;
}

Error on_host(const NodePlan& node, const std::string& what, const std::string& cure = "") {
  return invalid("node '" + node.name + "' on " + printable(node.host, 80), printable(what, 300), cure);
}

/// Runs a command on the node's host and returns its output. Errors: it failed, with its last line.
Result<std::string> run_there(const NodePlan& node, const std::string& command,
                              const std::string& input = "") {
  EMPLACE_TRY_ASSIGN(const auto ran,
                     process::run_command("ssh", ssh_arguments(node, command), {.input = input}));
  if (ran.status == 0) return ran.output;
  return on_host(
      node, ran.last_line().empty() ? fmt::format("ssh exited with status {}", ran.status) : ran.last_line());
}

/// Checks the CPU of a host. Errors: not x86-64, or without instructions that this program needs.
Result<Unit> check_cpu(const NodePlan& node) {
  EMPLACE_TRY_ASSIGN(const auto facts, run_there(node, "uname -m; grep -m1 '^flags' /proc/cpuinfo"));
  std::istringstream lines{facts};
  std::string machine, flags;
  std::getline(lines, machine);
  std::getline(lines, flags);
  if (machine != "x86_64")
    return on_host(node, "its processor is '" + machine + "', but this program is for x86_64",
                   "build emplace on that host");
  std::istringstream words{flags};
  std::vector<std::string> has;
  for (std::string word; words >> word;) has.push_back(word);
  for (const char* wanted : kInstructions)
    if (std::find(has.begin(), has.end(), wanted) == has.end())
      return on_host(node,
                     std::string{"its processor has no "} + wanted + ", which this program needs (x86-64-v3)",
                     "remove this host");
  return Unit{};
}

}  // namespace

Program ssh_program(const NodePlan& node, const std::string& head) {
  std::vector<std::string> words = join_words(node, head);
  words.push_back("--for-launcher");
  const std::string join = "exec " + shell_line(words);
  if (node.environment.empty()) return {"ssh", ssh_arguments(node, join), {}};
  // The rest of standard input belongs to the program, which exits when it closes.
  const std::string exports = export_lines(node.environment);
  const std::string script = fmt::format("eval \"$(head -c {})\" && {}", exports.size(), join);
  return {"ssh", ssh_arguments(node, "exec sh -c " + shell_word(script)), exports};
}

Result<Unit> push_program(const std::string& program, std::span<NodePlan* const> nodes) {
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(program));
  const std::string folder = ".cache/emplace/bin/" + sha256_hex(bytes).substr(0, 16);
  const std::string copy = folder + "/emplace";
  std::set<std::string> hosts;  // Hosts that have the program.
  for (NodePlan* const plan : nodes) {
    NodePlan& node = *plan;
    node.program = copy;
    if (hosts.insert(node.host).second) {
      EMPLACE_TRY(check_cpu(node));
      EMPLACE_TRY_ASSIGN(const auto present,
                         run_there(node, "umask 077 && mkdir -p " + folder + " && if test -x " + copy +
                                             "; then echo present; else echo absent; fi"));
      if (!present.starts_with("present")) {
        EMPLACE_TRY(run_there(
            node, "cat > " + copy + ".$$ && chmod 700 " + copy + ".$$ && mv " + copy + ".$$ " + copy,
            program));
      }
      if (const auto runs = run_there(node, copy + " --version"); !runs)
        return Error{runs.error().code,
                     runs.error().context +
                         "; install the packages of scripts/packages.txt for programs on that host"};
    }
    if (node.keys.own.empty()) continue;
    std::string name = node.name;
    std::replace(name.begin(), name.end(), '/', '-');
    const std::string key = folder + "/" + name + ".key";
    EMPLACE_TRY(run_there(node,
                          "umask 077 && cat > " + shell_word(key) + ".part && mv " + shell_word(key) +
                              ".part " + shell_word(key),
                          node.keys.own));
    node.keys.own = key;
  }
  return Unit{};
}

}  // namespace emplace::launcher

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "launcher/cluster/remote_host.h"
#include "launcher/cluster/run_command.h"

namespace emplace::launcher {
namespace {

/// What x86-64-v3 has beyond the first x86-64, as /proc/cpuinfo names it.
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

/// Runs a command there. Errors: it failed, with its last line.
Result<std::string> there(const NodePlan& node, const std::string& command, const std::string& input = "") {
  EMPLACE_TRY_ASSIGN(const auto ran, run_command("ssh", ssh_arguments(node, command), input));
  if (ran.status == 0) return ran.output;
  return on_host(node,
                 ran.last_line().empty() ? fmt::format("ssh ended with {}", ran.status) : ran.last_line());
}

/// Errors: no x86-64, or one that lacks instructions of this program.
Result<Unit> check_cpu(const NodePlan& node) {
  EMPLACE_TRY_ASSIGN(const auto facts, there(node, "uname -m; grep -m1 '^flags' /proc/cpuinfo"));
  std::istringstream lines{facts};
  std::string machine, flags;
  std::getline(lines, machine);
  std::getline(lines, flags);
  if (machine != "x86_64")
    return on_host(node, "its processor is '" + machine + "', this program is for x86_64",
                   "build emplace there");
  std::istringstream words{flags};
  std::vector<std::string> has;
  for (std::string word; words >> word;) has.push_back(word);
  for (const char* wanted : kInstructions)
    if (std::find(has.begin(), has.end(), wanted) == has.end())
      return on_host(node,
                     std::string{"its processor has no "} + wanted + ", which this program needs (x86-64-v3)",
                     "leave this host out");
  return Unit{};
}

}  // namespace

Program ssh_program(const NodePlan& node, const std::string& head) {
  std::vector<std::string> words = join_words(node, head);
  words.push_back("--for-launcher");
  const std::string join = "exec " + shell_line(words);
  if (node.environment.empty()) return {"ssh", ssh_arguments(node, join), {}};
  // What is left of standard input is the program's, which ends with it.
  const std::string exports = export_lines(node.environment);
  const std::string script = fmt::format("eval \"$(head -c {})\" && {}", exports.size(), join);
  return {"ssh", ssh_arguments(node, "exec sh -c " + shell_word(script)), exports};
}

Result<Unit> push_program(const std::string& program, std::span<NodePlan* const> nodes) {
  EMPLACE_TRY_ASSIGN(const auto bytes, read_file(program));
  const std::string folder = ".cache/emplace/bin/" + sha256_hex(bytes).substr(0, 16);
  const std::string copy = folder + "/emplace";
  std::set<std::string> hosts;  // That have it by now.
  for (NodePlan* const plan : nodes) {
    NodePlan& node = *plan;
    node.program = copy;
    if (hosts.insert(node.host).second) {
      EMPLACE_TRY(check_cpu(node));
      EMPLACE_TRY_ASSIGN(const auto present,
                         there(node, "umask 077 && mkdir -p " + folder + " && if test -x " + copy +
                                         "; then echo present; else echo absent; fi"));
      if (!present.starts_with("present")) {
        EMPLACE_TRY(there(node,
                          "cat > " + copy + ".$$ && chmod 700 " + copy + ".$$ && mv " + copy + ".$$ " + copy,
                          program));
      }
      if (const auto runs = there(node, copy + " --version"); !runs)
        return Error{
            runs.error().code,
            runs.error().context + "; install what scripts/packages.txt lists for programs on that host"};
    }
    if (node.keys.own.empty()) continue;
    std::string name = node.name;
    std::replace(name.begin(), name.end(), '/', '-');
    const std::string key = folder + "/" + name + ".key";
    EMPLACE_TRY(there(node,
                      "umask 077 && cat > " + shell_word(key) + ".part && mv " + shell_word(key) + ".part " +
                          shell_word(key),
                      node.keys.own));
    node.keys.own = key;
  }
  return Unit{};
}

}  // namespace emplace::launcher

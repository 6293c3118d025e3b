// Executors on a Ray cluster: the driver of the Python package, which the launcher starts as one process.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/text/words.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "launcher/cluster/hosts/topology.h"
#include "launcher/worker/helper_program.h"
#include "runtime/process/run_command.h"

namespace emplace::launcher {
namespace {

constexpr const char* kModule = "emplace.ray";
constexpr const char* kCure =
    "pip install 'PATH/emplace_placement-….whl[ray]' (scripts/wheel.sh makes the wheel), or name a "
    "Python with both in EMPLACE_PYTHON";
constexpr Nanos kVersionLimit = std::chrono::seconds{60};  // A cold disk may take some seconds.

Error refused(const NodePlan& node, const std::string& what, const std::string& before_install = "") {
  return invalid("node '" + printable(node.name, 40) + "' on ray", what, before_install + kCure);
}

std::string number(double value) { return fmt::format("{}", value); }

}  // namespace

std::vector<std::string> ray_environment(const NodePlan& node) {
  std::vector<std::string> environment = node.environment;
  environment.push_back("EMPLACE_PROGRAM=" +
                        program_path());  // For `emplace ps`, and for nodes on this machine.
  return environment;
}

Result<Program> ray_program(const NodePlan& node, const RayStart& start) {
  const std::string python = python_path();
  if (python.empty()) return refused(node, "there is no python3");
  std::vector<std::string> words{"-m", kModule, node.dial.empty() ? start.head : node.dial, "--for-launcher"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--watch", start.beside.empty() ? start.head : start.beside);
  add("--key", node.keys.own);
  if (node.keys.own.empty()) words.emplace_back("--insecure");
  const Cluster::Ray& ray = node.ray;
  add("--ray-address", ray.address);
  if (ray.max > 0) add("--max", std::to_string(ray.max));
  add("--executors-per-actor", std::to_string(ray.per_actor));
  if (node.cpus > 0) add("--num-cpus", number(node.cpus));
  if (ray.gpus > 0) add("--num-gpus", number(ray.gpus));
  if (node.memory > 0) add("--memory", std::to_string(node.memory));
  if (!ray.resources.empty()) {
    nlohmann::json resources = nlohmann::json::object();
    for (const std::string& resource : ray.resources) {
      const auto [name, amount] = resource_of(resource);
      resources[name] = amount;
    }
    add("--resources", resources.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  add("--runtime-env", ray.runtime_env);
  for (const std::string& variable : node.environment) add("--env", variable.substr(0, variable.find('=')));
  add("--program", node.program);
  add("--cache", node.cache);
  add("--model", node.model);
  add("--idle", number(std::chrono::duration<double>(ray.idle).count()));
  std::error_code ignored;
  std::filesystem::create_directories(start.log.parent_path(), ignored);
  add("--log", start.log.string());
  if (start.restarts > 0) words.emplace_back("--retry");  // It was reached before.
  return Program{python, std::move(words), {}};
}

Result<Unit> check_ray(const NodePlan& node) {
  const std::string python = python_path();
  if (python.empty()) return refused(node, "there is no python3");
  process::RunOptions options;
  options.limit = kVersionLimit;
  options.own_group = true;
  const auto ran = process::run_command(python, {"-m", kModule, "--version"}, options);
  const std::string where = printable(python, 100);
  if (!ran) return refused(node, where + " cannot be started: " + ran.error().context);
  const std::string last = printable(ran->last_line(), 200);
  if (const auto fault = package_fault(ran->errors); ran->status != 0 && fault)
    return refused(node, where + " " + fault->what, fault->before_install);
  if (ran->status != 0) return refused(node, where + ": " + last);
  if (last.find("ray is not installed") != std::string::npos)
    return refused(node, where + " lacks the package ray");
  return Unit{};
}

}  // namespace emplace::launcher

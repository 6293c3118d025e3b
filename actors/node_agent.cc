#include "actors/node_agent.h"

#include "actors/task.h"

namespace emplace::actors {
namespace {

constexpr std::chrono::seconds kReportInterval{1};

}  // namespace

std::string agent_name(std::string_view node) {
  return "node/" + std::to_string(static_cast<std::uint64_t>(runtime::actor_id(node)));
}

void NodeAgent::on_directory(runtime::Context&, std::string_view actor, bool reachable) {
  if (!reachable || actor != kDispatcher || !on_joined_) return;
  std::exchange(on_joined_, nullptr)();
}

void NodeAgent::report(runtime::Context& context) {
  context.send(kView, probe_());
  context.after(kReportInterval, [this, &context] { report(context); });
}

}  // namespace emplace::actors

#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "messages/status.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

/// Name of a node's agent: "node/" and a hash of the node's name.
std::string agent_name(std::string_view node);

/// Reports the state of its node to the view once a second. Sends NodeReported. Thread: the node's I/O loop.
class NodeAgent final : public runtime::Actor {
 public:
  /// Returns the current state of the node.
  using Probe = std::function<messages::NodeReported()>;
  /// `on_joined`: called once, when the head is reached; never on the head.
  NodeAgent(Probe probe, std::function<void()> on_joined)
      : probe_{std::move(probe)}, on_joined_{std::move(on_joined)} {}
  void on_start(runtime::Context& context) override { report(context); }
  void on_message(runtime::Context&, const runtime::Incoming&) override {}
  void on_directory(runtime::Context&, std::string_view actor, bool reachable) override;

 private:
  void report(runtime::Context& context);
  const Probe probe_;
  std::function<void()> on_joined_;  // Empty after the call.
};

}  // namespace emplace::actors

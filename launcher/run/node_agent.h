#pragma once

#include <functional>

#include "messages/status.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::launcher {

/// The name of a node's agent: "node/", and a number that is the node's.
std::string agent_name(std::string_view node);

/// Tells the view how its node is, once a second. Sends NodeReported. Thread: the node's I/O loop.
class NodeAgent final : public runtime::Actor {
 public:
  /// What is true of the node now.
  using Probe = std::function<messages::NodeReported()>;
  explicit NodeAgent(Probe probe) : probe_{std::move(probe)} {}
  void on_start(runtime::Context& context) override { report(context); }
  void on_message(runtime::Context&, const runtime::Incoming&) override {}

 private:
  void report(runtime::Context& context);
  const Probe probe_;
};

}  // namespace emplace::launcher

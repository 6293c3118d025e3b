#pragma once
/// State shared by the loops of a node; outlives a loop that is stuck in a handler.

#include <utility>

#include <zmq.hpp>

#include "base/clock.h"
#include "runtime/node.h"

namespace emplace::runtime {

/// Thread: any; the options are constant.
struct Shared {
  Shared(NodeOptions node_options, const Clock& node_clock)
      : options{std::move(node_options)}, clock{node_clock} {
    context.set(zmq::ctxopt::blocky, false);
  }
  const NodeOptions options;
  const Clock& clock;
  NodeCounters counters;
  zmq::context_t context{1};
};

}  // namespace emplace::runtime

#include "runtime/node.h"

#include <utility>

#include "runtime/zmq/switch.h"

namespace emplace::runtime {

class Node::Impl {
 public:
  Impl(NodeOptions options, const Clock& clock)
      : shared_{std::make_shared<Shared>(std::move(options), clock)}, switch_{shared_} {}
  std::shared_ptr<Shared> shared_;
  Switch switch_;
};

Result<std::unique_ptr<Node>> Node::make(NodeOptions options, const Clock& clock) {
  auto impl = std::make_unique<Impl>(std::move(options), clock);
  if (const auto listening = impl->switch_.listen(); !listening) return listening.error();
  if (const auto dialled = impl->switch_.dial_head(); !dialled) return dialled.error();
  return std::unique_ptr<Node>{new Node{std::move(impl)}};
}

Node::Node(std::unique_ptr<Impl> impl) : impl_{std::move(impl)} {}
Node::~Node() = default;

Result<Unit> Node::spawn(std::string name, Home home, ActorFactory factory) {
  return impl_->switch_.spawn(std::move(name), home, std::move(factory));
}
const std::string& Node::name() const { return impl_->shared_->options.name; }
const std::vector<std::string>& Node::endpoints() const { return impl_->switch_.endpoints(); }
Result<std::string> Node::run() { return impl_->switch_.run(); }
void Node::stop(std::string reason) { impl_->switch_.stop(std::move(reason)); }
std::vector<ActorFacts> Node::actors() const { return impl_->switch_.actors(); }
NodeCounters Node::counters() const { return impl_->shared_->counters.snapshot(); }

}  // namespace emplace::runtime

#include "runtime/node.h"

#include <utility>

#include "runtime/zmq/router.h"

namespace emplace::runtime {

class Node::Impl {
 public:
  std::shared_ptr<Shared> shared;
  std::unique_ptr<Router> router;
  std::vector<std::string> endpoints;
};

Result<std::unique_ptr<Node>> Node::make(NodeOptions options, const Clock& clock) {
  auto shared = std::make_shared<Shared>(std::move(options), clock);
  EMPLACE_TRY_ASSIGN(auto router, Router::make(shared));
  std::vector<std::string> endpoints = router->endpoints();
  return std::unique_ptr<Node>{
      new Node{std::make_unique<Impl>(Impl{std::move(shared), std::move(router), std::move(endpoints)})}};
}

Node::Node(std::unique_ptr<Impl> impl) : impl_{std::move(impl)} {}
Node::~Node() = default;

Result<Unit> Node::spawn(std::string name, Home home, ActorFactory factory) {
  return impl_->router->spawn(std::move(name), home, std::move(factory));
}
const std::string& Node::name() const { return impl_->shared->options.name; }
const std::vector<std::string>& Node::endpoints() const { return impl_->endpoints; }
Result<std::string> Node::run() { return impl_->router->run(); }
void Node::stop(std::string reason) { impl_->router->stop(std::move(reason)); }
bool Node::run_is_over() const { return impl_->router->run_is_over(); }
bool Node::found_other_run() const { return impl_->router->found_other_run(); }
std::vector<ActorFacts> Node::actors() const { return impl_->router->actors(); }
const NodeCounters& Node::counters() const { return impl_->shared->counters; }

}  // namespace emplace::runtime

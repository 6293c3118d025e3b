#include "runtime/zmq/listener.h"

#include <utility>

#include "runtime/zmq/sockets/sockets.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kMaxCuts = 256;

}  // namespace

Listener::Listener(Shared& shared)
    : shared_{shared},
      socket_{make_router(shared.context, shared.options.insecure)},
      monitor_{shared.context, socket_},
      endpoints_(shared.options.listen.size()) {}

Result<std::unique_ptr<Listener>> Listener::make(Shared& shared, const NodeKeys& keys,
                                                 const Authenticator* authenticator) {
  const NodeOptions& options = shared.options;
  for (const std::string& endpoint : options.listen)
    EMPLACE_TRY(check_endpoint(endpoint, keys.own.has_value(), options.insecure));
  auto listener = std::unique_ptr<Listener>{new Listener{shared}};
  // Socket options apply to later binds: bind ipc first, which needs no keys.
  EMPLACE_TRY(listener->bind(/*tcp=*/false));
  if (authenticator != nullptr) authenticator->protect(listener->socket_, *keys.own);
  EMPLACE_TRY(listener->bind(/*tcp=*/true));
  return listener;
}

Result<Unit> Listener::bind(bool tcp) {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const std::string& endpoint = shared_.options.listen[i];
    if (is_tcp(endpoint) != tcp) continue;
    EMPLACE_TRY_ASSIGN(endpoints_[i], bind_endpoint(socket_, endpoint));
  }
  return Unit{};
}

void Listener::add_to(Waiter& waiter) {
  monitor_.add_to(waiter);
  waiter.add(socket_, watch_);
}

bool Listener::flush(Peer& peer) {
  bool reachable = true;
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    if (!peer.welcomed[plane] || peer.links[plane].empty()) continue;
    const auto outcome = peer.links[plane].flush(socket_, peer.routing_id[plane]);
    watch_.used = true;
    watch_.blocked |= outcome == Link::Flush::kBlocked;
    reachable &= outcome != Link::Flush::kUnreachable;
  }
  return reachable;
}

void Listener::cut(const std::string& routing_id) {
  if (takeovers_.size() < kMaxCuts) takeovers_.push_back(make_takeover(shared_.context, routing_id));
}

std::uint64_t Listener::take_failed_handshakes() {
  std::string ignored;  // The reason is worded for the dialling side.
  return monitor_.take_failures(ignored);
}

}  // namespace emplace::runtime

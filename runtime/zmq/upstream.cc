#include "runtime/zmq/upstream.h"

#include <fmt/core.h>

#include <random>
#include <utility>

#include "base/text/words.h"
#include "runtime/zmq/links/link_messages.h"
#include "runtime/zmq/sockets/sockets.h"

namespace emplace::runtime {
namespace {

/// Random rather than derived from the run's seed: two epochs of a node must always differ.
std::uint64_t draw_epoch() {
  std::random_device entropy;
  return (std::uint64_t{entropy()} << 32 | entropy()) | 1u;
}

}  // namespace

Upstream::Upstream(Shared& shared, NodeKeys keys, PeerSessions& sessions, const Routes& routes,
                   LogOnce& log_once)
    : shared_{shared},
      keys_{std::move(keys)},
      sessions_{sessions},
      routes_{routes},
      log_once_{log_once},
      schedule_{{shared.options.upstream_timeout, shared.options.first_timeout},
                Rng{shared.options.seed, Purpose::kJitter,
                    static_cast<std::uint64_t>(actor_id(shared.options.name))},
                shared.clock.now()} {}

Result<std::unique_ptr<Upstream>> Upstream::make(Shared& shared, NodeKeys keys, PeerSessions& sessions,
                                                 const Routes& routes, LogOnce& log_once) {
  const NodeOptions& options = shared.options;
  auto upstream =
      std::unique_ptr<Upstream>{new Upstream{shared, std::move(keys), sessions, routes, log_once}};
  const bool encrypted = upstream->encrypted();
  EMPLACE_TRY(check_endpoint(options.upstream, encrypted, options.insecure));
  if (encrypted && upstream->keys_.head.empty())
    return invalid(options.keys.own, "does not name the head's public key",
                   "make it with 'emplace keygen --head FILE', or give the head's .pub file");
  try {
    upstream->dial();
  } catch (const zmq::error_t& refused) {
    return invalid(options.upstream, refused.what(), "write tcp://HOST:PORT or ipc:///PATH");
  }
  return upstream;
}

bool Upstream::encrypted() const { return keys_.own && is_tcp(shared_.options.upstream); }

void Upstream::dial() {
  const std::uint64_t epoch = draw_epoch();
  head_ = &sessions_.dial(epoch, shared_.clock.now());
  hello_sent_ = {};
  const DialKeys keys =
      encrypted() ? DialKeys{keys_.own->public_key, keys_.own->secret_key, keys_.head} : DialKeys{};
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    dealers_[plane] = make_dealer(shared_.context, routing_id_of(shared_.options.name, epoch, plane),
                                  encrypted() ? &keys : nullptr);
    monitors_[plane] = std::make_unique<HandshakeMonitor>(shared_.context, dealers_[plane]);
    dealers_[plane].connect(shared_.options.upstream);
    watches_[plane] = {};
  }
}

void Upstream::dial_if_due(Nanos now) {
  if (schedule_.take_due(now)) dial();
}

void Upstream::add_to(Waiter& waiter) {
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    if (!dealers_[plane]) continue;
    monitors_[plane]->add_to(waiter);
    waiter.add(dealers_[plane], watches_[plane]);
  }
}

/// Returns false if not connected yet.
bool Upstream::send_hello(std::size_t plane) {
  hello_sent_[plane] = send_now(dealers_[plane], {},
                                Hello{.node = shared_.options.name,
                                      .epoch = head_->session.epoch(),
                                      .plane = static_cast<Plane>(plane),
                                      .first_seq = head_->links[plane].first_waiting_seq(),
                                      .actors = routes_.local_actors(),
                                      .wire = messages::kWireVersion,
                                      .oldest_wire = messages::kOldestWireVersion,
                                      .run = shared_.options.run},
                                Link::Limits::of(shared_.options), shared_.counters);
  return hello_sent_[plane];
}

void Upstream::repeat_hello() {
  if (!schedule_.waiting() && !head_->connected()) hello_sent_ = head_->welcomed;
}

bool Upstream::flush() {
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    Watch& watch = watches_[plane];
    watch.blocked = false;
    if (!dealers_[plane]) continue;
    if (!hello_sent_[plane]) {
      watch.used = true;
      watch.blocked = !send_hello(plane);
      if (watch.blocked) continue;
    }
    if (head_->links[plane].empty()) continue;
    watch.used = true;
    const auto outcome = head_->links[plane].flush(dealers_[plane], {});
    watch.blocked = outcome == Link::Flush::kBlocked;
    if (outcome == Link::Flush::kUnreachable) return false;
  }
  return true;
}

bool Upstream::take_failed_handshakes() {
  bool failed = false;
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    if (!dealers_[plane] || !monitors_[plane]->readable()) continue;
    if (monitors_[plane]->take_failures(last_connect_error_) == 0) continue;
    log_once_.warn(shared_.options.upstream + ": " + last_connect_error_);
    failed = true;
  }
  return failed;
}

bool Upstream::disconnect(Nanos now) {
  if (schedule_.waiting()) return false;
  for (auto& monitor : monitors_) monitor.reset();
  for (zmq::socket_t& dealer : dealers_) dealer.close();
  schedule_.failed(now);
  return true;
}

void Upstream::on_joined() {
  schedule_.joined();
  last_connect_error_.clear();
}

void Upstream::on_refused(const std::string& reason, bool final) {
  last_connect_error_ = "the head refused: " + printable(reason);
  refused_for_good_ = final;
}

bool Upstream::parted() const {
  const bool nothing_waits = head_->links[0].waiting() + head_->links[1].waiting() == 0;
  return refused_for_good_ || !schedule_.joined_once() || head_->parted() ||
         (!head_->connected() && nothing_waits);
}

std::optional<Error> Upstream::gave_up(Nanos now) const {
  if (!schedule_.gave_up(now)) return std::nullopt;
  return Error{Errc::kPeerLost,
               fmt::format("{}: no message from the head for {} s; {}", shared_.options.upstream,
                           schedule_.timeout() / std::chrono::seconds{1},
                           last_connect_error_.empty() ? "the run is over, or its head does not listen yet"
                                                       : last_connect_error_)};
}

}  // namespace emplace::runtime

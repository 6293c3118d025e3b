// The switch's dealings with other nodes.

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include "base/text/words.h"
#include "runtime/log.h"
#include "runtime/zmq/sockets.h"
#include "runtime/zmq/switch.h"

namespace emplace::runtime {
namespace {

constexpr int kMissedBeats = 3;
constexpr double kFirstRedial_s = 0.1;
constexpr double kLongestRedial_s = 2.0;

/// Unique for ever: role and index, a random epoch, and the plane.
std::string routing_id(const std::string& node, std::uint64_t epoch, std::size_t plane) {
  char suffix[24];
  std::snprintf(suffix, sizeof suffix, "-%016llx-%c", static_cast<unsigned long long>(epoch),
                plane == 0 ? 'c' : 'd');
  return node + suffix;
}

/// Not of the run's seed: two lives must differ even when all else is alike.
std::uint64_t draw_epoch() {
  std::random_device entropy;
  return (std::uint64_t{entropy()} << 32 | entropy()) | 1u;
}

}  // namespace

/// Sends one message past the queues, as the first (or only) word on a connection.
template <class M>
bool Switch::say(zmq::socket_t& socket, std::string_view id, const M& message) {
  Link once{shared_->limits(), /*numbered=*/true, counters_};
  push_message(once, message);
  return once.flush(socket, id) == Link::Flush::kDone;
}
template bool Switch::say(zmq::socket_t&, std::string_view, const Bye&);

std::vector<std::string> Switch::reachable_actors(const Peer* except) const {
  std::vector<std::string> names = local_actors_;
  for (const auto& [node, peer] : peers_)
    if (peer.get() != except && peer->session.open())
      names.insert(names.end(), peer->actors.begin(), peer->actors.end());
  return names;
}

void Switch::on_hello(const std::string& id, const std::string& key, const Incoming& incoming) {
  const auto hello = incoming.as<Hello>();
  const auto plane = hello ? static_cast<std::size_t>(hello->plane) : kPlanes;
  if (plane >= kPlanes || id != routing_id(hello->node, hello->epoch, plane)) {
    count(counters_.malformed);
    return;
  }
  if (const auto refusal = refuse_hello(*hello, key)) {
    count(counters_.refused_role);
    log_once("node " + printable(hello->node, 80) + " refused: " + *refusal);
    say(router_, id,
        Bye{.reason = *refusal,
            .fenced = true,
            .final = !speaks_with_us(*hello) || !may_ever_come(*hello, key)});
    return;
  }
  auto& slot = peers_[hello->node];
  if (!slot)
    slot =
        std::make_unique<Peer>(hello->node, shared_->limits(), options_.heartbeat * kMissedBeats, counters_);
  Peer& peer = *slot;
  const bool was_open = peer.session.open();
  const auto outcome = peer.session.on_hello(hello->epoch, now_);
  if (outcome == Session::Hello::kFenced) {
    count(counters_.malformed);
    say(router_, id, Bye{.reason = "this life is over", .fenced = true});
    return;
  }
  if (outcome == Session::Hello::kNew) {
    for (const std::string& old : peer.routing_id) {
      // Who dialled anew has closed these; who hears it is another process of the same name.
      if (was_open && !old.empty())
        say(router_, old,
            Bye{.reason = "another process came as " + peer.node, .fenced = true, .final = true});
      connections_.erase(old);
    }
    peer.begin_life();
    peer.key = key;
    if (guard_) peer.roles = guard_->roles(key).value_or(Roles{});
    peer.away_since.reset();
    log(LogLevel::kInfo, options_.name, "node " + peer.node + " joined");
    const std::set<std::string> now(hello->actors.begin(), hello->actors.end());
    for (const std::string& actor : std::set<std::string>{peer.actors})
      if (!now.contains(actor)) remove_remote(peer, actor);
    for (const std::string& actor : hello->actors) add_remote(peer, actor);
    unpark();
  }
  if (!peer.greeted[plane]) {
    peer.greeted[plane] = true;
    peer.routing_id[plane] = id;
    peer.session.expect(plane, hello->first_seq);
    connections_.insert_or_assign(id, Connection{&peer, plane});
  }
  say(router_, id,
      Welcome{.node = options_.name,
              .epoch = hello->epoch,
              .plane = hello->plane,
              .first_seq = peer.links[plane].first_waiting_seq(),
              .actors = reachable_actors(&peer)});
}

void Switch::on_welcome(std::size_t plane, const Incoming& incoming) {
  const auto welcome = incoming.as<Welcome>();
  if (!welcome || welcome->epoch != head_->session.epoch() ||
      static_cast<std::size_t>(welcome->plane) != plane) {
    count(counters_.malformed);
    return;
  }
  head_->session.on_heard(now_);
  if (head_->greeted[plane]) return;
  head_->greeted[plane] = true;
  head_->session.expect(plane, welcome->first_seq);
  if (!head_->connected()) return;
  dials_ = 0;
  ever_joined_ = true;
  why_unheard_.clear();
  head_->node = welcome->node;
  head_->away_since.reset();
  log(LogLevel::kInfo, options_.name, "joined " + welcome->node);
  for (const std::string& actor : welcome->actors) add_remote(*head_, actor);
  unpark();
}

void Switch::on_peer_message(Peer& peer, std::size_t plane, const Incoming& incoming) {
  if (!peer.session.open()) return count(counters_.malformed);
  peer.session.on_heard(now_);
  const std::uint16_t type = incoming.envelope.type;
  if (type >= messages::kFirstRuntimeType) {
    const auto handled = incoming.match([&](const Beat& beat) { on_beat(peer, beat); },
                                        [&](const Bye& bye) { on_bye(peer, plane, bye); },
                                        [&](const ByeAck&) { peer.bye_acked[plane] = true; });
    if (!handled) count(counters_.malformed);
    if (handled && !*handled) count(counters_.unknown);  // Of a later version, or never meant for the wire.
    return;
  }
  switch (peer.session.on_message(plane, incoming.envelope.seq, now_)) {
    case Session::Order::kRepeat:
      return count(counters_.duplicates);
    case Session::Order::kGap:
      count(counters_.gaps, peer.session.missing());
      break;
    case Session::Order::kNext:
      break;
  }
  if (options_.known_type != nullptr && !options_.known_type(type)) {
    count(counters_.unknown);
    log_once("message type " + std::to_string(type) + " from " + peer.node + " refused");
    return;
  }
  if (!peer.key.empty() && !may_send(peer, incoming.envelope)) {
    count(counters_.refused_role);
    log_once("node " + peer.node + " (" + guard_->name(peer.key) + ") sent what its role does not allow");
    return;
  }
  count(counters_.received);
  route(incoming.envelope, incoming.body, incoming.bulk, &peer == head_.get());
}

void Switch::on_beat(Peer& peer, const Beat& beat) {
  for (const std::string& actor : beat.joined) {
    if (&peer == head_.get() ||
        (peer.actors.size() < kMaxActors && may_live_at(&peer, peer.key, peer.roles, peer.node, actor))) {
      add_remote(peer, actor);
    } else {
      count(counters_.refused_role);
      log_once("node " + peer.node + " announced what it may not: " + printable(actor, 80));
    }
  }
  for (const std::string& actor : beat.left) remove_remote(peer, actor);
  if (!beat.joined.empty()) unpark();
}

void Switch::on_bye(Peer& peer, std::size_t plane, const Bye& bye) {
  if (bye.fenced) {
    if (&peer != head_.get()) return;
    if (phase_ != Phase::kRunning) return;  // It goes anyway.
    why_unheard_ = "it says: " + printable(bye.reason);
    dismissed_ = bye.final;
    if (bye.final)
      return begin_stop("refused", Error{Errc::kInvalid, options_.upstream + ": " + why_unheard_});
    return redial_later(bye.reason);
  }
  push_message(peer.links[plane], ByeAck{static_cast<Plane>(plane)});
  peer.bye_seen[plane] = true;
  if (!(peer.bye_seen[0] && peer.bye_seen[1])) return;
  log(LogLevel::kInfo, options_.name, "node " + peer.node + " left: " + bye.reason);
  for (const std::string& actor : std::set<std::string>{peer.actors}) remove_remote(peer, actor);
  if (&peer == head_.get()) begin_stop(bye.reason, std::nullopt);
}

/// `peer` can reach the actor from now on.
void Switch::add_remote(Peer& peer, const std::string& actor) {
  const ActorId id = actor_id(actor);
  if (is_local(id)) {
    log(LogLevel::kError, options_.name,
        "node " + peer.node + " has an actor of our name " + actor + "; not used");
    return;
  }
  peer.actors.insert(actor);
  if (!peer.key.empty()) peer.speakers.insert(id);
  routes_.insert_or_assign(id, Route{.peer = &peer, .name = actor});
  announce(actor, true, &peer);
}

void Switch::remove_remote(Peer& peer, const std::string& actor) {
  peer.actors.erase(actor);
  const auto found = routes_.find(actor_id(actor));
  if (found == routes_.end() || found->second.peer != &peer) return;
  routes_.erase(found);
  announce(actor, false, &peer);
}

/// Its life is over; what is for it waits a while for the next one.
void Switch::lose(Peer& peer, std::string_view why) {
  if (!peer.session.open()) return;
  const bool expected = peer.parted();
  peer.session.end();
  peer.away_since = now_;
  peer.greeted = {};
  for (std::string& id : peer.routing_id) connections_.erase(std::exchange(id, {}));
  if (expected) return;
  count(counters_.peers_lost);
  log(LogLevel::kWarning, options_.name, "node " + peer.node + " lost: " + std::string{why});
  for (const std::string& actor : peer.actors) announce(actor, false, &peer);
}

/// It stayed away for too long.
void Switch::forget(Peer& peer) {
  for (Link& link : peer.links) count(counters_.unroutable, link.clear());
  for (const std::string& actor : peer.actors) {
    const auto found = routes_.find(actor_id(actor));
    if (found != routes_.end() && found->second.peer == &peer) routes_.erase(found);
  }
  peers_.erase(std::string{peer.node});
}

Result<Unit> Switch::dial_head() {
  if (options_.upstream.empty()) return Unit{};
  const bool encrypted = own_keys_ && is_tcp(options_.upstream);
  if (const auto valid = check_endpoint(options_.upstream, encrypted, options_.insecure); !valid)
    return valid.error();
  if (encrypted && head_key_.empty())
    return invalid(options_.keys.own, "does not name the head's public key",
                   "make it with 'emplace keygen --head FILE', or give the head's .pub file");
  head_ = std::make_unique<Peer>("head", shared_->limits(), options_.heartbeat * kMissedBeats, counters_);
  try {
    dial();
  } catch (const zmq::error_t& refused) {
    return invalid(options_.upstream, refused.what(), "write tcp://HOST:PORT or ipc:///PATH");
  }
  return Unit{};
}

void Switch::dial() {
  const std::uint64_t epoch = draw_epoch();
  head_->begin_life();
  head_->session.on_hello(epoch, shared_->clock.now());
  hello_said_ = {};
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    const DialKeys keys =
        own_keys_ ? DialKeys{own_keys_->public_key, own_keys_->secret_key, head_key_} : DialKeys{};
    dealers_[plane] = make_dealer(shared_->context, routing_id(options_.name, epoch, plane),
                                  own_keys_ && is_tcp(options_.upstream) ? &keys : nullptr);
    dealer_monitors_[plane] =
        std::make_unique<HandshakeMonitor>(shared_->context, dealers_[plane], monitors_++);
    dealers_[plane].connect(options_.upstream);
    dealer_watch_[plane] = {};
  }
}

/// False: not connected yet.
bool Switch::say_hello(std::size_t plane) {
  hello_said_[plane] = say(dealers_[plane], {},
                           Hello{.node = options_.name,
                                 .epoch = head_->session.epoch(),
                                 .plane = static_cast<Plane>(plane),
                                 .first_seq = head_->links[plane].first_waiting_seq(),
                                 .actors = local_actors_,
                                 .wire = messages::kWireVersion,
                                 .oldest_wire = messages::kOldestWireVersion});
  return hello_said_[plane];
}

/// Drops both connections and dials again as a new life, after a random while that grows (full jitter), so
/// that nodes that lost the same head do not all come back at once.
void Switch::redial_later(std::string_view why) {
  if (redial_at_) return;
  const bool was_up = head_->connected();
  head_->session.end();
  head_->greeted = {};
  for (auto& monitor : dealer_monitors_) monitor.reset();
  for (zmq::socket_t& dealer : dealers_) dealer.close();
  const double longest_s =
      std::min(kLongestRedial_s, kFirstRedial_s * static_cast<double>(1u << std::min(dials_, 6u)));
  ++dials_;
  redial_at_ = now_ + std::chrono::duration_cast<Nanos>(
                          std::chrono::duration<double>{jitter_.uniform_double() * longest_s});
  if (!was_up) return;
  count(counters_.peers_lost);
  log(LogLevel::kWarning, options_.name, "head lost: " + std::string{why});
  for (const std::string& actor : head_->actors) announce(actor, false, head_.get());
}

}  // namespace emplace::runtime

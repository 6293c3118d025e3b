#include "runtime/zmq/peers/peer_sessions.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text/words.h"
#include "runtime/log.h"
#include "runtime/zmq/links/link_messages.h"

namespace emplace::runtime {
namespace {

constexpr int kMissedBeats = 3;
constexpr const char* kOtherRun = "the head is of another run than the node";

}  // namespace

PeerSessions::PeerSessions(const NodeOptions& options, Routes& routes, const Admission& admission,
                           NodeCounters& counters, LogOnce& log_once)
    : options_{options}, routes_{routes}, admission_{admission}, counters_{counters}, log_once_{log_once} {}
PeerSessions::~PeerSessions() = default;

/// Whether the other side states a run, and it is not ours. Nodes that belong to no run, such as those that
/// fetch one, may join any.
bool PeerSessions::is_other_run(const std::string& run) const {
  return !run.empty() && !options_.run.empty() && run != options_.run;
}

std::unique_ptr<Peer> PeerSessions::make_peer(const std::string& node) const {
  return std::make_unique<Peer>(node, Link::Limits::of(options_), options_.heartbeat * kMissedBeats,
                                counters_);
}

const PeerSessions::Connection* PeerSessions::connection(const std::string& routing_id) const {
  const auto found = connections_.find(routing_id);
  return found == connections_.end() ? nullptr : &found->second;
}

PeerSessions::Actions PeerSessions::on_hello(const std::string& id, const std::string& key,
                                             const Incoming& incoming, Nanos now) {
  const auto hello = incoming.as<Hello>();
  const auto plane = hello ? static_cast<std::size_t>(hello->plane) : kPlanes;
  if (plane >= kPlanes || id != routing_id_of(hello->node, hello->epoch, plane)) {
    count(counters_.malformed);
    return {};
  }
  const auto slot = peers_.find(hello->node);
  const Peer* const known = slot == peers_.end() ? nullptr : slot->second.get();
  if (auto refusal = admission_.refuse_hello(*hello, key, known, peers_.size())) {
    count(counters_.refused_role);
    log_once_.warn("node " + printable(hello->node, 80) + " refused: " + refusal->reason);
    return {SendBye{id, {.reason = std::move(refusal->reason), .fenced = true, .final = refusal->final}}};
  }
  if (is_other_run(hello->run)) {
    log_once_.warn("node " + printable(hello->node, 80) + " refused: " + kOtherRun);
    return {SendBye{id, {.reason = kOtherRun, .fenced = true, .final = true, .other_run = true}}};
  }
  Actions actions;
  Peer& peer =
      *(slot == peers_.end() ? peers_.emplace(hello->node, make_peer(hello->node)).first : slot)->second;
  const bool was_open = peer.session.open();
  switch (peer.session.on_hello(hello->epoch, now)) {
    case Session::Hello::kFenced:
      count(counters_.malformed);
      return {SendBye{id, {.reason = "this incarnation has ended", .fenced = true}}};
    case Session::Hello::kNew:
      start_epoch(peer, *hello, key, was_open, actions);
      break;
    case Session::Hello::kSame:
      break;
  }
  if (!peer.welcomed[plane]) {
    peer.welcomed[plane] = true;
    peer.routing_id[plane] = id;
    peer.session.expect(plane, hello->first_seq);
    connections_.insert_or_assign(id, Connection{&peer, plane});
  }
  actions.push_back(SendWelcome{id,
                                {.node = options_.name,
                                 .epoch = hello->epoch,
                                 .plane = hello->plane,
                                 .first_seq = peer.links[plane].first_waiting_seq(),
                                 .actors = reachable_actors(peer),
                                 .run = options_.run}});
  return actions;
}

void PeerSessions::start_epoch(Peer& peer, const Hello& hello, const std::string& key, bool was_open,
                               Actions& actions) {
  for (const std::string& old : peer.routing_id) {
    // A redialling node has closed its old connections, so this reaches only another process of the same
    // name.
    if (was_open && !old.empty())
      actions.push_back(
          SendBye{old, {.reason = "another process joined as " + peer.node, .fenced = true, .final = true}});
    connections_.erase(old);
  }
  peer.start_epoch();
  peer.key = key;
  peer.roles = admission_.roles(key);
  peer.away_since.reset();
  log(LogLevel::kInfo, options_.name, "node " + peer.node + " joined");
  const std::set<std::string> now(hello.actors.begin(), hello.actors.end());
  for (const std::string& actor : std::set<std::string>{peer.actors})
    if (!now.contains(actor)) remove_actor(peer, actor, actions);
  for (const std::string& actor : hello.actors) add_actor(peer, actor, actions);
  actions.push_back(Unpark{});
}

Peer& PeerSessions::dial(std::uint64_t epoch, Nanos now) {
  if (!head_) head_ = make_peer("head");
  head_->start_epoch();
  head_->session.on_hello(epoch, now);
  return *head_;
}

PeerSessions::Actions PeerSessions::on_welcome(std::size_t plane, const Incoming& incoming, Nanos now) {
  const auto welcome = incoming.as<Welcome>();
  if (!welcome || welcome->epoch != head_->session.epoch() ||
      static_cast<std::size_t>(welcome->plane) != plane) {
    count(counters_.malformed);
    return {};
  }
  head_->session.on_received(now);
  if (is_other_run(welcome->run)) return {HeadRefused{kOtherRun, true, true}};
  if (head_->welcomed[plane]) return {};
  head_->welcomed[plane] = true;
  head_->session.expect(plane, welcome->first_seq);
  if (!head_->connected()) return {};
  head_->node = welcome->node;
  head_->away_since.reset();
  log(LogLevel::kInfo, options_.name, "joined " + welcome->node);
  Actions actions{HeadJoined{}};
  for (const std::string& actor : welcome->actors) add_actor(*head_, actor, actions);
  actions.push_back(Unpark{});
  return actions;
}

bool PeerSessions::accept(Peer& peer, std::size_t plane, const messages::Envelope& envelope, Nanos now) {
  if (!peer.session.open()) return count(counters_.malformed), false;
  switch (peer.session.on_message(plane, envelope.seq, now)) {
    case Session::Order::kRepeat:
      return count(counters_.duplicates), false;
    case Session::Order::kGap:
      count(counters_.gaps, peer.session.missing());
      break;
    case Session::Order::kNext:
      break;
  }
  if (options_.known_type != nullptr && !options_.known_type(envelope.type)) {
    count(counters_.unknown);
    log_once_.warn(fmt::format("message type {} from {} refused", envelope.type, peer.node));
    return false;
  }
  if (!peer.key.empty() && !admission_.may_send(peer, envelope)) {
    count(counters_.refused_role);
    log_once_.warn("node " + peer.node + " (" + admission_.key_name(peer.key) +
                   ") sent what its role does not allow");
    return false;
  }
  count(counters_.received);
  return true;
}

PeerSessions::Actions PeerSessions::on_control(Peer& peer, std::size_t plane, const Incoming& incoming,
                                               Nanos now) {
  Actions actions;
  if (!peer.session.open()) {
    count(counters_.malformed);
    return actions;
  }
  peer.session.on_received(now);
  const auto handled = incoming.match([&](const Beat& beat) { on_beat(peer, beat, actions); },
                                      [&](const Bye& bye) { on_bye(peer, plane, bye, actions); },
                                      [&](const ByeAck&) { peer.bye_acked[plane] = true; });
  if (!handled) count(counters_.malformed);
  if (handled && !*handled)
    count(counters_.unknown);  // Message of a later version, or not meant for the wire.
  return actions;
}

void PeerSessions::on_beat(Peer& peer, const Beat& beat, Actions& actions) {
  for (const std::string& actor : beat.joined) {
    if (is_head(peer) || admission_.may_announce(peer, actor)) {
      add_actor(peer, actor, actions);
    } else {
      count(counters_.refused_role);
      log_once_.warn("node " + peer.node + " announced what it may not: " + printable(actor, 80));
    }
  }
  for (const std::string& actor : beat.left) remove_actor(peer, actor, actions);
  if (!beat.joined.empty()) actions.push_back(Unpark{});
}

void PeerSessions::on_bye(Peer& peer, std::size_t plane, const Bye& bye, Actions& actions) {
  if (bye.fenced) {
    if (is_head(peer)) actions.push_back(HeadRefused{bye.reason, bye.final, bye.other_run});
    return;
  }
  push_message(peer.links[plane], ByeAck{static_cast<Plane>(plane)});
  peer.bye_seen[plane] = true;
  if (!(peer.bye_seen[0] && peer.bye_seen[1])) return;
  log(LogLevel::kInfo, options_.name, "node " + peer.node + " left: " + bye.reason);
  remove_all_actors(peer, actions);
  if (is_head(peer)) actions.push_back(HeadLeft{bye.reason, bye.over});
}

void PeerSessions::add_actor(Peer& peer, const std::string& actor, Actions& actions) {
  if (!routes_.add_remote(actor, peer)) {
    log(LogLevel::kError, options_.name,
        "node " + peer.node + " has an actor of our name " + actor + "; not used");
    return;
  }
  peer.actors.insert(actor);
  if (!peer.key.empty()) peer.announced.insert(actor_id(actor));
  announce(actor, true, peer, actions);
}

void PeerSessions::remove_actor(Peer& peer, const std::string& actor, Actions& actions) {
  peer.actors.erase(actor);
  if (routes_.remove_remote(actor, peer)) announce(actor, false, peer, actions);
}

void PeerSessions::remove_all_actors(Peer& peer, Actions& actions) {
  for (const std::string& actor : std::set<std::string>{peer.actors}) remove_actor(peer, actor, actions);
}

/// Reports a change to the actors of this node and to every other node that dialled it.
void PeerSessions::announce(const std::string& actor, bool reachable, const Peer& by, Actions& actions) {
  actions.push_back(Announce{actor, reachable});
  for (const auto& [node, peer] : peers_)
    if (peer.get() != &by) (reachable ? peer->joined : peer->left).push_back(actor);
}

PeerSessions::Actions PeerSessions::lose(Peer& peer, std::string_view why, Nanos now) {
  Actions actions;
  end_session(peer, why, now, actions);
  return actions;
}

/// Ends the epoch; messages for the peer stay queued for a while, for its next epoch.
void PeerSessions::end_session(Peer& peer, std::string_view why, Nanos now, Actions& actions) {
  if (!peer.session.open()) return;
  const bool expected = peer.parted();
  peer.session.end();
  peer.away_since = now;
  peer.welcomed = {};
  for (std::string& id : peer.routing_id) connections_.erase(std::exchange(id, {}));
  if (expected) return;
  count(counters_.peers_lost);
  log(LogLevel::kWarning, options_.name, "node " + peer.node + " lost: " + std::string{why});
  for (const std::string& actor : peer.actors) announce(actor, false, peer, actions);
}

PeerSessions::Actions PeerSessions::lose_head(std::string_view why) {
  const bool was_up = head_->connected();
  head_->session.end();
  head_->welcomed = {};
  Actions actions;
  if (!was_up) return actions;
  count(counters_.peers_lost);
  log(LogLevel::kWarning, options_.name, "head lost: " + std::string{why});
  for (const std::string& actor : head_->actors) announce(actor, false, *head_, actions);
  return actions;
}

PeerSessions::Actions PeerSessions::end_revoked(Nanos now) {
  Actions actions;
  for (const auto& [node, peer] : peers_) {
    if (!peer->session.open()) continue;
    const auto why = admission_.revoked(*peer);
    if (!why) continue;
    count(counters_.revoked);
    const auto ids = peer->routing_id;
    for (const std::string& id : ids)
      if (!id.empty()) actions.push_back(SendBye{id, {.reason = *why, .fenced = true}});
    end_session(*peer, *why, now, actions);
    if (admission_.contains(peer->key)) continue;
    for (const std::string& id : ids)
      if (!id.empty()) actions.push_back(Cut{id});
  }
  return actions;
}

PeerSessions::Actions PeerSessions::tick(bool beat, Nanos now) {
  Actions actions;
  const auto send_beat = [&](Peer& peer) {
    if (beat) push_message(peer.links[0], Beat{std::exchange(peer.joined, {}), std::exchange(peer.left, {})});
  };
  for (const auto& [node, peer] : peers_) {
    if (peer->welcomed[0]) send_beat(*peer);
    if (peer->session.lost(now)) end_session(*peer, "silent for three heartbeats", now, actions);
  }
  std::vector<std::string> expired;
  for (const auto& [node, peer] : peers_)
    if (peer->away_since && now - *peer->away_since > options_.parking) expired.push_back(node);
  for (const std::string& node : expired) forget(node);
  if (head_ && head_->connected()) {
    send_beat(*head_);
    if (head_->session.lost(now)) actions.push_back(HeadSilent{});
  }
  return actions;
}

/// Drops a peer that was away too long, with its queued messages.
void PeerSessions::forget(const std::string& node) {
  Peer& peer = *peers_.at(node);
  for (Link& link : peer.links) count(counters_.unroutable, link.clear());
  for (const std::string& actor : peer.actors) routes_.remove_remote(actor, peer);
  peers_.erase(node);
}

void PeerSessions::skip_own_pause(Nanos now) {
  for (const auto& [node, peer] : peers_) peer->session.on_received(now);
  if (head_) head_->session.on_received(now);
}

void PeerSessions::send_bye(const std::string& reason, bool over) {
  const Bye bye{.reason = reason, .over = over};
  for (const auto& [node, peer] : peers_)
    for (Link& link : peer->links) push_message(link, bye);
  if (head_ && !head_->parted())
    for (Link& link : head_->links) push_message(link, bye);
}

bool PeerSessions::peers_parted() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const auto& entry) {
    return !entry.second->session.open() || entry.second->parted();
  });
}

std::vector<std::string> PeerSessions::reachable_actors(const Peer& asking) const {
  std::vector<std::string> names = routes_.local_actors();
  for (const auto& [node, peer] : peers_)
    if (peer.get() != &asking && peer->session.open())
      names.insert(names.end(), peer->actors.begin(), peer->actors.end());
  return names;
}

}  // namespace emplace::runtime

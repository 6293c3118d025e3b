// Who may do what: keys at the door, names and messages by role, and what happens when a key is taken out.

#include <algorithm>
#include <utility>

#include "base/text/words.h"
#include "runtime/log.h"
#include "runtime/zmq/sockets.h"
#include "runtime/zmq/switch.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kMaxPeers = 4'096;
constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxLoggedOnce = 256;
constexpr std::size_t kMaxTakers = 256;  // Per tick; what is not cut now is cut when it speaks again.

}  // namespace

Result<Unit> Switch::load_keys() {
  const KeyFiles& files = options_.keys;
  const bool listens = std::any_of(options_.listen.begin(), options_.listen.end(),
                                   [](const std::string& endpoint) { return is_tcp(endpoint); });
  if (files.own.empty()) {
    if (files.allowed.empty() && files.head.empty()) return Unit{};
    return invalid("keys", "an allow-list or a head's key, but no key of this node",
                   "emplace keygen makes one");
  }
  if (zmq_has("curve") == 0)
    return Error{Errc::kUnsupported,
                 "keys: this libzmq has no CURVE; install one that was built with libsodium"};
  auto own = load_key_pair(files.own);
  if (!own) return own.error();
  own_keys_ = std::move(*own);
  head_key_ = own_keys_->head;
  if (!files.head.empty()) {
    auto head = load_public_key(files.head);
    if (!head) return head.error();
    head_key_ = std::move(*head);
  }
  if (!listens) return Unit{};
  if (files.allowed.empty())
    return invalid("keys", "an encrypted port without an allow-list",
                   "emplace keygen --allow FILE makes one");
  EMPLACE_CHECK(options_.rules.may_announce != nullptr && options_.rules.may_send != nullptr,
                "keys without rules for them");
  auto guard = Guard::make(shared_->context, files.allowed, options_.name);
  if (!guard) return guard.error();
  guard_ = std::move(*guard);
  return Unit{};
}

/// True if what came from there may be looked at. Cheap: once per frame.
bool Switch::admit(const std::string& id, const std::string& key, std::size_t bytes) {
  const auto connection = connections_.find(id);
  const bool known = connection != connections_.end();
  if (guard_ && !key.empty() && !guard_->roles(key)) {
    count(counters_.unauthenticated);
    cut(id);
    return false;
  }
  if (known && connection->second.peer->key != key) {
    count(counters_.refused_role);
    log_once("a connection of node " + connection->second.peer->node + " was taken over by " +
             guard_->name(key));
    cut(id);
    return false;
  }
  if (known && connection->second.plane == 0 && bytes > kMaxControlBytes) {
    count(counters_.oversized);
    return false;
  }
  return true;
}

/// Names that the run has planned belong to keys of their role, our own to nobody.
bool Switch::may_be_called(const std::string& node, Roles roles) const {
  const auto planned = options_.planned_nodes.find(node);
  return node != options_.name && (planned == options_.planned_nodes.end() || roles.has(planned->second));
}

/// `peer`: null if it is new.
bool Switch::may_live_at(const Peer* peer, const std::string& key, Roles roles, const std::string& node,
                         const std::string& actor) {
  if (actor.empty() || actor.size() > kMaxNameBytes) return false;
  if (key.empty()) return true;  // Who came over ipc is this user, and may take any name.
  if (!options_.rules.may_announce(roles, node, actor)) return false;
  const auto taken = routes_.find(actor_id(actor));
  if (taken == routes_.end() || (peer != nullptr && taken->second.peer == peer)) return true;
  return taken->second.peer != nullptr && taken->second.peer->key == key;
}

/// False if the roles of its key never allow its name, or one of its actors: then it need not ask again.
bool Switch::may_ever_come(const Hello& hello, const std::string& key) const {
  if (key.empty()) return true;
  const Roles roles = guard_ ? guard_->roles(key).value_or(Roles{}) : Roles{};
  return may_be_called(hello.node, roles) &&
         std::all_of(hello.actors.begin(), hello.actors.end(), [&](const std::string& actor) {
           return options_.rules.may_announce(roles, hello.node, actor);
         });
}

/// Why this node may not come; empty if it may.
std::optional<std::string> Switch::refuse_hello(const Hello& hello, const std::string& key) {
  if (!speaks_with_us(hello))
    return "it speaks wire version " + std::to_string(hello.wire) + " and understands " +
           std::to_string(hello.oldest_wire) + " and later, the head speaks " +
           std::to_string(messages::kWireVersion) + " and understands " +
           std::to_string(messages::kOldestWireVersion) + " and later; use the same release on both";
  if (hello.node.empty() || hello.node.size() > kMaxNameBytes || hello.actors.size() > kMaxActors)
    return "a name too long, or too many actors";
  const auto slot = peers_.find(hello.node);
  const Peer* const peer = slot == peers_.end() ? nullptr : slot->second.get();
  if (peer == nullptr && peers_.size() >= kMaxPeers) return "too many nodes";
  if (peer != nullptr && peer->key != key && (!key.empty() || peer->session.epoch() == hello.epoch))
    return "its name belongs to another key";
  const Roles roles = guard_ ? guard_->roles(key).value_or(Roles{}) : Roles{};
  if (!key.empty() && !may_be_called(hello.node, roles))
    return "no node called '" + printable(hello.node, 80) + "' may come from " + guard_->name(key) + " (" +
           to_text(roles) + ")";
  for (const std::string& actor : hello.actors)
    if (!may_live_at(peer, key, roles, hello.node, actor))
      return "no actor called '" + printable(actor, 80) + "' may come from " +
             (key.empty() ? "it" : guard_->name(key) + " (" + to_text(roles) + ")");
  return std::nullopt;
}

bool Switch::may_send(const Peer& peer, const messages::Envelope& envelope) {
  const auto to = routes_.find(envelope.to);
  return peer.speakers.contains(envelope.from) &&
         options_.rules.may_send(
             peer.roles, envelope.type,
             to == routes_.end() ? std::string_view{} : std::string_view{to->second.name});
}

/// Ends the sessions of keys that went, or whose roles changed: those may come again.
void Switch::revoke() {
  for (const auto& [node, peer] : peers_) {
    if (peer->key.empty() || !peer->session.open()) continue;
    const auto roles = guard_->roles(peer->key);
    if (roles && *roles == peer->roles) continue;
    count(counters_.revoked);
    const std::string why = roles ? "the roles of its key changed" : "its key was taken out";
    for (const std::string& id : peer->routing_id)
      if (!id.empty()) say(router_, id, Bye{.reason = why, .fenced = true});
    const auto ids = peer->routing_id;
    lose(*peer, why);
    if (roles) continue;
    for (const std::string& id : ids)
      if (!id.empty()) cut(id);
  }
}

void Switch::cut(const std::string& id) {
  if (takers_.size() < kMaxTakers) takers_.push_back(make_taker(shared_->context, id));
}

void Switch::note_handshakes() {
  std::string why;
  if (router_ && router_monitor_->watch.readable)
    count(counters_.unauthenticated, router_monitor_->take_failures(why));
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    if (!dealers_[plane] || !dealer_monitors_[plane]->watch.readable) continue;
    if (dealer_monitors_[plane]->take_failures(why_unheard_) == 0) continue;
    log_once(options_.upstream + ": " + why_unheard_);
    redial_later(why_unheard_);  // ZeroMQ does not dial again after a refusal.
  }
}

void Switch::log_once(const std::string& text) {
  if (logged_.size() < kMaxLoggedOnce && logged_.insert(text).second)
    log(LogLevel::kWarning, options_.name, text);
}

}  // namespace emplace::runtime

#include "runtime/zmq/switch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/log.h"
#include "runtime/zmq/session_messages.h"
#include "runtime/zmq/sockets.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kMaxParked = 4'096;
constexpr std::size_t kLeastTraced = 4'096;  // Records of a loop, however many there are.
constexpr std::chrono::milliseconds kLongestPoll{1'000};
constexpr int kChecksPerBeat = 4;  // A silence is noticed a quarter of a heartbeat late at most.
constexpr std::chrono::milliseconds kBlockedPoll{1};  // A ROUTER does not say which peer has room again.

}  // namespace

Switch::Switch(std::shared_ptr<Shared> shared)
    : shared_{std::move(shared)},
      options_{shared_->options},
      counters_{shared_->counters},
      host_{options_, shared_->clock, counters_,
            [this](const messages::Envelope& envelope, std::span<const std::byte> body,
                   const messages::SharedBytes& bulk) { return route(envelope, body, bulk, false); }},
      wake_fd_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)},
      jitter_{options_.seed, Purpose::kJitter, static_cast<std::uint64_t>(actor_id(options_.name))} {
  EMPLACE_CHECK(wake_fd_ >= 0, "eventfd");
}

Switch::~Switch() { ::close(wake_fd_); }

Result<Unit> Switch::listen() {
  if (const auto loaded = load_keys(); !loaded) return loaded.error();
  if (options_.listen.empty()) return Unit{};
  for (const std::string& endpoint : options_.listen)
    if (const auto valid = check_endpoint(endpoint, own_keys_.has_value(), options_.insecure); !valid)
      return valid.error();
  router_ = make_router(shared_->context, options_.insecure);
  router_monitor_ = std::make_unique<HandshakeMonitor>(shared_->context, router_, monitors_++);
  endpoints_.resize(options_.listen.size());
  const auto bind = [&](bool tcp) -> Result<Unit> {
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      if (is_tcp(options_.listen[i]) != tcp) continue;
      auto bound = bind_endpoint(router_, options_.listen[i]);
      if (!bound) return bound.error();
      endpoints_[i] = std::move(*bound);
    }
    return Unit{};
  };
  // Options hold for what is bound after them: ipc first, which needs no keys.
  if (const auto bound = bind(false); !bound) return bound;
  if (guard_) guard_->protect(router_, *own_keys_);
  return bind(true);
}

Result<Unit> Switch::spawn(std::string name, Home home, ActorFactory factory) {
  const ActorId id = actor_id(name);
  if (routes_.contains(id)) return invalid("actor " + name, "the name is taken", "names are unique in a run");
  local_actors_.push_back(name);
  const auto telemetry = telemetry_.emplace_back(std::make_shared<ActorTelemetry>(name));
  if (home == Home::kIoLoop) {
    host_.add(std::move(name), std::move(factory), telemetry);
    routes_.emplace(id, Route{.name = local_actors_.back()});
  } else {
    loops_.push_back(
        std::make_shared<OwnLoop>(shared_, loops_.size(), std::move(name), std::move(factory), telemetry));
    routes_.emplace(id, Route{.loop = loops_.back().get(), .name = local_actors_.back()});
  }
  return Unit{};
}

std::vector<ActorFacts> Switch::actors() const {
  std::vector<ActorFacts> facts;
  for (const auto& actor : telemetry_) facts.push_back(actor->facts());
  return facts;
}

/// A ring for each loop. A run goes on without where the disk refuses.
void Switch::trace() {
  if (options_.trace.empty()) return;
  const std::size_t records =
      std::clamp(8 * TraceRing::kMostRecords / (1 + loops_.size()), kLeastTraced, TraceRing::kMostRecords);
  const auto ring_of = [&](std::size_t number,
                           const std::vector<std::string>& actors) -> std::unique_ptr<TraceRing> {
    auto ring = TraceRing::make(options_.trace, options_.name, number, actors, records, shared_->clock);
    if (ring) return *std::move(ring);
    log(LogLevel::kWarning, options_.name, "is not traced: " + ring.error().context);
    return nullptr;
  };
  host_.trace_to(ring_of(0, host_.names()));
  for (std::size_t k = 0; k < loops_.size(); ++k) loops_[k]->trace_to(ring_of(k + 1, {loops_[k]->name()}));
}

Result<std::string> Switch::run() {
  now_ = head_heard_ = shared_->clock.now();
  trace();
  const std::optional<Error> refused = start_threads();
  host_.start_all();
  if (refused) begin_stop(refused->context, refused);
  while (phase_ != Phase::kDone) {
    collect_host();
    if (phase_ != Phase::kRunning) advance_stop();
    flush_all();
    if (phase_ == Phase::kDone) break;
    wait_for_work();
    now_ = shared_->clock.now();
    if (redial_at_ && now_ >= *redial_at_) {
      redial_at_.reset();
      dial();
    }
    receive_all();
    host_.turn();
    if (now_ >= next_tick_) tick();
  }
  end_threads();
  if (failure_) return *failure_;
  return reason_;
}

void Switch::stop(std::string reason) {
  {
    const MutexLock lock{stop_mutex_};
    if (!stop_asked_) stop_asked_ = std::move(reason);
  }
  const std::uint64_t one = 1;
  EMPLACE_CHECK(::write(wake_fd_, &one, sizeof one) == sizeof one, "eventfd");
}

void Switch::wait_for_work() {
  waiter_.clear();
  waiter_.add(wake_fd_);
  if (guard_) waiter_.add(guard_->socket(), guard_->watch);
  if (router_) {
    waiter_.add(router_monitor_->socket(), router_monitor_->watch);
    waiter_.add(router_, router_watch_);
  }
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    if (!dealers_[plane]) continue;
    waiter_.add(dealer_monitors_[plane]->socket(), dealer_monitors_[plane]->watch);
    waiter_.add(dealers_[plane], dealer_watch_[plane]);
  }
  for (const auto& loop : loops_) waiter_.add(loop->socket(), loop->watch);
  std::optional<Nanos> next = next_tick_;
  if (const auto timer = host_.next_timer()) next = std::min(*next, *timer);
  if (redial_at_) next = std::min(*next, *redial_at_);
  if (parting_until_) next = std::min(*next, *parting_until_);
  if (phase_ != Phase::kRunning) next = std::min(*next, stop_deadline_);
  const auto longest = router_watch_.blocked ? kBlockedPoll : kLongestPoll;
  const auto wait = poll_timeout(shared_->clock.now(), host_.busy(), next, longest);
  if (!waiter_.wait(wait)) return;
  std::uint64_t wakes = 0;
  (void)!::read(wake_fd_, &wakes, sizeof wakes);
  std::optional<std::string> asked;
  {
    const MutexLock lock{stop_mutex_};
    asked = stop_asked_;
  }
  if (asked) begin_stop(*asked, std::nullopt);
}

void Switch::receive_all() {
  if (guard_ && guard_->watch.readable) guard_->answer();
  note_handshakes();
  if (router_watch_.readable) receive_router();
  for (std::size_t plane = 0; plane < kPlanes; ++plane)
    if (dealers_[plane] && dealer_watch_[plane].readable) receive_upstream(plane);
  for (const auto& loop : loops_)
    if (loop->watch.readable) receive_loop(*loop);
}

void Switch::receive_router() {
  std::string id;
  std::string key;
  Received received;
  int taken = 0;
  for (; taken < router_intake_.frames() && receive(router_, &id, received); ++taken) {
    key = guard_ ? received.user() : std::string_view{};
    if (!admit(id, key, received.bytes())) continue;
    bool stranger = false;
    const bool whole = each_message(received, [&](const Incoming& incoming) {
      if (incoming.is<Hello>()) return on_hello(id, key, incoming);
      const auto connection = connections_.find(id);
      if (connection == connections_.end()) {
        stranger = true;
      } else {
        on_peer_message(*connection->second.peer, connection->second.plane, incoming);
      }
    });
    if (!whole || stranger) count(counters_.malformed);
    if (stranger) say(router_, id, Bye{.reason = "this life is over", .fenced = true});
  }
  router_intake_.took(taken);
}

void Switch::receive_upstream(std::size_t plane) {
  Received received;
  int taken = 0;
  Intake& intake = dealer_intake_[plane];
  for (; taken < intake.frames() && dealers_[plane] && receive(dealers_[plane], nullptr, received); ++taken) {
    const bool whole = each_message(received, [&](const Incoming& incoming) {
      if (!incoming.is<Bye>()) head_heard_ = now_;  // To be refused is not to be heard.
      if (incoming.is<Welcome>()) return on_welcome(plane, incoming);
      on_peer_message(*head_, plane, incoming);
    });
    if (!whole) count(counters_.malformed);
  }
  intake.took(taken);
}

void Switch::receive_loop(OwnLoop& loop) {
  Received received;
  int taken = 0;
  for (; taken < loop.intake.frames() && receive(loop.socket(), nullptr, received); ++taken)
    each_message(received, [&](const Incoming& incoming) { on_loop_message(loop, incoming); });
  loop.intake.took(taken);
}

void Switch::on_loop_message(OwnLoop& loop, const Incoming& incoming) {
  if (incoming.envelope.type < messages::kFirstRuntimeType) {
    route(incoming.envelope, incoming.body, incoming.bulk, false);
    return;
  }
  (void)incoming.match([&](const LoopDone& done) { (done.finish ? loop.finished : loop.stopped) = true; },
                       [&](const LoopWantsStop& wish) {
                         if (!wish.failed) return on_stop_asked(wish.reason);
                         begin_stop(wish.reason, Error{Errc::kRunFailed, wish.reason});
                       },
                       [&](const LoopDeparted& departed) {
                         for (const std::string& actor : departed.actors) announce(actor, false, nullptr);
                       });
}

/// What the actors of this loop have done since the last turn.
void Switch::collect_host() {
  for (const std::string& actor : host_.take_departed()) announce(actor, false, nullptr);
  if (const auto reason = host_.take_stop()) on_stop_asked(*reason);
  if (host_.failure() && !failure_) begin_stop(host_.failure()->context, host_.failure());
  if (local_actors_.empty() && phase_ == Phase::kRunning) begin_stop("every actor is done", std::nullopt);
}

bool Switch::route(const messages::Envelope& envelope, std::span<const std::byte> body,
                   const messages::SharedBytes& bulk, bool from_upstream) {
  const auto found = routes_.find(envelope.to);
  const std::size_t plane = plane_index(envelope.type);
  if (found == routes_.end()) {
    // A dialling node knows its own actors; the head knows the rest.
    if (head_ && !from_upstream) return head_->links[plane].push(envelope, body, bulk);
    park(envelope, body, bulk);
    return true;
  }
  const Route& to = found->second;
  if (to.loop != nullptr) {
    const bool taken = to.loop->link().push(envelope, body, bulk);
    if (taken && !messages::keeps_latest_only(envelope.type)) to.loop->telemetry().queued();
    return taken;
  }
  if (to.peer != nullptr) return to.peer->links[plane].push(envelope, body, bulk);
  host_.deliver({.envelope = envelope, .body = body, .bulk = bulk}, false);
  return true;
}

void Switch::park(const messages::Envelope& envelope, std::span<const std::byte> body,
                  const messages::SharedBytes& bulk) {
  const std::size_t size = body.size() + bulk.size();
  if (parked_.size() >= kMaxParked || (!parked_.empty() && parked_bytes_ + size > options_.mailbox_bytes)) {
    count(counters_.unroutable);
    return;
  }
  parked_bytes_ += size;
  parked_.push_back({now_ + options_.parking, envelope, messages::Bytes(body.begin(), body.end()), bulk});
}

void Switch::unpark() {
  parked_bytes_ = 0;
  for (Parked& parked : std::exchange(parked_, {})) {
    if (routes_.contains(parked.envelope.to)) {
      route(parked.envelope, parked.body, parked.bulk, false);
    } else if (now_ < parked.until) {
      parked_bytes_ += parked.body.size() + parked.bulk.size();
      parked_.push_back(std::move(parked));
    } else {
      count(counters_.unroutable);
    }
  }
}

bool Switch::is_local(ActorId actor) const {
  const auto found = routes_.find(actor);
  return found != routes_.end() && found->second.peer == nullptr;
}

/// Tells every loop, and every node but `except`, that an actor can be reached or is gone.
void Switch::announce(const std::string& actor, bool reachable, const Peer* except) {
  const bool local = is_local(actor_id(actor));  // Only ever announced when it departs.
  if (local) {
    std::erase(local_actors_, actor);
    routes_.erase(actor_id(actor));
  }
  host_.directory(actor, reachable);
  for (const auto& loop : loops_)
    push_message(loop->link(), LoopDirectory{.actor = actor, .reachable = reachable});
  const auto tell = [&](Peer& peer) {
    if (&peer != except) (reachable ? peer.joined : peer.left).push_back(actor);
  };
  for (const auto& [node, peer] : peers_) tell(*peer);
  if (head_ && local) tell(*head_);
}

void Switch::flush_all() {
  router_watch_.blocked = false;
  std::vector<Peer*> gone;
  for (const auto& [node, peer] : peers_) {
    for (std::size_t plane = 0; plane < kPlanes; ++plane) {
      if (!peer->greeted[plane] || peer->links[plane].empty()) continue;
      const auto outcome = peer->links[plane].flush(router_, peer->routing_id[plane]);
      router_watch_.used = true;
      router_watch_.blocked |= outcome == Link::Flush::kBlocked;
      if (outcome == Link::Flush::kUnreachable) gone.push_back(peer.get());
    }
  }
  for (Peer* peer : gone) lose(*peer, "its connection is gone");
  for (std::size_t plane = 0; plane < kPlanes && head_; ++plane) {
    Watch& watch = dealer_watch_[plane];
    watch.blocked = false;
    if (!dealers_[plane]) continue;
    if (!hello_said_[plane]) {
      watch.used = true;
      watch.blocked = !say_hello(plane);
      if (watch.blocked) continue;
    }
    if (head_->links[plane].empty()) continue;
    watch.used = true;
    const auto outcome = head_->links[plane].flush(dealers_[plane], {});
    watch.blocked = outcome == Link::Flush::kBlocked;
    if (outcome == Link::Flush::kUnreachable) redial_later("its connection is gone");
  }
  for (const auto& loop : loops_) {
    loop->watch.used |= !loop->link().empty();
    loop->watch.blocked = loop->link().flush(loop->socket(), {}) == Link::Flush::kBlocked;
  }
}

/// Who was kept from running (stopped, or without a CPU) has heard nobody; that silence was its own.
void Switch::forgive_own_absence() {
  const Nanos away = now_ - next_tick_;
  if (next_tick_ == Nanos{0} || away < options_.heartbeat) return;
  for (const auto& [node, peer] : peers_) peer->session.on_heard(now_);
  if (head_) head_->session.on_heard(now_);
  head_heard_ = std::min(now_, head_heard_ + away);
}

void Switch::tick() {
  forgive_own_absence();
  next_tick_ = now_ + options_.heartbeat / kChecksPerBeat;
  const bool beats = now_ >= next_beat_;
  if (beats) next_beat_ = now_ + options_.heartbeat;
  const auto beat = [&](Peer& peer) {
    if (beats)
      push_message(peer.links[0], Beat{std::exchange(peer.joined, {}), std::exchange(peer.left, {})});
  };
  takers_.clear();
  if (guard_ && guard_->refresh(now_)) revoke();
  for (const auto& [node, peer] : peers_) {
    if (peer->greeted[0]) beat(*peer);
    if (peer->session.lost(now_)) lose(*peer, "silent for three heartbeats");
  }
  std::vector<Peer*> expired;
  for (const auto& [node, peer] : peers_)
    if (peer->away_since && now_ - *peer->away_since > options_.parking) expired.push_back(peer.get());
  for (Peer* peer : expired) forget(*peer);
  if (head_) {
    if (redial_at_) {
      // Nothing to say until then.
    } else if (!head_->connected()) {
      if (beats) hello_said_ = head_->greeted;  // Once more where no Welcome came.
    } else {
      beat(*head_);
      if (head_->session.lost(now_)) redial_later("silent for three heartbeats");
    }
    const bool met = ever_joined_ || options_.first_patience == Nanos{0};
    const Nanos patience = met ? options_.upstream_patience : options_.first_patience;
    if (phase_ == Phase::kRunning && now_ - head_heard_ > patience)
      begin_stop("the head is gone",
                 Error{Errc::kPeerLost, options_.upstream + ": no word from the head for " +
                                            std::to_string(patience / std::chrono::seconds{1}) + " s; " +
                                            (why_unheard_.empty() ? "start it again" : why_unheard_)});
  }
  unpark();
  if (options_.handler_limit > Nanos{0}) check_hung_handlers(now_);
}

}  // namespace emplace::runtime

#include "runtime/zmq/router.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/log.h"
#include "runtime/zmq/links/session_messages.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kLeastTraced = 4'096;  // Minimum number of records of a loop's trace.
constexpr std::chrono::milliseconds kLongestWait{1'000};
constexpr int kChecksPerBeat = 4;  // A silence is detected at most a quarter of a heartbeat late.
constexpr std::chrono::milliseconds kBlockedPoll{1};  // A ROUTER does not report which peer has room again.

}  // namespace

// The router runs turns (run()) until the shutdown is complete. Invariants:
//
// - Only this thread touches the sockets and the state of the router. Other threads request a stop through
//   stop_request_ and wake_; own loops send messages over inproc.
// - The router blocks only in wait_for_work(). A full queue refuses a message instead of waiting for room, so
//   that a slow peer delays no other one. Every stage handles a bounded number of frames or messages for the
//   same reason.
// - All checks of a turn use the same time, now_.
// - PeerSessions decides, the router acts: sessions touch no socket, they return actions (perform()).

// Setup.

Router::Router(std::shared_ptr<Shared> shared, NodeKeys keys, std::unique_ptr<Authenticator> authenticator)
    : shared_{std::move(shared)},
      options_{shared_->options},
      counters_{shared_->counters},
      keys_{std::move(keys)},
      host_{options_, shared_->clock, counters_,
            [this](const messages::Envelope& envelope, std::span<const std::byte> body,
                   const messages::SharedBytes& bulk) { return route(envelope, body, bulk, false); }},
      parking_{options_.mailbox_bytes, options_.parking},
      log_once_{options_.name},
      authenticator_{std::move(authenticator)},
      admission_{options_, routes_, authenticator_ ? &authenticator_->keys() : nullptr},
      sessions_{options_, routes_, admission_, counters_, log_once_},
      shutdown_{options_.drain_deadline},
      wake_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)} {
  EMPLACE_CHECK(wake_.open(), "eventfd");
}

Result<std::unique_ptr<Router>> Router::make(std::shared_ptr<Shared> shared) {
  const NodeOptions& options = shared->options;
  EMPLACE_TRY_ASSIGN(auto keys, load_node_keys(options));
  std::unique_ptr<Authenticator> authenticator;
  if (needs_authenticator(options, keys)) {
    EMPLACE_TRY_ASSIGN(authenticator,
                       Authenticator::make(shared->context, options.keys.allowed, options.name));
  }
  auto router =
      std::unique_ptr<Router>{new Router{std::move(shared), std::move(keys), std::move(authenticator)}};
  if (!options.listen.empty()) {
    EMPLACE_TRY_ASSIGN(router->listener_,
                       Listener::make(*router->shared_, router->keys_, router->authenticator_.get()));
  }
  if (!options.upstream.empty()) {
    EMPLACE_TRY_ASSIGN(router->upstream_, Upstream::make(*router->shared_, router->keys_, router->sessions_,
                                                         router->routes_, router->log_once_));
  }
  return router;
}

std::vector<std::string> Router::endpoints() const {
  return listener_ ? listener_->endpoints() : std::vector<std::string>{};
}

Result<Unit> Router::spawn(std::string name, Home home, ActorFactory factory) {
  if (routes_.find(actor_id(name)) != nullptr)
    return invalid("actor " + name, "the name is taken", "names are unique in a run");
  const auto telemetry = telemetry_.emplace_back(std::make_shared<ActorTelemetry>(name));
  if (home == Home::kIoLoop) {
    routes_.add_local(name, nullptr);
    host_.add(std::move(name), std::move(factory), telemetry);
  } else {
    const auto& loop = loops_.emplace_back(
        std::make_shared<OwnLoop>(shared_, loops_.size(), name, std::move(factory), telemetry));
    routes_.add_local(name, loop.get());
  }
  return Unit{};
}

std::vector<ActorFacts> Router::actors() const {
  std::vector<ActorFacts> facts;
  for (const auto& actor : telemetry_) facts.push_back(actor->facts());
  return facts;
}

/// Makes a trace ring per loop. A loop whose ring cannot be created runs untraced.
void Router::trace() {
  if (options_.trace.empty()) return;
  const std::size_t records =
      std::clamp(8 * TraceRing::kMaxRecords / (1 + loops_.size()), kLeastTraced, TraceRing::kMaxRecords);
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

// The loop. The order within a turn matters: results of handlers are collected and flushed before the loop
// waits, so that an answer leaves at once; the time is read after the wait, before anything is checked
// against it.

Result<std::string> Router::run() {
  now_ = shared_->clock.now();
  if (upstream_) upstream_->received(now_);
  trace();
  const std::optional<Error> refused = start(loops_);
  host_.start_all();
  if (refused) start_shutdown(refused->context, refused);
  while (!shutdown_.done()) {
    collect_host();
    if (!shutdown_.running()) advance_stop();
    flush_all();
    if (shutdown_.done()) break;
    wait_for_work();
    now_ = shared_->clock.now();
    if (upstream_) upstream_->dial_if_due(now_);
    receive_all();
    host_.turn();
    if (now_ >= next_tick_) tick();
  }
  if (auto hung = join(loops_)) shutdown_.fail(*std::move(hung));
  return shutdown_.outcome();
}

// Stop request from any thread.

void Router::stop(std::string reason) {
  {
    const MutexLock lock{stop_mutex_};
    if (!stop_request_) stop_request_ = std::move(reason);
  }
  const std::uint64_t one = 1;
  EMPLACE_CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one, "eventfd");
}

std::optional<std::string> Router::take_stop_request() {
  std::uint64_t wakes = 0;
  (void)!::read(wake_.get(), &wakes, sizeof wakes);
  const MutexLock lock{stop_mutex_};
  return stop_request_;
}

// Waiting: until a socket is readable, a stop is requested or the next deadline (tick, timer, dial,
// shutdown).

void Router::wait_for_work() {
  waiter_.clear();
  waiter_.add(wake_.get());
  if (authenticator_) authenticator_->add_to(waiter_);
  if (listener_) listener_->add_to(waiter_);
  if (upstream_) upstream_->add_to(waiter_);
  for (const auto& loop : loops_) waiter_.add(loop->socket(), loop->watch);
  std::optional<Nanos> next = next_tick_;
  const auto earlier = [&](std::optional<Nanos> at) {
    if (at) next = std::min(*next, *at);
  };
  earlier(host_.next_timer());
  if (upstream_) earlier(upstream_->next());
  earlier(shutdown_.next());
  const auto longest = listener_ && listener_->blocked() ? kBlockedPoll : kLongestWait;
  if (!waiter_.wait(poll_timeout(shared_->clock.now(), host_.busy(), next, longest))) return;
  if (const auto reason = take_stop_request()) start_shutdown(*reason, std::nullopt);
}

// Receiving.

void Router::receive_all() {
  if (authenticator_ && authenticator_->readable()) authenticator_->answer();
  if (listener_) {
    if (listener_->handshake_failed()) count(counters_.unauthenticated, listener_->take_failed_handshakes());
    if (listener_->readable()) receive_peers();
  }
  if (upstream_) {
    if (upstream_->take_failed_handshakes()) redial(upstream_->last_connect_error());
    receive_head();
  }
  for (const auto& loop : loops_)
    if (loop->watch.readable) receive_loop(*loop);
}

/// A connection without a session may only send Hello.
void Router::receive_peers() {
  std::string key;
  listener_->receive([&](const std::string& id, Received& received) {
    key = authenticator_ ? received.user() : std::string_view{};
    if (!may_read(id, key, sessions_.connection(id), received.bytes())) return;
    bool unknown_connection = false;
    const bool whole = each_message(received, [&](const Incoming& incoming) {
      if (incoming.is<Hello>()) return perform(sessions_.on_hello(id, key, incoming, now_));
      if (const auto* const connection = sessions_.connection(id)) {
        on_peer_message(*connection->peer, connection->plane, incoming);
      } else {
        unknown_connection = true;
      }
    });
    if (!whole || unknown_connection) count(counters_.malformed);
    if (unknown_connection) listener_->send(id, Bye{.reason = "this incarnation has ended", .fenced = true});
  });
}

/// Checks a frame before it is decoded. Returns false, and counts, if it must not be read. Cuts connections
/// with a wrong key.
bool Router::may_read(const std::string& routing_id, const std::string& key,
                      const PeerSessions::Connection* connection, std::size_t bytes) {
  const Peer* const peer = connection != nullptr ? connection->peer : nullptr;
  switch (admission_.check_frame(key, peer, connection != nullptr ? connection->plane : 0, bytes)) {
    case Admission::Frame::kRead:
      return true;
    case Admission::Frame::kKeyRevoked:
      count(counters_.unauthenticated);
      listener_->cut(routing_id);
      return false;
    case Admission::Frame::kTakenOver:
      count(counters_.refused_role);
      log_once_.warn("a connection of node " + peer->node + " was taken over by " + admission_.key_name(key));
      listener_->cut(routing_id);
      return false;
    case Admission::Frame::kOversized:
      count(counters_.oversized);
      return false;
  }
  return false;
}

void Router::receive_head() {
  for (std::size_t plane = 0; plane < kPlanes; ++plane)
    upstream_->receive(plane, [&](const Incoming& incoming) {
      if (!incoming.is<Bye>()) upstream_->received(now_);  // A refusal does not reset the timeout.
      if (incoming.is<Welcome>()) return perform(sessions_.on_welcome(plane, incoming, now_));
      on_peer_message(upstream_->head(), plane, incoming);
    });
}

void Router::receive_loop(OwnLoop& loop) {
  Received received;
  int taken = 0;
  for (; taken < loop.intake.frames() && receive(loop.socket(), nullptr, received); ++taken)
    each_message(received, [&](const Incoming& incoming) { on_loop_message(loop, incoming); });
  loop.intake.took(taken);
}

void Router::on_peer_message(Peer& peer, std::size_t plane, const Incoming& incoming) {
  if (incoming.envelope.type >= messages::kFirstRuntimeType)
    return perform(sessions_.on_control(peer, plane, incoming, now_));
  if (sessions_.accept(peer, plane, incoming.envelope, now_))
    route(incoming.envelope, incoming.body, incoming.bulk, upstream_ && &peer == &upstream_->head());
}

void Router::on_loop_message(OwnLoop& loop, const Incoming& incoming) {
  if (incoming.envelope.type < messages::kFirstRuntimeType) {
    route(incoming.envelope, incoming.body, incoming.bulk, false);
    return;
  }
  (void)incoming.match([&](const LoopDone& done) { (done.finish ? loop.finished : loop.stopped) = true; },
                       [&](const LoopWantsStop& request) {
                         if (!request.failed) return on_stop_asked(request.reason);
                         start_shutdown(request.reason, Error{Errc::kRunFailed, request.reason});
                       });
}

/// Handles stop requests and failures of this loop's actors since the last turn.
void Router::collect_host() {
  if (const auto reason = host_.take_stop()) on_stop_asked(*reason);
  if (host_.failure() && !shutdown_.failed()) start_shutdown(host_.failure()->context, host_.failure());
}

// Routing: to an own loop, another node or an actor of this loop. At the head, messages for unknown actors
// are parked until their node joins; other nodes send them to the head, which knows every actor.

bool Router::route(const messages::Envelope& envelope, std::span<const std::byte> body,
                   const messages::SharedBytes& bulk, bool from_head) {
  const std::size_t plane = plane_index(envelope.type);
  const Route* const to = routes_.find(envelope.to);
  if (to == nullptr) {
    // A dialling node knows only its own actors; the head knows the rest.
    if (upstream_ && !from_head) return upstream_->head().links[plane].push(envelope, body, bulk);
    if (!parking_.add(envelope, body, bulk, now_)) count(counters_.unroutable);
    return true;
  }
  if (to->loop != nullptr) {
    const bool taken = to->loop->link().push(envelope, body, bulk);
    if (taken && !messages::keeps_latest_only(envelope.type)) to->loop->telemetry().queued();
    return taken;
  }
  if (to->peer != nullptr) return to->peer->links[plane].push(envelope, body, bulk);
  host_.deliver({.envelope = envelope, .body = body, .bulk = bulk}, false);
  return true;
}

void Router::unpark() {
  const Parking::Due due = parking_.take_due(routes_, now_);
  count(counters_.unroutable, due.expired);
  for (const Parking::Message& message : due.routable)
    route(message.envelope, message.body, message.bulk, false);
}

/// Reports a change of reachability to every loop of this node.
void Router::announce(const std::string& actor, bool reachable) {
  host_.directory(actor, reachable);
  send_to_loops(LoopDirectory{.actor = actor, .reachable = reachable});
}

// Session actions.

void Router::perform(const PeerSessions::Actions& actions) {
  for (const PeerSessions::Action& action : actions)
    std::visit([this](const auto& what) { perform(what); }, action);
}

void Router::perform(const PeerSessions::HeadRefused& refused) {
  if (!shutdown_.running()) return;  // This node ends anyway.
  upstream_->on_refused(refused.reason, refused.final);
  if (refused.other_run) {
    found_other_run_ = true;
    return start_shutdown(refused.reason, std::nullopt);
  }
  if (!refused.final) return redial(refused.reason);
  start_shutdown("refused",
                 Error{Errc::kInvalid, options_.upstream + ": " + upstream_->last_connect_error()});
}

void Router::perform(const PeerSessions::HeadLeft& left) {
  run_is_over_ = left.over;
  start_shutdown(left.reason, std::nullopt);
}

void Router::redial(std::string_view why) {
  if (upstream_->disconnect(now_)) perform(sessions_.lose_head(why));
}

// Sending and periodic checks.

void Router::flush_all() {
  if (listener_) {
    listener_->start_flush();
    std::vector<Peer*> gone;
    for (const auto& [node, peer] : sessions_.peers())
      if (!listener_->flush(*peer)) gone.push_back(peer.get());
    for (Peer* const peer : gone) perform(sessions_.lose(*peer, "its connection is gone", now_));
  }
  if (upstream_ && !upstream_->flush()) redial("its connection is gone");
  for (const auto& loop : loops_) loop->flush();
}

/// Ignores silence during a pause of this node (SIGSTOP, no CPU): it could not receive anything.
void Router::skip_own_pause() {
  const Nanos pause = now_ - next_tick_;
  if (next_tick_ == Nanos{0} || pause < options_.heartbeat) return;
  sessions_.skip_own_pause(now_);
  if (upstream_) upstream_->skip_own_pause(pause, now_);
}

void Router::tick() {
  skip_own_pause();
  next_tick_ = now_ + options_.heartbeat / kChecksPerBeat;
  const bool beat = now_ >= next_beat_;
  if (beat) next_beat_ = now_ + options_.heartbeat;
  if (listener_) listener_->end_cuts();
  if (authenticator_ && authenticator_->refresh(now_)) perform(sessions_.end_revoked(now_));
  perform(sessions_.tick(beat, now_));
  if (upstream_) {
    if (beat) upstream_->repeat_hello();
    if (shutdown_.running())
      if (auto failure = upstream_->gave_up(now_)) start_shutdown("the head is gone", *std::move(failure));
  }
  unpark();
  if (options_.handler_limit <= Nanos{0}) return;
  for (const auto& loop : loops_) {
    const Nanos started = loop->handler_started();
    if (started == Nanos{0} || now_ - started < options_.handler_limit) continue;
    return start_shutdown(
        loop->name() + " is stuck",
        Error{Errc::kDeadline, fmt::format("{}: a handler has been running for more than {} ms", loop->name(),
                                           options_.handler_limit / std::chrono::milliseconds{1})});
  }
}

// Shutdown: Shutdown orders the stages, advance_stop() carries them out.

void Router::on_stop_asked(const std::string& reason) {
  if (!shutdown_.running()) return;
  if (!options_.on_stop_asked || options_.on_stop_asked(reason)) start_shutdown(reason, std::nullopt);
}

void Router::start_shutdown(const std::string& reason, std::optional<Error> failure) {
  if (!shutdown_.start(reason, std::move(failure), shared_->clock.now())) return;
  log(LogLevel::kInfo, options_.name, "stopping: " + reason);
  next_tick_ = next_beat_ = Nanos{0};
  host_.stop_all();
  send_to_loops(LoopStop{.finish = false});
}

void Router::advance_stop() {
  const bool idle = !host_.busy();
  const auto all = [&](bool OwnLoop::*reached) {
    return std::all_of(loops_.begin(), loops_.end(), [&](const auto& loop) { return (*loop).*reached; });
  };
  const Shutdown::Progress progress{
      .actors_stopped = all(&OwnLoop::stopped) && idle,
      .loops_ended = all(&OwnLoop::finished) && idle,
      .peers_parted = sessions_.peers_parted() && (!upstream_ || upstream_->parted()),
      .head_left_first = upstream_ && upstream_->head().parted()};
  for (const Shutdown::Action action : shutdown_.advance(progress, shared_->clock.now())) {
    switch (action) {
      case Shutdown::Action::kEndLoops:
        send_to_loops(LoopStop{.finish = true});
        break;
      case Shutdown::Action::kSendBye:
        sessions_.send_bye(shutdown_.reason(), options_.run_is_over && options_.run_is_over());
        break;
      case Shutdown::Action::kGiveUp:
        log(LogLevel::kWarning, options_.name, "not everything was drained in time");
        break;
    }
  }
}

}  // namespace emplace::runtime

#include "runtime/zmq/loops/actor_host.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/log.h"

namespace emplace::runtime {
namespace {

constexpr std::size_t kMessagesPerTurn = 1024;  // Limit, so that sockets and timers get their turn.

}  // namespace

struct ActorHost::Resident {
  std::string name;
  ActorId id;
  ActorFactory factory;
  RestartLimiter limiter;
  std::shared_ptr<ActorTelemetry> telemetry;
  std::unique_ptr<HostContext> context;
  std::unique_ptr<Actor> actor;
  std::uint64_t epoch = 0;
  bool watches = false;  // Whether it is in `watchers_`.
};

class ActorHost::HostContext final : public Context {
 public:
  HostContext(ActorHost& host, Resident& resident) : host_{&host}, resident_{&resident} {}

  Nanos now() const override { return host_->clock_.now(); }
  Nanos wall() const override { return host_->clock_.wall(); }
  TimerId after(Nanos delay, std::function<void()> callback) override {
    const std::uint64_t id = host_->next_timer_++;
    host_->callbacks_.emplace(id, Callback{resident_->id, std::move(callback)});
    if (delay <= Nanos{0}) {
      host_->next_turn_.push_back(id);
    } else {
      host_->timers_.push({now() + delay, id});
    }
    return TimerId{id};
  }
  void cancel(TimerId timer) override { host_->callbacks_.erase(static_cast<std::uint64_t>(timer)); }
  Rng random(Purpose purpose, std::uint64_t step) const override {
    return {host_->options_.seed, purpose, step};
  }
  void stop_node(std::string reason) override {
    if (!host_->stop_) host_->stop_ = std::move(reason);
  }
  std::uint64_t epoch() const override { return resident_->epoch; }
  ActorId self() const override { return resident_->id; }
  std::string_view name() const override { return resident_->name; }

 protected:
  bool post(ActorId to, std::uint16_t type, std::span<const std::byte> body,
            messages::SharedBytes bulk) override {
    return host_->post(*resident_, to, type, body, bulk);
  }
  bool traced() const override { return host_->ring_ != nullptr; }
  void phase_ended(std::string_view what, Nanos started) override {
    TraceRecord record{.begin_ns = started.count(), .end_ns = now().count(), .actor = resident_->id};
    what.copy(record.name.data(), record.name.size());
    record.kind = TraceKind::kPhase;
    host_->ring_->add(record);
  }

 private:
  ActorHost* host_;
  Resident* resident_;
};

ActorHost::ActorHost(const NodeOptions& options, const Clock& clock, NodeCounters& counters, Uplink uplink)
    : options_{options}, clock_{clock}, counters_{counters}, uplink_{std::move(uplink)} {}
ActorHost::~ActorHost() = default;

void ActorHost::add(std::string name, ActorFactory factory, std::shared_ptr<ActorTelemetry> telemetry) {
  const ActorId id = actor_id(name);
  auto resident = std::make_unique<Resident>(Resident{.name = std::move(name),
                                                      .id = id,
                                                      .factory = std::move(factory),
                                                      .limiter = RestartLimiter{options_.restarts_per_minute},
                                                      .telemetry = std::move(telemetry)});
  resident->context = std::make_unique<HostContext>(*this, *resident);
  residents_.emplace(id, std::move(resident));
  order_.push_back(id);
}

std::vector<std::string> ActorHost::names() const {
  std::vector<std::string> names;
  for (const ActorId id : order_) names.push_back(residents_.at(id)->name);
  return names;
}

void ActorHost::start_all() {
  for (const ActorId id : order_) start(*residents_.at(id));
}

void ActorHost::stop_all() {
  for (const ActorId id : order_) {
    Resident& resident = *residents_.at(id);
    guarded(resident, {.kind = TraceKind::kStop}, [&] { resident.actor->on_stop(*resident.context); });
  }
}

void ActorHost::directory(std::string_view actor, bool reachable) {
  for (const ActorId id : std::exchange(watchers_, {})) {
    Resident& resident = *residents_.at(id);
    resident.watches = false;
    if (!resident.actor) continue;
    guarded(resident, {.kind = TraceKind::kDirectory},
            [&] { resident.actor->on_directory(*resident.context, actor, reachable); });
    if (resident.actor && !resident.actor->ignores_directory()) watch(resident);
  }
}

/// Subscribes the actor to the next directory change.
void ActorHost::watch(Resident& resident) {
  if (!std::exchange(resident.watches, true)) watchers_.push_back(resident.id);
}

void ActorHost::start(Resident& resident) {
  resident.epoch = next_epoch(resident.epoch, clock_.now());
  guarded(resident, {.kind = TraceKind::kStart}, [&] {
    resident.actor = resident.factory();
    watch(resident);
    resident.actor->on_start(*resident.context);
  });
}

template <class Handler>
void ActorHost::guarded(Resident& resident, TraceRecord note, Handler&& handler) {
  if (failure_) return;
  if (ring_) note.begin_ns = clock_.now().count();
  const auto noted = [&] {
    if (!ring_) return;
    note.end_ns = clock_.now().count();
    note.actor = resident.id;
    ring_->add(note);
  };
  const bool timed = options_.handler_limit > Nanos{0};
  if (timed) handler_started_.store(clock_.now().count(), std::memory_order_relaxed);
  try {
    handler();
    if (timed) handler_started_.store(0, std::memory_order_relaxed);
    noted();
  } catch (const std::exception& failure) {
    noted();
    return fail(resident, failure.what());
  } catch (...) {
    noted();
    return fail(resident, "an exception of unknown type");
  }
}

void ActorHost::fail(Resident& resident, const char* what) {
  handler_started_.store(0, std::memory_order_relaxed);
  resident.actor.reset();
  std::erase_if(callbacks_, [&](const auto& entry) { return entry.second.owner == resident.id; });
  const bool again = resident.limiter.allow(clock_.now());
  log(LogLevel::kError, resident.name, what);
  resident.telemetry->failed(what);
  if (options_.on_actor_failed) options_.on_actor_failed(resident.name, what, resident.limiter.recent());
  if (!again) {
    failure_ = Error{Errc::kRunFailed, resident.name + ": " + what};
    return;
  }
  count(counters_.restarts);
  start(resident);
}

void ActorHost::deliver(const Incoming& incoming, bool queued) {
  Resident& resident = *residents_.at(incoming.envelope.to);
  if (queued && !messages::keeps_latest_only(incoming.envelope.type)) resident.telemetry->taken();
  resident.telemetry->handled();
  const messages::Envelope& envelope = incoming.envelope;
  const TraceRecord note{
      .from = envelope.from, .sent_ns = static_cast<std::int64_t>(envelope.trace), .type = envelope.type};
  guarded(resident, note, [&] { resident.actor->on_message(*resident.context, incoming); });
}

bool ActorHost::post(const Resident& from, ActorId to, std::uint16_t type, std::span<const std::byte> body,
                     const messages::SharedBytes& bulk) {
  const std::uint64_t sent = ring_ ? static_cast<std::uint64_t>(clock_.now().count()) : 0;
  const messages::Envelope envelope{.type = type, .from = from.id, .to = to, .trace = sent};
  return has(to) ? enqueue(envelope, body, bulk) : uplink_(envelope, body, bulk);
}

bool ActorHost::enqueue(const messages::Envelope& envelope, std::span<const std::byte> body,
                        const messages::SharedBytes& bulk) {
  Waiting next{envelope, messages::Bytes(body.begin(), body.end()), bulk};
  const std::size_t size = body.size() + bulk.size();
  if (messages::keeps_latest_only(envelope.type)) {
    const auto older = std::find_if(local_.begin(), local_.end(), [&](const Waiting& w) {
      return w.envelope.type == envelope.type && w.envelope.from == envelope.from &&
             w.envelope.to == envelope.to;
    });
    if (older != local_.end()) {
      local_bytes_ += size;
      local_bytes_ -= older->body.size() + older->bulk.size();
      *older = std::move(next);
      count(counters_.replaced);
      return true;
    }
  }
  if (local_.size() >= options_.mailbox_items ||
      (!local_.empty() && local_bytes_ + size > options_.mailbox_bytes)) {
    count(counters_.refused);
    return false;
  }
  local_bytes_ += size;
  if (!messages::keeps_latest_only(envelope.type)) residents_.at(envelope.to)->telemetry->queued();
  local_.push_back(std::move(next));
  return true;
}

void ActorHost::turn() {
  for (std::size_t i = 0; i < kMessagesPerTurn && !local_.empty(); ++i) {
    const Waiting next = std::move(local_.front());
    local_.pop_front();
    local_bytes_ -= next.body.size() + next.bulk.size();
    deliver({.envelope = next.envelope, .body = next.body, .bulk = next.bulk}, true);
  }
  for (const std::uint64_t timer : std::exchange(next_turn_, {})) fire(timer);
  if (timers_.empty()) return;
  const Nanos now = clock_.now();
  while (!timers_.empty() && timers_.top().due <= now) {
    const std::uint64_t timer = timers_.top().id;
    timers_.pop();
    fire(timer);
  }
}

void ActorHost::fire(std::uint64_t timer) {
  const auto found = callbacks_.find(timer);
  if (found == callbacks_.end()) return;  // Cancelled.
  const Callback callback = std::move(found->second);
  callbacks_.erase(found);
  guarded(*residents_.at(callback.owner), {.kind = TraceKind::kTimer}, callback.run);
}

std::optional<Nanos> ActorHost::next_timer() const {
  return timers_.empty() ? std::nullopt : std::optional{timers_.top().due};
}

}  // namespace emplace::runtime

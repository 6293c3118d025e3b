#include "runtime/sim/world.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "runtime/core/restart.h"

namespace emplace::runtime::sim {

struct World::Timer {
  std::uint64_t id;
  Nanos due;
  ActorId owner;
  std::function<void()> callback;
};

struct World::Resident {
  std::string name;
  ActorFactory factory;
  RestartLimiter limiter;
  std::unique_ptr<ActorContext> context;
  std::unique_ptr<Actor> actor;
  std::uint64_t epoch = 0;
  bool leaving = false;
};

class World::ActorContext final : public Context {
 public:
  ActorContext(World& world, std::string name)
      : world_{&world}, name_{std::move(name)}, self_{actor_id(name_)} {}

  Nanos now() const override { return world_->clock_.now(); }
  Nanos wall() const override { return world_->clock_.wall(); }
  TimerId after(Nanos delay, std::function<void()> callback) override {
    const std::uint64_t id = world_->next_timer_++;
    world_->timers_.push_back(std::make_unique<Timer>(Timer{.id = id,
                                                            .due = now() + std::max(delay, Nanos{0}),
                                                            .owner = self_,
                                                            .callback = std::move(callback)}));
    return TimerId{id};
  }
  void cancel(TimerId timer) override {
    std::erase_if(world_->timers_, [&](const auto& t) { return t->id == static_cast<std::uint64_t>(timer); });
  }
  Rng random(Purpose purpose, std::uint64_t step) const override {
    return {world_->options_.seed, purpose, step};
  }
  void stop_self() override { world_->residents_.at(self_)->leaving = true; }
  void stop_node(std::string reason) override {
    if (!world_->stopped_) world_->stopped_ = std::move(reason);
  }
  std::uint64_t epoch() const override { return world_->residents_.at(self_)->epoch; }
  ActorId self() const override { return self_; }
  std::string_view name() const override { return name_; }

 protected:
  bool post(ActorId to, std::uint16_t type, std::span<const std::byte> body,
            messages::SharedBytes bulk) override {
    world_->post(
        world_->make_packet(self_, to, type, messages::Bytes(body.begin(), body.end()), std::move(bulk)));
    return true;
  }

 private:
  World* world_;
  std::string name_;
  ActorId self_;
};

World::World(WorldOptions options)
    : options_{options},
      order_{options.seed, Purpose::kSimulation, 0},
      faults_{options.seed, Purpose::kSimulation, 1} {}
World::~World() = default;

ActorId World::spawn_factory(std::string name, ActorFactory factory) {
  const ActorId id = actor_id(name);
  EMPLACE_CHECK(!residents_.contains(id), "an actor of this name exists");
  auto resident =
      std::make_unique<Resident>(Resident{.name = name,
                                          .factory = std::move(factory),
                                          .limiter = RestartLimiter{options_.restarts_per_minute},
                                          .context = std::make_unique<ActorContext>(*this, name)});
  start(*residents_.emplace(id, std::move(resident)).first->second);
  return id;
}

void World::start(Resident& resident) {
  resident.epoch = next_epoch(resident.epoch, now());
  guarded(resident, [&] {
    resident.actor = resident.factory();
    resident.actor->on_start(*resident.context);
  });
}

void World::guarded(Resident& resident, const std::function<void()>& handler) {
  const ActorId id = actor_id(resident.name);
  try {
    handler();
  } catch (const std::exception& failure) {
    crash(id);
    if (resident.limiter.allow(now())) return restart(id);
    if (!stopped_) stopped_ = resident.name + ": " + failure.what();
  }
  if (resident.leaving) crash(id);
}

Actor* World::find(ActorId id) {
  const auto resident = residents_.find(id);
  EMPLACE_CHECK(resident != residents_.end() && resident->second->actor != nullptr, "no such living actor");
  return resident->second->actor.get();
}

bool World::alive(ActorId id) const {
  const auto resident = residents_.find(id);
  return resident != residents_.end() && resident->second->actor != nullptr;
}

void World::crash(ActorId id) {
  residents_.at(id)->actor.reset();
  std::erase_if(timers_, [&](const auto& timer) { return timer->owner == id; });
  std::erase_if(waiting_, [&](const Packet& packet) { return packet.envelope.to == id; });
}

void World::restart(ActorId id) { start(*residents_.at(id)); }

Packet World::make_packet(ActorId from, ActorId to, std::uint16_t type, messages::Bytes body,
                          messages::SharedBytes bulk) {
  messages::Envelope envelope{.type = type, .from = from, .to = to, .seq = next_seq_++};
  return {.envelope = envelope, .body = std::move(body), .bulk = std::move(bulk), .due = now()};
}

void World::post(Packet packet) {
  log_.push_back(packet);
  const Fate fate = hook_ ? hook_(packet, faults_) : Fate{};
  if (fate.drop) return;
  packet.due = now() + fate.delay;
  if (!options_.reorder) {  // A connection keeps its order: nothing overtakes a delayed one.
    for (const Packet& earlier : waiting_)
      if (earlier.envelope.to == packet.envelope.to && earlier.envelope.from == packet.envelope.from)
        packet.due = std::max(packet.due, earlier.due);
  }
  if (fate.duplicate) waiting_.push_back(packet);
  waiting_.push_back(std::move(packet));
}

void World::deliver_packet(Packet packet) {
  const auto found = residents_.find(packet.envelope.to);
  if (found == residents_.end() || found->second->actor == nullptr) return;
  // Through the envelope's own bytes too, as on the wire.
  std::array<std::byte, messages::kMaxEnvelopeBytes> wire;
  const std::size_t size = messages::encode_envelope(packet.envelope, wire.data());
  Resident& resident = *found->second;
  const Incoming incoming{
      .envelope = *messages::decode_envelope({wire.data(), size}), .body = packet.body, .bulk = packet.bulk};
  guarded(resident, [&] { resident.actor->on_message(*resident.context, incoming); });
}

bool World::deliver_one() {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Packet& packet = waiting_[i];
    if (packet.due > now()) continue;
    const bool first_of_pair = std::none_of(candidates.begin(), candidates.end(), [&](std::size_t c) {
      return waiting_[c].envelope.from == packet.envelope.from &&
             waiting_[c].envelope.to == packet.envelope.to;
    });
    if (options_.reorder || first_of_pair) candidates.push_back(i);
    if (!options_.shuffle) break;
  }
  if (candidates.empty()) return false;
  const std::size_t chosen = options_.shuffle
                                 ? candidates[order_.below(static_cast<std::uint32_t>(candidates.size()))]
                                 : candidates.front();
  Packet packet = std::move(waiting_[chosen]);
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(chosen));
  deliver_packet(std::move(packet));
  return true;
}

bool World::run_timer() {
  const auto next = std::min_element(timers_.begin(), timers_.end(), [](const auto& a, const auto& b) {
    return std::pair{a->due, a->id} < std::pair{b->due, b->id};
  });
  if (next == timers_.end() || (*next)->due > now()) return false;
  const std::unique_ptr<Timer> timer = std::move(*next);
  timers_.erase(next);
  guarded(*residents_.at(timer->owner), timer->callback);
  return true;
}

bool World::step() { return deliver_one() || run_timer(); }

std::size_t World::run_until_idle(std::size_t limit) {
  std::size_t steps = 0;
  while (step()) EMPLACE_CHECK(++steps < limit, "the world does not come to rest");
  return steps;
}

Nanos World::next_event() const {
  Nanos next = Nanos::max();
  for (const auto& timer : timers_) next = std::min(next, timer->due);
  for (const Packet& packet : waiting_) next = std::min(next, packet.due);
  return next;
}

void World::advance(Nanos by) {
  const Nanos until = now() + by;
  run_until_idle();
  for (Nanos next = next_event(); next <= until; next = next_event()) {
    clock_.advance(std::max(next - now(), Nanos{0}));
    run_until_idle();
  }
  clock_.advance(until - now());
}

const Packet* World::last_of(std::uint16_t type) const {
  const auto found = std::find_if(log_.rbegin(), log_.rend(),
                                  [&](const Packet& packet) { return packet.envelope.type == type; });
  return found == log_.rend() ? nullptr : &*found;
}

void World::stop() {
  for (auto& [id, resident] : residents_)
    if (resident->actor) guarded(*resident, [&] { resident->actor->on_stop(*resident->context); });
}

}  // namespace emplace::runtime::sim

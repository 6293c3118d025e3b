#pragma once
/// State of the simulated world: nodes, their actors, and pending events. Private to world.cc.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/restart.h"
#include "tests/runtime/sim/world.h"

namespace emplace::runtime::sim {

struct World::Node {
  std::string name;
  std::vector<ActorId> actors;  // Spawn order.
  bool up = true, paused = false;
  std::uint64_t incarnation = 0;
  bool dies_before_reply = false;
  std::optional<Nanos> down_for;  // Restart delay after such a crash.
  Nanos wall_offset{0};
  // Events that came due during the pause, in order.
  std::vector<std::uint32_t> stalled_channels, stalled_tasks;
};

/// Packets of one sender-receiver pair, in order. Only the first has an entry in the heap.
struct World::Channel {
  std::deque<Packet> waiting;
  ActorId to = kNoActor;
  Nanos last_due{0};
  std::uint32_t stamp = 0;
  bool kept = true;  // False: the channel carries a single packet.
};

/// Timer of an actor, step of a node, or callback of the test.
struct World::Task {
  std::function<void()> run;
  Resident* owner = nullptr;
  std::uint64_t actor_incarnation = 0;
  std::optional<NodeId> node;
  std::uint64_t node_incarnation = 0;
  std::uint32_t stamp = 0;
  Rank rank = Rank::kTimer;
  bool cancelled = false;
};

struct World::Resident {
  std::string name;
  ActorId id;
  NodeId node;
  ActorFactory factory;
  RestartLimiter limiter;
  std::unique_ptr<ActorContext> context;
  std::unique_ptr<Actor> actor;
  std::uint64_t incarnation = 0;
  std::uint64_t epoch = 0;
  Nanos busy_until{0};
  bool throws = false;
};

class World::ActorContext final : public Context {
 public:
  ActorContext(World& world, Resident& resident) : world_{&world}, resident_{&resident} {}

  Nanos now() const override { return world_->clock_.now(); }
  Nanos wall() const override { return world_->clock_.wall() + world_->node(resident_->node).wall_offset; }
  TimerId after(Nanos delay, std::function<void()> callback) override {
    const std::uint32_t slot = world_->add_task(
        now() + std::max(delay, Nanos{0}), Rank::kTimer,
        Task{.run = std::move(callback), .owner = resident_, .actor_incarnation = resident_->incarnation});
    return TimerId{std::uint64_t{world_->tasks_[slot].stamp} << 32 | slot};
  }
  void cancel(TimerId timer) override {
    const auto number = static_cast<std::uint64_t>(timer);
    Task& task = world_->tasks_.at(number & 0xffffffffu);
    if (task.stamp == number >> 32) task.cancelled = true;
  }
  Rng random(Purpose purpose, std::uint64_t step) const override {
    return {world_->options_.seed, purpose, step};
  }
  void stop_node(std::string reason) override {
    if (!world_->stopped_) world_->stopped_ = std::move(reason);
  }
  std::uint64_t epoch() const override { return resident_->epoch; }
  ActorId self() const override { return resident_->id; }
  std::string_view name() const override { return resident_->name; }

 protected:
  bool post(ActorId to, std::uint16_t type, std::span<const std::byte> body,
            messages::SharedBytes bulk) override {
    return world_->post(
        *resident_,
        world_->make_packet(self(), to, type, messages::Bytes(body.begin(), body.end()), std::move(bulk)));
  }

 private:
  World* world_;
  Resident* resident_;
};

}  // namespace emplace::runtime::sim

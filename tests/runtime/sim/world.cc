#include "tests/runtime/sim/world.h"

#include <algorithm>
#include <array>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/hash.h"
#include "tests/runtime/sim/network.h"
#include "tests/runtime/sim/world_state.h"

namespace emplace::runtime::sim {
namespace {

std::uint64_t pair_key(const messages::Envelope& envelope, std::size_t stream) {
  return splitmix64(static_cast<std::uint64_t>(envelope.from) ^
                    splitmix64(static_cast<std::uint64_t>(envelope.to) + stream));
}

}  // namespace

std::size_t stream_of(std::uint16_t type) {
  if (messages::keeps_latest_only(type)) return 2;
  return messages::travels_on_control(type) ? 0 : 1;
}

World::World(WorldOptions options)
    : options_{options},
      order_{options.seed, Purpose::kSimulation, 0},
      faults_{options.seed, Purpose::kSimulation, 1},
      network_{std::make_unique<Network>(*this, options.seed)} {
  add_node("head");
}
World::~World() = default;

NodeId World::add_node(std::string name) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  nodes_.push_back(std::make_unique<Node>(Node{.name = std::move(name)}));
  network_->add(id);
  return id;
}

ActorId World::spawn_on(NodeId home, std::string name, ActorFactory factory) {
  const ActorId id = actor_id(name);
  EMPLACE_CHECK(!residents_.contains(id), "an actor of this name exists");
  auto resident =
      std::make_unique<Resident>(Resident{.name = std::move(name),
                                          .id = id,
                                          .node = home,
                                          .factory = std::move(factory),
                                          .limiter = RestartLimiter{options_.restarts_per_minute}});
  resident->context = std::make_unique<ActorContext>(*this, *resident);
  node(home).actors.push_back(id);
  start(*residents_.emplace(id, std::move(resident)).first->second);
  return id;
}

std::optional<NodeId> World::home_of(ActorId actor) const {
  const auto found = residents_.find(actor);
  return found == residents_.end() ? std::nullopt : std::optional{found->second->node};
}
const std::string& World::node_name(NodeId id) const { return node(id).name; }
std::vector<std::string> World::actors_on(NodeId id) const {
  std::vector<std::string> names;
  for (const ActorId actor : node(id).actors) names.push_back(residents_.at(actor)->name);
  return names;
}
bool World::up(NodeId id) const { return node(id).up; }
bool World::paused(NodeId id) const { return node(id).paused; }

void World::note(std::string_view what) {
  for (Observer* observer : observers_) observer->on_note(what);
}

void World::crash_node(NodeId id) {
  Node& crashed = node(id);
  if (!crashed.up) return;
  for (Observer* observer : observers_) observer->on_node(crashed.name, Event::kCrashed);
  crashed.up = crashed.paused = false;
  crashed.dies_before_reply = false;
  ++crashed.incarnation;
  for (const ActorId actor : crashed.actors) {
    Resident& resident = *residents_.at(actor);
    resident.actor.reset();
    ++resident.incarnation;
    drop_mail(actor);
  }
  crashed.stalled_channels.clear();
  for (const std::uint32_t slot : std::exchange(crashed.stalled_tasks, {})) free_task(slot);
  network_->node_down(id);
}

void World::restart_node(NodeId id) {
  Node& restarted = node(id);
  if (restarted.up) return;
  restarted.up = true;
  for (Observer* observer : observers_) observer->on_node(restarted.name, Event::kStarted);
  network_->node_up(id);
  for (const ActorId actor : restarted.actors) {
    Resident& resident = *residents_.at(actor);
    resident.limiter = RestartLimiter{options_.restarts_per_minute};
    resident.busy_until = now();
    start(resident);
  }
}

void World::pause_node(NodeId id) {
  if (!node(id).up || std::exchange(node(id).paused, true)) return;
  for (Observer* observer : observers_) observer->on_node(node(id).name, Event::kPaused);
}

void World::resume_node(NodeId id) {
  Node& resumed = node(id);
  if (!std::exchange(resumed.paused, false)) return;
  for (Observer* observer : observers_) observer->on_node(resumed.name, Event::kResumed);
  for (const std::uint32_t channel : std::exchange(resumed.stalled_channels, {}))
    if (!channels_[channel].waiting.empty()) arm(channel);
  for (const std::uint32_t slot : std::exchange(resumed.stalled_tasks, {}))
    heap_.push({now(), tasks_[slot].rank, next_order_++, slot, tasks_[slot].stamp});
}

void World::calm_node(NodeId id) {
  node(id).dies_before_reply = false;
  for (const ActorId actor : node(id).actors) residents_.at(actor)->throws = false;
  resume_node(id);
}

void World::heal_node(NodeId id) {
  calm_node(id);
  restart_node(id);
}

void World::throw_in(ActorId actor) { residents_.at(actor)->throws = true; }

void World::crash_before_reply(NodeId id, std::optional<Nanos> down_for) {
  if (!node(id).up) return;
  node(id).dies_before_reply = true;
  node(id).down_for = down_for;
}

void World::step_wall(NodeId id, Nanos by) { node(id).wall_offset += by; }
void World::occupy(Nanos by) { occupied_ += by; }
void World::at(Nanos when, std::function<void()> callback) {
  add_task(when, Rank::kTest, Task{.run = std::move(callback)});
}
void World::at_node(NodeId id, Nanos due, std::function<void()> run, Rank rank) {
  add_task(due, rank, Task{.run = std::move(run), .node = id, .node_incarnation = node(id).incarnation});
}

std::uint32_t World::add_task(Nanos due, Rank rank, Task task) {
  std::uint32_t slot = 0;
  if (free_tasks_.empty()) {
    slot = static_cast<std::uint32_t>(tasks_.size());
    tasks_.emplace_back();
  } else {
    slot = free_tasks_.back();
    free_tasks_.pop_back();
  }
  task.stamp = tasks_[slot].stamp + 1;
  task.rank = rank;
  tasks_[slot] = std::move(task);
  heap_.push({due, rank, next_order_++, slot, tasks_[slot].stamp});
  return slot;
}

void World::start(Resident& resident) {
  resident.epoch = next_epoch(resident.epoch, now());
  for (Observer* observer : observers_) observer->on_actor(resident.name, Event::kStarted);
  guarded(resident, [&] {
    resident.actor = resident.factory();
    resident.actor->on_start(*resident.context);
  });
}

void World::guarded(Resident& resident, const std::function<void()>& handler) {
  const auto outer = std::pair{running_, std::exchange(occupied_, Nanos{0})};
  std::vector<Packet> outer_outgoing = std::exchange(outgoing_, {});
  running_ = &resident;
  std::optional<std::string> failure;
  try {
    handler();
  } catch (const std::exception& thrown) {
    failure = thrown.what();
  }
  end_handler(resident);
  std::tie(running_, occupied_) = outer;
  outgoing_ = std::move(outer_outgoing);
  if (failure) {  // State and timers are lost; pending mail goes to the next incarnation.
    resident.actor.reset();
    ++resident.incarnation;
    for (Observer* observer : observers_) observer->on_actor(resident.name, Event::kThrew);
    if (!node(resident.node).up) return;
    if (resident.limiter.allow(now())) return start(resident);
    if (!stopped_) stopped_ = resident.name + ": " + *failure;
  }
}

/// Sends the handler's messages, unless the node is to crash first.
void World::end_handler(Resident& resident) {
  Node& home = node(resident.node);
  std::vector<Packet> sent = std::exchange(outgoing_, {});
  if (home.dies_before_reply && !sent.empty()) {
    crash_node(resident.node);
    if (home.down_for) at(now() + *home.down_for, [this, id = resident.node] { restart_node(id); });
    return;
  }
  Nanos took = occupied_;
  if (options_.handler_delay > Nanos{0})
    took += Nanos{static_cast<std::int64_t>(order_.uniform_double() *
                                            static_cast<double>(options_.handler_delay.count()))};
  resident.busy_until = std::max(resident.busy_until, now() + took);
  if (took == Nanos{0}) {
    for (Packet& packet : sent) dispatch(resident.node, std::move(packet));
  } else if (!sent.empty()) {
    auto late = std::make_shared<std::vector<Packet>>(std::move(sent));
    at_node(
        resident.node, now() + took,
        [this, late, id = resident.node] {
          for (Packet& packet : *late) dispatch(id, std::move(packet));
        },
        Rank::kDeparture);
  }
}

Actor* World::find(ActorId id) {
  const auto resident = residents_.find(id);
  EMPLACE_CHECK(resident != residents_.end() && resident->second->actor != nullptr, "no such running actor");
  return resident->second->actor.get();
}

bool World::alive(ActorId id) const {
  const auto resident = residents_.find(id);
  return resident != residents_.end() && resident->second->actor != nullptr;
}

void World::drop_mail(ActorId to) {
  for (Channel& channel : channels_) {
    if (channel.to != to) continue;
    waiting_ -= channel.waiting.size();
    channel.waiting.clear();
    ++channel.stamp;
  }
}

void World::crash(ActorId id) {
  Resident& resident = *residents_.at(id);
  resident.actor.reset();
  ++resident.incarnation;
  drop_mail(id);
  for (Observer* observer : observers_) observer->on_actor(resident.name, Event::kCrashed);
}

void World::restart(ActorId id) { start(*residents_.at(id)); }

Packet World::make_packet(ActorId from, ActorId to, std::uint16_t type, messages::Bytes body,
                          messages::SharedBytes bulk) {
  messages::Envelope envelope{.type = type, .from = from, .to = to, .seq = next_number_};
  return {.envelope = envelope,
          .body = std::move(body),
          .bulk = std::move(bulk),
          .due = now(),
          .number = next_number_++};
}

bool World::post(Resident& from, Packet packet) {
  if (options_.keep_log) log_.push_back(packet);
  const std::optional<NodeId> home = home_of(packet.envelope.to);
  if (home && *home != from.node && !network_->room(from.node, *home, packet)) {
    for (Observer* observer : observers_) observer->on_refused(packet);
    return false;
  }
  packet.nth = ++nth_[pair_key(packet.envelope, stream_of(packet.envelope.type))];
  for (Observer* observer : observers_) observer->on_sent(packet);
  outgoing_.push_back(std::move(packet));
  return true;
}

/// Routes a packet to its channel or link, unless the hook drops it.
void World::dispatch(NodeId from, Packet packet) {
  const Fate fate = hook_ ? hook_(packet, faults_) : Fate{};
  if (fate.drop) return;
  const std::optional<NodeId> home = home_of(packet.envelope.to);
  if (home && *home != from) return network_->send(from, *home, std::move(packet));
  packet.due = now() + fate.delay;
  if (options_.local_delay > Nanos{0})
    packet.due += Nanos{order_.below(static_cast<std::uint32_t>(options_.local_delay.count()))};
  if (fate.duplicate) enqueue(packet, !options_.reorder);
  enqueue(std::move(packet), !options_.reorder);
}

void World::enqueue(Packet packet, bool in_order) {
  std::uint32_t index = 0;
  const auto fresh = [&] {
    channels_.emplace_back();
    return static_cast<std::uint32_t>(channels_.size() - 1);
  };
  if (in_order) {
    const auto [known, added] = channel_of_.try_emplace(pair_key(packet.envelope, 0), 0);
    if (added) known->second = fresh();
    index = known->second;
  } else if (free_channels_.empty()) {
    index = fresh();
  } else {
    index = free_channels_.back();
    free_channels_.pop_back();
  }
  Channel& channel = channels_[index];
  channel.to = packet.envelope.to;
  channel.kept = in_order;
  // A channel is FIFO: nothing overtakes a delayed packet.
  if (!channel.waiting.empty()) packet.due = std::max(packet.due, channel.last_due);
  channel.last_due = packet.due;
  channel.waiting.push_back(std::move(packet));
  ++waiting_;
  if (channel.waiting.size() == 1) arm(index);
}

void World::arm(std::uint32_t index) {
  Channel& channel = channels_[index];
  const Packet& first = channel.waiting.front();
  const std::uint64_t order = options_.shuffle ? std::uint64_t{order_()} << 32 | order_() : first.number;
  heap_.push({std::max(first.due, now()), Rank::kMail, order, index, ++channel.stamp});
}

bool World::deliver_from(std::uint32_t index) {
  Channel& channel = channels_[index];
  if (channel.waiting.empty()) return false;
  const auto found = residents_.find(channel.to);
  if (found != residents_.end()) {
    Resident& resident = *found->second;
    if (node(resident.node).paused) {
      node(resident.node).stalled_channels.push_back(index);
      return false;
    }
    if (resident.busy_until > now()) {
      channel.waiting.front().due = resident.busy_until;
      arm(index);
      return false;
    }
  }
  Packet packet = std::move(channel.waiting.front());
  channel.waiting.pop_front();
  --waiting_;
  if (!channel.waiting.empty()) {
    arm(index);
  } else if (!channel.kept) {
    free_channels_.push_back(index);
  }
  deliver_packet(std::move(packet));
  return true;
}

void World::deliver_packet(Packet packet) {
  const auto found = residents_.find(packet.envelope.to);
  if (found == residents_.end() || found->second->actor == nullptr) return;
  // Encode and decode the envelope too, as on the wire.
  std::array<std::byte, messages::kMaxEnvelopeBytes> wire;
  const std::size_t size = messages::encode_envelope(packet.envelope, wire.data());
  digest_ = hash64({wire.data(), size}, digest_ + static_cast<std::uint64_t>(now().count()));
  digest_ = hash64(packet.body, digest_);
  digest_ = hash64(packet.bulk.bytes(), digest_);
  Resident& resident = *found->second;
  const Incoming incoming{
      .envelope = *messages::decode_envelope({wire.data(), size}), .body = packet.body, .bulk = packet.bulk};
  for (Observer* observer : observers_) observer->on_delivering(packet);
  guarded(resident, [&] {
    if (std::exchange(resident.throws, false)) throw std::runtime_error{"injected"};
    resident.actor->on_message(*resident.context, incoming);
  });
  for (Observer* observer : observers_) observer->on_delivered(packet);
}

void World::free_task(std::uint32_t slot) {
  tasks_[slot].run = nullptr;
  ++tasks_[slot].stamp;
  free_tasks_.push_back(slot);
}

bool World::run_task(std::uint32_t slot) {
  Task& task = tasks_[slot];
  const bool is_current = (task.owner == nullptr || task.owner->incarnation == task.actor_incarnation) &&
                          (!task.node || node(*task.node).incarnation == task.node_incarnation);
  if (!task.cancelled && is_current) {
    const std::optional<NodeId> home = task.owner != nullptr ? std::optional{task.owner->node} : task.node;
    if (home && node(*home).paused) {
      node(*home).stalled_tasks.push_back(slot);
      return false;
    }
    if (task.owner != nullptr && task.owner->busy_until > now()) {
      heap_.push({task.owner->busy_until, Rank::kTimer, next_order_++, slot, task.stamp});
      return false;
    }
  }
  const std::function<void()> run = std::move(task.run);
  Resident* const owner = task.owner;
  const bool live = !task.cancelled && is_current;
  free_task(slot);
  if (!live) return false;
  if (owner != nullptr) {
    guarded(*owner, run);
  } else {
    run();
  }
  return true;
}

/// Advances time to the next event due by `limit` and runs it. Returns false if there is none.
bool World::step_before(Nanos limit) {
  while (!heap_.empty() && heap_.top().due <= limit) {
    const Entry next = heap_.top();
    heap_.pop();
    const bool mail = next.rank == Rank::kMail;
    const std::uint32_t stamp = mail ? channels_[next.slot].stamp : tasks_[next.slot].stamp;
    if (stamp != next.stamp) continue;
    clock_.advance(std::max(next.due - now(), Nanos{0}));
    if (mail ? deliver_from(next.slot) : run_task(next.slot)) {
      ++steps_;
      return true;
    }
  }
  return false;
}

bool World::step() { return step_before(now()); }

std::size_t World::run_until_idle(std::size_t limit) {
  std::size_t steps = 0;
  while (step()) EMPLACE_CHECK(++steps < limit, "the world does not come to rest");
  return steps;
}

void World::advance(Nanos by) {
  advance(by, [] { return false; });
}

void World::advance(Nanos by, const std::function<bool()>& done) {
  const Nanos until = now() + by;
  while (step_before(until))
    if (done()) return;
  clock_.advance(until - now());
}

const Packet* World::last_of(std::uint16_t type) const {
  const auto found = std::find_if(log_.rbegin(), log_.rend(),
                                  [&](const Packet& packet) { return packet.envelope.type == type; });
  return found == log_.rend() ? nullptr : &*found;
}

/// Runs the handler at once, or when the running one has ended.
void World::when_free(Resident& resident, std::function<void()> handler) {
  if (resident.busy_until <= now()) return guarded(resident, handler);
  add_task(resident.busy_until, Rank::kTimer,
           Task{.run = std::move(handler), .owner = &resident, .actor_incarnation = resident.incarnation});
}

/// Reports nodes that came or went to every running actor of a node.
void World::directory(NodeId id, NodeId other, bool reachable) {
  if (!node(id).up) return;
  for (const ActorId actor : std::vector<ActorId>{node(id).actors}) {
    Resident& resident = *residents_.at(actor);
    for (const std::string& name : actors_on(other))
      if (resident.actor)
        when_free(resident, [&resident, name, reachable] {
          resident.actor->on_directory(*resident.context, name, reachable);
        });
  }
}

void World::stop() {
  for (auto& [id, resident] : residents_) stop_actor(*resident);
}

void World::stop_node(NodeId id) {
  if (!up(id) || paused(id)) return;
  note("stopping: " + node_name(id));
  for (const ActorId actor : node(id).actors) stop_actor(*residents_.at(actor));
}

void World::stop_actor(Resident& resident) {
  if (resident.actor) when_free(resident, [&resident] { resident.actor->on_stop(*resident.context); });
}

}  // namespace emplace::runtime::sim

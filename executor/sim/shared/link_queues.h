#pragma once
/// Links that several devices share: transfers in progress and requests that wait.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "placement/machine/device.h"

namespace emplace::simulated {

/// End of an engine that runs nothing [ns].
inline constexpr std::int64_t kIdle = std::numeric_limits<std::int64_t>::max();
/// End of an engine whose transfer waits for a shared link.
inline constexpr std::int64_t kWaiting = kIdle - 1;

/// The shared links on the way from each device to each other one, as directed resources: 2s is the way out
/// of the devices of shared link s, 2s + 1 the way in. Constant; any thread.
class LinkRoutes {
 public:
  explicit LinkRoutes(const DeviceSet& devices);
  std::size_t size() const { return capacity_.size(); }
  std::uint32_t capacity(std::uint32_t resource) const { return capacity_[resource]; }
  /// Resources that a transfer needs, in ascending order.
  std::span<const std::uint16_t> between(std::size_t source, std::size_t target) const {
    const std::size_t pair = source * num_devices_ + target;
    return {resources_.data() + first_[pair], resources_.data() + first_[pair + 1]};
  }

 private:
  std::size_t num_devices_;
  std::vector<std::uint32_t> capacity_;   // [resources]
  std::vector<std::uint32_t> first_;      // [devices, devices + 1]
  std::vector<std::uint16_t> resources_;  // Resources of all routes, one pair after the other.
};

/// FIFO queue that never releases its memory.
template <class T>
class Queue {
 public:
  bool empty() const { return head_ == items_.size(); }
  void push(T item) { items_.push_back(item); }
  T front() const { return items_[head_]; }
  T pop() {
    const T item = items_[head_++];
    if (empty()) clear();
    return item;
  }
  void clear() { items_.clear(), head_ = 0; }
  std::span<const T> waiting() const { return std::span<const T>{items_}.subspan(head_); }
  /// The items pushed last. @pre that many wait.
  std::span<T> last(std::size_t count) { return std::span<T>{items_}.last(count); }
  void assign(std::span<const T> items) { items_.assign(items.begin(), items.end()), head_ = 0; }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

/// A queue of engines for each resource. An engine enters the queues of all resources on its transfer's route
/// at once, and its transfer starts when it is at the front of each and each has room. So the earliest
/// request never waits for a later one. Thread: one.
class LinkQueues {
 public:
  using Route = std::span<const std::uint16_t>;

  explicit LinkQueues(const LinkRoutes& routes)
      : routes_{&routes}, used_(routes.size(), 0), queues_(routes.size()) {}

  void clear() {
    std::ranges::fill(used_, 0);
    for (Queue<std::uint32_t>& queue : queues_) queue.clear();
    changed_.clear();
  }
  /// Returns true if the transfer of the engine starts now; else it waits.
  bool request(std::uint32_t engine, Route route) {
    const auto is_free = [&](std::uint16_t r) { return queues_[r].empty() && has_room(r); };
    const bool starts = std::ranges::all_of(route, is_free);
    starts ? use(route) : wait(engine, route);
    return starts;
  }
  void use(Route route) {
    for (const std::uint16_t r : route) ++used_[r];
  }
  /// The transfer has ended.
  void release(Route route) {
    for (const std::uint16_t r : route) {
      --used_[r];
      if (!queues_[r].empty()) changed_.push_back(r);
    }
  }
  /// Calls start(engine) for each transfer that can start after releases.
  template <class Start>
  void grant(Start start) {
    while (!changed_.empty()) {
      const std::uint16_t changed = changed_.back();
      changed_.pop_back();
      if (queues_[changed].empty()) continue;
      const std::uint32_t engine = queues_[changed].front();
      const Route route = route_of_[engine];
      const auto serves = [&](std::uint16_t r) { return queues_[r].front() == engine && has_room(r); };
      if (!std::ranges::all_of(route, serves)) continue;
      use(route);
      for (const std::uint16_t r : route) {
        queues_[r].pop();
        if (!queues_[r].empty()) changed_.push_back(r);
      }
      start(engine);
    }
  }

  /// Appends the queues, as the number of engines and the engines of each.
  void append_to(std::vector<std::uint32_t>& state) const {
    for (const Queue<std::uint32_t>& queue : queues_) {
      const auto waiting = queue.waiting();
      state.push_back(static_cast<std::uint32_t>(waiting.size()));
      state.insert(state.end(), waiting.begin(), waiting.end());
    }
  }
  /// Whether the queues are those of append_to().
  bool equals(std::span<const std::uint32_t> state) const {
    for (const Queue<std::uint32_t>& queue : queues_) {
      const auto waiting = queue.waiting();
      if (state.front() != waiting.size() || !std::ranges::equal(waiting, state.subspan(1, state.front())))
        return false;
      state = state.subspan(1 + state.front());
    }
    return true;
  }
  /// Restores the queues of append_to(). `route_of`: engine -> route of the transfer that it waits with.
  template <class RouteOf>
  void restore(std::span<const std::uint32_t> state, RouteOf route_of) {
    for (Queue<std::uint32_t>& queue : queues_) {
      queue.assign(state.subspan(1, state.front()));
      for (const std::uint32_t engine : queue.waiting()) remember(engine, route_of(engine));
      state = state.subspan(1 + state.front());
    }
  }

 private:
  bool has_room(std::uint16_t r) const { return used_[r] < routes_->capacity(r); }
  void wait(std::uint32_t engine, Route route) {
    for (const std::uint16_t r : route) queues_[r].push(engine);
    remember(engine, route);
  }
  void remember(std::uint32_t engine, Route route) {
    if (route_of_.size() <= engine) route_of_.resize(engine + 1);
    route_of_[engine] = route;
  }

  const LinkRoutes* routes_;
  std::vector<std::uint32_t> used_;           // [resources] Transfers in progress.
  std::vector<Queue<std::uint32_t>> queues_;  // [resources] Engines that wait.
  std::vector<Route> route_of_;               // [engines] Valid for engines that wait.
  std::vector<std::uint16_t> changed_;        // Resources that may serve the front of their queue.
};

}  // namespace emplace::simulated

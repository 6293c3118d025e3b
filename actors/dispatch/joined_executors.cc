#include "actors/dispatch/joined_executors.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace emplace::actors {
namespace {

double seconds_between(Nanos from, Nanos to) { return std::chrono::duration<double>(to - from).count(); }

}  // namespace

void JoinedExecutors::join(const messages::ExecutorJoined& joined, Nanos now) {
  JoinedExecutor executor{joined.name, joined.epoch, runtime::CreditAccount{window_}};
  executor.credit.grant({joined.placements, static_cast<std::int64_t>(joined.bytes)});
  executor.joined = now;
  const auto added = executors_.emplace(messages::actor_id(joined.name), std::move(executor)).first;
  by_name_[joined.name] = &added->second;
}

std::optional<JoinedExecutor> JoinedExecutors::leave(messages::ActorId executor) {
  const auto found = executors_.find(executor);
  if (found == executors_.end()) return std::nullopt;
  std::optional<JoinedExecutor> left = std::move(found->second);
  by_name_.erase(left->name);
  executors_.erase(found);
  return left;
}

const JoinedExecutor* JoinedExecutors::find(const std::string& name, messages::ActorId from) const {
  const auto found = executors_.find(from);
  return found == executors_.end() || found->second.name != name ? nullptr : &found->second;
}

const JoinedExecutor* JoinedExecutors::find(const std::string& name, std::uint64_t epoch,
                                            messages::ActorId from) const {
  const JoinedExecutor* const found = find(name, from);
  return found == nullptr || found->epoch != epoch ? nullptr : found;
}

bool JoinedExecutors::reserve(messages::ActorId executor, runtime::Credit size) {
  runtime::CreditAccount& credit = executors_.at(executor).credit;
  return credit.items() >= size.items && credit.take(size);
}

void JoinedExecutors::hold(messages::ActorId executor, std::uint64_t lease, HeldLease held) {
  executors_.at(executor).held.emplace(lease, held);
}

std::optional<runtime::Credit> JoinedExecutors::give_back(messages::ActorId executor, std::uint64_t lease) {
  const auto found = executors_.find(executor);
  if (found == executors_.end()) return std::nullopt;
  JoinedExecutor& holder = found->second;
  const auto held = holder.held.find(lease);
  if (held == holder.held.end()) return std::nullopt;
  const runtime::Credit credit = held->second.credit;
  holder.credit.finish(credit);
  holder.held.erase(held);
  return credit;
}

void JoinedExecutors::beat(messages::ActorId id, double busy_s, Nanos now) {
  JoinedExecutor& executor = executors_.at(id);
  // A rejoining executor also counts the time before it joined.
  if (!executor.busy_before)
    executor.busy_before = std::max(0.0, busy_s - seconds_between(executor.joined, now));
  executor.busy_s = std::max(0.0, busy_s - *executor.busy_before);
}

std::optional<Nanos> JoinedExecutors::measured(messages::ActorId id, std::uint32_t placements, Nanos granted,
                                               Nanos now) {
  const auto found = executors_.find(id);
  if (found == executors_.end()) return std::nullopt;
  JoinedExecutor& executor = found->second;
  executor.measured += placements;
  return now - std::max(granted, std::exchange(executor.answered, now));
}

std::uint64_t JoinedExecutors::placements_running() const {
  std::uint64_t running = 0;
  for (const auto& [id, executor] : executors_)
    if (!executor.held.empty())
      running += static_cast<std::uint64_t>(executor.held.begin()->second.credit.items);
  return running;
}

std::vector<messages::ExecutorUse> JoinedExecutors::uses(Nanos now) const {
  std::vector<messages::ExecutorUse> uses;
  uses.reserve(by_name_.size());
  for (const auto& [name, executor] : by_name_) {
    const double since_s = seconds_between(executor->joined, now);
    uses.push_back({name, since_s > 0 ? std::min(1.0, executor->busy_s / since_s) : 0, executor->measured,
                    static_cast<std::uint32_t>(executor->credit.in_flight().items),
                    static_cast<std::uint32_t>(executor->credit.items())});
  }
  return uses;
}

}  // namespace emplace::actors

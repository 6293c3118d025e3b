#include "tests/sim/checkers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/task.h"
#include "base/hash.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"

namespace emplace::sim_test {
namespace {

using messages::actor_id;
using messages::LeaseGranted;
using messages::PlacementMeasured;
using messages::PlacementProposed;

const ActorId kDispatcherId = actor_id(actors::kDispatcher);
const ActorId kLearnerId = actor_id(actors::kLearner);

template <class M>
std::optional<M> as(const Packet& packet) {
  if (packet.envelope.type != M::kType) return std::nullopt;
  auto message = messages::decode_body<M>(packet.body);
  return message ? std::optional{*std::move(message)} : std::nullopt;
}

constexpr Nanos kThreeHeartbeats = std::chrono::milliseconds{1'500};
constexpr Nanos kTransit = std::chrono::seconds{5};
// Key of the room that an executor still needs for measurements of its earlier incarnation.
constexpr std::uint64_t kWithheld = 0;

std::string number(std::uint64_t n) { return std::to_string(n); }

}  // namespace

void OrderChecker::on_delivering(const Packet& packet) {
  if (packet.nth == 0) return;
  const messages::Envelope& envelope = packet.envelope;
  Pair& pair = pairs_[{envelope.from, envelope.to, runtime::sim::stream_of(envelope.type)}];
  const std::uint64_t evidence = ends_ + packet.noticed;
  const std::string what = std::string{messages::type_name(envelope.type)} + ", message " +
                           number(packet.nth) + " of its pair after " + number(pair.last);
  if (packet.nth <= pair.last) verdict_.broken("order (G3)", what);
  if (packet.nth > pair.last + 1 && evidence == pair.evidence && !messages::keeps_latest_only(envelope.type))
    verdict_.broken("no silent gap (G3)", what);
  pair = {packet.nth, evidence};
}

void OrderChecker::on_actor(const std::string&, Event event) {
  if (event == Event::kThrew || event == Event::kCrashed) ++ends_;
}
void OrderChecker::on_node(const std::string&, Event event) {
  if (event == Event::kCrashed) ++ends_;
}

LeaseChecker::LeaseChecker(World& world, const Swarm& swarm, Verdict& verdict)
    : world_{world},
      verdict_{verdict},
      window_{swarm.window},
      // Three heartbeats, and half of one until the dispatcher checks; a busy dispatcher checks a little
      // later.
      patience_{kThreeHeartbeats + std::chrono::milliseconds{250 + 20}} {}

const actors::Dispatcher::Counters* LeaseChecker::counters() const {
  if (!world_.alive(kDispatcherId)) return nullptr;
  return &world_.actor<actors::Dispatcher>(kDispatcherId).counters();
}

void LeaseChecker::on_sent(const Packet& packet) {
  if (packet.envelope.from == kDispatcherId) {
    const auto lease = as<LeaseGranted>(packet);
    if (!lease) return;
    if (leases_.contains(lease->lease_epoch))
      verdict_.broken("leases are unique (G7)", "epoch " + number(lease->lease_epoch) + " twice");
    leases_[lease->lease_epoch] = {packet.envelope.to,          lease->placement_id, lease->count,
                                   epochs_[packet.envelope.to], world_.now(),        world_.now()};
  } else if (const auto measured = as<PlacementMeasured>(packet)) {
    Executor& executor = executors_[packet.envelope.from];
    const bool held = executor.held.erase(measured->lease_epoch) > 0;
    const auto given = leases_.find(measured->lease_epoch);
    const bool of_before = given != leases_.end() && given->second.executor_epoch != executor.epoch;
    if (!held && of_before && !executor.held.contains(kWithheld))
      verdict_.broken(
          "credit", "a lease of an earlier incarnation was measured, but its room was already granted again");
  } else if (const auto joined = as<messages::ExecutorJoined>(packet)) {
    Executor& executor = executors_[packet.envelope.from];
    if (std::exchange(executor.epoch, joined->epoch) == joined->epoch) return;
    // A new incarnation has dropped its queue; the room of a running measurement is granted when that is
    // done.
    executor.held.clear();
    if (joined->placements < window_)
      executor.held[kWithheld] = static_cast<std::uint32_t>(window_ - joined->placements);
  } else if (as<messages::CreditGranted>(packet)) {
    executors_[packet.envelope.from].held.erase(kWithheld);
  }
}

/// The dispatcher ends a lease that a full queue refuses.
void LeaseChecker::on_refused(const Packet& packet) {
  if (packet.envelope.from != kDispatcherId || packet.envelope.type != LeaseGranted::kType) return;
  const auto refused = as<LeaseGranted>(packet);
  if (refused && leases_.contains(refused->lease_epoch)) leases_[refused->lease_epoch].ended = true;
}

void LeaseChecker::on_delivering(const Packet& packet) {
  if (packet.envelope.to != kDispatcherId) {
    const auto lease = as<LeaseGranted>(packet);
    if (!lease) return;
    Executor& executor = executors_[packet.envelope.to];
    const auto given = leases_.find(lease->lease_epoch);
    // The executor drops leases of an earlier incarnation.
    if (given == leases_.end() || given->second.executor_epoch != executor.epoch) return;
    // The dispatcher gave up on a lease that is in flight for longer, and took its credit back
    // (Options::transit).
    if (world_.now() - given->second.sent > kTransit) return;
    executor.held[lease->lease_epoch] = lease->count;
    std::uint64_t placements = 0;
    for (const auto& [epoch, count] : executor.held)
      if (epoch == kWithheld || leases_.contains(epoch))
        placements += count;  // Others are of an earlier dispatcher.
    if (placements > window_)
      verdict_.broken("credit",
                      number(placements) + " placements at an executor that granted " + number(window_));
    return;
  }
  if (const auto beat = as<messages::Heartbeat>(packet)) {
    const auto epoch = epochs_.find(actor_id(beat->executor));
    if (epoch == epochs_.end() || epoch->second != beat->epoch) return;
    // A lease in flight counts as named.
    std::vector<std::uint64_t> alive = beat->leases;
    for (const auto& [number_of, lease] : leases_)
      if (number_of > beat->seen && lease.holder == epoch->first) alive.push_back(number_of);
    for (const std::uint64_t named : alive) {
      const auto lease = leases_.find(named);
      if (lease == leases_.end() || lease->second.holder != epoch->first) continue;
      lease->second.doubtful |= world_.now() - lease->second.renewed > kThreeHeartbeats;
      lease->second.ended |= world_.now() - lease->second.renewed > patience_;
      lease->second.renewed = world_.now();
    }
  } else if (const auto joined = as<messages::ExecutorJoined>(packet)) {
    const ActorId holder = actor_id(joined->name);
    const auto known = epochs_.find(holder);
    if (known != epochs_.end() && known->second == joined->epoch) return;
    epochs_[holder] = joined->epoch;
    for (auto& [epoch, lease] : leases_) lease.ended |= lease.holder == holder;
  } else if (const auto left = as<messages::ExecutorLeft>(packet)) {
    const ActorId holder = actor_id(left->executor);
    const auto known = epochs_.find(holder);
    if (known == epochs_.end() || known->second != left->epoch) return;
    epochs_.erase(known);
    const std::set<std::uint64_t> undone(left->leases.begin(), left->leases.end());
    for (auto& [epoch, lease] : leases_)
      lease.ended |= lease.holder == holder && (epoch > left->seen || undone.contains(epoch));
  } else if (const auto proposal = as<PlacementProposed>(packet)) {
    proposed_ += proposal->count;
  } else if (const auto measured = as<PlacementMeasured>(packet); measured && counters() != nullptr) {
    reported_before_ = counters()->reported;
    // The handler may end the lease too, after it has counted.
    const auto lease = leases_.find(measured->lease_epoch);
    ended_before_ =
        lease != leases_.end() && (lease->second.ended || world_.now() - lease->second.renewed > patience_);
  }
}

void LeaseChecker::on_delivered(const Packet& packet) {
  if (packet.envelope.to != kDispatcherId || counters() == nullptr) return;
  const actors::Dispatcher::Counters& now = *counters();
  // A refused episode (one that is known) was never accepted.
  if (now.proposed > proposed_ || now.reported > now.proposed)
    verdict_.broken("conservation (G20)", number(now.reported) + " reported of " + number(now.proposed) +
                                              " taken in of " + number(proposed_) + " proposed");
  const runtime::LeaseTable& table = world_.actor<actors::Dispatcher>(kDispatcherId).leases();
  const runtime::LeaseTable::Counters& c = table.counters();
  if (c.issued != c.committed + c.superseded + c.returned + c.expired + table.open())
    verdict_.broken("conservation (G20)",
                    "leases issued are not those committed, superseded, returned, expired and open");
  const auto measured = as<PlacementMeasured>(packet);
  if (!measured || !reported_before_) return;
  const std::uint64_t more = now.reported - *std::exchange(reported_before_, std::nullopt);
  const auto found = leases_.find(measured->lease_epoch);
  const std::string what = "the result of lease " + number(measured->lease_epoch) + " (placement " +
                           number(measured->placement_id) + ")";
  if (more == 0) {
    ++fenced_;
    return;
  }
  if (found == leases_.end())
    return verdict_.broken("fencing (G7)", what + " counts; there is no such lease");
  Lease& lease = found->second;
  if (more != lease.count || lease.placement_id != measured->placement_id)
    verdict_.broken("conservation (G20)",
                    what + " counts for " + number(more) + " of " + number(lease.count));
  if (ended_before_) verdict_.broken("fencing (G7)", what + " counts after the lease has ended");
  if (!counted_.emplace(lease.placement_id, lease.count).second)
    verdict_.broken("exactly once (G2)", what + " counts a second time");
  // Every other attempt ends too.
  for (auto& [epoch, other] : leases_) other.ended |= other.placement_id == lease.placement_id;
}

void LeaseChecker::on_actor(const std::string& name, Event event) {
  if (event != Event::kStarted) return;
  executors_.erase(actor_id(name));
  if (actor_id(name) != kDispatcherId) return;
  leases_.clear();
  counted_.clear();
  reported_before_.reset();
  epochs_.clear();
  proposed_ = 0;
}

/// A paused dispatcher ended nothing meanwhile.
void LeaseChecker::on_node(const std::string& name, Event event) {
  if (event != Event::kResumed || name != world_.node_name(runtime::sim::kHead)) return;
  for (auto& [epoch, lease] : leases_) {
    lease.doubtful |= world_.now() - lease.renewed > kThreeHeartbeats;
    lease.renewed = world_.now();
  }
}

void HistoryChecker::on_sent(const Packet& packet) {
  if (const auto proposal = as<PlacementProposed>(packet)) {
    on_proposed(*proposal, packet.bulk);
  } else if (const auto measured = as<PlacementMeasured>(packet)) {
    for (std::uint32_t i = 0; i < measured->count && i < measured->step_time_s.size(); ++i)
      measured_[measured->placement_id + i].insert(measured->step_time_s[i]);
  } else if (const auto committed = as<messages::EpisodeCommitted>(packet)) {
    const auto [known, added] = acknowledged_.emplace(committed->seq, committed->measured);
    if (!added && known->second.episode != committed->measured.episode)
      verdict_.broken("log == history", "number " + number(committed->seq) + " stands for two episodes");
  } else if (packet.envelope.from == kLearnerId && packet.envelope.to == actor_id(actors::kRecorder)) {
    if (const auto applied = as<messages::UpdateApplied>(packet)) on_applied(*applied);
  }
}

void HistoryChecker::on_actor(const std::string& name, Event event) {
  if (event != Event::kStarted || actor_id(name) != kLearnerId) return;
  of_this_incarnation_.clear();
  consumed_.clear();
}

void HistoryChecker::on_proposed(const PlacementProposed& proposal, const messages::SharedBytes& bulk) {
  const auto placements = *messages::section_of(bulk.bytes(), proposal.placements);
  auto& drawn = proposed_[proposal.episode];
  drawn.insert(hash64(placements));
  if (swarm_.ordered && drawn.size() > 1)
    verdict_.broken("reproducible (G11)", "episode " + number(proposal.episode) + " drawn again differs");
}

/// A learner repeats an update until it is on disk; another incarnation may make another update in its place.
void HistoryChecker::on_applied(const messages::UpdateApplied& applied) {
  Update update{applied.episodes, applied.parameters_sha256};
  const auto [known, added] = of_this_incarnation_.emplace(applied.update, update);
  if (!added) {
    if (known->second != update)
      verdict_.broken("exactly once (G2)", "update " + number(applied.update) + " has two contents");
    return;
  }
  for (const std::uint64_t episode : applied.episodes)
    if (!consumed_.emplace(episode, applied.update).second)
      verdict_.broken("exactly once (G2)", "episode " + number(episode) + " is learned from twice");
  updates_[applied.update].push_back(std::move(update));
}

void HistoryChecker::check_proposed(const record::EpisodeRow& row) {
  if (!proposed_[row.episode].contains(hash64(row.placements)))
    verdict_.broken("log == history", "episode " + number(row.episode) + " was never proposed so");
}
void HistoryChecker::check_measured(const record::MeasurementRow& row) {
  if (!measured_[row.placement_id].contains(row.step_time_s))
    verdict_.broken("log == history", "placement " + number(row.placement_id) + " was never measured so");
}
void HistoryChecker::check_sent(const record::UpdateRow& row) {
  const auto& sent = updates_[row.update];
  if (std::find(sent.begin(), sent.end(), Update{row.episodes, row.parameters_sha256}) == sent.end())
    verdict_.broken("log == history", "update " + number(row.update) + " was never made so");
}

void HistoryChecker::check_salvaged(record::RunLog log, std::uint64_t at_least) {
  const auto episodes = log.episodes(1, 1'000'000);
  const auto measurements = log.measurements(1, 1'000'000);
  const auto updates = log.updates();
  if (!episodes || !measurements || !updates)
    return verdict_.broken("salvage (G19)", "what was salvaged cannot be read");
  if (episodes->size() < at_least)
    verdict_.broken("salvage (G19)",
                    number(episodes->size()) + " episodes of " + number(at_least) + " that were whole");
  for (std::size_t i = 0; i < episodes->size(); ++i) {
    const record::EpisodeRow& row = (*episodes)[i];
    const auto known = acknowledged_.find(row.seq);
    if (row.seq != i + 1 || (known != acknowledged_.end() && known->second.episode != row.episode))
      verdict_.broken("salvage (G19)", "episode " + number(row.episode) + " has another number");
    check_proposed(row);
  }
  for (const record::MeasurementRow& row : *measurements) check_measured(row);
  for (const record::UpdateRow& row : *updates) check_sent(row);
}

void HistoryChecker::check(const record::RunReader& run) {
  const auto verified = run.verify();
  if (!verified) verdict_.broken("log == history", verified.error().context);
  const auto episodes = run.log().episodes(1, 1'000'000);
  const auto measurements = run.log().measurements(1, 1'000'000);
  const auto updates = run.log().updates();
  if (!episodes || !measurements || !updates)
    return verdict_.broken("log == history", "the database cannot be read");
  std::map<std::uint64_t, const record::EpisodeRow*> rows;
  for (const record::EpisodeRow& row : *episodes) {
    rows[row.episode] = &row;
    check_proposed(row);
  }
  for (const auto& [seq, episode] : acknowledged_)
    if (!rows.contains(episode.episode) || rows.at(episode.episode)->seq != seq)
      verdict_.broken("durable (G1)", "episode " + number(episode.episode) + " was acknowledged and is gone");
  if (rows.size() != swarm_.episodes || episodes->size() != rows.size() || proposed_.size() != rows.size())
    verdict_.broken("conservation (G20)", number(episodes->size()) + " episodes recorded of " +
                                              number(proposed_.size()) + " proposed of " +
                                              number(swarm_.episodes) + " asked for");
  std::set<std::uint64_t> placements;
  for (const record::MeasurementRow& row : *measurements) {
    if (!placements.insert(row.placement_id).second)
      verdict_.broken("exactly once (G2)", "placement " + number(row.placement_id) + " is recorded twice");
    check_measured(row);
  }
  if (placements.size() != std::uint64_t{swarm_.episodes} * swarm_.placements)
    verdict_.broken("conservation (G20)", number(placements.size()) + " placements recorded");
  check_updates(*updates, rows.size());
}

void HistoryChecker::check_updates(const std::vector<record::UpdateRow>& rows, std::size_t recorded) {
  std::vector<std::uint64_t> learned;
  for (const record::UpdateRow& row : rows) {
    learned.insert(learned.end(), row.episodes.begin(), row.episodes.end());
    check_sent(row);
  }
  const std::set<std::uint64_t> once(learned.begin(), learned.end());
  if (once.size() != learned.size())
    verdict_.broken("exactly once (G2)", "an episode is in two recorded updates");
  if (once.size() != recorded)
    verdict_.broken("exactly once (G2)",
                    number(once.size()) + " episodes learned from of " + number(recorded) + " recorded");
  if (swarm_.ordered && !std::is_sorted(learned.begin(), learned.end()))
    verdict_.broken("reproducible (G11)", "episodes are learned from out of order");
}

}  // namespace emplace::sim_test

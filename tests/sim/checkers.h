#pragma once
// What must hold in every history, whatever its faults. Each checker watches messages from outside, with its
// own small model, and shares no code with what it checks.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/dispatch/dispatcher.h"
#include "messages/episode_measured.h"
#include "messages/executor_control.h"
#include "messages/learning.h"
#include "messages/placement_proposed.h"
#include "record/run_reader.h"
#include "tests/runtime/sim/network.h"
#include "tests/runtime/sim/world.h"
#include "tests/sim/swarm.h"

namespace emplace::sim_test {

using runtime::ActorId;
using runtime::sim::Event;
using runtime::sim::Packet;
using runtime::sim::World;

/// The first promise that was broken. Later ones are its consequences.
class Verdict {
 public:
  void broken(const char* promise, const std::string& how) {
    if (!first_) first_ = std::string{promise} + ": " + how;
  }
  const std::optional<std::string>& first() const { return first_; }
  /// Withdraws the verdict: the promise does not hold after a permitted fault.
  void excuse() { first_.reset(); }

 private:
  std::optional<std::string> first_;
};

/// G3: between two actors and in one stream messages arrive in the order of sending, none twice; a missing
/// message has been noticed: as a gap or the end of a session, or as a crash of a node or an actor.
class OrderChecker final : public runtime::sim::Observer {
 public:
  explicit OrderChecker(Verdict& verdict) : verdict_{verdict} {}
  void on_delivering(const Packet& packet) override;
  void on_actor(const std::string& name, Event event) override;
  void on_node(const std::string& name, Event event) override;

 private:
  struct Pair {
    std::uint64_t last = 0;
    std::uint64_t evidence = 0;
  };
  Verdict& verdict_;
  std::map<std::tuple<ActorId, ActorId, std::size_t>, Pair> pairs_;  // Key: sender, receiver and stream.
  std::uint64_t ends_ = 0;                                           ///< Number of ends of actors and nodes.
};

/// G7 and the flow to executors: a lease that has ended never counts, no range counts twice, and no
/// incarnation of an executor gets more than its credit.
class LeaseChecker final : public runtime::sim::Observer {
 public:
  LeaseChecker(World& world, const Swarm& swarm, Verdict& verdict);
  void on_sent(const Packet& packet) override;
  void on_refused(const Packet& packet) override;
  void on_delivering(const Packet& packet) override;
  void on_delivered(const Packet& packet) override;
  void on_actor(const std::string& name, Event event) override;
  void on_node(const std::string& name, Event event) override;
  std::uint64_t fenced() const { return fenced_; }

 private:
  struct Lease {
    ActorId holder{};
    std::uint64_t placement_id = 0;
    std::uint32_t count = 0;
    std::uint64_t executor_epoch = 0;  // The holder's incarnation, as the dispatcher knows it.
    Nanos sent{0};
    Nanos renewed{0};
    bool ended = false;     // Certainly.
    bool doubtful = false;  // Perhaps: it depends on when the dispatcher checked.
  };
  const actors::Dispatcher::Counters* counters() const;

  World& world_;
  Verdict& verdict_;
  const std::uint32_t window_;
  const Nanos patience_;
  std::map<std::uint64_t, Lease> leases_;           // Leases of this incarnation of the dispatcher.
  std::map<std::uint64_t, std::uint32_t> counted_;  // Placements that counted, by the first of their range.
  std::map<ActorId, std::uint64_t> epochs_;         // Epochs of executors, as the dispatcher knows them.
  /// An executor's own view.
  struct Executor {
    std::uint64_t epoch = 0;                      // Its incarnation.
    std::map<std::uint64_t, std::uint32_t> held;  // Leases of this incarnation, and their placements.
  };
  std::map<ActorId, Executor> executors_;
  std::optional<std::uint64_t> reported_before_;  // Value before the result that is being delivered.
  bool ended_before_ = false;                     // Whether the lease of that result had ended.
  std::uint64_t proposed_ = 0;
  std::uint64_t fenced_ = 0;
};

/// G2, G20 and log == history: every requested episode is recorded once, as it was once proposed and with
/// values that an executor measured, and is learned from once.
class HistoryChecker final : public runtime::sim::Observer {
 public:
  HistoryChecker(const Swarm& swarm, Verdict& verdict) : swarm_{swarm}, verdict_{verdict} {}
  void on_sent(const Packet& packet) override;
  void on_actor(const std::string& name, Event event) override;
  /// The run is over: the database must contain what happened.
  void check(const record::RunReader& run);
  /// Checks that the part salvaged from a damaged database is a prefix of what happened, of `at_least`
  /// episodes.
  void check_salvaged(record::RunLog log, std::uint64_t at_least);
  std::uint64_t proposed() const { return proposed_.size(); }
  std::uint64_t acknowledged() const { return acknowledged_.size(); }
  std::uint64_t updates() const { return updates_.empty() ? 0 : updates_.rbegin()->first; }

 private:
  /// An update as a learner sent it.
  struct Update {
    std::vector<std::uint64_t> episodes;
    std::string sha256;
    bool operator==(const Update&) const = default;
  };
  void on_proposed(const messages::PlacementProposed& proposal, const messages::SharedBytes& bulk);
  void on_applied(const messages::UpdateApplied& applied);
  void check_proposed(const record::EpisodeRow& row);
  void check_measured(const record::MeasurementRow& row);
  void check_sent(const record::UpdateRow& row);
  void check_updates(const std::vector<record::UpdateRow>& rows, std::size_t recorded);

  const Swarm& swarm_;
  Verdict& verdict_;
  /// Hashes of placements, by episode: a restarted sampler may draw an episode again, with its new
  /// parameters.
  std::map<std::uint64_t, std::set<std::uint64_t>> proposed_;
  std::map<std::uint64_t, std::set<double>> measured_;  // Step times that executors reported, by placement.
  std::map<std::uint64_t, messages::EpisodeMeasured> acknowledged_;  // Key: the recorder's number.
  std::map<std::uint64_t, std::vector<Update>> updates_;  // Key: the number; all versions that were sent.
  std::map<std::uint64_t, Update> of_this_incarnation_;   // Updates of this incarnation of the learner.
  std::map<std::uint64_t, std::uint64_t> consumed_;       // Episode to update, of this incarnation.
};

}  // namespace emplace::sim_test

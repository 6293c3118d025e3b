#pragma once
// What must hold in every history, whatever befalls it. Each checker watches messages from outside, with a
// small model of its own, and shares no code with what it checks.

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
#include "runtime/sim/network.h"
#include "runtime/sim/world.h"
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
  /// What was broken follows from something that may happen.
  void excuse() { first_.reset(); }

 private:
  std::optional<std::string> first_;
};

/// G3: between two actors and in one stream messages arrive in the order of sending, none twice; where one is
/// missing, somebody has noticed: a session its gap or its end, a node or an actor its crash.
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
  std::map<std::tuple<ActorId, ActorId, std::size_t>, Pair> pairs_;  // By stream too.
  std::uint64_t ends_ = 0;                                           ///< Of actors and nodes.
};

/// G7 and the flow to executors: a lease that has ended never counts, no piece counts twice, and no life of
/// an executor is given more than it granted.
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
    std::uint64_t executor_epoch = 0;  // The holder's life that the dispatcher had in mind.
    Nanos sent{0};
    Nanos renewed{0};
    bool ended = false;     // For certain.
    bool doubtful = false;  // Perhaps: so late that it depends on when the dispatcher looked.
  };
  const actors::Dispatcher::Counters* counters() const;

  World& world_;
  Verdict& verdict_;
  const std::uint32_t window_;
  const Nanos patience_;
  std::map<std::uint64_t, Lease> leases_;           // Of this life of the dispatcher.
  std::map<std::uint64_t, std::uint32_t> counted_;  // Placements that counted, by the first of a piece.
  std::map<ActorId, std::uint64_t> epochs_;         // Of executors, as the dispatcher knows them.
  /// An executor, as it sees itself.
  struct Executor {
    std::uint64_t epoch = 0;                      // Its life.
    std::map<std::uint64_t, std::uint32_t> held;  // Leases that it was given as this life, and placements.
  };
  std::map<ActorId, Executor> executors_;
  std::optional<std::uint64_t> reported_before_;  // Of the result that is being delivered.
  bool ended_before_ = false;                     // Its lease.
  std::uint64_t proposed_ = 0;
  std::uint64_t fenced_ = 0;
};

/// G2, G20 and log == history: every episode that was asked for is recorded once, as it was once proposed and
/// with numbers that an executor measured, and is learned from once.
class HistoryChecker final : public runtime::sim::Observer {
 public:
  HistoryChecker(const Swarm& swarm, Verdict& verdict) : swarm_{swarm}, verdict_{verdict} {}
  void on_sent(const Packet& packet) override;
  void on_actor(const std::string& name, Event event) override;
  /// The run is over: what the database says must be what happened.
  void check(const record::RunReader& run);
  /// What was salvaged of a damaged database is part of what happened, from the first episode on.
  void check_salvaged(record::RunLog log, std::uint64_t at_least);
  std::uint64_t proposed() const { return proposed_.size(); }
  std::uint64_t acknowledged() const { return acknowledged_.size(); }
  std::uint64_t updates() const { return updates_.empty() ? 0 : updates_.rbegin()->first; }

 private:
  /// What a learner says an update was.
  struct Update {
    std::vector<std::uint64_t> episodes;
    std::string sha256;
    bool operator==(const Update&) const = default;
  };
  void on_proposed(const messages::PlacementProposed& proposal, const messages::SharedBytes& bulk);
  void on_applied(const messages::UpdateApplied& applied);
  void check_proposed(const record::EpisodeRow& row);
  void check_measured(const record::MeasurementRow& row);
  void check_said(const record::UpdateRow& row);
  void check_updates(const std::vector<record::UpdateRow>& rows, std::size_t recorded);

  const Swarm& swarm_;
  Verdict& verdict_;
  /// Hashes of placements, by episode: a sampler made anew may draw one again, with the parameters of then.
  std::map<std::uint64_t, std::set<std::uint64_t>> proposed_;
  std::map<std::uint64_t, std::set<double>> measured_;  // Step times that executors said, by placement.
  std::map<std::uint64_t, messages::EpisodeMeasured> acknowledged_;  // By the recorder's number.
  std::map<std::uint64_t, std::vector<Update>> updates_;             // By number: all that were ever said.
  std::map<std::uint64_t, Update> of_this_life_;                     // Of the learner.
  std::map<std::uint64_t, std::uint64_t> consumed_;                  // By it: episode to update.
};

}  // namespace emplace::sim_test

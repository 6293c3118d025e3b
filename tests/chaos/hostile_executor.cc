#include "tests/chaos/hostile_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "messages/log.h"
#include "messages/run_control.h"
#include "messages/status.h"

namespace emplace::testing {
namespace {

using messages::ExecutorJoined;
using messages::LeaseGranted;
using messages::PlacementMeasured;
using runtime::Context;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
constexpr double kSlow_s = 100;  ///< Step time of an answer that may count, so that it is never the best one.
constexpr std::chrono::milliseconds kBeat{200};
constexpr std::chrono::milliseconds kWork{
    200};  ///< Time from a lease to its answer; the good executors are faster.

/// A message with the number of PlacementMeasured and other fields.
struct NoMeasurement {
  static constexpr std::uint16_t kType = PlacementMeasured::kType;
  std::string count = "many";
  std::string step_time_s = "fast";
  EMPLACE_FIELDS(count, step_time_s)
};

PlacementMeasured honest_answer(const LeaseGranted& lease, std::string name) {
  PlacementMeasured m;
  m.placement_id = lease.placement_id;
  m.lease_epoch = lease.lease_epoch;
  m.host = "elsewhere";
  m.executor = std::move(name);
  m.executor_kind = "fake";
  m.wall_s = 0.001;
  m.resize(lease.count, lease.num_devices);
  m.valid.assign(lease.count, 1);
  m.step_time_s.assign(lease.count, kSlow_s);
  return m;
}

/// An honest answer with one change.
Misbehaviour value(std::string name, std::function<void(PlacementMeasured&)> change) {
  return {.name = std::move(name),
          .answer = [change = std::move(change)](HostileExecutor&, Context& context, const LeaseGranted&,
                                                 PlacementMeasured m) {
            change(m);
            context.send(actors::kDispatcher, m);
          }};
}

/// Sends other messages besides heartbeats all the time, and otherwise does its work.
Misbehaviour sending(std::string name, std::function<void(HostileExecutor&, Context&)> send) {
  return {.name = std::move(name), .beat = [send = std::move(send)](HostileExecutor& self, Context& context) {
            send(self, context);
            self.beat(context, self.held());
          }};
}

void answer_nothing(HostileExecutor&, Context&, const LeaseGranted&, const PlacementMeasured&) {}

void send_messages_of_other_roles(HostileExecutor&, Context& context) {
  messages::StopRun stop{"hostile"};
  const messages::SamplerDrained drained{"sampler/0"};
  messages::DispatchProgress progress;
  progress.ending = "hostile";
  messages::EpisodesRecorded recorded{{0, 1, 2, 3}, 1'000'000};
  messages::EpisodesKnown known;
  known.committed = 1'000'000;
  messages::UpdateApplied update{.update = 1, .policy_version = 1, .epoch = ~std::uint64_t{0}};
  messages::EpisodeScored scored;
  scored.advantages = {kNan};
  for (const char* to : {actors::kDispatcher, actors::kRecorder, actors::kLearner, actors::kTracker,
                         actors::kView, "sampler/0", "executor/0"}) {
    context.send(to, stop);
    context.send(to, drained);
    context.send(to, progress);
    context.send(to, messages::RecordProgress{1, 1, 0, kNan});
    context.send(to, messages::ConsumedTwice{{0, 1, 2}});
    context.send(to, messages::EpisodesCounted{1'000'000, 0});
    context.send(to, recorded);
    context.send(to, known);
    context.send(to, update);
    context.send(to, scored);
    context.send(to, messages::EpisodeReported{});
    context.send(to, messages::EpisodeCommitted{});
    context.send(to, messages::ParametersPublished{1'000, "", 4});
    context.send(to, messages::PlacementProposed{});
    context.send(to, LeaseGranted{});
    context.send(to, messages::ExecutorUnknown{});
  }
}

void flood_with_reports(HostileExecutor&, Context& context) {
  messages::NodeReported report;
  report.node = "head";
  report.uptime_s = kNan;
  report.actors.assign(64, {"executor/0", 1, 1, 1, std::string(256, '\xff')});
  for (int i = 0; i < 200; ++i) {
    report.pid = static_cast<std::uint64_t>(i);
    context.send(actors::kView, report);
  }
}

std::vector<Misbehaviour> values() {
  return {
      value("NaN", [](auto& m) { m.step_time_s[0] = kNan; }),
      value("-0.0", [](auto& m) { m.step_time_s[0] = -0.0; }),
      value("-0.0 of what did not run",
            [](auto& m) { m.valid[0] = 0, m.step_time_s[0] = m.busy_s[0] = m.wall_s = -0.0; }),
      value("infinity", [](auto& m) { m.step_time_s[0] = kInf; }),
      value("-infinity", [](auto& m) { m.step_time_s[0] = -kInf; }),
      value("-1e9 s", [](auto& m) { m.step_time_s[0] = -1e9; }),
      value("1e308 s", [](auto& m) { m.step_time_s[0] = 1e308; }),
      value("label 5", [](auto& m) { m.labels.assign(m.count, 5); }),
      value("valid 2", [](auto& m) { m.valid[0] = 2; }),
      value("INT64_MIN", [](auto& m) { m.peak_bytes[0] = m.bytes_moved[0] = kLowest; }),
      value("INT64_MAX", [](auto& m) { m.bytes_over[0] = m.peak_bytes[0] = kHighest; }),
      value("share 7", [](auto& m) { m.synthetic_shares.assign(m.count, 7); }),
      value("NaN busy", [](auto& m) { m.busy_s[0] = kNan; }),
      value("infinite work", [](auto& m) { m.wall_s = kInf; }),
      value("1e8 s of work", [](auto& m) { m.wall_s = 1e8; }),
      value("1e6 samples",
            [](auto& m) {
              m.sample_counts.assign(m.count, 0);
              m.sample_counts[0] = 1'000'000;
              m.samples_s.assign(1'000'000, 1.0);
            }),
      value("counts that overflow", [](auto& m) { m.sample_counts.assign(m.count, 0xffffffff); }),
      value("empty lists", [](auto& m) { m.valid.clear(), m.step_time_s.clear(); }),
      value("huge lists",
            [](auto& m) {
              m.count = 100'000;
              m.valid.assign(m.count, 1);
              m.step_time_s.assign(m.count, 1);
              m.bytes_over.assign(m.count, 0);
              m.bytes_moved.assign(m.count, 0);
              m.peak_bytes.assign(std::size_t{m.count} * m.num_devices, 0);
              m.busy_s.assign(std::size_t{m.count} * m.num_devices, 0);
            }),
      value("no devices", [](auto& m) { m.num_devices = 0, m.peak_bytes.clear(), m.busy_s.clear(); }),
      value("too many devices", [](auto& m) { m.num_devices = 0xffffffff; }),
      value("another placement", [](auto& m) { ++m.placement_id; }),
      value("an error", [](auto& m) { m.error = "\x1b[31mboo\n<script>alert(1)</script>\xff"; }),
      value("an error of 1 MiB", [](auto& m) { m.error.assign(1u << 20, '\xff'); }),
      value("a failure of HTML",
            [](auto& m) {
              m.valid[0] = 0;
              m.failures.assign(m.count, "");
              m.failures[0] = "crashed: <img src=x onerror=alert(1)>\x1b[2J\xff" + std::string(100'000, 'x');
            }),
      value("a host of bytes", [](auto& m) { m.host = "\xff\x1b[31m"; }),
      value("a kind of 1 MiB", [](auto& m) { m.executor_kind.assign(1u << 20, 'k'); }),
      value("another's name", [](auto& m) { m.executor = "executor/0"; }),
  };
}

std::vector<Misbehaviour> protocols() {
  std::vector<Misbehaviour> all;
  all.push_back(
      {.name = "another's lease",
       .answer = [](HostileExecutor&, Context& context, const LeaseGranted& lease, PlacementMeasured m) {
         for (std::uint64_t away = 1; away <= 16; ++away) {
           m.lease_epoch = lease.lease_epoch - away;
           context.send(actors::kDispatcher, m);
           m.lease_epoch = lease.lease_epoch + away;
           context.send(actors::kDispatcher, m);
         }
         m.lease_epoch = lease.lease_epoch;
         context.send(actors::kDispatcher, m);
       }});
  all.push_back(
      {.name = "the same answer a hundred times",
       .answer = [](HostileExecutor&, Context& context, const LeaseGranted&, const PlacementMeasured& m) {
         for (int i = 0; i < 100; ++i) context.send(actors::kDispatcher, m);
       }});
  all.push_back(
      {.name = "no measurement at all",
       .answer = [](HostileExecutor&, Context& context, const LeaseGranted&, const PlacementMeasured& m) {
         context.send(actors::kDispatcher, NoMeasurement{});
         context.send(actors::kDispatcher, m);
       }});
  all.push_back({.name = "holds for ever", .answer = answer_nothing, .beat = [](auto& self, auto& context) {
                   self.beat(context, self.held());
                 }});
  all.push_back({.name = "beats without leases",
                 .answer = answer_nothing,
                 .beat = [](auto& self, auto& context) { self.beat(context, {}); }});
  all.push_back({.name = "never beats", .answer = answer_nothing, .beat = [](auto&, auto&) {}});
  all.push_back({.name = "joins as another",
                 .join = [](ExecutorJoined& j) { j.name = "executor/0"; },
                 .is_given_work = false});
  all.push_back({.name = "joins as another kind",
                 .join = [](ExecutorJoined& j) { j.kind = "cpu"; },
                 .is_given_work = false});
  all.push_back({.name = "joins with another graph",
                 .join = [](ExecutorJoined& j) { j.graph_sha256.assign(1u << 16, 'f'); },
                 .is_given_work = false});
  all.push_back(
      {.name = "joins with a name of bytes",
       .join = [](ExecutorJoined& j) { j.host = "\xff\x1b", j.version = "\x1b[2J", j.node = "\xff"; },
       .is_given_work = false});
  all.push_back({.name = "grants 2^64 - 1",
                 .join = [](ExecutorJoined& j) { j.placements = 0xffffffff, j.bytes = ~std::uint64_t{0}; },
                 .beat =
                     [](HostileExecutor& self, Context& context) {
                       context.send(actors::kDispatcher,
                                    messages::CreditGranted{std::string{context.name()}, self.epoch(),
                                                            0xffffffff, ~std::uint64_t{0}});
                       self.beat(context, self.held());
                     }});
  all.push_back({.name = "leaves and joins", .beat = [](HostileExecutor& self, Context& context) {
                   for (int i = 0; i < 20; ++i) {
                     context.send(actors::kDispatcher,
                                  messages::ExecutorLeft{std::string{context.name()}, self.epoch(),
                                                         "\x1b[2Jbye", self.held(), 0});
                     self.join(context, self.epoch() + 1);
                   }
                 }});
  all.push_back(sending("sends messages of other roles", send_messages_of_other_roles));
  all.push_back(sending("floods with reports", flood_with_reports));
  all.push_back(sending("beats of nonsense", [](HostileExecutor& self, Context& context) {
    messages::Heartbeat heartbeat{std::string{context.name()}, self.epoch(), {}, kNan, 0};
    heartbeat.leases.assign(50'000, ~std::uint64_t{0});
    context.send(actors::kDispatcher, heartbeat);
    heartbeat.busy_s = kInf;
    heartbeat.executor = "executor/0";
    context.send(actors::kDispatcher, heartbeat);
  }));
  return all;
}

}  // namespace

const std::vector<Misbehaviour>& misbehaviours() {
  static const std::vector<Misbehaviour> kAll = [] {
    std::vector<Misbehaviour> all = values();
    for (Misbehaviour& one : protocols()) all.push_back(std::move(one));
    return all;
  }();
  return kAll;
}

void HostileExecutor::on_start(Context& context) {
  join(context, context.epoch());
  tick(context);
}

void HostileExecutor::join(Context& context, std::uint64_t epoch) {
  epoch_ = epoch;
  ExecutorJoined joined;
  joined.name = context.name();
  joined.host = "elsewhere";
  joined.kind = "fake";
  joined.graph_sha256 = graph_;
  joined.epoch = epoch_;
  joined.placements = 64;
  joined.bytes = 1u << 26;
  if (how_->join) how_->join(joined);
  context.send(actors::kDispatcher, joined);
  if (!how_->is_given_work) ++*acts_;
}

void HostileExecutor::beat(Context& context, std::vector<std::uint64_t> leases) {
  context.send(actors::kDispatcher,
               messages::Heartbeat{std::string{context.name()}, epoch_, std::move(leases), 0});
}

void HostileExecutor::tick(Context& context) {
  how_->beat ? how_->beat(*this, context) : beat(context, held_);
  context.after(kBeat, [this, &context] { tick(context); });
}

void HostileExecutor::on_message(Context& context, const runtime::Incoming& incoming) {
  (void)incoming.match(
      [&](const LeaseGranted& lease) {
        held_.push_back(lease.lease_epoch);
        ++*acts_;
        waiting_.push_back(lease);
        if (waiting_.size() == 1) context.after(kWork, [this, &context] { work(context); });
      },
      [&](const messages::ExecutorUnknown&) { join(context, epoch_ + 1); });
}

void HostileExecutor::work(Context& context) {
  const LeaseGranted lease = waiting_.front();
  waiting_.pop_front();
  if (!waiting_.empty()) context.after(kWork, [this, &context] { work(context); });
  PlacementMeasured honest = honest_answer(lease, std::string{context.name()});
  how_->answer ? how_->answer(*this, context, lease, std::move(honest))
               : (void)context.send(actors::kDispatcher, honest);
}

HostileNode::HostileNode(const std::string& head, const std::string& key_file,
                         const std::string& graph_sha256, std::vector<const Misbehaviour*> ways,
                         std::uint64_t number)
    : ways_{std::move(ways)}, acts_(ways_.size()) {
  runtime::NodeOptions options;
  options.name = "hostile-" + std::to_string(number);
  options.upstream = head;
  options.keys.own = key_file;
  auto node = runtime::Node::make(options, clock_);
  EMPLACE_CHECK(node.ok(), node.error().context);
  node_ = *std::move(node);
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const auto spawned =
        node_->spawn<HostileExecutor>(actors::executor_name(static_cast<std::uint32_t>(number + i)),
                                      runtime::Home::kIoLoop, ways_[i], graph_sha256, &acts_[i]);
    EMPLACE_CHECK(spawned.ok(), spawned.error().context);
  }
  thread_ = std::thread{[this] { (void)node_->run(); }};
}

HostileNode::~HostileNode() {
  node_->stop("done");
  thread_.join();
}

std::vector<std::string> HostileNode::idle() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (acts_[i] == 0) names.push_back(ways_[i]->name);
  return names;
}

}  // namespace emplace::testing

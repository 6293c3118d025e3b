#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/baseline_tracker.h"
#include "actors/dispatch/dispatcher.h"
#include "actors/executor_actor.h"
#include "actors/learner.h"
#include "actors/recorder.h"
#include "actors/sampler.h"
#include "executor/sim/simulator.h"
#include "messages/measured_values.h"
#include "policy/placers/hierarchical.h"
#include "tests/fuzz/targets.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace::fuzz {
namespace {

using messages::EpisodeMeasured;
using messages::LeaseGranted;
using messages::PlacementMeasured;
using messages::PlacementProposed;

constexpr std::uint64_t kEpisodes = 6;
constexpr std::uint64_t kReported = 1'000;  ///< Episodes from this number on are from the input.
constexpr Nanos kLongest = std::chrono::minutes{30};

/// Reads values from the front of the input; zeros after its end.
class Values {
 public:
  explicit Values(Input bytes) : bytes_{bytes} {}
  bool done() const { return bytes_.empty(); }
  unsigned byte() {
    if (bytes_.empty()) return 0;
    const auto first = static_cast<unsigned>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  double real() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr std::array kOften{
        0.0,    -0.0, 1.0,   -1.0,   kInf, -kInf, std::numeric_limits<double>::quiet_NaN(), 1e9, 1e10, 5e-324,
        1e-300, 0.5,  1e308, -1e308, 1e-9, 2.0};
    const unsigned which = byte();
    return which < 240 ? kOften[which % kOften.size()] : std::bit_cast<double>(word());
  }
  std::uint64_t natural() {
    constexpr std::array<std::uint64_t, 8> kOften{0, 1, 2, 5, 4'097, 0xffffffff, 1ull << 63, ~0ull};
    const unsigned which = byte();
    return which < 240 ? kOften[which % kOften.size()] : word();
  }
  std::string text() {
    const unsigned length = byte();
    if (length == 255) return std::string(100'000, static_cast<char>(byte()));
    std::string some;
    for (unsigned i = 0; i < length % 16; ++i) some += static_cast<char>(byte());
    return some;
  }
  template <class T>
  void change(std::vector<T>& values) {
    const unsigned how = byte();
    if (how >= 250) return values.resize(how == 255 ? 5'000 : how - 250);
    if (values.empty()) return;
    T& one = values[how % values.size()];
    if constexpr (std::floating_point<T>) {
      one = static_cast<T>(real());
    } else if constexpr (std::same_as<T, std::string>) {
      one = text();
    } else {
      one = static_cast<T>(natural());
    }
  }

 private:
  Input bytes_;
};

/// Changes a column.
void change_columns(Values& input, messages::MeasurementColumns& m) {
  switch (input.byte() % 12) {
    case 0:
      return input.change(m.valid);
    case 1:
      return input.change(m.step_time_s);
    case 2:
      return input.change(m.bytes_over);
    case 3:
      return input.change(m.bytes_moved);
    case 4:
      return input.change(m.peak_bytes);
    case 5:
      return input.change(m.busy_s);
    case 6:
      m.synthetic_shares.resize(m.valid.size());
      return input.change(m.synthetic_shares);
    case 7:
      m.failures.resize(m.valid.size());
      return input.change(m.failures);
    case 8:
      m.labels.resize(m.valid.size());
      return input.change(m.labels);
    case 9:
      m.sample_counts.resize(m.valid.size());
      return input.change(m.sample_counts);
    case 10:
      if (!m.sample_counts.empty()) m.samples_s.resize(m.sample_counts[0] % 8'192);
      return input.change(m.samples_s);
    default:
      m.num_devices = static_cast<std::uint32_t>(input.natural());
  }
}

void change(Values& input, PlacementMeasured& m) {
  switch (input.byte() % 12) {
    case 0:
      m.placement_id = input.natural();
      return;
    case 1:
      m.count = static_cast<std::uint32_t>(input.natural());
      return;
    case 2:
      m.executor = input.text();
      return;
    case 3:
      m.executor_kind = input.text();
      return;
    case 4:
      m.host = input.text();
      return;
    case 5:
      m.error = input.text();
      return;
    case 6:
      m.lease_epoch += input.natural();
      return;
    case 7:
      m.wall_s = input.real();
      return;
    default:
      change_columns(input, m);
  }
}

/// Changes an episode, except for its numbers: an actor's key may choose numbers, and has its own range.
void change(Values& input, EpisodeMeasured& m) {
  switch (input.byte() % 12) {
    case 0:
      m.graph_sha256 = input.text();
      return;
    case 1:
      m.num_ops = static_cast<std::uint32_t>(input.natural());
      return;
    case 2:
      return input.change(m.executors);
    case 3:
      return input.change(m.executor_kinds);
    case 4:
      return input.change(m.hosts);
    case 5:
      return input.change(m.executor_of);
    case 6:
      return input.change(m.attempt);
    case 7:
      m.wall_s = input.real();
      return;
    case 8:
      m.policy_version = input.natural();
      return;
    default:
      change_columns(input, m);
  }
}

actors::TaskPtr sample_task() {
  OpGraph graph = testing::random_graph(3, 8);
  DeviceSet devices = testing::sample_devices(2, false, 1 << 30);
  Constraints constraints = *Constraints::make(graph, devices);
  return actors::make_task({std::move(graph), std::move(devices), std::move(constraints), "hash"}, "here");
}

/// Checks that no actor throws, whatever it receives.
class ThrowChecker final : public runtime::sim::Observer {
 public:
  void on_actor(const std::string& name, runtime::sim::Event event) override {
    EMPLACE_CHECK(event != runtime::sim::Event::kThrew, name + " threw");
  }
};

/// A whole small run with one good executor, and the messages of the input.
class Run {
 public:
  Run() : world_{{.seed = 1}} {
    static const actors::TaskPtr task = sample_task();
    task_ = task;
    EMPLACE_CHECK(record::RunWriter::create(directory(), {}).ok(), "no run can be made");
    world_.observe(&throw_checker_);
    const auto simulate = [](const actors::TaskGraph& of) {
      return std::make_unique<Simulator>(of.graph, of.devices);
    };
    const actors::PlacerFactory placer = [] {
      policy::HierarchicalOptions options;
      options.groups = 2;
      options.hidden = options.grouper_hidden = 4;
      options.placements = 2;
      return *policy::HierarchicalPlanner::make(
          {{{&task->graphs[0].graph, &task->graphs[0].devices, &task->graphs[0].constraints}, {}}}, options,
          1);
    };
    actors::DispatcherOptions dispatcher;
    dispatcher.episodes = kEpisodes;
    dispatcher.placements_per_lease = 1;
    dispatcher.samplers = {actors::sampler_name(0)};
    dispatcher_ = world_.spawn<actors::Dispatcher>(actors::kDispatcher, task_, dispatcher);
    world_.spawn<actors::BaselineTracker>(actors::kTracker, actors::TrackerOptions{});
    recorder_ = world_.spawn<actors::Recorder>(
        actors::kRecorder, actors::RecorderOptions{}, actors::RunWriterFactory{[directory = directory()] {
          return record::RunWriter::open(directory, record::Durability::kProcess);
        }},
        actors::BestHandler{[](std::span<const DeviceId>, const EpisodeMeasured&, std::uint32_t) {}});
    actors::LearnerOptions learner;
    learner.samplers = dispatcher.samplers;
    learner.training.learning_rate.start = 0.01f;
    world_.spawn<actors::Learner>(actors::kLearner, learner, placer);
    actors::ExecutorOptions executor;
    executor.delay = std::chrono::milliseconds{20};
    world_.spawn<actors::ExecutorActor>(actors::executor_name(0), task_, executor,
                                        actors::ExecutorFactory{simulate});
    actors::SamplerOptions sampler;
    sampler.episodes = 10 * kEpisodes;
    world_.spawn<actors::Sampler>(actors::sampler_name(0), task_, sampler, placer, actors::ExecutorFactory{});
  }

  /// Sends a message of the input, or lets time pass.
  void step(Values& input) {
    const unsigned what = input.byte();
    hostile_ = actors::executor_name(7 + (what >> 6 & 1u));
    switch (what % 8) {
      case 0:
        return join(input);
      case 1:
        return beat(input);
      case 2:
        return send_to_dispatcher(messages::CreditGranted{
            hostile_, input.byte() % 4, static_cast<std::uint32_t>(input.natural()), input.natural()});
      case 3:
        return send_to_dispatcher(
            messages::ExecutorLeft{hostile_, input.byte() % 4, input.text(), held(), input.natural()});
      case 4:
      case 5:
        return answer(input);
      case 6:
        return report(input);
      default:
        world_.advance(std::chrono::milliseconds{10 * input.byte()});
    }
  }

  /// Checks that the run ends cleanly, and that its record can be read.
  void end() {
    for (Nanos waited{0}; !world_.stopped() && waited < kLongest; waited += std::chrono::seconds{1})
      world_.advance(std::chrono::seconds{1}, [&] { return world_.stopped().has_value(); });
    EMPLACE_CHECK(world_.stopped().has_value(), "the run does not end");
    EMPLACE_CHECK(world_.stopped()->empty(), "a hostile executor ends the run: " + *world_.stopped());
    world_.stop();
    world_.run_until_idle();
    world_.crash(recorder_);
    const auto db = record::RunReader::open(directory(), record::Reading::kInProgress);
    EMPLACE_CHECK(db.ok(), db.error().context);
    const auto whole = (*db)->verify();
    EMPLACE_CHECK(whole.ok(), whole.error().context);
    EMPLACE_CHECK((*db)->results().counters()->episodes >= kEpisodes, "episodes are missing");
    const auto updates = (*db)->log().updates();
    EMPLACE_CHECK(updates.ok() && !updates->empty(), "nothing was learned");
    for (const record::UpdateRow& update : *updates)
      EMPLACE_CHECK(std::isfinite(update.loss) && std::isfinite(update.gradient_norm), "a loss is no number");
    for (const record::MeasurementRow& row : *(*db)->log().measurements(1, 100'000))
      EMPLACE_CHECK(
          std::isfinite(row.step_time_s) && row.step_time_s >= 0 && (!row.valid || row.step_time_s > 0),
          "a step time is invalid");
  }

 private:
  std::filesystem::path directory() const { return folder_.path() / "run"; }

  template <class M>
  void send_to_dispatcher(const M& message) {
    world_.deliver(dispatcher_, message, {}, runtime::actor_id(hostile_));
  }
  /// Leases of the hostile executor that it has not answered.
  std::vector<std::uint64_t> held() const {
    std::vector<std::uint64_t> epochs;
    for (const runtime::sim::Packet& packet : world_.log())
      if (packet.envelope.type == LeaseGranted::kType && packet.envelope.to == runtime::actor_id(hostile_))
        epochs.push_back(messages::decode_body<LeaseGranted>(packet.body)->lease_epoch);
    return epochs;
  }
  void join(Values& input) {
    messages::ExecutorJoined joined{hostile_, "there", "sim", "hash", 2, 1 + input.byte() % 3, 64, 1 << 20};
    const unsigned odd = input.byte();
    if (odd % 8 == 1) joined.host = input.text();
    if (odd % 8 == 2) joined.kind = input.text();
    if (odd % 8 == 3) joined.graph_sha256 = input.text();
    if (odd % 8 == 4) joined.placements = static_cast<std::uint32_t>(input.natural());
    if (odd % 8 == 5) joined.bytes = input.natural();
    if (odd % 8 == 6) joined.version = joined.node = input.text();
    send_to_dispatcher(joined);
  }
  void beat(Values& input) {
    messages::Heartbeat heartbeat{hostile_, 1 + input.byte() % 3, held(), input.real(), input.natural()};
    if (input.byte() % 4 == 0) heartbeat.leases.assign(input.byte(), input.natural());
    send_to_dispatcher(heartbeat);
  }
  void answer(Values& input) {
    const auto own = [&] {
      std::vector<LeaseGranted> leases;
      for (const runtime::sim::Packet& packet : world_.log())
        if (packet.envelope.type == LeaseGranted::kType && packet.envelope.to == runtime::actor_id(hostile_))
          leases.push_back(*messages::decode_body<LeaseGranted>(packet.body));
      return leases;
    }();
    if (own.empty()) return;
    const LeaseGranted& lease = own[own.size() - 1 - input.byte() % own.size()];
    PlacementMeasured m;
    m.placement_id = lease.placement_id;
    m.executor = hostile_;
    m.executor_kind = "sim";
    m.host = "there";
    m.lease_epoch = lease.lease_epoch;
    m.resize(lease.count, lease.num_devices);
    m.valid.assign(m.count, 1);
    m.step_time_s.assign(m.count, 0.001);
    m.peak_bytes.assign(std::size_t{m.count} * m.num_devices, 1);
    for (unsigned changes = input.byte() % 4; changes > 0; --changes) change(input, m);
    send_to_dispatcher(m);
  }
  /// An episode of a sampler with its own measurements, to the dispatcher or directly to the recorder.
  void report(Values& input) {
    const TaskFacts facts{static_cast<std::uint32_t>(task_->graphs[0].graph.num_ops()),
                          static_cast<std::uint32_t>(task_->graphs[0].devices.size())};
    messages::EpisodeReported reported;
    EpisodeMeasured& m = reported.measured;
    m.graph_sha256 = "hash";
    m.controller = 1;
    m.episode = kReported + reports_;
    m.placement_id = 100 * m.episode;
    m.count = 1 + input.byte() % 3;
    ++reports_;
    m.num_ops = facts.ops;
    m.num_devices = facts.devices;
    m.executors = {"sampler/1"};
    m.executor_kinds = {"sim"};
    m.hosts = {"there"};
    m.resize(m.count, m.num_devices);
    m.step_time_s.assign(m.count, 0.001);
    m.valid.assign(m.count, 1);
    for (unsigned changes = input.byte() % 4; changes > 0; --changes) change(input, m);
    messages::BulkBuilder bulk;
    reported.placements = bulk.add(messages::Bytes(std::size_t{facts.ops} * m.count));
    reported.actions = bulk.add(messages::Bytes(input.byte(), std::byte{1}));
    const bool straight = input.byte() % 2 == 0;
    world_.deliver(straight ? recorder_ : dispatcher_, reported, bulk.finish(),
                   runtime::actor_id(straight ? actors::kDispatcher : "sampler/1"));
  }

  struct TaskFacts {
    std::uint32_t ops, devices;
  };
  testing::ScratchFolder folder_{"meaning"};
  ThrowChecker throw_checker_;
  runtime::sim::World world_;
  actors::TaskPtr task_;
  runtime::ActorId dispatcher_{}, recorder_{};
  std::string hostile_;
  std::uint64_t reports_ = 0;
};

}  // namespace

void meaning(Input bytes) {
  constexpr std::size_t kMax = 4'096;  // Longer inputs find nothing new, and take long.
  Run run;
  for (Values input{bytes.first(std::min(bytes.size(), kMax))}; !input.done();) run.step(input);
  run.end();
}

}  // namespace emplace::fuzz

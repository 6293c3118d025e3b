#include "launcher/replay/remeasure.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/hash.h"
#include "base/text/words.h"
#include "launcher/inputs/inputs.h"
#include "launcher/settings/host_facts.h"
#include "launcher/worker/executors.h"
#include "record/run_writer.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kMeasuredPerPage = 64;  // Episodes with all their placements.

/// A feasible placement of the log.
struct Logged {
  std::uint64_t seq = 0, placement_id = 0;
  std::uint32_t number = 0;
  double step_time_s = 0;
};

/// Returns each distinct placement once, fastest first.
Result<std::vector<Logged>> distinct_placements(RecordedRun& run, const RemeasureRequest& request) {
  std::vector<Logged> all;
  std::unordered_set<std::uint64_t> seen;
  const std::uint64_t last = request.to == 0 ? std::numeric_limits<std::uint64_t>::max() : request.to;
  for (std::uint64_t seq = std::max<std::uint64_t>(request.from, 1); seq <= last;) {
    EMPLACE_TRY_ASSIGN(const auto episodes, run.db->log().episodes(seq, kMeasuredPerPage));
    EMPLACE_TRY_ASSIGN(const auto rows, run.db->log().rows(seq, kMeasuredPerPage, false));
    if (episodes.empty()) break;
    for (std::size_t e = 0; e < episodes.size() && episodes[e].seq <= last; ++e) {
      const record::EpisodeRow& episode = episodes[e];
      const std::size_t ops = episode.count == 0 ? 0 : episode.placements.size() / episode.count;
      for (const record::MeasurementRow& m : rows[e].measurements) {
        if (!m.valid || m.number >= episode.count) continue;
        const auto bytes = std::span{episode.placements}.subspan(m.number * ops, ops);
        const std::uint64_t graph = hash64(std::as_bytes(std::span{episode.graph_sha256}));
        if (seen.insert(hash64(bytes, graph)).second)
          all.push_back({episode.seq, m.placement_id, m.number, m.step_time_s});
      }
    }
    seq = episodes.back().seq + 1;
  }
  std::sort(all.begin(), all.end(), [](const Logged& a, const Logged& b) {
    return std::pair{a.step_time_s, a.placement_id} < std::pair{b.step_time_s, b.placement_id};
  });
  return all;
}

/// Selects `count` placements: one fifth from the front, the others evenly over the rest.
std::vector<Logged> chosen_of(const std::vector<Logged>& all, std::uint64_t count) {
  if (all.size() <= count) return all;
  const std::uint64_t fastest = (count + 4) / 5, others = count - fastest;
  std::vector<Logged> chosen(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(fastest));
  const std::uint64_t rest = all.size() - fastest;
  for (std::uint64_t i = 1; i <= others; ++i) chosen.push_back(all[fastest + i * rest / others - 1]);
  return chosen;
}

/// The executors, one per graph, made on first use.
class Executors {
 public:
  Executors(const RecordedRun& run, const RemeasureRequest& request)
      : run_{run}, request_{request}, process_{request.process} {
    // The executors of all graphs use the same GPUs, one after the other.
    if (request.kind == "cuda") process_.gpus = std::make_shared<GpuLease>(GpuSources::real());
  }

  Result<Executor*> of(const std::string& graph_sha256) {
    const auto known = executors_.find(graph_sha256);
    if (known != executors_.end()) return known->second.get();
    const actors::TaskGraph* const task = run_.task->find(graph_sha256);
    if (task == nullptr) return invalid("the log", "refers to a graph that the run does not have");
    const auto dispatch = parse_word<Dispatch>(request_.dispatch);
    if (!dispatch) return invalid("--dispatch", dispatch.error().context);
    const Judge judge{run_.config.objective.kind, {.dispatch = *dispatch}};
    const DeviceSet* devices = &task->devices;
    if (!request_.devices.empty()) {
      EMPLACE_TRY_ASSIGN(auto others, open_devices(request_.devices, {}, run_.config.input.cost_version()));
      if (others.size() != devices->size())
        return invalid(printable(request_.devices),
                       fmt::format("has {} devices, but the run's placements are for {}", others.size(),
                                   devices->size()),
                       "use a machine with the same number of devices");
      devices = &others_.emplace(graph_sha256, std::move(others)).first->second;
    }
    EMPLACE_TRY_ASSIGN(auto made, executor(*task, *devices, judge));
    return executors_.emplace(graph_sha256, std::move(made)).first->second.get();
  }

 private:
  /// The simulator decides about memory as the executors of the run did; other executors cannot.
  Result<std::unique_ptr<Executor>> executor(const actors::TaskGraph& one, const DeviceSet& devices,
                                             const Judge& judge) const {
    const Allowed allowed = allowed_of(run_.config);
    if (!allowed.memory()) return make_executor(request_.kind, one.graph, devices, judge, process_);
    if (request_.kind != "sim" || judge.simulator.dispatch != Dispatch::kProgram)
      return invalid("--re-measure " + printable(request_.kind, 40),
                     "knows no memory decisions, which the run has made (executor.allow)",
                     "use --re-measure sim and --dispatch program");
    return std::unique_ptr<Executor>{
        std::make_unique<PlannedExecutor>(one.graph, devices, one.constraints, judge, allowed)};
  }

  const RecordedRun& run_;
  const RemeasureRequest& request_;
  ProcessRequest process_;
  std::map<std::string, DeviceSet> others_;
  std::map<std::string, std::unique_ptr<Executor>> executors_;
};

}  // namespace

Result<Remeasured> remeasure(RecordedRun& run, const RemeasureRequest& request,
                             const RemeasureWatcher& watcher) {
  if (request.count == 0) return invalid("--count", "is 0", "give the number of placements to measure");
  Executors executors{run, request};
  // Fail before reading the log if the executor cannot start.
  EMPLACE_TRY(executors.of(run.task->graphs.front().sha256));
  EMPLACE_TRY_ASSIGN(const auto all, distinct_placements(run, request));
  if (all.empty())
    return invalid(printable_path(run.directory), "has no feasible placement in this range",
                   "use a wider range");
  Remeasured remeasured;
  remeasured.distinct = all.size();
  remeasured.session.executor_kind = request.kind;
  remeasured.session.host = host_name();
  const std::vector<Logged> chosen = chosen_of(all, request.count);
  std::vector<double> logged, again;
  Measurement measured;
  for (const Logged& one : chosen) {
    EMPLACE_TRY_ASSIGN(const auto episodes, run.db->log().episodes(one.seq, 1));
    const record::EpisodeRow& episode = episodes.front();
    EMPLACE_TRY_ASSIGN(const auto executor, executors.of(episode.graph_sha256));
    const std::size_t ops = episode.placements.size() / episode.count;
    const Placement placement =
        record::placement_of(std::span{episode.placements}.subspan(one.number * ops, ops));
    record::RemeasuredRow row{one.placement_id, episode.graph_sha256, one.step_time_s, false, 0, 0, ""};
    if (const auto done = executor->measure(placement, measured)) {
      row.valid = measured.valid;
      row.step_time_s = measured.step_time_s;
      row.synthetic_share = measured.synthetic_share;
      if (!row.valid) row.error = measured.failure.empty() ? "does not fit" : measured.failure;
    } else {
      row.error = done.error().context;
    }
    if (row.valid) logged.push_back(row.logged_s), again.push_back(row.step_time_s);
    remeasured.rows.push_back(std::move(row));
    if (!watcher(remeasured.rows.size(), chosen.size())) break;
  }
  static_cast<Agreement&>(remeasured.session) = agreement(logged, again);
  return remeasured;
}

Result<Unit> keep_remeasured(const std::filesystem::path& directory, Remeasured& remeasured) {
  EMPLACE_TRY_ASSIGN(auto db, record::RunWriter::open(directory));
  return db->add_remeasured(remeasured.session, remeasured.rows);
}

}  // namespace emplace::launcher

#include "placement/export/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "placement/export/trace_writer.h"
#include "placement/planned_runs.h"

namespace emplace::interop {
namespace {

constexpr std::size_t kOps = 0, kCopies = 1;

std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }

/// An event to write, with its index in the schedule.
struct Event {
  enum Kind : std::uint8_t { kMemory, kOp, kCopy, kCopyLeaves, kCopyArrives };
  std::int64_t at_ns;
  Kind kind;
  std::uint32_t number;
};

}  // namespace

Result<Unit> write_trace(const std::filesystem::path& path, const OpGraph& graph, const DeviceSet& devices,
                         const Schedule& schedule) {
  TraceWriter writer{path};
  // A copy is drawn at the device whose engine makes it: on a track of the other device copies could
  // overlap. A device with several engines has a track for each copy that runs at the same time.
  const bool by_target = devices.copies() == CopyEngine::kTarget;
  const auto copier = [&](const TransferRun& run) { return index(by_target ? run.target : run.source); };
  std::vector<std::vector<double>> free_s(devices.size());  // [devices][tracks] End of the last copy.
  std::vector<std::size_t> track;                           // [transfers]
  for (const TransferRun& run : schedule.transfers) {
    std::vector<double>& tracks = free_s[copier(run)];
    const auto first = std::ranges::find_if(tracks, [&](double end_s) { return end_s <= run.start_s; });
    track.push_back(kCopies + static_cast<std::size_t>(first - tracks.begin()));
    (first == tracks.end() ? tracks.emplace_back() : *first) = run.end_s;
  }
  for (std::size_t d = 0; d < devices.size(); ++d) {
    writer.name_process(d, devices[static_cast<DeviceId>(d)].name);
    writer.name_track({d, kOps}, "ops");
    const std::string copies = by_target ? "copies in" : "copies out";
    writer.name_track({d, kCopies}, copies);
    for (std::size_t k = 1; k < free_s[d].size(); ++k)
      writer.name_track({d, kCopies + k}, fmt::format("{} {}", copies, k + 1));
  }
  std::vector<Event> events;
  for (std::uint32_t k = 0; k < schedule.memory.size(); ++k)
    events.push_back({ns(schedule.memory[k].at_s), Event::kMemory, k});
  for (std::uint32_t k = 0; k < schedule.ops.size(); ++k)
    events.push_back({ns(schedule.ops[k].start_s), Event::kOp, k});
  for (std::uint32_t k = 0; k < schedule.transfers.size(); ++k) {
    const TransferRun& run = schedule.transfers[k];
    events.push_back({ns(run.start_s), Event::kCopy, k});
    events.push_back({ns(run.start_s), Event::kCopyLeaves, k});
    events.push_back({ns(run.end_s), Event::kCopyArrives, k});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; });
  const PlannedRuns planned{graph, schedule};
  for (const Event& event : events) {
    if (event.kind == Event::kMemory) {
      const MemoryLevel& level = schedule.memory[event.number];
      writer.counter(index(level.device), "memory", event.at_ns, level.bytes);
      continue;
    }
    if (event.kind == Event::kOp) {
      const OpRun& run = schedule.ops[event.number];
      writer.slice({index(run.device), kOps}, graph.name(run.op),
                   planned.is_again(run) ? "recompute" : phase_name(graph.phase(run.op)), event.at_ns,
                   ns(run.end_s),
                   fmt::format(R"("type":{},"scope":{},"op":{})", json_text(graph.type_name(run.op)),
                               json_text(graph.group_name(run.op)), index(run.op)));
      continue;
    }
    const TransferRun& run = schedule.transfers[event.number];
    const std::uint64_t flow = event.number + 1;
    if (event.kind == Event::kCopy) {
      writer.slice({copier(run), track[event.number]}, graph.name(graph.producer(run.tensor)),
                   planned.home(run) ? "move" : "copy", event.at_ns, ns(run.end_s),
                   fmt::format(R"("bytes":{},"from":{},"to":{})", run.bytes,
                               json_text(devices[run.source].name), json_text(devices[run.target].name)));
    } else if (event.kind == Event::kCopyLeaves) {
      writer.flow_start({copier(run), track[event.number]}, flow, event.at_ns);
    } else {
      writer.flow_ends({index(run.target), kOps}, flow, event.at_ns);
    }
  }
  return writer.finish("\"graph\":" + json_text(graph.name()));
}

}  // namespace emplace::interop

#include "launcher/cluster/node/actor_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/text/words.h"
#include "messages/type_ids.h"
#include "placement/export/trace_writer.h"
#include "runtime/trace_ring.h"

namespace emplace::launcher {
namespace {

using interop::TraceWriter;
using messages::ActorId;
using runtime::TraceKind;
using runtime::TraceRecord;

/// An actor of a start and its records, in the time of the trace.
struct Resident {
  std::string name;
  TraceWriter::Track track;          ///< Track of its handlers; the next track has its phases.
  std::vector<TraceRecord> handled;  ///< Handled messages, sorted by start time.
  std::vector<TraceRecord> phases;   ///< Phases, sorted by start time.
};

const char* slice_name(const TraceRecord& record) {
  switch (record.kind) {
    case TraceKind::kMessage:
      return messages::type_name(record.type);
    case TraceKind::kTimer:
      return "timer";
    case TraceKind::kStart:
      return "start";
    case TraceKind::kStop:
      return "stop";
    case TraceKind::kDirectory:
      return "directory";
    case TraceKind::kPhase:
      break;
  }
  return "unknown";
}

/// Holds all records of a run in memory and writes the trace.
class Merger {
 public:
  void add(const std::string& label, const runtime::TracePart& part) {
    if (boot_.empty()) {
      boot_ = part.boot;
      wall_offset_ns_ = part.wall_ns - part.monotonic_ns;
    }
    // Monotonic clocks of different boots are not comparable; align them by wall clock.
    const bool same = part.boot == boot_;
    const std::int64_t shift = same ? 0 : part.wall_ns - part.monotonic_ns - wall_offset_ns_;
    if (!same) by_wall_.insert(part.node);
    summary_.overwritten += part.overwritten;
    const std::string process = label.empty() ? part.node : label + ": " + part.node;
    const auto [at, fresh] = processes_.emplace(process, processes_.size() + 1);
    Residents& residents = starts_[label];
    for (const std::string& actor : part.actors) {
      Resident& resident = residents[messages::actor_id(actor)];
      if (!resident.name.empty()) continue;  // Known from an earlier incarnation.
      resident.name = actor;
      resident.track = {at->second, 2 * tracks_[at->second]++};
      shifts_[&resident] = shift;
    }
    for (TraceRecord record : part.records) {
      const auto found = residents.find(record.actor);
      if (found == residents.end()) continue;
      record.begin_ns += shift;
      record.end_ns += shift;
      first_ns_ = std::min(first_ns_.value_or(record.begin_ns), record.begin_ns);
      (record.kind == TraceKind::kPhase ? found->second.phases : found->second.handled).push_back(record);
    }
  }

  Result<TraceSummary> write(const std::filesystem::path& path) {
    TraceWriter writer{path};
    for (const auto& [name, number] : processes_) writer.name_process(number, name);
    for (auto& [label, residents] : starts_) collect(residents, writer);
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tie(a.at_ns, a.kind) < std::tie(b.at_ns, b.kind);
    });
    for (const Event& event : events_) write_event(event, writer);
    std::string aligned;
    for (const std::string& node : by_wall_)
      aligned += (aligned.empty() ? "" : ",") + interop::json_text(node);
    EMPLACE_TRY(writer.finish(fmt::format(
        "\"clock\":\"monotonic, from the first event\",\"nodes_set_by_wall_clock\":[{}],\"overwritten\":{}",
        aligned, summary_.overwritten)));
    return summary_;
  }

 private:
  using Residents = std::unordered_map<ActorId, Resident>;
  struct Event {
    enum Kind : std::uint8_t { kSlice, kFlowStart, kFlowEnds };  // Flows sort after their slices.
    std::int64_t at_ns;
    Kind kind;
    std::uint64_t flow = 0;
    const Resident* resident = nullptr;  ///< The actor on whose track the event is, also for a phase.
    const TraceRecord* record = nullptr;
    const Resident* sender = nullptr;
    std::int64_t queued_ns = -1;
  };

  void collect(Residents& residents, TraceWriter& writer) {
    std::vector<const Resident*> order;
    for (auto& [id, resident] : residents) {
      for (auto* list : {&resident.handled, &resident.phases})
        std::sort(list->begin(), list->end(),
                  [](const TraceRecord& a, const TraceRecord& b) { return a.begin_ns < b.begin_ns; });
      order.push_back(&resident);
    }
    std::sort(order.begin(), order.end(), [](const Resident* a, const Resident* b) {
      return std::tie(a->track.process, a->track.track) < std::tie(b->track.process, b->track.track);
    });
    for (const Resident* resident : order) {
      writer.name_track(resident->track, resident->name);
      if (!resident->phases.empty())
        writer.name_track(phase_track(*resident), resident->name + " is busy with");
      for (const TraceRecord& record : resident->phases)
        events_.push_back(
            {.at_ns = record.begin_ns, .kind = Event::kSlice, .resident = resident, .record = &record});
      for (const TraceRecord& record : resident->handled) handled(residents, *resident, record);
    }
  }

  void handled(const Residents& residents, const Resident& resident, const TraceRecord& record) {
    Event slice{.at_ns = record.begin_ns, .kind = Event::kSlice, .resident = &resident, .record = &record};
    const auto sender = residents.find(record.from);
    if (record.kind == TraceKind::kMessage && sender != residents.end()) {
      slice.sender = &sender->second;
      if (record.sent_ns != 0) {
        const std::int64_t sent_ns = record.sent_ns + shifts_.at(slice.sender);
        slice.queued_ns = std::max<std::int64_t>(0, record.begin_ns - sent_ns);
        if (sent_ns <= record.begin_ns && was_busy(sender->second, sent_ns)) {
          slice.flow = ++summary_.flows;
          events_.push_back(
              {.at_ns = sent_ns, .kind = Event::kFlowStart, .flow = slice.flow, .resident = slice.sender});
        }
      }
    }
    events_.push_back(slice);
    if (slice.flow != 0)
      events_.push_back(
          {.at_ns = record.begin_ns, .kind = Event::kFlowEnds, .flow = slice.flow, .resident = &resident});
  }

  /// Returns whether the actor has a slice at this time: a flow can only start in a slice.
  static bool was_busy(const Resident& resident, std::int64_t at_ns) {
    const auto after =
        std::upper_bound(resident.handled.begin(), resident.handled.end(), at_ns,
                         [](std::int64_t time, const TraceRecord& record) { return time < record.begin_ns; });
    return after != resident.handled.begin() && std::prev(after)->end_ns >= at_ns;
  }

  static TraceWriter::Track phase_track(const Resident& resident) {
    return {resident.track.process, resident.track.track + 1};
  }

  void write_event(const Event& event, TraceWriter& writer) {
    const std::int64_t at_ns = event.at_ns - *first_ns_;
    const TraceWriter::Track track = event.resident->track;
    if (event.kind == Event::kFlowStart) return writer.flow_start(track, event.flow, at_ns);
    if (event.kind == Event::kFlowEnds) return writer.flow_ends(track, event.flow, at_ns);
    ++summary_.slices;
    const TraceRecord& record = *event.record;
    const std::int64_t end_ns = record.end_ns - *first_ns_;
    if (record.kind == TraceKind::kPhase) {
      const std::string_view name{record.name.data(), ::strnlen(record.name.data(), record.name.size())};
      return writer.slice(phase_track(*event.resident), name, "phase", at_ns, end_ns, {});
    }
    std::string arguments;
    if (event.sender != nullptr) arguments = "\"from\":" + interop::json_text(event.sender->name);
    if (event.queued_ns >= 0)
      arguments += fmt::format(R"(,"queued_us":{:.3f})", static_cast<double>(event.queued_ns) / 1e3);
    const char* category = record.kind == TraceKind::kMessage ? "message" : "loop";
    writer.slice(track, slice_name(record), category, at_ns, end_ns, arguments);
  }

  std::map<std::string, Residents> starts_;  // Actors of each start, by label.
  std::map<std::string, std::size_t> processes_;
  std::map<std::size_t, std::size_t> tracks_;                 // Number of actors so far, by process.
  std::unordered_map<const Resident*, std::int64_t> shifts_;  // Clock shift of each actor [ns].
  std::set<std::string> by_wall_;
  std::string boot_;
  std::int64_t wall_offset_ns_ = 0;
  std::optional<std::int64_t> first_ns_;
  std::vector<Event> events_;
  TraceSummary summary_;
};

}  // namespace

std::filesystem::path trace_folder(const std::filesystem::path& start_directory) {
  return start_directory / "trace";
}

Result<TraceSummary> merge_traces(const std::vector<TraceSource>& sources,
                                  const std::filesystem::path& path) {
  Merger merger;
  bool any = false;
  for (const TraceSource& source : sources) {
    std::error_code ignored;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator{source.folder, ignored})
      if (entry.path().extension() == ".ring") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files) {
      const auto part = runtime::read_trace_part(file);
      if (!part || part->records.empty()) continue;
      merger.add(source.label, *part);
      any = true;
    }
  }
  if (!any) return invalid(printable_path(path), "no process of the run wrote a trace");
  return merger.write(path);
}

}  // namespace emplace::launcher

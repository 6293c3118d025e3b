#include "record/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace emplace::record {
namespace {

using nlohmann::json;
constexpr int kOps = 0, kCopies = 1;

json slice(std::string_view name, std::size_t device, int track, double start_s, double end_s) {
  return {{"name", name}, {"ph", "X"},           {"pid", device},
          {"tid", track}, {"ts", start_s * 1e6}, {"dur", (end_s - start_s) * 1e6}};
}

}  // namespace

std::string chrome_trace(const OpGraph& graph, const DeviceSet& devices, const Schedule& schedule) {
  std::vector<json> events;
  for (const OpRun& run : schedule.ops) {
    json event = slice(graph.name(run.op), index(run.device), kOps, run.start_s, run.end_s);
    event["cat"] = phase_name(graph.phase(run.op));
    event["args"] = {
        {"type", graph.type_name(run.op)}, {"scope", graph.group_name(run.op)}, {"op", index(run.op)}};
    events.push_back(std::move(event));
  }
  std::int64_t flow = 0;
  for (const TransferRun& run : schedule.transfers) {
    const OpId producer = graph.producer(run.tensor);
    json event = slice(graph.name(producer), index(run.source), kCopies, run.start_s, run.end_s);
    event["cat"] = "copy";
    event["args"] = {{"bytes", run.bytes}, {"to", devices[run.target].name}};
    events.push_back(std::move(event));
    ++flow;
    events.push_back({{"name", "copy"},
                      {"cat", "copy"},
                      {"ph", "s"},
                      {"id", flow},
                      {"pid", index(run.source)},
                      {"tid", kCopies},
                      {"ts", run.start_s * 1e6}});
    events.push_back({{"name", "copy"},
                      {"cat", "copy"},
                      {"ph", "f"},
                      {"bp", "e"},
                      {"id", flow},
                      {"pid", index(run.target)},
                      {"tid", kOps},
                      {"ts", run.end_s * 1e6}});
  }
  std::stable_sort(events.begin(), events.end(), [](const json& a, const json& b) {
    return a["ts"].get<double>() < b["ts"].get<double>();
  });
  json all = json::array();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    all.push_back({{"name", "process_name"},
                   {"ph", "M"},
                   {"pid", d},
                   {"args", {{"name", devices[static_cast<DeviceId>(d)].name}}}});
    all.push_back(
        {{"name", "thread_name"}, {"ph", "M"}, {"pid", d}, {"tid", kOps}, {"args", {{"name", "ops"}}}});
    all.push_back({{"name", "thread_name"},
                   {"ph", "M"},
                   {"pid", d},
                   {"tid", kCopies},
                   {"args", {{"name", "copies out"}}}});
  }
  for (json& event : events) all.push_back(std::move(event));
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(all)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

}  // namespace emplace::record

#include "record/report/runs_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/text/counts.h"
#include "base/text/words.h"
#include "record/report/html.h"
#include "record/report/page_files.h"
#include "record/report/saved_page.h"

namespace emplace::record {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPageBytes = 4'900'000;  // Limit on the size of a page [bytes].
constexpr std::size_t kMaxCurvePoints = 400, kMinCurvePoints = 25;

/// Whole nanoseconds, which every JavaScript number holds; 0: unknown.
std::int64_t whole_ns(double seconds) {
  return std::isfinite(seconds) && seconds > 0 ? std::llround(std::min(seconds, 1e6) * 1e9) : 0;
}
std::int64_t whole_ms(double seconds) {
  return std::isfinite(seconds) && seconds > 0 ? std::llround(std::min(seconds, 1e9) * 1e3) : 0;
}

/// The curve with at most `most` points: evenly chosen ones, and the last.
std::pair<json, json> curve_of(const RunRow& run, std::size_t most) {
  json at = json::array(), best = json::array();
  const std::size_t step = std::max<std::size_t>(1, (run.curve.size() + most - 1) / most);
  for (std::size_t i = 0; i < run.curve.size(); ++i) {
    if ((run.curve.size() - 1 - i) % step != 0 || whole_ns(run.curve[i].best_s) == 0) continue;
    at.push_back(whole_ms(run.curve[i].seconds));
    best.push_back(whole_ns(run.curve[i].best_s));
  }
  return {std::move(at), std::move(best)};
}

json run_json(const RunRow& run, std::size_t most_points) {
  auto [at, best] = curve_of(run, most_points);
  return {{"name", printable(run.name, 200)},
          {"directory", printable(run.directory, 400)},
          {"method", printable(run.method, 200)},
          {"graph", printable(run.graph, 200)},
          {"machine", printable(run.machine, 200)},
          {"state", printable(run.state, 200)},
          {"entropy", printable(run.entropy, 400)},
          {"warning", printable(run.warning, 400)},
          {"best", whole_ns(run.best_s)},
          {"bound", whole_ns(run.bound_s)},
          {"heuristic", whole_ns(run.heuristic_s)},
          {"measurements", run.measurements},
          {"wall", whole_ms(run.wall_s)},
          {"at", std::move(at)},
          {"best_at", std::move(best)}};
}

}  // namespace

std::string render_runs(const std::vector<RunRow>& runs) {
  const std::array scripts{page::kCommon, without_source_map(page::kDygraphs), page::kRuns};
  std::size_t most_points = kMaxCurvePoints, most_runs = runs.size();
  for (;;) {
    json list = json::array();
    for (std::size_t i = 0; i < most_runs; ++i) list.push_back(run_json(runs[i], most_points));
    const std::string body =
        "<header>\n<h1><span>emplace</span> " + plural(runs.size(), "run") +
        "</h1>\n</header>\n<main></main>\n<details><summary>The curves use dygraphs 2.2.1 "
        "(MIT)</summary><pre>" +
        escaped(page::kDygraphsLicence) + "</pre></details>\n";
    std::string page =
        saved_page("emplace: " + plural(runs.size(), "run"), body,
                   {{"runs", std::move(list)}, {"left_out", runs.size() - most_runs}}, scripts);
    if (page.size() <= kMaxPageBytes || most_runs == 0) return page;
    // A share that would fit if all of the page were curves, or runs.
    const double share = 0.95 * kMaxPageBytes / static_cast<double>(page.size());
    const auto part = [&](std::size_t of) {
      return static_cast<std::size_t>(share * static_cast<double>(of));
    };
    if (most_points > kMinCurvePoints)
      most_points = std::max(kMinCurvePoints, part(most_points));
    else
      most_runs = part(most_runs);
  }
}

}  // namespace emplace::record

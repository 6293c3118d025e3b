#include "record/report/report_page.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text/counts.h"
#include "record/report/graph_json.h"
#include "record/report/html.h"
#include "record/report/live_page.h"
#include "record/report/page_files.h"
#include "record/report/saved_page.h"
#include "record/report/sections.h"

namespace emplace::record {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 4'900'000;          // Limit on the size of a page [bytes].
constexpr std::size_t kMaxFragmentBytes = 2'000'000;  // Limit on the size of a live report [bytes].
constexpr std::size_t kMaxStatusBytes = 600'000;      // Limit on the nodes of a page [bytes].
/// Where a live report starts: less than a page holds, because it is drawn repeatedly.
constexpr PageBudget kFragmentBudget{
    .blocks = 60'000, .name_bytes = 600'000, .scopes = 2'000, .edges = 8'000, .memory_levels = 6'000};

/// The choice of a graph, and the content of <main>; the data that the scripts draw.
struct Parts {
  std::string chooser, main;
  json graphs = json::array();
};

Parts parts_of(const ReportData& data, const PageBudget& budget) {
  Parts parts;
  BudgetShares shares{budget, data.graphs.size()};
  std::string choices;
  for (std::size_t g = 0; g < data.graphs.size(); ++g) {
    std::optional<Moves> moves;
    parts.graphs.push_back(graph_json(data.graphs[g], shares, moves));
    parts.main += graph_section(data.graphs[g], g, data, moves);
    choices += element("option", shown(data.graphs[g].name, 80), fmt::format(R"(value="{}")", g));
  }
  parts.main += policy_section(data) + provenance_section(data);
  if (data.graphs.size() > 1)
    parts.chooser = "<p data-part=\"chooser\"><label>Graph <select id=\"choose-graph\">" + choices +
                    "</select></label> " + plural(data.graphs.size(), "graph") + "</p>\n";
  return parts;
}

/// The state of the nodes, for a page: as many nodes as fit. Null: there is none.
json status_of(const ReportData& data) {
  json status = json::parse(data.status_json, nullptr, false);
  if (!status.is_object()) return nullptr;
  json nodes = std::exchange(status["nodes"], json::array());
  std::size_t bytes = inert(status).size();
  if (bytes > kMaxStatusBytes) return nullptr;
  if (!nodes.is_array()) return status;
  if (!status.contains("nodes_total")) status["nodes_total"] = nodes.size();
  for (json& node : nodes) {
    bytes += inert(node).size() + 1;
    if (bytes > kMaxStatusBytes) break;
    status["nodes"].push_back(std::move(node));
  }
  return status;
}

std::string render(const ReportData& data, const json& status, const PageBudget& budget) {
  Parts parts = parts_of(data, budget);
  std::string body = "<header>\n<h1><span>emplace report</span> " + shown(data.run, 80) + "</h1>\n";
  if (data.in_progress)
    body +=
        "<p class=\"going-on\" role=\"status\">This run was still in progress when the page was written (" +
        escaped(data.written) + "): the page shows its state at that time.</p>\n";
  body += parts.chooser + "</header>\n<main>\n" + parts.main + "</main>\n";
  if (!status.is_null()) body += "<div id=\"state\"></div>\n";
  const std::array scripts{page::kCommon, without_source_map(page::kDygraphs), page::kStatus, page::kScript};
  return saved_page("emplace report: " + shown(data.run, 80), body,
                    {{"graphs", std::move(parts.graphs)}, {"status", status}}, scripts);
}

/// What `made` returns for the largest budget whose result is not larger than `most_bytes`.
template <class Make>
std::string within(std::size_t most_bytes, PageBudget budget, const Make& made) {
  for (;;) {
    std::string text = made(budget);
    if (text.size() <= most_bytes || budget.blocks < 1'000) return text;
    for (std::size_t* part :
         {&budget.blocks, &budget.name_bytes, &budget.scopes, &budget.edges, &budget.memory_levels})
      *part = *part * 3 / 4;
  }
}

}  // namespace

std::string render_report(const ReportData& data) {
  const json status = status_of(data);
  return within(kMaxBytes, {}, [&](const PageBudget& budget) { return render(data, status, budget); });
}

std::string report_fragment(const ReportData& data) {
  return within(kMaxFragmentBytes, kFragmentBudget, [&](const PageBudget& budget) {
    Parts parts = parts_of(data, budget);
    return inert({{"run", data.run},
                  {"written", data.written},
                  {"in_progress", data.in_progress},
                  {"main", parts.chooser + parts.main},
                  {"data", {{"graphs", std::move(parts.graphs)}}}});
  });
}

}  // namespace emplace::record

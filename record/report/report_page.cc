#include "record/report/report_page.h"

#include <fmt/core.h>

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "record/report/graph_json.h"
#include "record/report/html.h"
#include "record/report/page_files.h"
#include "record/report/sections.h"

namespace emplace::record {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 4'900'000;  // Limit on the size of a page [bytes].

/// Removes the reference to a source map, which is useless in a page.
std::string without_source_map(std::string_view script) {
  const std::size_t at = script.rfind("//# sourceMappingURL=");
  return std::string{at == std::string_view::npos ? script : script.substr(0, at)};
}

std::string csp_hash(std::string_view script) {
  const Sha256Digest digest = sha256(std::as_bytes(std::span{script}));
  return "'sha256-" + to_base64(std::as_bytes(std::span{digest})) + "'";
}

/// Replaces the placeholders of the template. Inserted text is not scanned again.
std::string filled(std::string_view skeleton, const std::map<std::string, std::string, std::less<>>& parts) {
  std::string out;
  while (!skeleton.empty()) {
    const std::size_t begin = skeleton.find("{{"), end = skeleton.find("}}", begin);
    out.append(skeleton.substr(0, begin));
    if (end == std::string_view::npos) break;
    out += parts.at(std::string{skeleton.substr(begin + 2, end - begin - 2)});
    skeleton.remove_prefix(end + 2);
  }
  return out;
}

std::string render(const ReportData& data, const PageBudget& budget) {
  BudgetShares shares{budget, data.graphs.size()};
  json graphs = json::array();
  std::string articles, choices;
  for (std::size_t g = 0; g < data.graphs.size(); ++g) {
    std::optional<Moves> moves;
    graphs.push_back(graph_json(data.graphs[g], shares, moves));
    articles += graph_section(data.graphs[g], g, data, moves);
    choices += element("option", shown(data.graphs[g].name, 80), fmt::format(R"(value="{}")", g));
  }
  std::string body = "<header>\n<h1><span>emplace report</span> " + shown(data.run, 80) + "</h1>\n";
  if (data.in_progress)
    body +=
        "<p class=\"going-on\" role=\"status\">This run was still in progress when the page was written (" +
        escaped(data.written) + "): the page shows its state at that time.</p>\n";
  if (data.graphs.size() > 1)
    body += "<p><label>Graph <select id=\"choose-graph\">" + choices + "</select></label> " +
            plural(data.graphs.size(), "graph") + "</p>\n";
  body += "</header>\n<main>\n" + articles + provenance_section(data) + "</main>\n";
  const std::string dygraphs = without_source_map(page::kDygraphs), script{page::kScript};
  return filled(page::kHtml, {{"hashes", csp_hash(dygraphs) + " " + csp_hash(script)},
                              {"title", "emplace report: " + shown(data.run, 80)},
                              {"css", std::string{page::kCss}},
                              {"body", std::move(body)},
                              {"data", inert({{"graphs", std::move(graphs)}})},
                              {"dygraphs", dygraphs},
                              {"script", script}});
}

}  // namespace

std::string render_report(const ReportData& data) {
  PageBudget budget;
  for (;;) {
    std::string page = render(data, budget);
    if (page.size() <= kMaxBytes || budget.blocks < 1'000) return page;
    for (std::size_t* part :
         {&budget.blocks, &budget.name_bytes, &budget.scopes, &budget.edges, &budget.memory_levels})
      *part = *part * 3 / 4;
  }
}

}  // namespace emplace::record

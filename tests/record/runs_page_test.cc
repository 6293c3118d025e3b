// Goal: the page of several runs contains each run and its curve, stays below its size with any number of
// runs, and no name can become markup. Method: pages of synthetic runs, their data read back as by the page's
// script.
#include "record/report/runs_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text/words.h"

namespace emplace::record {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

RunRow made_up_run(int number, std::size_t points) {
  RunRow run;
  run.name = "run-" + std::to_string(number), run.directory = "/runs/" + run.name;
  run.method = number % 2 == 0 ? "ppo" : "hierarchical", run.graph = number % 3 == 0 ? "gnmt" : "resnet";
  run.machine = "4 x h100", run.state = "ended";
  run.entropy = "0.69 0.02";
  run.best_s = 0.2 + 0.01 * number, run.bound_s = 0.15, run.heuristic_s = 0.25;
  run.measurements = 1'000 + static_cast<std::uint64_t>(number), run.wall_s = 60;
  for (std::size_t i = 0; i < points; ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(points);
    run.curve.push_back({60 * share, run.best_s + 0.2 * (1 - share)});
  }
  return run;
}

json runs_in(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(open) + open.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::size_t elements_in(const std::string& page) {
  std::size_t count = 0;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) ++count;
  return count;
}

TEST(RunsPage, ContainsEachRunAndItsCurve) {
  std::vector<RunRow> runs;
  for (int i = 0; i < 6; ++i) runs.push_back(made_up_run(i, 2'000));
  const std::string page = render_runs(runs);
  const json data = runs_in(page);
  EXPECT_EQ(data["left_out"], 0);
  ASSERT_EQ(data["runs"].size(), 6u);
  const json& run = data["runs"][3];
  EXPECT_EQ(run["name"], "run-3");
  EXPECT_EQ(run["best"], 230'000'000);
  EXPECT_EQ(run["entropy"], "0.69 0.02");
  EXPECT_EQ(run["wall"], 60'000);
  EXPECT_LE(run["at"].size(), 400u);
  EXPECT_GT(run["at"].size(), 300u);
  EXPECT_EQ(run["at"].back(), 60'000) << "the last point is never left out";
  EXPECT_EQ(run["best_at"].back(), 230'000'000);
  for (const char* loader : {" src=", " href=", "@import", "url(", "<link", "<iframe", "sourceMappingURL"})
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(RunsPage, StaysBelowItsSizeWithAnyNumberOfRuns) {
  std::vector<RunRow> runs;
  for (int i = 0; i < 1'500; ++i) runs.push_back(made_up_run(i, 400));
  const std::string page = render_runs(runs);
  EXPECT_LT(page.size(), 5'000'000u);
  EXPECT_EQ(runs_in(page)["runs"].size(), 1'500u) << "curves become coarser first";
  for (RunRow& run : runs) run.name = run.directory = run.method = run.graph = std::string(1'000, '<');
  const std::string large = render_runs(runs);
  EXPECT_LT(large.size(), 5'000'000u);
  const json data = runs_in(large);
  EXPECT_GT(data["runs"].size(), 100u);
  EXPECT_EQ(data["runs"].size() + data["left_out"].get<std::size_t>(), 1'500u);
}

TEST(RunsPage, EscapesNamesAndValues) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>\"'\xE2\x80\xA8\xFF";
  RunRow plain = made_up_run(1, 10), odd = plain;
  odd.name = odd.directory = odd.method = odd.graph = odd.machine = odd.state = odd.entropy = odd.warning =
      hostile;
  odd.best_s = std::numeric_limits<double>::quiet_NaN(), odd.bound_s = -1;
  odd.heuristic_s = std::numeric_limits<double>::infinity();
  odd.curve = {{-1, 0.3}, {1, 0}, {std::numeric_limits<double>::infinity(), 0.2}, {2, -5}, {1e300, 1e300}};
  const std::string page = render_runs({odd});
  EXPECT_EQ(elements_in(page), elements_in(render_runs({plain})));
  EXPECT_TRUE(is_utf8(page));
  const json run = runs_in(page)["runs"][0];
  EXPECT_EQ(run["best"], 0);
  EXPECT_EQ(run["at"].size(), run["best_at"].size());
  EXPECT_EQ(runs_in(render_runs({}))["runs"], json::array());
}

}  // namespace
}  // namespace emplace::record

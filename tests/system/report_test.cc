// Goal: `emplace report` explains any run: finished, in progress, on several graphs, without a feasible
// placement; and refuses other folders in one line, without output. Method: the built program; the page's
// data is read as by its script. tests/system/report_page_test.py loads it in a browser.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> quiet_run(const std::string& directory, std::vector<std::string> more = {}) {
  more.push_back("--quiet");
  return small_run(directory, more);
}

std::string text_of(const std::string& path) {
  std::ifstream in{path};
  return {std::istreambuf_iterator<char>{in}, {}};
}

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin), nullptr, false);
}

json reported(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "report");
  arguments.push_back("--json");
  const Finished done = run(arguments);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  return json::parse(done.out, nullptr, false);
}

TEST(ReportCommand, WritesTheSamePageAsTheRun) {
  const TemporaryFolder folder;
  const std::string directory = folder.at("run");
  const Finished ran = run(quiet_run(directory, {"--episodes", "12", "--json"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const std::string first = text_of(directory + "/report.html");
  ASSERT_FALSE(first.empty()) << "written at the end of the run";
  const json result = reported({directory, "-o", folder.at("again.html")});
  const std::string page = text_of(folder.at("again.html"));
  EXPECT_EQ(result["bytes"], page.size());
  EXPECT_FALSE(result["in_progress"].get<bool>());
  EXPECT_EQ(text_of(directory + "/report.html"), first) << "-o leaves the run's own page alone";
  EXPECT_LT(page.size(), 5'000'000u);
  EXPECT_THAT(page, HasSubstr("emplace run " + directory + "/config.toml")) << "how to repeat the run";

  // The command that the page shows for the best step time reproduces it.
  const std::size_t begin = page.find("<code>emplace ") + 14;
  std::istringstream words{page.substr(begin, page.find("</code>", begin) - begin)};
  std::vector<std::string> command{std::istream_iterator<std::string>{words}, {}};
  command.push_back("--json");
  const Finished again = run(command);
  ASSERT_EQ(again.status, 0) << again.err;
  const json measured = json::parse(again.out);
  EXPECT_EQ((command[0] == "place" ? measured["measured"] : measured)["step_time_s"],
            result["graphs"][0]["best_step_time_s"]);

  // So does the spread of the best row.
  const Finished noisy = run({"evaluate", command[1], directory + "/recommended.placement.json", "--devices",
                              kDevices, "--jitter", "5%", "--draws", "64", "--json"});
  ASSERT_EQ(noisy.status, 0) << noisy.err;
  const json spread = json::parse(noisy.out);
  const double share = spread["jitter"]["p95_s"].get<double>() / spread["step_time_s"].get<double>() - 1;
  const std::size_t best_row = page.find("<tr class=\"best\"");
  EXPECT_THAT(page.substr(best_row, page.find("</tr>", best_row) - best_row),
              HasSubstr(fmt::format("{}{:.{}f} %", share < 0 ? "" : "+", 100 * share,
                                    share != 0 && std::abs(share) < 0.00995 ? 1 : 0)));

  const json summary = json::parse(ran.out);
  const json graph = data_of(page)["graphs"][0];
  ASSERT_EQ(graph["curves"].size(), 2u) << "both starts";
  EXPECT_EQ(graph["curves"][0]["x"].back(), summary["starts"][0]["measurements"]);
  EXPECT_TRUE(graph["curves"][0]["wall"].is_array());
  EXPECT_EQ(graph["lines"].size(), summary["baseline_step_time_s"].size());
  EXPECT_EQ(graph["task"]["steps"].size(), 2u) << "what was learned, and the best heuristic";
  double best = 1e9;
  for (const json& start : summary["starts"]) best = std::min(best, start["best_step_time_s"].get<double>());
  EXPECT_EQ(graph["task"]["steps"][0]["end"], std::llround(best * 1e9));
  EXPECT_LE(result["graphs"][0]["best_step_time_s"].get<double>(), best);
}

/// The text of the cells with step times that fit, of all methods of a page.
std::vector<std::string> step_times(const std::string& page) {
  const std::string open = "<td class=\"wide\">", end = "</td>";
  std::vector<std::string> cells;
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at + 1))
    cells.push_back(page.substr(at, page.find(end, at) - at));
  return cells;
}

TEST(ReportCommand, EveryStepTimeOfMeasuredCostsHasItsError) {
  const TemporaryFolder folder;
  const std::vector<std::string> on_gpus{"--episodes", "4", "--set", "input.devices=h100 x 2"};
  ASSERT_EQ(run(quiet_run(folder.at("new"), on_gpus)).status, 0);
  const auto cells = step_times(text_of(folder.at("new") + "/report.html"));
  ASSERT_EQ(cells.size(), 6u) << "four heuristics and two starts";
  for (const std::string& cell : cells) EXPECT_THAT(cell, HasSubstr("s &plusmn; ")) << cell;

  std::vector<std::string> older = on_gpus;
  older.insert(older.end(), {"--set", "input.costs=1"});
  ASSERT_EQ(run(quiet_run(folder.at("old"), older)).status, 0);
  const auto without = step_times(text_of(folder.at("old") + "/report.html"));
  ASSERT_EQ(without.size(), 6u);
  for (const std::string& cell : without) EXPECT_EQ(cell.find("&plusmn;"), std::string::npos) << cell;
}

TEST(ReportCommand, RunSucceedsIfItsPageCannotBeWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.at("run") + "/report.html/in the way");
  const Finished done = run(quiet_run(folder.at("run"), {"--episodes", "2"}));
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("warning: "));
  EXPECT_THAT(done.err, HasSubstr("report.html: not written"));
}

TEST(ReportCommand, RunIsExplainedWithoutItsInputFiles) {
  const TemporaryFolder folder;
  const std::string graph = folder.at("graph.json");
  std::filesystem::copy_file(shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"), graph);
  ASSERT_EQ(run(quiet_run(folder.at("run"), {"--episodes", "4", "--set", "input.graph=" + graph})).status, 0);
  std::filesystem::remove(graph);
  reported({folder.at("run")});
  EXPECT_TRUE(data_of(text_of(folder.at("run") + "/report.html"))["graphs"][0]["task"].is_object());
}

TEST(ReportCommand, RunOfAnOlderVersionIsExplainedByItsFiles) {
  const TemporaryFolder folder;
  std::filesystem::copy(shipped("tests/fixtures/runs/schema3"), folder.at("run"));
  const json result = reported({folder.at("run")});
  EXPECT_EQ(result["graphs"][0]["graph"], "cifar10_cnn-bs128");
  const std::string page = text_of(folder.at("run") + "/report.html");
  EXPECT_NE(page.find("no heuristic is known"), std::string::npos)
      << "its config names a graph that is not here";
  EXPECT_NE(page.find("The schedule cannot be drawn"), std::string::npos);
  EXPECT_FALSE(data_of(page)["graphs"][0]["curves"][0]["x"].empty());
}

TEST(ReportCommand, RunInProgressIsReported) {
  const TemporaryFolder folder;
  Process running{quiet_run(folder.at("run"), {"--budget", "60s", "--log-level", "info"})};
  // Until its head has started there is no run, or one without a writer.
  json result;
  while (!result.is_object() || !result["in_progress"].get<bool>()) {
    const Finished done = run({"report", folder.at("run"), "-o", folder.at("page.html"), "--json"});
    if (done.status == 0) result = json::parse(done.out);
  }
  EXPECT_NE(text_of(folder.at("page.html")).find("was still in progress"), std::string::npos);
  running.send(SIGTERM);
  EXPECT_EQ(running.finish().status, 143);
  EXPECT_FALSE(reported({folder.at("run")})["in_progress"].get<bool>());
}

TEST(ReportCommand, RunInWhichNothingFitsIsExplained) {
  const TemporaryFolder folder;
  const std::string tiny =
      folder.file("tiny.toml", "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\nmemory = \"1MB\"\n");
  const Finished done = run(quiet_run(folder.at("run"), {"--set", "input.devices=" + tiny, "--episodes", "3",
                                                         "--set", "run.starts=[\"scratch\"]"}));
  EXPECT_EQ(done.status, 3) << done.err;
  const std::string page = text_of(folder.at("run") + "/report.html");
  EXPECT_THAT(page, HasSubstr("No feasible placement was found"));
  EXPECT_EQ(data_of(page)["graphs"][0]["lines"].size(), 0u);
}

TEST(ReportCommand, SeveralGraphsShareOnePage) {
  const TemporaryFolder folder;
  ASSERT_EQ(run({"generate", "cifar10", "--count", "3", "-o", folder.at("family"), "--quiet"}).status, 0);
  const Finished ran =
      run({"run", shipped("configs/papers/placeto/family-cifar10.toml"), "--run-dir", folder.at("run"),
           "--set", "input.graphs=[\"" + folder.at("family") + "/*\"]", "--episodes", "4", "--quiet"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const std::string page = text_of(folder.at("run") + "/report.html");
  EXPECT_EQ(data_of(page)["graphs"].size(), 3u);
  EXPECT_NE(page.find("choose-graph"), std::string::npos);
}

TEST(ReportCommand, RefusesOtherFoldersInOneLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& arguments, std::string_view with) {
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 2) << done.err;
    EXPECT_THAT(done.err, HasSubstr(with));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_TRUE(done.err.starts_with("error: ")) << done.err;
    EXPECT_EQ(done.out, "");
  };
  refused({"report"}, "RUN");
  refused({"report", folder.at("nothing")}, "holds no run");
  std::filesystem::create_directories(folder.at("broken"));
  folder.file("broken/run.db", "this is no database");
  refused({"report", folder.at("broken")}, "run.db");
  EXPECT_FALSE(std::filesystem::exists(folder.at("broken/report.html")));
  ASSERT_EQ(run(quiet_run(folder.at("run"), {"--episodes", "2"})).status, 0);
  refused({"report", folder.at("run"), "-o", folder.at("no/such/folder.html")}, "folder.html");
}

}  // namespace
}  // namespace emplace::testing

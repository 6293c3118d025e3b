// Goal: `emplace runs` lists and compares real runs, finished and in progress. Method: the built program;
// runs of the small graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text/words.h"
#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::json;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Process;
using testing::run;
using testing::small_run;
using testing::TemporaryFolder;

TEST(Runs, ListsAndComparesRuns) {
  const TemporaryFolder folder;
  const std::vector<std::string> quick{"--json",   "--quiet", "--set", "run.starts=[\"scratch\"]",
                                       "--budget", "2s"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), quick.begin(), quick.end());
    return more;
  };
  const Finished first = run(small_run(folder.at("first"), quick));
  ASSERT_EQ(first.status, 0) << first.err;
  const Finished second =
      run(small_run(folder.at("second"), with({"--set", "policy.method=spotlight", "--seed", "2"})));
  ASSERT_EQ(second.status, 0) << second.err;
  folder.file("broken.db", "");
  std::filesystem::create_directory(folder.at("broken"));
  folder.file("broken/run.db", "not a database");
  Process live{small_run(folder.at("live"), {"--set", "run.starts=[\"scratch\"]", "--budget", "300s"})};
  ASSERT_TRUE(live.wait_for_error_text("best 1"));

  const Finished listed = run({"runs", folder.path().string(), "--json", "--sort", "name"});
  ASSERT_EQ(listed.status, 0) << listed.err;
  const json runs = json::parse(listed.out)["runs"];
  ASSERT_EQ(runs.size(), 4u) << listed.out;
  const json& a = runs[0];
  const json summary = json::parse(first.out);
  EXPECT_EQ(a["name"], "first");
  EXPECT_EQ(a["state"], "ended");
  EXPECT_EQ(a["measurements"], summary["measurements"]);
  EXPECT_EQ(a["graphs"][0]["best_step_time_s"], summary["best_step_time_s"]);
  EXPECT_EQ(a["graphs"][0]["lower_bound_s"], summary["lower_bound_s"]);
  EXPECT_GT(a["graphs"][0]["best_after_s"], 0);
  EXPECT_LT(a["graphs"][0]["best_after_s"], 60);
  EXPECT_EQ(runs[1]["name"], "live");
  EXPECT_EQ(runs[1]["state"], "in progress");
  EXPECT_EQ(runs[2]["method"], "spotlight");
  EXPECT_EQ(runs[3]["state"], "unreadable");

  const std::string page = folder.at("page.html");
  const Finished compared = run({"runs", folder.at("first"), folder.at("second"), "-o", page});
  ASSERT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("VS HEURISTIC"));
  EXPECT_THAT(compared.out, HasSubstr("configs differ in: "));
  EXPECT_THAT(compared.out, HasSubstr(" policy.method,"));
  EXPECT_THAT(compared.out, HasSubstr(" run.seed\n")) << "and not in where they are";
  EXPECT_THAT(std::string{text_of(*read_file(page))}, HasSubstr("spotlight"));
  live.send(SIGINT);
  EXPECT_EQ(live.finish().status, 130);
  const Finished after = run({"runs", folder.at("live"), "--json"});
  EXPECT_EQ(json::parse(after.out)["runs"][0]["state"], "interrupted");
}

TEST(Runs, BadInputIsRefusedInOneLine) {
  const TemporaryFolder folder;
  for (const auto& [arguments, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{folder.at("nowhere")},
            "nowhere: is no folder; give the directory of a run, or a folder of runs"},
           {{folder.path().string(), "--sort", "besst"}, "did you mean 'best'?"},
           {{folder.path().string(), "-o", folder.at("no/such/folder/x.html")}, "x.html"}}) {
    std::vector<std::string> words{"runs"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Finished done = run(words);
    EXPECT_EQ(done.status, 2) << text;
    EXPECT_THAT(done.err, HasSubstr(text));
    EXPECT_EQ(done.err.find('\n'), done.err.size() - 1) << done.err;
  }
  const Finished none = run({"runs", folder.path().string()});
  EXPECT_EQ(none.status, 0);
  EXPECT_THAT(none.err, HasSubstr("no runs in "));
  const Finished json_of_none = run({"runs", folder.path().string(), "--json"});
  EXPECT_EQ(json::parse(json_of_none.out)["runs"], json::array());
}

}  // namespace
}  // namespace emplace

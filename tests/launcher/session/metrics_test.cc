// Goal: Prometheus accepts the metrics, and the dashboard asks only for metrics that exist. Method: values of
// progress written by the test; promtool, Prometheus's checker, where it is installed; otherwise the names in
// the queries of the dashboard are compared with the metrics.
#include "launcher/session/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

messages::RunProgress learning_run() {
  messages::RunProgress now;
  now.dispatch.elapsed_s = 12.5;
  now.dispatch.measurements = 8;
  now.dispatch.valid = 7;
  now.dispatch.refused_results = 3;
  now.dispatch.in_flight = 2;
  now.dispatch.best_step_time_s = 0.25;
  now.dispatch.leases = {.issued = 15, .counted = 8, .open = 2, .expired = 4, .refused = 1};
  now.dispatch.executors.resize(2);
  now.dispatch.executors[0].credit = 3;
  now.dispatch.executors[1].credit = 4;
  now.dispatch.executors_wanted = 5;
  now.record.staleness = 0.1;
  now.duplicated = 1;
  return now;
}

/// Output and exit status of a command.
struct ShellResult {
  int status = -1;
  std::string text;
};
ShellResult shell_line(const std::string& command) {
  ShellResult ran;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    ran.text.append(block.data(), n);
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}
bool has_promtool() { return shell_line("command -v promtool").status == 0; }

std::filesystem::path written(const testing::ScratchFolder& folder, const char* name,
                              const std::string& text) {
  const std::filesystem::path file = folder.path() / name;
  std::ofstream{file} << text;
  return file;
}

TEST(Metrics, ContainEveryCounterOnce) {
  messages::RunProgress now = learning_run();
  const std::string text = metrics_text(now);
  EXPECT_THAT(text, HasSubstr("\n# TYPE emplace_measurements_total counter\nemplace_measurements_total 8\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_refused_results_total 3\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_duplicated_measurements_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_update_staleness_versions 0.1\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_executors 2\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_executors_wanted 5\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_executor_credits 7\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_leases_issued_total 15\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_leases_ended_total{outcome=\"expired\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_leases_open 2\n"));
  EXPECT_THAT(text, HasSubstr("\nemplace_run_ending 0\n"));
  now.dispatch.ending = "budget";
  EXPECT_THAT(metrics_text(now), HasSubstr("\nemplace_run_ending 1\n"));
}

TEST(Metrics, OmitUnknownValues) {
  messages::RunProgress now = learning_run();
  now.dispatch.best_step_time_s = 0;
  now.record.staleness = now.utilisation = std::numeric_limits<double>::quiet_NaN();
  const std::string text = metrics_text(now);
  EXPECT_THAT(text, Not(HasSubstr("staleness")));
  EXPECT_THAT(text, Not(HasSubstr("null"))) << "Prometheus would refuse the whole text";
  EXPECT_THAT(text, Not(HasSubstr("best_step_time"))) << "0 would be the best of all";
  EXPECT_THAT(text, HasSubstr("\nemplace_executors 2\n"));
}

// promtool also reads the names: base units, `_total` on counters only, a help text for each.
TEST(Metrics, FollowTheRulesOfPrometheus) {
  if (!has_promtool()) GTEST_SKIP() << "promtool is not installed (package prometheus)";
  const testing::ScratchFolder folder{"metrics"};
  const auto check = [&](const std::string& text) {
    return shell_line("promtool check metrics < " + written(folder, "metrics.prom", text).string());
  };
  const ShellResult checked = check(metrics_text(learning_run()));
  EXPECT_EQ(checked.status, 0) << checked.text;
  EXPECT_EQ(checked.text, "");
  const ShellResult empty = check(metrics_text({}));
  EXPECT_EQ(empty.status, 0) << empty.text;
  EXPECT_EQ(empty.text, "");
  EXPECT_NE(check("# TYPE emplace_leases counter\nemplace_leases 1\n").status, 0) << "promtool finds errors";
}

// The dashboard of configs/grafana.

/// Metrics by name, each with the values of its labels.
using Samples = std::map<std::string, std::map<std::string, std::set<std::string>>>;

Samples samples_of(const std::string& text) {
  Samples samples;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t brace = line.find('{');
    auto& labels = samples[line.substr(0, std::min(brace, line.find(' ')))];
    labels["job"] = labels["instance"] = {};  // Prometheus adds them.
    if (brace == std::string::npos) continue;
    const std::size_t equals = line.find('=', brace), quote = line.find('"', equals + 2);
    labels[line.substr(brace + 1, equals - brace - 1)].insert(line.substr(equals + 2, quote - equals - 2));
  }
  return samples;
}

/// Returns the metrics and labels of a query that do not exist. Reads only as much of PromQL as it takes to
/// distinguish metrics, labels and functions.
std::vector<std::string> unknown_names(const std::string& query, const Samples& samples) {
  std::vector<std::string> unknown;
  // The query may group by labels of the metrics that it names.
  std::set<std::string> labels;
  std::vector<std::string> grouped;
  std::string metric, word;
  bool matchers = false, grouping = false;
  for (std::size_t i = 0; i < query.size(); ++i) {
    const char c = query[i];
    if (c == '"') {
      i = query.find('"', i + 1);
    } else if (c == '[') {
      i = query.find(']', i);
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      std::size_t end = i;
      while (end < query.size() &&
             (std::isalnum(static_cast<unsigned char>(query[end])) != 0 || query[end] == '_'))
        ++end;
      word = query.substr(i, end - i);
      i = end - 1;
      const std::size_t next = query.find_first_not_of(' ', end);
      const bool called = next != std::string::npos &&
                          (query[next] == '(' || query.compare(next, 3, "by ") == 0);  // rate(…, sum by (…
      if (matchers) {
        if (!samples.contains(metric) || !samples.at(metric).contains(word))
          unknown.push_back(metric + "{" + word + "}");
      } else if (grouping) {
        grouped.push_back(word);
      } else if (!called && word != "by") {
        metric = word;
        if (!samples.contains(metric)) {
          unknown.push_back(metric);
        } else {
          for (const auto& [label, values] : samples.at(metric)) labels.insert(label);
        }
      }
    } else if (c == '(') {
      grouping = word == "by" || word == "without" || word == "on" || word == "ignoring";
      word.clear();
    } else if (c == ')') {
      grouping = false;
    } else if (c == '{' || c == '}') {
      matchers = c == '{';
    }
  }
  for (const std::string& label : grouped)
    if (!labels.contains(label)) unknown.push_back("by (" + label + ")");
  return unknown;
}

/// Returns the text with each `from` replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

struct Query {
  std::string panel, text, legend;
};

/// Returns every query of the dashboard, with Grafana's variables filled in.
std::vector<Query> dashboard_queries() {
  std::ifstream file{EMPLACE_SOURCE_DIR "/configs/grafana/emplace.json"};
  const json dashboard = json::parse(file);
  const auto filled = [](const json& text) {
    return replaced(replaced(replaced(text, "$__rate_interval", "1m"), "$job", ".*"), "$instance", ".*");
  };
  std::vector<Query> queries;
  for (const json& variable : dashboard["templating"]["list"]) {
    if (variable["type"] != "query") continue;
    const std::string text = filled(variable["definition"]);
    const std::size_t comma = text.rfind(", ");  // label_values(METRIC, LABEL)
    EXPECT_TRUE(text.starts_with("label_values(")) << text;
    EXPECT_EQ(variable["query"]["query"], variable["definition"]);
    queries.push_back({variable["name"],
                       "max by (" + text.substr(comma + 2, text.size() - comma - 3) + ") (" +
                           text.substr(13, comma - 13) + ")",
                       ""});
  }
  for (const json& panel : dashboard["panels"])
    for (const json& target : panel["targets"])
      queries.push_back({panel["title"], filled(target["expr"]), target.value("legendFormat", "")});
  return queries;
}

TEST(Dashboard, UsesOnlyMetricsAndLabelsOfARun) {
  const Samples samples = samples_of(metrics_text(learning_run()));
  std::set<std::string> shown;
  for (const Query& query : dashboard_queries()) {
    EXPECT_THAT(unknown_names(query.text, samples), ::testing::IsEmpty())
        << query.panel << ": " << query.text;
    for (const auto& [metric, labels] : samples)
      if (query.text.find(metric + "{") != std::string::npos) shown.insert(metric);
    const std::size_t open = query.legend.find("{{");
    if (open == std::string::npos) continue;
    const std::string label = query.legend.substr(open + 2, query.legend.find("}}") - open - 2);
    EXPECT_THAT(unknown_names("max by (" + label + ") (" + query.text + ")", samples), ::testing::IsEmpty())
        << query.panel << ": " << query.legend;
  }
  for (const auto& [metric, labels] : samples)
    EXPECT_TRUE(shown.contains(metric)) << metric << " is not shown";
}

TEST(Dashboard, UnknownMetricsAndLabelsAreFound) {
  const Samples samples = samples_of(metrics_text(learning_run()));
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"emplace_executors", {}},
      {"sum by (outcome) (rate(emplace_leases_ended_total{job=~\"a|b\"}[1m]))", {}},
      {"emplace_leases", {"emplace_leases"}},
      {"rate(emplace_measurement_total{job=\"x\"}[1m])",
       {"emplace_measurement_total", "emplace_measurement_total{job}"}},
      {"emplace_executors{outcome=\"x\"}", {"emplace_executors{outcome}"}},
      {"sum by (state) (emplace_leases_ended_total)", {"by (state)"}},
      {"emplace_executors / emplace_wanted", {"emplace_wanted"}},
  };
  for (const auto& [query, names] : cases) EXPECT_EQ(unknown_names(query, samples), names) << query;
}

// Prometheus itself evaluates each query over a scrape of a run; each must have a result.
TEST(Dashboard, EveryQueryHasAResult) {
  if (!has_promtool()) GTEST_SKIP() << "promtool is not installed (package prometheus)";
  json series = json::array(), wanted = json::array();
  for (const auto& [metric, labels] : samples_of(metrics_text(learning_run()))) {
    const std::string common = "{job=\"emplace\",instance=\"head:9090\"";
    bool plain = true;
    for (const auto& [label, values] : labels) {
      for (const std::string& value : values) {
        series.push_back(
            {{"series", metric + common + "," + label + "=\"" + value + "\"}"}, {"values", "1+1x20"}});
        plain = false;
      }
    }
    if (plain) series.push_back({{"series", metric + common + "}"}, {"values", "1+1x20"}});
  }
  for (const Query& query : dashboard_queries())
    wanted.push_back(
        {{"expr", "absent(" + query.text + ")"}, {"eval_time", "5m"}, {"exp_samples", json::array()}});
  const testing::ScratchFolder folder{"dashboard"};
  const auto evaluate = [&] {
    const json file{
        {"evaluation_interval", "15s"},
        {"tests",
         json::array({{{"interval", "15s"}, {"input_series", series}, {"promql_expr_test", wanted}}})}};
    return shell_line("promtool test rules " + written(folder, "queries.json", file.dump()).string());
  };
  const ShellResult good = evaluate();
  EXPECT_EQ(good.status, 0) << good.text;
  series.erase(0);
  EXPECT_NE(evaluate().status, 0) << "a missing metric is not found";
}

}  // namespace
}  // namespace emplace::launcher

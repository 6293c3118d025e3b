// Goal: the screen of `emplace top` shows what a user needs at any size, follows the selection through
// changes, and shows no control character of a name. Method: statuses, keys and sizes made by the test; the
// lines are compared.
#include "launcher/screen/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace emplace::launcher {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Kind = Key::Kind;

const Terminal kPlain{.is_tty = true};
constexpr ScreenSize kSize{.rows = 24, .columns = 140};

messages::NodeStatus node(const std::string& name, double utilisation = 0, std::uint64_t waiting = 0) {
  messages::NodeStatus node;
  node.report.node = name;
  node.report.host = "host-of-" + name;
  node.report.version = "0.2.0";
  node.report.pid = 4'711;
  node.report.uptime_s = 60;
  node.report.actors = {{.name = "executor/" + name, .handled = 100, .waiting = waiting}};
  node.executors = 1;
  node.utilisation = utilisation;
  return node;
}

messages::StatusDelivered run_of(std::vector<messages::NodeStatus> nodes) {
  messages::StatusDelivered status;
  status.run = "runs/nmt";
  status.start = "scratch";
  status.method = "hierarchical";
  status.graph = "nmt-2layer";
  messages::DispatchProgress& dispatch = status.progress.dispatch;
  dispatch.elapsed_s = 12.5;
  dispatch.measurements = 12'345;
  dispatch.valid = 12'000;
  dispatch.best_step_time_s = 0.4314;
  dispatch.executors_wanted = 12;
  dispatch.leases = {.issued = 400, .counted = 390, .open = 8, .expired = 2, .refused = 0};
  status.progress.record.updates = 40;
  status.evaluations_per_s = 250.25;
  status.nodes = std::move(nodes);
  for (const messages::NodeStatus& one : status.nodes)
    dispatch.executors.push_back({.executor = one.report.actors[0].name,
                                  .utilisation = 0.9,
                                  .placements = 77,
                                  .in_flight = 3,
                                  .credit = 5});
  dispatch.in_flight = 9;
  return status;
}

struct ScreenFixture {
  Nanos now{0};
  TopScreen top{"ipc:///run/head.ipc", kPlain};
  ScreenFixture() = default;
  explicit ScreenFixture(messages::StatusDelivered status) { top.update(std::move(status), now); }
  void type(const std::string& text) {
    for (const char c : text) top.press({Kind::kText, std::string{c}});
  }
  void press(Kind kind) { top.press({kind, ""}); }
  std::vector<std::string> lines(ScreenSize size = kSize) { return top.lines(size, now); }
  std::string text(ScreenSize size = kSize) {
    std::string all;
    for (const std::string& line : lines(size)) all += line + "\n";
    return all;
  }
  /// Names in the first column, in the order of the rows; "> " marks the selected one.
  std::vector<std::string> rows(ScreenSize size = kSize) {
    std::vector<std::string> names;
    bool table = false;
    const std::vector<std::string> all = lines(size);
    for (std::size_t i = 0; i + 1 < all.size() && !(table && all[i].empty()); ++i) {
      if (table) names.push_back(all[i].substr(0, all[i].find(' ', 2)));
      table |= all[i].starts_with("  NODE") || all[i].starts_with("  ACTOR");
    }
    return names;
  }
};

TEST(TopScreen, ShowsTheRunAndItsNodes) {
  ScreenFixture screen{run_of({node("head", 0.25), node("rack7", 0.93, 3)})};
  screen.top.know({.budget_s = 60, .bound_s = 0.3251, .heuristic = "scotch", .heuristic_s = 0.4474});
  const std::vector<std::string> lines = screen.lines();
  EXPECT_THAT(lines, SizeIs(24));
  EXPECT_EQ(lines[0], "runs/nmt  hierarchical on nmt-2layer");
  EXPECT_EQ(lines[1], "scratch  12.5 s of 60.0 s  best 431.4 ms (-3.6 % vs scotch, 32.7 % above the bound)");
  EXPECT_EQ(lines[2],
            "placements 12,345, 97 % fit, 250.2/s  in flight 9  updates 40, staleness 0.0  disk waits 0 s");
  EXPECT_EQ(lines[3],
            "executors 2 joined, 12 wanted, busy 0 %  leases 400: 8 open, 390 counted, 2 expired, 0 refused");
  EXPECT_EQ(lines[4], "nodes 1-2 of 2, sorted by node");
  EXPECT_EQ(screen.rows(), (std::vector<std::string>{"> head", "  rack7"}));
  EXPECT_THAT(lines[7], HasSubstr(" 93 % "));
  EXPECT_THAT(lines.back(), StartsWith("enter opens a node"));
}

TEST(TopScreen, ShowsTheIdleReason) {
  messages::StatusDelivered idle = run_of({node("head")});
  idle.progress.dispatch.executors.clear();
  ScreenFixture screen{idle};
  EXPECT_THAT(screen.lines()[4], StartsWith("nothing runs because all executors have left"));
  ScreenFixture busy{run_of({node("head")})};
  EXPECT_THAT(busy.text(), Not(HasSubstr("nothing runs")));
  busy.now += std::chrono::seconds{7};
  EXPECT_THAT(busy.lines()[4], StartsWith("nothing runs because the head has not answered for 7 s"));
}

TEST(TopScreen, NamesTheAddressBeforeTheFirstAnswer) {
  ScreenFixture screen;
  EXPECT_THAT(screen.lines()[0], StartsWith("waiting for ipc:///run/head.ipc to answer"));
  for (const Kind kind : {Kind::kUp, Kind::kEnter, Kind::kEscape, Kind::kEnd, Kind::kPageDown})
    screen.press(kind);
  screen.type("srp/x");
  EXPECT_THAT(screen.top.summary(screen.now), IsEmpty());
  screen.press(Kind::kEscape);
  screen.type("q");
  EXPECT_TRUE(screen.top.done());
}

TEST(TopScreen, FitsAnySize) {
  std::vector<messages::NodeStatus> nodes;
  for (int i = 0; i < 300; ++i) nodes.push_back(node("rack" + std::to_string(i)));
  ScreenFixture screen{run_of(nodes)};
  for (const auto prepare :
       {+[](ScreenFixture&) {}, +[](ScreenFixture& s) { s.press(Kind::kEnter); },
        +[](ScreenFixture& s) { s.press(Kind::kEnter); }, +[](ScreenFixture& s) { s.type("?"); }}) {
    prepare(screen);
    for (std::size_t rows = 0; rows < 40; ++rows) {
      for (std::size_t columns : {0, 1, 2, 7, 20, 39, 40, 79, 80, 200, 500}) {
        const std::vector<std::string> lines = screen.lines({rows, columns});
        EXPECT_EQ(lines.size(), std::max<std::size_t>(rows, 1));
        for (const std::string& line : lines)
          EXPECT_LE(display_width(line), columns) << rows << "x" << columns << ": " << line;
      }
    }
  }
  ScreenFixture small{run_of(nodes)};
  EXPECT_THAT(small.rows({8, 80}), SizeIs(3)) << "the table comes before facts of the run";
  EXPECT_EQ(small.rows({5, 80}).front(), "> rack0");
}

TEST(TopScreen, SelectionFollowsItsNodeAndStaysVisible) {
  std::vector<messages::NodeStatus> nodes;
  for (int i = 100; i < 200; ++i) nodes.push_back(node("n" + std::to_string(i), (i * 37 % 100) / 100.0));
  ScreenFixture screen{run_of(nodes)};
  for (int i = 0; i < 30; ++i) screen.press(Kind::kDown);
  EXPECT_THAT(screen.rows(), Contains("> n130"));
  screen.type("s");  // Sorted by use, n130 is the tenth from below.
  EXPECT_THAT(screen.rows(), Contains("> n130"));
  screen.type("r");
  EXPECT_THAT(screen.rows(), Contains("> n130"));
  nodes.erase(nodes.begin(), nodes.begin() + 20);
  screen.top.update(run_of(nodes), screen.now);
  EXPECT_THAT(screen.rows(), Contains("> n130"));
  screen.press(Kind::kEnd);
  const std::vector<std::string> last = screen.rows();
  EXPECT_THAT(last.back(), StartsWith("> "));
  screen.top.update(run_of({node("only")}), screen.now);
  EXPECT_EQ(screen.rows(), (std::vector<std::string>{"> only"})) << "its node has left";
  screen.top.update(run_of({}), screen.now);
  EXPECT_THAT(screen.rows(), IsEmpty());
  screen.press(Kind::kEnter);
  screen.press(Kind::kUp);
  EXPECT_THAT(screen.text(), HasSubstr("nodes 0 of 0"));
}

TEST(TopScreen, PagingStopsAtTheFirstAndLastRow) {
  std::vector<messages::NodeStatus> nodes;
  for (int i = 1'000; i < 1'100; ++i) nodes.push_back(node("n" + std::to_string(i)));
  ScreenFixture screen{run_of(nodes)};
  const std::size_t page = screen.rows().size();
  ASSERT_EQ(page, 17u);
  screen.press(Kind::kPageDown);
  EXPECT_THAT(screen.rows(), Contains("> n1017"));
  screen.type("G");
  EXPECT_EQ(screen.rows().back(), "> n1099");
  screen.press(Kind::kPageDown);
  screen.type("j");
  EXPECT_EQ(screen.rows().back(), "> n1099");
  screen.type("g");
  EXPECT_EQ(screen.rows().front(), "> n1000");
  screen.press(Kind::kPageUp);
  screen.type("k");
  EXPECT_EQ(screen.rows().front(), "> n1000");
}

TEST(TopScreen, SortsByEachKeyAndReverses) {
  std::vector<messages::NodeStatus> nodes{node("a", 0.1, 5), node("b", 0.9, 1), node("c", 0.5, 9)};
  nodes[0].evaluations_per_s = 7, nodes[1].evaluations_per_s = 5, nodes[2].evaluations_per_s = 6;
  nodes[1].restarts = 3, nodes[2].age_s = 8;
  ScreenFixture screen{run_of(nodes)};
  const auto order = [&] {
    std::string all;
    for (const std::string& row : screen.rows()) all += row.substr(2);
    return all;
  };
  const std::vector<std::pair<std::string, std::string>> sorts{
      {"sorted by node", "abc"},  {"sorted by busy", "bca"},     {"sorted by evals/s", "acb"},
      {"sorted by queue", "cab"}, {"sorted by restarts", "bac"}, {"sorted by last seen", "cab"},
      {"sorted by node", "abc"}};
  for (const auto& [title, names] : sorts) {
    EXPECT_THAT(screen.text(), HasSubstr(title));
    EXPECT_EQ(order(), names) << title;
    screen.type("s");
  }
  EXPECT_EQ(order(), "bca");
  screen.type("r");
  EXPECT_EQ(order(), "acb");
  EXPECT_THAT(screen.text(), HasSubstr("sorted by busy, reversed"));
  EXPECT_THAT(screen.text(), HasSubstr("BUSY▲"));
}

TEST(TopScreen, FiltersByNameHostAndRole) {
  ScreenFixture screen{run_of({node("head"), node("rack7"), node("Rack8")})};
  screen.type("/rack");
  EXPECT_EQ(screen.rows(), (std::vector<std::string>{"> Rack8", "  rack7"}));
  EXPECT_THAT(screen.lines().back(), StartsWith("show rows with: rack_"));
  screen.type("sq");  // While text is typed, letters are no commands.
  EXPECT_THAT(screen.rows(), IsEmpty());
  EXPECT_FALSE(screen.top.done());
  screen.press(Kind::kBackspace);
  screen.press(Kind::kBackspace);
  screen.press(Kind::kEnter);
  EXPECT_THAT(screen.rows(), SizeIs(2));
  EXPECT_THAT(screen.text(), HasSubstr("1-2 of 2 that match, 3 in all"));
  screen.press(Kind::kEscape);
  EXPECT_THAT(screen.rows(), SizeIs(3));
  screen.type("/host-of-head");
  EXPECT_THAT(screen.rows(), SizeIs(1));
  screen.press(Kind::kEscape);
  EXPECT_THAT(screen.rows(), SizeIs(3));
  screen.type("/executor");
  EXPECT_THAT(screen.rows(), SizeIs(3));
  screen.type(std::string(500, 'x'));
  EXPECT_THAT(screen.lines(), Each(Not(HasSubstr(std::string(100, 'x'))))) << "a pasted text";
  screen.press(Kind::kEscape);
  screen.top.press({Kind::kText, "ä"});
  screen.type("/");
  screen.top.press({Kind::kText, "ä"});
  screen.press(Kind::kBackspace);
  EXPECT_THAT(screen.rows(), SizeIs(3)) << "one key removes one character";
}

TEST(TopScreen, OpensANodeAndAnActor) {
  messages::NodeStatus rack = node("rack7", 0.9, 2);
  rack.report.actors.push_back({.name = "node/12", .handled = 5});
  rack.report.actors[0].restarts = 2;
  rack.report.actors[0].last_error = "the device is lost: " + std::string(300, 'e');
  ScreenFixture screen{run_of({node("head"), rack})};
  screen.press(Kind::kDown);
  screen.press(Kind::kEnter);
  EXPECT_THAT(screen.text(), HasSubstr("node rack7 on host-of-rack7, 0.2.0, pid 4711, up 60 s, 2 restarts"));
  EXPECT_EQ(screen.rows(), (std::vector<std::string>{"> executor/rack7", "  node/12"}));
  EXPECT_THAT(screen.text(), HasSubstr("the device is lost: "));

  rack.report.uptime_s += 2;
  rack.report.actors[0].handled += 31;
  screen.top.update(run_of({node("head"), rack}), screen.now);
  EXPECT_THAT(screen.text(), HasSubstr(" 15.5 ")) << "messages a second";
  screen.top.update(run_of({node("head"), rack}), screen.now);
  EXPECT_THAT(screen.text(), HasSubstr(" 15.5 ")) << "the same report again";

  screen.press(Kind::kEnter);
  const std::string facts = screen.text();
  EXPECT_THAT(facts, HasSubstr("actor     executor/rack7\n"));
  EXPECT_THAT(facts, HasSubstr("handled   131, 15.5/s\n"));
  EXPECT_THAT(facts, HasSubstr("measured  77 placements, 3 in flight, 5 more accepted\n"));
  EXPECT_THAT(facts, HasSubstr("last error:\nthe device is lost: eee"));
  screen.type("/sr");
  screen.press(Kind::kDown);
  EXPECT_EQ(screen.text(), facts) << "keys of a table";

  screen.top.update(run_of({node("head")}), screen.now);
  EXPECT_THAT(screen.text(), HasSubstr("node rack7 does not take part any more; esc goes back"));
  EXPECT_THAT(screen.text(), HasSubstr("the actor does not take part any more"));
  screen.press(Kind::kEscape);
  screen.press(Kind::kBackspace);
  EXPECT_EQ(screen.rows(), (std::vector<std::string>{"> head"}));
  screen.press(Kind::kEscape);
  EXPECT_FALSE(screen.top.done()) << "only q quits";
}

TEST(TopScreen, PauseFreezesTheScreen) {
  ScreenFixture screen{run_of({node("head")})};
  screen.type("p");
  screen.now += std::chrono::seconds{5};
  screen.top.update(run_of({node("head"), node("rack7")}), screen.now);
  EXPECT_THAT(screen.rows(), SizeIs(1));
  EXPECT_THAT(screen.lines()[0], HasSubstr("PAUSED 5.0 s ago"));
  EXPECT_THAT(screen.text(), Not(HasSubstr("nothing runs"))) << "the head still answers";
  screen.press(Kind::kEnter);
  EXPECT_THAT(screen.rows(), SizeIs(1)) << "a frozen row can be opened";
  screen.press(Kind::kEscape);
  screen.type("p");
  EXPECT_THAT(screen.rows(), SizeIs(2));
  EXPECT_THAT(screen.lines()[0], Not(HasSubstr("PAUSED")));
  screen.type("pp");
  EXPECT_THAT(screen.rows(), SizeIs(2)) << "no status arrived meanwhile";
}

TEST(TopScreen, HelpStaysUntilAnyKeyIsPressed) {
  ScreenFixture screen{run_of({node("head")})};
  screen.type("?");
  EXPECT_THAT(screen.text(), HasSubstr("page up, page down"));
  screen.type("q");
  EXPECT_FALSE(screen.top.done());
  EXPECT_EQ(screen.rows(), (std::vector<std::string>{"> head"}));
}

TEST(TopScreen, EscapesControlCharactersOfNames) {
  const std::string bad = "\x1b]0;owned\x07\r\n\xff\xe2\x80\xae";
  messages::NodeStatus evil = node("rack" + bad);
  evil.report.host = evil.report.version = bad;
  evil.report.actors = {{.name = "executor/" + bad, .last_error = bad},
                        {.name = bad + "/1", .last_error = bad}};
  messages::StatusDelivered status = run_of({evil});
  status.run = status.start = status.graph = status.method = status.progress.dispatch.ending = bad;
  ScreenFixture screen{status};
  for (const auto step : {+[](ScreenFixture&) {}, +[](ScreenFixture& s) { s.press(Kind::kEnter); },
                          +[](ScreenFixture& s) { s.press(Kind::kEnter); },
                          +[](ScreenFixture& s) { s.top.update(run_of({}), s.now); }}) {
    step(screen);
    for (const std::string& line : screen.lines()) {
      EXPECT_EQ(line.find_first_of("\x1b\x07\r\n\xff"), std::string::npos) << line;
      EXPECT_EQ(line.find("\xe2\x80\xae"), std::string::npos) << line;
    }
  }
  for (const std::string& line : ScreenFixture{status}.top.summary(Nanos{0}))
    EXPECT_EQ(line.find_first_of("\x1b\x07\r\n\xff"), std::string::npos) << line;
}

TEST(TopScreen, FormatsOnlyTheVisibleRowsOfTenThousandNodes) {
  std::vector<messages::NodeStatus> nodes;
  for (int i = 0; i < 10'000; ++i) nodes.push_back(node("rack" + std::to_string(i), (i * 37 % 100) / 100.0));
  static std::size_t formatted = 0;
  using Table = ScreenTable<messages::NodeStatus>;
  Table table{
      {{"NODE", 20, false, 0, [](const messages::NodeStatus& n) { return ++formatted, n.report.node; }}},
      [](const messages::NodeStatus& n) -> const std::string& { return n.report.node; },
      [](const messages::NodeStatus& n) { return n.report.node; }};
  table.arrange(nodes);
  std::vector<std::string> lines;
  table.to_last(nodes);
  table.draw(lines, nodes, 20, 80, kPlain);
  EXPECT_EQ(lines.size(), 21u);
  EXPECT_EQ(formatted, 20u);
  ScreenFixture screen{run_of(std::move(nodes))};
  EXPECT_THAT(screen.text(), HasSubstr("nodes 1-17 of 10,000"));
}

TEST(TopScreen, ColoursMarkIdleReasonAndSelection) {
  messages::StatusDelivered idle = run_of({node("head")});
  idle.progress.dispatch.executors.clear();
  TopScreen top{"", Terminal{.is_tty = true, .colour = true}};
  top.update(idle, Nanos{0});
  const std::vector<std::string> lines = top.lines(kSize, Nanos{0});
  EXPECT_THAT(lines[4], StartsWith("\x1b[33mnothing runs"));
  EXPECT_THAT(lines, Contains(StartsWith("\x1b[1m> head")));
}

}  // namespace
}  // namespace emplace::launcher

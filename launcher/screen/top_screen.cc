#include "launcher/screen/top_screen.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text/counts.h"
#include "base/units.h"
#include "launcher/cluster/operator/idle_reason.h"
#include "launcher/cluster/operator/status_json.h"
#include "launcher/terminal/progress_text.h"

namespace emplace::launcher {
namespace {

using messages::ActorStatus;
using messages::NodeStatus;

constexpr std::size_t kMaxFilter = 80;

double seconds_since(Nanos then, Nanos now) { return std::chrono::duration<double>(now - then).count(); }

/// "12 s", "3 min", "2 h", "5 d".
std::string short_time(double seconds) {
  if (!(seconds >= 0)) return "-";
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7'200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 172'800) return fmt::format("{:.0f} h", seconds / 3'600);
  return fmt::format("{:.0f} d", seconds / 86'400);
}

std::string count_or_dash(bool known, std::uint64_t count) { return known ? thousands(count) : "-"; }
std::string busy_text(bool known, double share) { return known ? fmt::format("{:.0f} %", 100 * share) : "-"; }

std::vector<ScreenColumn<NodeStatus>> node_columns() {
  using N = const NodeStatus&;
  return {
      {"NODE", 20, false, 0, [](N n) { return printable(n.report.node, 60); }},
      {"HOST", 14, false, 8, [](N n) { return printable(n.report.host, 40); }},
      {"ROLES", 18, false, 11, &roles_text},
      {"UP", 7, true, 9, [](N n) { return short_time(n.report.uptime_s); }},
      {"EXEC", 4, true, 6, [](N n) { return count_or_dash(n.executors > 0, n.executors); }},
      {"BUSY", 6, true, 1, [](N n) { return busy_text(n.executors > 0, n.utilisation); },
       [](N n) { return n.executors > 0 ? n.utilisation : -1; }},
      {"EVALS/S", 8, true, 2,
       [](N n) { return n.executors > 0 ? fmt::format("{:.1f}", n.evaluations_per_s) : "-"; },
       [](N n) { return n.evaluations_per_s; }},
      {"IN FLIGHT", 9, true, 7, [](N n) { return count_or_dash(n.executors > 0, n.in_flight); }},
      {"CREDITS", 7, true, 10, [](N n) { return count_or_dash(n.executors > 0, n.credit); }},
      {"QUEUE", 6, true, 3, [](N n) { return thousands(queue_of(n)); },
       [](N n) { return static_cast<double>(queue_of(n)); }},
      {"RESTARTS", 8, true, 4, [](N n) { return thousands(restarts_of(n)); },
       [](N n) { return static_cast<double>(restarts_of(n)); }},
      {"LAST SEEN", 9, true, 5,
       [](N n) { return n.age_s < kSilent_s ? "now" : short_time(n.age_s) + " ago"; },
       [](N n) { return n.age_s; }},
      {"LAST ERROR", 12, false, 6, [](N n) { return printable(last_error_of(n), 200); }},
  };
}

std::vector<ScreenColumn<ActorRow>> actor_columns() {
  using A = const ActorRow&;
  return {
      {"ACTOR", 20, false, 0, [](A a) { return printable(a.status.name, 60); }},
      {"QUEUE", 7, true, 1, [](A a) { return thousands(a.status.waiting); },
       [](A a) { return static_cast<double>(a.status.waiting); }},
      {"HANDLED", 11, true, 2, [](A a) { return thousands(a.status.handled); },
       [](A a) { return static_cast<double>(a.status.handled); }},
      {"HANDLED/S", 9, true, 5, [](A a) { return fmt::format("{:.1f}", a.handled_per_s); },
       [](A a) { return a.handled_per_s; }},
      {"RESTARTS", 8, true, 3, [](A a) { return thousands(a.status.restarts); },
       [](A a) { return static_cast<double>(a.status.restarts); }},
      {"BUSY", 6, true, 6, [](A a) { return busy_text(a.executes, a.use.utilisation); },
       [](A a) { return a.executes ? a.use.utilisation : -1; }},
      {"IN FLIGHT", 9, true, 7, [](A a) { return count_or_dash(a.executes, a.use.in_flight); }},
      {"MEASURED", 9, true, 8, [](A a) { return count_or_dash(a.executes, a.use.placements); }},
      {"LAST ERROR", 12, false, 4, [](A a) { return printable(a.status.last_error, 200); }},
  };
}

const std::string& node_name(const NodeStatus& node) { return node.report.node; }
const std::string& actor_name(const ActorRow& row) { return row.status.name; }
std::string actor_text(const ActorRow& row) { return row.status.name; }

/// Splits a text into lines of at most `columns` columns.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
    if (starts && display_width(line) >= std::max<std::size_t>(columns, 1))
      lines.push_back(std::exchange(line, {}));
    line += c;
  }
  lines.push_back(std::move(line));
  return lines;
}

const std::vector<std::string> kHelp{
    "",
    "  up, down, k, j         select a row",
    "  page up, page down     one page up or down",
    "  home, end, g, G        the first or the last row",
    "  enter, right           open the selected node, then the selected actor",
    "  esc, backspace, left   back",
    "  s                      sort by the next column (marked ▼ or ▲)",
    "  r                      reverse the order",
    "  /                      show only rows that contain a text",
    "  p                      pause: keep what is shown; p again continues",
    "  q                      quit; the run continues",
    "",
    "  BUSY        share of the time since an executor joined in which it had work",
    "  CREDITS     placements that the executors would take beyond those in flight",
    "  QUEUE       messages that wait for an actor",
    "  LAST SEEN   when the node last reported; it reports once a second",
};

}  // namespace

TopScreen::TopScreen(std::string address, Terminal style)
    : address_{std::move(address)},
      style_{style},
      nodes_{node_columns(), &node_name, &searched_text},
      actors_{actor_columns(), &actor_name, &actor_text} {}

void TopScreen::update(messages::StatusDelivered status, Nanos now) {
  if (paused_) {
    next_ = std::move(status);
    next_at_ = now;
  } else {
    show_now(std::move(status), now);
  }
}

void TopScreen::show_now(messages::StatusDelivered status, Nanos now) {
  if (const NodeStatus* const before = opened()) {
    // Rates are those between the last two reports; statuses may come more often.
    const auto after = std::find_if(status.nodes.begin(), status.nodes.end(),
                                    [&](const NodeStatus& node) { return node.report.node == node_; });
    if (after != status.nodes.end() && after->report.uptime_s != before->report.uptime_s)
      earlier_ = before->report;
  }
  status_ = std::move(status);
  at_ = now;
  answered_ = true;
  nodes_.arrange(status_.nodes);
  list_actors();
}

const NodeStatus* TopScreen::opened() const {
  if (view_ == View::kNodes) return nullptr;
  const auto found = std::find_if(status_.nodes.begin(), status_.nodes.end(),
                                  [&](const NodeStatus& node) { return node.report.node == node_; });
  return found == status_.nodes.end() ? nullptr : &*found;
}

void TopScreen::list_actors() {
  if (view_ == View::kNodes) return;
  rows_.clear();
  if (const NodeStatus* const node = opened()) {
    const double over_s = node->report.uptime_s - earlier_.uptime_s;
    const bool same = earlier_.node == node_ && earlier_.pid == node->report.pid && over_s > 0;
    std::unordered_map<std::string_view, std::uint64_t> before;
    std::unordered_map<std::string_view, const messages::ExecutorUse*> uses;
    if (same)
      for (const ActorStatus& actor : earlier_.actors) before[actor.name] = actor.handled;
    for (const messages::ExecutorUse& use : status_.progress.dispatch.executors) uses[use.executor] = &use;
    for (const ActorStatus& actor : node->report.actors) {
      ActorRow& row = rows_.emplace_back();
      row.status = actor;
      if (const auto handled = before.find(actor.name);
          handled != before.end() && handled->second <= actor.handled)
        row.handled_per_s = static_cast<double>(actor.handled - handled->second) / over_s;
      if (const auto use = uses.find(actor.name); use != uses.end())
        row.executes = true, row.use = *use->second;
    }
  }
  actors_.arrange(rows_);
}

void TopScreen::press(const Key& key) {
  using Kind = Key::Kind;
  if (help_) {
    help_ = false;
    return;
  }
  if (prompt_ && (key.kind == Kind::kText || key.kind == Kind::kBackspace || key.kind == Kind::kEnter ||
                  key.kind == Kind::kEscape))
    return press_in_prompt(key);
  switch (key.kind) {
    case Kind::kText:
      return press_command(key.text);
    case Kind::kUp:
    case Kind::kDown:
      return with_table([&](auto& table, auto items) { table.move(items, key.kind == Kind::kUp ? -1 : 1); });
    case Kind::kPageUp:
    case Kind::kPageDown:
      return with_table(
          [&](auto& table, auto items) { table.move_pages(items, key.kind == Kind::kPageUp ? -1 : 1); });
    case Kind::kHome:
      return with_table([](auto& table, auto items) { table.to_first(items); });
    case Kind::kEnd:
      return with_table([](auto& table, auto items) { table.to_last(items); });
    case Kind::kEnter:
      return open();
    case Kind::kEscape:
    case Kind::kBackspace:
      return back();
  }
}

void TopScreen::press_command(const std::string& text) {
  if (text == "q") done_ = true;
  if (text == "?") help_ = true;
  if (text == "p") pause();
  if (text == "/") prompt_ = view_ != View::kActor;
  if (text == "j") press({Key::Kind::kDown, ""});
  if (text == "k") press({Key::Kind::kUp, ""});
  if (text == "g") press({Key::Kind::kHome, ""});
  if (text == "G") press({Key::Kind::kEnd, ""});
  if (text == "s") with_table([](auto& table, auto items) { table.next_sort(items); });
  if (text == "r") with_table([](auto& table, auto items) { table.reverse(items); });
}

void TopScreen::press_in_prompt(const Key& key) {
  with_table([&](auto& table, auto items) {
    std::string filter = table.filter();
    if (key.kind == Key::Kind::kText && filter.size() + key.text.size() <= kMaxFilter) filter += key.text;
    if (key.kind == Key::Kind::kEscape) filter.clear();
    if (key.kind == Key::Kind::kBackspace) {
      while (!filter.empty() && (static_cast<unsigned char>(filter.back()) & 0xC0u) == 0x80u)
        filter.pop_back();
      if (!filter.empty()) filter.pop_back();
    }
    table.set_filter(items, std::move(filter));
  });
  if (key.kind == Key::Kind::kEnter || key.kind == Key::Kind::kEscape) prompt_ = false;
}

void TopScreen::pause() {
  if (!answered_) return;
  paused_ = !paused_;
  if (paused_) {
    next_at_ = at_;
  } else if (next_at_ != at_) {
    show_now(std::move(next_), next_at_);
  }
}

void TopScreen::open() {
  if (view_ == View::kNodes && !nodes_.selected().empty()) {
    node_ = nodes_.selected();
    earlier_ = {};
    view_ = View::kActors;
    actors_.set_filter({}, "");
    list_actors();
    actors_.to_first(rows_);
  } else if (view_ == View::kActors && !actors_.selected().empty()) {
    view_ = View::kActor;
  }
}

void TopScreen::back() {
  if (view_ == View::kActor) {
    view_ = View::kActors;
  } else if (view_ == View::kActors && actors_.filter().empty()) {
    view_ = View::kNodes;
  } else {
    with_table([](auto& table, auto items) { table.set_filter(items, ""); });
  }
}

std::string TopScreen::run_line(Nanos now) const {
  std::string line =
      printable(status_.run) + "  " + printable(status_.method, 40) + " on " + printable(status_.graph, 80);
  if (paused_) line += fmt::format("  PAUSED {} ago", short_time(seconds_since(at_, now)));
  if (!status_.progress.dispatch.ending.empty())
    line += "  ending: " + printable(status_.progress.dispatch.ending, 80);
  return line;
}

std::string TopScreen::progress_line() const {
  const messages::DispatchProgress& dispatch = status_.progress.dispatch;
  return progress_text({.activity = printable(status_.start, 40),
                        .elapsed_s = dispatch.elapsed_s,
                        .budget_s = known_.budget_s,
                        .best_s = dispatch.best_step_time_s,
                        .heuristic = known_.heuristic,
                        .heuristic_s = known_.heuristic_s,
                        .bound_s = known_.bound_s});
}

std::string TopScreen::work_line() const {
  const messages::DispatchProgress& dispatch = status_.progress.dispatch;
  const messages::RecordProgress& record = status_.progress.record;
  std::string line = "placements " + thousands(dispatch.measurements);
  if (dispatch.measurements > 0)
    line += fmt::format(", {} % fit",
                        100 * std::min(dispatch.valid, dispatch.measurements) / dispatch.measurements);
  return line + fmt::format(", {:.1f}/s  in flight {}  updates {}, staleness {:.1f}  disk waits {:.0f} s",
                            status_.evaluations_per_s, thousands(dispatch.in_flight),
                            thousands(record.updates), record.staleness, record.disk_waits_s);
}

std::string TopScreen::executors_line() const {
  const messages::DispatchProgress& dispatch = status_.progress.dispatch;
  const messages::LeaseCounts& leases = dispatch.leases;
  std::string line = fmt::format("executors {} joined, {} wanted", thousands(dispatch.executors.size()),
                                 thousands(dispatch.executors_wanted));
  if (dispatch.quarantined > 0) line += fmt::format(", {} in quarantine", thousands(dispatch.quarantined));
  if (!dispatch.executors.empty()) line += ", busy " + busy_text(true, status_.progress.utilisation);
  return line + fmt::format("  leases {}: {} open, {} counted, {} expired, {} refused",
                            thousands(leases.issued), thousands(leases.open), thousands(leases.counted),
                            thousands(leases.expired), thousands(leases.refused));
}

std::string TopScreen::reason(Nanos now) const {
  return idle_reason(status_, paused_ ? 0 : seconds_since(at_, now));
}

std::string TopScreen::title() const {
  if (view_ == View::kNodes) return "nodes " + nodes_.position(status_.nodes.size());
  const NodeStatus* const node = opened();
  if (node == nullptr) return "node " + printable(node_, 60) + " does not take part any more; esc goes back";
  const messages::NodeReported& report = node->report;
  std::string text =
      fmt::format("node {} on {}, {}, pid {}, up {}, {} restarts, last seen {} ago", printable(node_, 60),
                  printable(report.host, 40), printable(report.version, 20), report.pid,
                  short_time(report.uptime_s), restarts_of(*node), short_time(node->age_s));
  if (view_ == View::kActors) text += "  actors " + actors_.position(rows_.size());
  return text;
}

std::string TopScreen::footer() const {
  const std::string& filter = view_ == View::kNodes ? nodes_.filter() : actors_.filter();
  if (prompt_) return "show rows with: " + printable(filter) + "_  (enter keeps it, esc clears it)";
  std::string keys =
      view_ == View::kActor ? "esc back  p pause  ? help  q quit"
      : view_ == View::kActors
          ? "enter opens an actor  esc back  s sort  r reverse  / filter  p pause  ? help  q quit"
          : "enter opens a node  s sort  r reverse  / filter  p pause  ? help  q quit";
  if (!filter.empty() && view_ != View::kActor) keys = "rows with \"" + printable(filter) + "\"  " + keys;
  return keys;
}

std::vector<std::string> TopScreen::actor_lines(std::size_t columns) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const ActorRow& row) { return row.status.name == actors_.selected(); });
  if (found == rows_.end()) return {"the actor does not take part any more"};
  const ActorStatus& actor = found->status;
  std::vector<std::string> lines{
      "actor     " + printable(actor.name), "queue     " + thousands(actor.waiting),
      "handled   " + thousands(actor.handled) + fmt::format(", {:.1f}/s", found->handled_per_s),
      "restarts  " + thousands(actor.restarts)};
  if (found->executes) {
    lines.push_back("busy      " + busy_text(true, found->use.utilisation));
    lines.push_back(fmt::format("measured  {} placements, {} in flight, {} more accepted",
                                thousands(found->use.placements), thousands(found->use.in_flight),
                                thousands(found->use.credit)));
  }
  lines.emplace_back(actor.last_error.empty() ? "no error" : "last error:");
  for (std::string& line : wrapped(printable(actor.last_error, 8'000), columns))
    lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> TopScreen::summary(Nanos now) const {
  if (!answered_) return {};
  return {run_line(now), progress_line(), work_line(), executors_line()};
}

std::vector<std::string> TopScreen::lines(ScreenSize size, Nanos now) {
  const std::size_t rows = std::max<std::size_t>(size.rows, 1);
  std::vector<std::string> lines;
  const auto add = [&](Style style, const std::string& text) {
    lines.push_back(style_.styled(style, fit_width(text, size.columns)));
  };
  if (help_) {
    add(Style::kBold, "emplace top: keys (any key closes this page)");
    for (const std::string& line : kHelp) add(Style::kPlain, line);
  } else if (!answered_) {
    add(Style::kPlain, "waiting for " + printable(address_) + " to answer; q quits");
  } else {
    // Short screens leave out what is least important: the table keeps three rows.
    const std::size_t spare = rows - std::min<std::size_t>(rows, 6);  // Run, heads, three rows, footer.
    const std::string why = reason(now);
    std::size_t used = why.empty() ? 0 : 1;
    add(Style::kBold, run_line(now));
    if (used < spare) ++used, add(Style::kPlain, progress_line());
    if (used < spare) ++used, add(Style::kPlain, work_line());
    if (used < spare) ++used, add(Style::kPlain, executors_line());
    if (!why.empty() && spare > 0) add(Style::kYellow, why);
    const std::size_t title_at = used < spare ? lines.size() : std::string::npos;
    if (title_at != std::string::npos) lines.emplace_back();
    const std::size_t left = rows - std::min(rows, lines.size() + 2);
    if (view_ == View::kActor) {
      for (const std::string& line : actor_lines(size.columns)) add(Style::kPlain, line);
    } else {
      with_table([&](auto& table, auto items) { table.draw(lines, items, left, size.columns, style_); });
    }
    if (title_at != std::string::npos) lines[title_at] = fit_width(title(), size.columns);
  }
  if (lines.size() >= rows) lines.resize(rows > 1 ? rows - 1 : rows);
  if (rows > 1) {
    while (lines.size() + 1 < rows) lines.emplace_back();
    add(Style::kDim, help_ || !answered_ ? "" : footer());
  }
  return lines;
}

}  // namespace emplace::launcher

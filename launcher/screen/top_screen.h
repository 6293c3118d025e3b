#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/screen/keys.h"
#include "launcher/screen/screen_table.h"
#include "launcher/terminal/terminal.h"
#include "messages/status.h"

namespace emplace::launcher {

/// An actor of the opened node, with what the dispatcher knows of it.
struct ActorRow {
  messages::ActorStatus status;
  double handled_per_s = 0;
  bool executes = false;
  messages::ExecutorUse use;  ///< If it executes.
};

/// The screen of `emplace top`: the run, why nothing runs, and a table of nodes, of the actors of a node, or
/// the facts of one actor. Changes by statuses and keys. Pure; one thread.
class TopScreen {
 public:
  /// What is known of a start besides its status; 0 or empty: unknown.
  struct Known {
    double budget_s = 0, bound_s = 0;
    std::string heuristic;
    double heuristic_s = 0;
  };
  /// `address`: shown until the first status. `style`: whether there are colours.
  TopScreen(std::string address, Terminal style);

  void know(Known known) { known_ = std::move(known); }
  void update(messages::StatusDelivered status, Nanos now);
  void press(const Key& key);
  /// True once the person has asked to quit.
  bool done() const { return done_; }
  /// Returns at most `size.rows` lines of at most `size.columns` columns.
  std::vector<std::string> lines(ScreenSize size, Nanos now);
  /// The lines about the run, without the table: for the end.
  std::vector<std::string> summary(Nanos now) const;

 private:
  enum class View : std::uint8_t { kNodes, kActors, kActor };
  std::string run_line(Nanos now) const;
  std::string progress_line() const;
  std::string work_line() const;
  std::string executors_line() const;
  std::string reason(Nanos now) const;
  std::string title() const;
  std::string footer() const;
  std::vector<std::string> actor_lines(std::size_t columns) const;
  const messages::NodeStatus* opened() const;
  void show_now(messages::StatusDelivered status, Nanos now);
  void list_actors();
  void press_in_prompt(const Key& key);
  void press_command(const std::string& text);
  void pause();
  void open();
  void back();
  /// Calls `action(table, items)` with the table on the screen.
  template <class Action>
  void with_table(Action action) {
    if (view_ == View::kNodes)
      action(nodes_, std::span<const messages::NodeStatus>{status_.nodes});
    else if (view_ == View::kActors)
      action(actors_, std::span<const ActorRow>{rows_});
  }

  const std::string address_;
  const Terminal style_;
  Known known_;
  messages::StatusDelivered status_;  // Shown.
  Nanos at_{0};                       // When it came.
  bool answered_ = false, done_ = false, help_ = false, prompt_ = false;
  bool paused_ = false;
  messages::StatusDelivered next_;  // The newest, while the screen is paused.
  Nanos next_at_{0};
  View view_ = View::kNodes;
  ScreenTable<messages::NodeStatus> nodes_;
  std::string node_;                // The opened node,
  messages::NodeReported earlier_;  // its report before the one that is shown,
  std::vector<ActorRow> rows_;      // and its actors.
  ScreenTable<ActorRow> actors_;
};

}  // namespace emplace::launcher

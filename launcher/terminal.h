#pragma once
/// What a person looks at: whether it is a terminal, colours, and a view that is redrawn in place.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace emplace::launcher {

enum class Style { kPlain, kBold, kDim, kGreen, kYellow, kRed };

/// One end of output. A plain value.
struct Terminal {
  bool is_tty = false;
  bool colour = false;       ///< A terminal, NO_COLOR unset or empty (no-color.org), TERM not "dumb".
  std::size_t columns = 80;  ///< 80 where it is not known.

  /// Looks at a file descriptor and the environment.
  static Terminal of(int fd);
  /// `text` in a style, or unchanged without colour.
  std::string styled(Style style, std::string_view text) const;
};

/// Columns that `text` takes: code points, without escape sequences.
std::size_t display_width(std::string_view text);
/// Cut to `columns`, with "…" if something is lost; escape sequences pass, and a style that is open is
/// closed.
std::string fit_width(std::string_view text, std::size_t columns);

/// Progress. On a terminal a block of lines, redrawn in place at most 10 times a second; elsewhere one plain
/// line every 5 s. Thread: one.
class LiveView {
 public:
  using Write = std::function<void(std::string_view)>;
  LiveView(Terminal terminal, const Clock& clock, bool enabled, Write write)
      : terminal_{terminal}, clock_{clock}, enabled_{enabled}, write_{std::move(write)} {}
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;
  ~LiveView() { clear(); }

  const Terminal& terminal() const { return terminal_; }
  /// True if show() would draw now: callers may skip composing what nobody sees.
  bool due() const;
  /// Draws if it is due: `block` on a terminal, `line` elsewhere.
  void show(std::span<const std::string> block, std::string_view line);
  /// Draws whatever the time is.
  void show_now(std::span<const std::string> block, std::string_view line);
  /// Takes the block off the terminal, so that ordinary lines can follow.
  void clear();
  /// Leaves the block where it is; the next one starts beneath.
  void keep();

 private:
  const Terminal terminal_;
  const Clock& clock_;
  const bool enabled_;
  const Write write_;
  bool drawn_ = false;  // Something was shown; `last_` is when.
  Nanos last_{0};
  std::size_t lines_ = 0;  // Of the block on the terminal.
};

}  // namespace emplace::launcher

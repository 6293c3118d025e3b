#pragma once
/// Terminal output: terminal detection, colours, and a progress view that is redrawn in place.

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace emplace::launcher {

enum class Style { kPlain, kBold, kDim, kGreen, kYellow, kRed };

/// Properties of one output stream. A plain value.
struct Terminal {
  bool is_tty = false;  ///< False if TERM is "dumb": such a terminal cannot redraw.
  bool colour = false;  ///< True on a terminal if NO_COLOR is empty (no-color.org) and TERM is set.
  std::size_t columns = 80, rows = 24;  ///< Its size; these if it is unknown.

  /// Returns the properties of a file descriptor, from the descriptor and the environment.
  static Terminal of(int fd);
  /// Returns `text` in a style, or unchanged without colour.
  std::string styled(Style style, std::string_view text) const;
};

/// Returns the columns that `text` takes: code points, without escape sequences.
std::size_t display_width(std::string_view text);
/// Returns `text` cut to `columns`, with "…" if something was cut. Escape sequences are kept, and an open
/// style is closed.
std::string fit_width(std::string_view text, std::size_t columns);

/// Returns one line per row, with its cells padded to the widest of their column and two spaces between them.
/// `numbers`: all columns but the first and the last are aligned right.
std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows, bool numbers = false);

/// Progress view. On a terminal it is a block of lines, redrawn in place at most 10 times a second, of which
/// no more are drawn than the terminal has; elsewhere one plain line every 5 s. Thread: one.
class LiveView {
 public:
  using Write = std::function<void(std::string_view)>;
  LiveView(Terminal terminal, const Clock& clock, bool enabled, Write write)
      : terminal_{terminal}, clock_{clock}, enabled_{enabled}, write_{std::move(write)} {}
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;
  ~LiveView() { clear(); }

  const Terminal& terminal() const { return terminal_; }
  /// Returns whether show() would draw now; otherwise callers need not compose the text.
  bool due() const;
  /// Draws `block` on a terminal, `line` elsewhere, if a redraw is due.
  void show(std::span<const std::string> block, std::string_view line);
  /// Draws regardless of the time.
  void show_now(std::span<const std::string> block, std::string_view line);
  /// Erases the block from the terminal, so that ordinary lines can follow.
  void clear();
  /// Leaves the block on the terminal; the next one starts below it.
  void keep();

 private:
  const Terminal terminal_;
  const Clock& clock_;
  const bool enabled_;
  const Write write_;
  bool drawn_ = false;     // Whether `last_` is set.
  Nanos last_{0};          // Time of the last redraw.
  std::size_t lines_ = 0;  // Lines of the block on the terminal.
};

}  // namespace emplace::launcher

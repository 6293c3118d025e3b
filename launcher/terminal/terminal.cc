#include "launcher/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace emplace::launcher {
namespace {

constexpr Nanos kRedraw = std::chrono::milliseconds{100};
constexpr Nanos kPlainLine = std::chrono::seconds{5};

/// Returns the bytes of the escape sequence at the start of `text`; 0 if there is none.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\x1b' || text[1] != '[') return 0;
  std::size_t end = 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  return std::min(end + 1, text.size());
}

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

}  // namespace

Terminal Terminal::of(int fd) {
  Terminal terminal;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  terminal.is_tty = ::isatty(fd) == 1 && (term == nullptr || std::string_view{term} != "dumb");
  terminal.colour = terminal.is_tty && (no_colour == nullptr || *no_colour == '\0') && term != nullptr;
  winsize size{};
  if (!terminal.is_tty || ::ioctl(fd, TIOCGWINSZ, &size) != 0) return terminal;
  if (size.ws_col > 0) terminal.columns = size.ws_col;
  if (size.ws_row > 0) terminal.rows = size.ws_row;
  return terminal;
}

std::string Terminal::styled(Style style, std::string_view text) const {
  if (!colour || style == Style::kPlain) return std::string{text};
  const char* code = style == Style::kBold     ? "1"
                     : style == Style::kDim    ? "2"
                     : style == Style::kGreen  ? "32"
                     : style == Style::kYellow ? "33"
                                               : "31";
  return "\x1b[" + std::string{code} + "m" + std::string{text} + "\x1b[0m";
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const std::size_t escape = escape_length(text);
    width += escape == 0 && !continues_code_point(text[0]) ? 1 : 0;
    text.remove_prefix(std::max<std::size_t>(escape, 1));
  }
  return width;
}

std::string fit_width(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string{text};
  std::string out;
  bool styled = false;
  for (std::size_t width = 0; !text.empty();) {
    if (const std::size_t escape = escape_length(text); escape > 0) {
      out.append(text.substr(0, escape));
      text.remove_prefix(escape);
      styled = true;
      continue;
    }
    if (!continues_code_point(text[0]) && ++width >= columns) break;
    out.push_back(text[0]);
    text.remove_prefix(1);
  }
  if (columns > 0) out.append("…");
  if (styled) out.append("\x1b[0m");
  return out;
}

std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows, bool numbers) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string& line = lines.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - display_width(row[c]), ' ');
      const bool right = numbers && c > 0 && c + 1 < row.size();
      line += (c == 0 ? "" : "  ") + (right ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

bool LiveView::due() const {
  if (!enabled_) return false;
  return !drawn_ || clock_.now() - last_ >= (terminal_.is_tty ? kRedraw : kPlainLine);
}

void LiveView::show(std::span<const std::string> block, std::string_view line) {
  if (!due()) return;
  // Off a terminal the first line waits 5 s too, so that a short job prints no progress.
  if (!drawn_ && !terminal_.is_tty) {
    drawn_ = true;
    last_ = clock_.now();
    return;
  }
  show_now(block, line);
}

void LiveView::show_now(std::span<const std::string> block, std::string_view line) {
  if (!enabled_) return;
  drawn_ = true;
  last_ = clock_.now();
  if (!terminal_.is_tty) {
    write_(std::string{line} + "\n");
    return;
  }
  // One write per frame and clearing each line as it is drawn avoid flicker.
  std::string frame;
  if (lines_ > 0) frame += "\x1b[" + std::to_string(lines_) + "A";
  // A block that does not fit ends with the number of lines left out; the cursor stays below it.
  const std::size_t room = std::max<std::size_t>(terminal_.rows, 3) - 1;
  const bool fits = block.size() <= room;
  const auto add = [&](std::string_view text) {
    frame.append("\r").append(fit_width(text, terminal_.columns)).append("\x1b[K\n");
  };
  for (const std::string& text : block.first(fits ? block.size() : room - 1)) add(text);
  if (!fits) add("… " + std::to_string(block.size() - room + 1) + " more lines");
  frame += "\x1b[J";
  lines_ = std::min(block.size(), room);
  write_(frame);
}

void LiveView::clear() {
  if (lines_ > 0) write_("\x1b[" + std::to_string(lines_) + "A\r\x1b[J");
  lines_ = 0;
}

void LiveView::keep() { lines_ = 0; }

}  // namespace emplace::launcher

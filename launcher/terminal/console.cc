#include "launcher/terminal/console.h"

#include <unistd.h>

#include <utility>

#include "base/text/words.h"

namespace emplace::launcher {

Console::Console(CommonOptions options, std::FILE* out, std::FILE* err)
    : options_{std::move(options)},
      out_{out},
      err_{err},
      out_terminal_{Terminal::of(::fileno(out))},
      err_terminal_{Terminal::of(::fileno(err))} {}

void Console::print(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), out_);
  if (!text.ends_with('\n')) (void)std::fputc('\n', out_);
}

void Console::write(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), out_);
  (void)std::fflush(out_);
}

void Console::write_line(Verbosity verbosity, std::string_view prefix, std::string_view text) {
  if (verbosity < options_.log_level || (options_.quiet && verbosity < Verbosity::kWarning)) return;
  std::string line{prefix};
  line.append(printable(text, 2000)).append("\n");
  (void)std::fwrite(line.data(), 1, line.size(), err_);
  (void)std::fflush(err_);
}

LiveView Console::live_view(const Clock& clock) {
  auto write = [err = err_](std::string_view text) {
    (void)std::fwrite(text.data(), 1, text.size(), err);
    (void)std::fflush(err);
  };
  return LiveView{err_terminal_, clock, shows_progress(), std::move(write)};
}

bool Console::flush() { return std::fflush(out_) == 0 && std::ferror(out_) == 0; }

}  // namespace emplace::launcher

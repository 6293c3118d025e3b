#pragma once
/// Output of a command: results to standard output, everything else to standard error.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "launcher/terminal/terminal.h"

namespace emplace::launcher {

enum class Verbosity : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// Options that every command takes.
struct CommonOptions {
  bool json = false;                       ///< One JSON object on standard output, nothing else there.
  bool quiet = false;                      ///< No progress and no notes.
  Verbosity log_level = Verbosity::kInfo;  ///< Lines below this level are not printed.
  std::string log_level_name = "info";     ///< The same level, as the word on the command line.
  std::uint64_t seed = 1;
  bool seed_given = false;  ///< Whether the command line has --seed; it overrides the config's seed.
};

/// Thread: the main one.
class Console {
 public:
  Console(CommonOptions options, std::FILE* out, std::FILE* err);

  const CommonOptions& options() const { return options_; }
  bool json() const { return options_.json; }
  std::uint64_t seed() const { return options_.seed; }
  /// The terminal of standard output, where results are printed.
  const Terminal& out_terminal() const { return out_terminal_; }

  /// Writes a result, text or one JSON object, to standard output.
  void print(std::string_view text);
  /// Writes text to standard output as it is, and flushes it: for a view that redraws itself.
  void write(std::string_view text);
  /// Write one line for people to standard error, unless the log level or --quiet hides it.
  void note(std::string_view text) { write_line(Verbosity::kInfo, "", text); }
  void debug(std::string_view text) { write_line(Verbosity::kDebug, "debug: ", text); }
  void warn(std::string_view text) { write_line(Verbosity::kWarning, "warning: ", text); }
  /// Writes the one line of an error, at every log level.
  void error(std::string_view text) { write_line(Verbosity::kError, "error: ", text); }

  /// Whether progress is shown: a live view on a terminal, a plain line every 5 s elsewhere.
  bool shows_progress() const { return !options_.quiet && options_.log_level <= Verbosity::kInfo; }
  LiveView live_view(const Clock& clock);

  /// Flushes standard output. Returns false once a write to it has failed (disk full, closed).
  bool flush();

 private:
  void write_line(Verbosity verbosity, std::string_view prefix, std::string_view text);

  const CommonOptions options_;
  std::FILE* const out_;
  std::FILE* const err_;
  const Terminal out_terminal_, err_terminal_;
};

}  // namespace emplace::launcher

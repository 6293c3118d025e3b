#pragma once
/// Where a command speaks: results to standard output, everything else to standard error.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "launcher/terminal.h"

namespace emplace::launcher {

enum class Verbosity : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// What every command takes.
struct CommonOptions {
  bool json = false;                       ///< One JSON object on standard output, nothing else there.
  bool quiet = false;                      ///< No progress and no notes.
  Verbosity log_level = Verbosity::kInfo;  ///< What is beneath is not said.
  std::string log_level_name = "info";     ///< The same as the word that was given.
  std::uint64_t seed = 1;
  bool seed_given = false;  ///< On the command line: wins over a config's.
};

/// Thread: the main one.
class Console {
 public:
  Console(CommonOptions options, std::FILE* out, std::FILE* err);

  const CommonOptions& options() const { return options_; }
  bool json() const { return options_.json; }
  std::uint64_t seed() const { return options_.seed; }
  /// What the results are printed on.
  const Terminal& out_terminal() const { return out_terminal_; }

  /// A result: text or one JSON object, to standard output.
  void print(std::string_view text);
  /// A sentence for people on standard error; "warning" is said unless only errors are wanted.
  void note(std::string_view text) { say(Verbosity::kInfo, "", text); }
  void debug(std::string_view text) { say(Verbosity::kDebug, "debug: ", text); }
  void warn(std::string_view text) { say(Verbosity::kWarning, "warning: ", text); }
  /// The one line of an error. Always said.
  void error(std::string_view text) { say(Verbosity::kError, "error: ", text); }

  /// Progress: a live view on a terminal, a plain line every 5 s elsewhere; nothing if quiet.
  bool shows_progress() const { return !options_.quiet && options_.log_level <= Verbosity::kInfo; }
  LiveView live_view(const Clock& clock);

  /// False once standard output refused a write (disk full, closed).
  bool flush();

 private:
  void say(Verbosity verbosity, std::string_view prefix, std::string_view text);

  const CommonOptions options_;
  std::FILE* const out_;
  std::FILE* const err_;
  const Terminal out_terminal_, err_terminal_;
};

}  // namespace emplace::launcher

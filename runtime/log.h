#pragma once
/// The run's log file: one line per event, with time, level and the actor that speaks.

#include <string>
#include <string_view>

#include "base/result.h"

namespace emplace::runtime {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// "debug", "info", "warning", "error". Errors (kInvalid): another word.
Result<LogLevel> parse_log_level(std::string_view text);

struct LogOptions {
  std::string file;                  ///< Rotated: file.log, file.1.log, …
  LogLevel level = LogLevel::kInfo;  ///< What is beneath is not written.
  std::size_t max_bytes = 8u << 20;  ///< Of one file.
  std::size_t max_files = 4;
};

/// Opens the process's log; a second call replaces it. Errors (kIo): the file cannot be written.
Result<Unit> open_log(const LogOptions& options);
/// Flushes and closes it.
void close_log();

/// Writes a line, control characters made harmless; nothing before open_log(). Any thread.
void log(LogLevel level, std::string_view actor, std::string_view text);

}  // namespace emplace::runtime

#pragma once
/// Text log of a run: one line per event, with time, level and actor.

#include <string>
#include <string_view>

#include "base/result.h"

namespace emplace::runtime {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

struct LogOptions {
  std::string file;                  ///< Path of the current file; rotated as file.log, file.1.log, …
  LogLevel level = LogLevel::kInfo;  ///< Lowest level that is written.
  std::size_t max_bytes = 8u << 20;  ///< Size at which a file is rotated.
  std::size_t max_files = 4;
};

/// Opens the log of the process; a second call replaces it. Errors (kIo): the file cannot be written.
Result<Unit> open_log(const LogOptions& options);
/// Flushes and closes the log.
void close_log();

/// Writes one line, with control characters replaced; no effect before open_log(). Thread: any.
void log(LogLevel level, std::string_view actor, std::string_view text);

}  // namespace emplace::runtime

#pragma once
/// Text log of a run: one line per event, with time, level and actor.

#include <string>
#include <string_view>

#include "base/result.h"

namespace emplace::runtime {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };

/// Opens the log of the process; a second call replaces it. `file` is rotated as file.log, file.1.log, … at
/// 8 MiB. Errors (kIo): the file cannot be written.
Result<Unit> open_log(const std::string& file);
/// Flushes and closes the log.
void close_log();

/// Writes one line, with control characters replaced; no effect before open_log(). Thread: any.
void log(LogLevel level, std::string_view actor, std::string_view text);

}  // namespace emplace::runtime

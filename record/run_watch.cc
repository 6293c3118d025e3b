#include "record/run_watch.h"

#include <exception>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "record/run_reader.h"
#include "record/store/database_errors.h"
#include "record/store/integrity.h"

namespace emplace::record {

RunWatch::RunWatch(std::filesystem::path directory, int folder)
    : directory_{std::move(directory)}, files_{directory_, folder} {}
RunWatch::~RunWatch() = default;

void RunWatch::note_writes(bool log_too) { suspicious_ = suspicious_ || files_.changed(log_too); }

Result<Unit> RunWatch::check(bool log_too) {
  EMPLACE_TRY(files_.check());
  note_writes(log_too);
  if (!suspicious_) return Unit{};
  // Uses a second connection that reads the file: the cache of this connection would hide changes.
  EMPLACE_TRY_ASSIGN(const auto reader, RunReader::open(directory_, Reading::kInProgress));
  EMPLACE_TRY(reader->verify());
  suspicious_ = false;
  files_.remember();
  return Unit{};
}

Result<Unit> RunWatch::patrol(std::size_t rows) {
  try {
    if (!patrol_) patrol_ = std::make_unique<Patrol>(directory_ / "run.db");
    return patrol_->next(printable_path(directory_) + ": run.db", rows);
  } catch (const std::exception& thrown) {
    return database_error(directory_, thrown);
  }
}

}  // namespace emplace::record

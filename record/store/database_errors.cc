#include "record/store/database_errors.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "base/text/words.h"
#include "record/store/schema.h"

namespace emplace::record {

bool is_transient(int sqlite_code) {
  constexpr std::array kOfTheMachine{SQLITE_BUSY,  SQLITE_LOCKED, SQLITE_NOMEM,
                                     SQLITE_IOERR, SQLITE_FULL,   SQLITE_CANTOPEN};
  constexpr int kPrimary = 0xff;
  return std::find(kOfTheMachine.begin(), kOfTheMachine.end(), sqlite_code & kPrimary) != kOfTheMachine.end();
}

bool is_transient(const std::exception& thrown) {
  const auto* const error = dynamic_cast<const SQLite::Exception*>(&thrown);
  if (error == nullptr) return dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
  return is_transient(error->getErrorCode());
}

Error io_error(const std::filesystem::path& directory, std::string_view what) {
  return Error{Errc::kIo, printable_path(directory) + ": " + printable(what)};
}

Error database_error(const std::filesystem::path& directory, const std::exception& thrown) {
  const auto* const error = dynamic_cast<const SQLite::Exception*>(&thrown);
  // Exceptions that are not SQLite's are thrown for columns with values that this program never writes.
  const bool damaged =
      error == nullptr ? !is_transient(thrown)
                       : error->getErrorCode() == SQLITE_CORRUPT || error->getErrorCode() == SQLITE_NOTADB;
  if (!damaged) return io_error(directory, std::string{"run.db: "} + thrown.what());
  return invalid(printable_path(directory) + ": run.db", "is damaged: " + printable(thrown.what()),
                 kSalvageIt);
}

Error opening_error(const std::filesystem::path& directory, const std::exception& thrown) {
  if (is_transient(thrown))
    return io_error(directory, std::string{"run.db cannot be opened: "} + thrown.what());
  return invalid(printable_path(directory), "run.db is damaged: " + printable(thrown.what()), kSalvageIt);
}

Error verifying_error(const std::filesystem::path& directory, const std::exception& thrown) {
  if (is_transient(thrown))
    return io_error(directory, std::string{"run.db: cannot be read: "} + thrown.what());
  return invalid(printable_path(directory) + ": run.db", "is damaged: " + printable(thrown.what()),
                 kSalvageIt);
}

}  // namespace emplace::record

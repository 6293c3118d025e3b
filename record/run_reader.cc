#include "record/run_reader.h"

#include <string>
#include <utility>

#include "base/text/words.h"
#include "record/store/integrity.h"
#include "record/store/run_connection.h"
#include "record/store/run_folder.h"

namespace emplace::record {

RunReader::RunReader(std::unique_ptr<RunConnection> connection) : connection_{std::move(connection)} {}
RunReader::~RunReader() = default;

Result<std::unique_ptr<RunReader>> RunReader::open(const std::filesystem::path& directory, Reading reading) {
  using Access = RunConnection::Access;
  const bool live = reading == Reading::kInProgress ||
                    (reading == Reading::kQuietOrInProgress && is_being_written(directory));
  EMPLACE_TRY_ASSIGN(auto connection,
                     RunConnection::open(directory, live ? Access::kInProgress : Access::kQuiet));
  return std::unique_ptr<RunReader>{new RunReader{std::move(connection)}};
}

Result<Unit> RunReader::verify() const {
  const std::filesystem::path& directory = connection_->directory;
  try {
    return check_record(connection_->db, printable_path(directory) + ": run.db", acknowledged_in(directory));
  } catch (const std::exception& thrown) {
    return verifying_error(directory, thrown);
  }
}

}  // namespace emplace::record

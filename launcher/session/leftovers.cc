#include "launcher/session/leftovers.h"

#include <string>
#include <system_error>

#include "launcher/cluster/endpoint.h"
#include "record/run_reader.h"

namespace emplace::launcher {

void remove_leftovers(const std::filesystem::path& directory, const Topology& topology) {
  std::error_code ignored;
  for (const std::string& endpoint : {topology.endpoint, topology.beside}) {
    const std::filesystem::path socket = socket_of(endpoint);
    if (socket.empty()) continue;
    std::filesystem::remove(socket, ignored);
    if (socket.parent_path().filename() == "private") std::filesystem::remove(socket.parent_path(), ignored);
  }
  for (const std::filesystem::path& folder : {directory, directory / "best", directory / "baseline"}) {
    for (const auto& entry : std::filesystem::directory_iterator{folder, ignored}) {
      const std::string extension = entry.path().extension().string();
      const std::size_t digits = extension.find_first_not_of("0123456789", 5);
      if (extension.starts_with(".part") && digits == std::string::npos)
        std::filesystem::remove(entry.path(), ignored);
    }
  }
}

void remove_failed_start(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(directory / "run.db", ignored)) {
    const auto db = record::RunReader::open(directory, record::Reading::kQuietOrInProgress);
    const auto counters = db ? (*db)->results().counters() : Result<record::Counters>{db.error()};
    if (!counters || counters->episodes > 0) return;  // Never remove a database that cannot be read.
  }
  for (const auto& entry : std::filesystem::directory_iterator{directory, ignored})
    if (entry.path().filename() != "lock") std::filesystem::remove_all(entry.path(), ignored);
  std::filesystem::remove(directory / "lock", ignored);
  std::filesystem::remove(directory, ignored);
}

}  // namespace emplace::launcher

#include "tests/sim/empty_run.h"

#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "record/run_writer.h"

namespace emplace::sim_test {

void put_empty_run(Disk& disk, const std::string& directory) {
  // Made once for each folder, because SQLite takes a while to create all tables.
  static std::map<std::string, std::shared_ptr<const Disk::Image>> made;
  std::shared_ptr<const Disk::Image>& empty = made[directory];
  const std::filesystem::path folder{directory};
  if (!empty) {
    std::filesystem::remove(folder / "run.db");
    EMPLACE_CHECK(record::RunWriter::create(directory, {}).ok(), "the database can be made");
    empty = disk.image();
    // The run database checks in the file system whether it exists.
    EMPLACE_CHECK(write_file(folder / "run.db", std::string_view{}).ok(), "the folder can be written");
  }
  std::filesystem::remove(folder / "head.seq");
  disk.load(*empty);
}

}  // namespace emplace::sim_test

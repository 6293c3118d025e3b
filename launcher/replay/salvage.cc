#include "launcher/replay/salvage.h"

#include <system_error>

#include "base/file.h"
#include "base/text/words.h"

namespace emplace::launcher {

Result<record::Salvaged> salvage_run(const std::filesystem::path& run,
                                     const std::filesystem::path& directory) {
  auto salvaged = record::salvage(run, directory);
  if (!salvaged) return salvaged;
  std::error_code failure;
  if (auto kept = write_file(directory / "config.toml", salvaged->facts.config_toml); !kept) {
    for (const auto& entry : std::filesystem::directory_iterator{directory, failure})
      std::filesystem::remove_all(entry.path(), failure);
    return kept.error();
  }
  std::filesystem::create_directory(directory / "log", failure);
  for (const char* name :
       {"cluster.toml", "best.placement.json", "best", "baseline", "baseline.placement.json"}) {
    if (!std::filesystem::exists(run / name, failure)) continue;
    std::filesystem::copy(run / name, directory / name, std::filesystem::copy_options::recursive, failure);
    if (failure) salvaged->missing.push_back(std::string{name} + ": " + failure.message());
  }
  return salvaged;
}

}  // namespace emplace::launcher

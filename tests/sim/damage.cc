#include "tests/sim/damage.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "record/run_reader.h"
#include "record/salvage.h"

namespace emplace::sim_test {
namespace {

namespace fs = std::filesystem;

/// Number of episodes before the first damage, as the line names it; 0 where it names a page or a table.
std::uint64_t whole_before(const std::string& line) {
  const auto number_after = [&](std::string_view words) -> std::uint64_t {
    const std::size_t at = line.find(words);
    return at == std::string::npos ? 0 : std::strtoull(line.c_str() + at + words.size(), nullptr, 10);
  };
  const std::uint64_t damaged = number_after("damaged at episode number ");
  if (damaged > 0) return damaged - 1;
  return line.find(" episodes of ") == std::string::npos ? 0 : number_after("truncated: ");
}

void copy_off(const Disk& disk, const fs::path& run, const fs::path& to) {
  fs::create_directories(to);
  const auto image = disk.image();
  for (const auto& [path, content] : image->files)
    EMPLACE_CHECK(write_file(to / fs::path{path}.filename(), std::as_bytes(std::span{content})).ok(),
                  "the folder can be written");
  std::error_code none;
  fs::copy_file(run / "head.seq", to / "head.seq", none);
}

}  // namespace

bool names_damage(const std::string& line) {
  constexpr std::array kWords{"damaged", "truncated", "altered"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](const char* word) { return line.find(word) != std::string::npos; });
}

std::optional<std::string> complaint_of(const std::string& directory) {
  const auto db = record::RunReader::open(directory, record::Reading::kInProgress);
  const auto whole = db ? (*db)->verify() : Result<Unit>{db.error()};
  return whole ? std::nullopt : std::optional{whole.error().context};
}

void check_salvage(const Disk& disk, const std::string& directory, HistoryChecker& history,
                   Verdict& verdict) {
  const std::uint64_t at_least = whole_before(complaint_of(directory).value_or(""));
  const fs::path damaged = fs::path{directory} / "damaged", into = fs::path{directory} / "salvaged";
  copy_off(disk, directory, damaged);
  const RealFiles real;
  const auto salvaged = record::salvage(damaged, into);
  const auto db = salvaged ? record::RunReader::open(into, record::Reading::kInProgress) : salvaged.error();
  if (!db) {
    verdict.broken("salvage (G19)", db.error().context);
  } else {
    history.check_salvaged((*db)->log(), at_least);
  }
  fs::remove_all(damaged);
  fs::remove_all(into);
}

}  // namespace emplace::sim_test

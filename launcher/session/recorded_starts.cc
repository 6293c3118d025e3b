#include "launcher/session/recorded_starts.h"

#include <system_error>
#include <utility>

#include "base/text/words.h"
#include "launcher/settings/placers.h"

namespace emplace::launcher {
namespace {

Result<RecordedStart> open_start(Start start) {
  RecordedStart opened{std::move(start), nullptr, {}};
  // Without a writer, read in a mode that changes no file of the run.
  auto db = record::RunReader::open(opened.start.directory, record::Reading::kQuiet);
  if (!db) {
    db = record::RunReader::open(opened.start.directory, record::Reading::kInProgress);
    opened.in_progress = db.ok();
  }
  if (!db) return db.error();
  opened.db = *std::move(db);
  EMPLACE_TRY_ASSIGN(opened.facts, opened.db->header().facts());
  return opened;
}

}  // namespace

Result<record::LearningSummary> learning_of(const record::RunReader& db, const RunConfig& config) {
  EMPLACE_TRY_ASSIGN(const auto samples, db.results().policy_samples());
  return record::summarise_learning(samples, saturation_cure(config));
}

Result<RecordedStarts> open_starts(const std::filesystem::path& directory) {
  RecordedStarts run;
  EMPLACE_TRY_ASSIGN(auto first, open_start({"", directory, 0, false}));
  EMPLACE_TRY_ASSIGN(run.config, recorded_config(first.facts.config_toml,
                                                 printable((directory / "run.db").string()) + ": config"));
  const std::vector<std::string>& names = run.config.run.starts;
  first.start.name = names.empty() ? "scratch" : names.front();
  run.starts.push_back(std::move(first));
  std::error_code ignored;
  for (std::size_t s = 1; s < names.size(); ++s) {
    Start start{names[s], start_directory(directory, names[s]), 0, false};
    if (!std::filesystem::exists(start.directory / "run.db", ignored)) continue;
    EMPLACE_TRY_ASSIGN(auto opened, open_start(std::move(start)));
    run.starts.push_back(std::move(opened));
  }
  return run;
}

}  // namespace emplace::launcher

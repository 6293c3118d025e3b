#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "launcher/commands/extensions.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/json_text.h"
#include "placement/machine/machine_text.h"
#include "placement/placement_file.h"
#include "record/export/run_export.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

/// Returns the device names that the run recorded; numbers if it recorded none.
std::vector<std::string> devices_of(record::RunHeader header, const fs::path& run, std::size_t count) {
  if (const auto graphs = header.graphs(); graphs && !graphs->empty()) {
    const auto devices = parse_recorded_devices(graphs->front().devices_toml, "run.db", {}, kUnstatedCosts);
    if (devices && devices->size() == count) return devices->names();
  }
  for (const char* kept : {"best.placement.json", "baseline.placement.json"}) {
    const auto names = placement_devices(run / kept);
    if (names && names->size() == count) return *names;
  }
  std::vector<std::string> numbered;
  for (std::size_t d = 0; d < count; ++d) numbered.push_back(std::to_string(d));
  return numbered;
}

}  // namespace

Result<ExitStatus> export_recorded_run(const RecordRequest& request, Console& console) {
  EMPLACE_TRY_ASSIGN(auto db, record::RunReader::open(request.run, record::Reading::kQuietOrInProgress));
  record::RunExport options;
  options.output = request.output.empty() ? fs::path{request.run} / "tensorboard" : fs::path{request.output};
  options.table = request.table;
  EMPLACE_TRY_ASSIGN(auto facts, db->header().facts());
  options.devices = devices_of(db->header(), request.run, facts.num_devices);
  options.facts = std::move(facts);
  EMPLACE_TRY_ASSIGN(auto exporter, record::make_run_exporter(request.format, std::move(options)));
  EMPLACE_TRY_ASSIGN(const auto done, record::export_run(*db, *exporter));
  if (console.json()) {
    const Json json{{"run", request.run},           {"format", request.format},
                    {"output", done.path.string()}, {"exact", true},
                    {"episodes", done.episodes},    {"measurements", done.measurements},
                    {"updates", done.updates}};
    console.print(json_text(json));
  } else {
    std::string counts;
    const auto count = [&](std::uint64_t number, const char* what) {
      if (number > 0) counts += fmt::format(", {}{}", number, what);
    };
    count(done.episodes, " episodes");
    count(done.measurements, " measurements");
    count(done.updates, " updates");
    console.print(printable_path(done.path) + ": exact" + counts);
  }
  return ExitStatus::kDone;
}

}  // namespace emplace::launcher

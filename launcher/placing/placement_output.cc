#include "launcher/placing/placement_output.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "placement/placement_file.h"

namespace emplace::launcher {

std::string PlacementOutput::path_of(std::size_t k) const {
  if (k == 1) return path;
  const std::filesystem::path first{path};
  const std::string name = first.stem().string() + "-" + std::to_string(k) + first.extension().string();
  return (first.parent_path() / name).string();
}

Result<Unit> PlacementOutput::check_writable() const {
  if (path.empty()) return Unit{};
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  if (std::filesystem::is_directory(folder, error) && !std::filesystem::is_directory(path, error) &&
      ::access(folder.c_str(), W_OK) == 0)
    return Unit{};
  return Error{Errc::kIo,
               printable(path) + ": cannot be written; name a file in a folder that exists and is writable"};
}

Result<Unit> PlacementOutput::save(const Inputs& inputs, const Answer& answer, const Clock& clock,
                                   std::size_t k) const {
  const PlacementInfo info{.graph_sha256 = graph_sha256(inputs.graph),
                           .method = answer.method,
                           .executor = executor,
                           .seed = seed,
                           .created = format_wall(clock.wall()),
                           .plan = answer.plan,
                           .strategy = inputs.judge.strategy,
                           .order = answer.order};
  return save_placement(path_of(k), inputs.graph, inputs.devices, answer.placement, answer.measurement, info);
}

}  // namespace emplace::launcher

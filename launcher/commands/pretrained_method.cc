#include "launcher/commands/pretrained_method.h"

#include <utility>

#include "launcher/commands/graph_options.h"
#include "launcher/settings/placers.h"

namespace emplace::launcher {

Result<PretrainedMethod> pretrained_method(const std::string& weights, const std::string& samples) {
  EMPLACE_TRY_ASSIGN(const auto count, parse_whole("--samples", samples, 0, 100'000));
  PretrainedMethod made;
  if (!weights.empty()) {
    EMPLACE_TRY_ASSIGN(auto loaded, read_scheduler(weights));
    made.own = std::make_unique<policy::SchedulerPolicy>(std::move(loaded));
  }
  made.method = std::make_unique<Pretrained>(made.own ? *made.own : policy::shipped_scheduler(), count);
  return made;
}

}  // namespace emplace::launcher

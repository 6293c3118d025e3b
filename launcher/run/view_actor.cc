#include "launcher/run/view_actor.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/task.h"

namespace emplace::launcher {

void ViewActor::on_message(runtime::Context&, const runtime::Incoming& incoming) {
  (void)incoming.match([&](const messages::RunProgress& progress) {
    if (progress.from == actors::kRecorder) {
      updates_ = progress.updates;
      committed_ = progress.committed;
      return;
    }
    double busy = 0;
    for (const messages::ExecutorUse& use : progress.executors) busy += use.utilisation;
    // At the end executors leave before the head does: what they did stays said.
    if (!progress.executors.empty()) utilisation_ = busy / static_cast<double>(progress.executors.size());
    const nlohmann::json line{{"episodes", progress.episodes},
                              {"measurements", progress.measurements},
                              {"valid", progress.valid},
                              {"updates", updates_},
                              {"committed", committed_},
                              {"lost", progress.lost},
                              {"duplicated", progress.duplicated},
                              {"in_flight", progress.in_flight},
                              {"best_step_time_s", progress.best_step_time_s},
                              {"elapsed_s", progress.elapsed_s},
                              {"executors", progress.executors.size()},
                              {"utilisation", utilisation_},
                              {"leases",
                               {{"issued", progress.issued},
                                {"counted", progress.counted},
                                {"open", progress.open},
                                {"expired", progress.expired},
                                {"refused", progress.refused}}}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  });
}

}  // namespace emplace::launcher

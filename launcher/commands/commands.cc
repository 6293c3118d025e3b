#include "launcher/commands/commands.h"

#include <iterator>
#include <utility>

#include "launcher/commands/extensions.h"

namespace emplace::launcher {

Commands all_commands(const Laboratory& laboratory) {
  Commands commands;
  for (auto make : {make_run, make_up, make_join, make_ps, make_top, make_down}) commands.push_back(make());
  Commands placing = placing_commands({learned_methods, real_executors(), run_records()});
  std::move(placing.begin(), placing.end(), std::back_inserter(commands));
  commands.push_back(make_generate(laboratory));
  if (laboratory.make_train != nullptr) commands.push_back(laboratory.make_train());
  for (auto make : {make_replay, make_report, make_runs, make_calibrate, make_keygen, make_doctor,
                    make_version, make_node}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace emplace::launcher

#include "launcher/commands/commands.h"

namespace emplace::launcher {

Commands all_commands() {
  Commands commands;
  for (auto make : {make_run,    make_up,        make_join,     make_ps,      make_top,     make_down,
                    make_place,  make_compare,   make_evaluate, make_explain, make_bound,   make_inspect,
                    make_import, make_export,    make_generate, make_train,   make_replay,  make_report,
                    make_runs,   make_calibrate, make_keygen,   make_doctor,  make_version, make_node}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace emplace::launcher

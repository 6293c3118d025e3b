#include "launcher/commands/commands.h"

namespace emplace::launcher {

Commands all_commands() {
  Commands commands;
  for (auto make : {make_place, make_compare, make_evaluate, make_bound, make_inspect, make_import, make_doctor, make_version}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace emplace::launcher

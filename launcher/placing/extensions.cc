#include "launcher/placing/extensions.h"

namespace emplace::launcher {

Extensions no_extensions() {
  const auto refuse = [](const std::string& kind, const auto&...) {
    return not_in_this_program("--executor " + kind);
  };
  return {[](const InputOptions&, bool) { return std::make_unique<LearnedMethods>(); }, refuse, refuse,
          [](const RecordRequest& request, Console&) {
            return not_in_this_program("export of the run " + request.run);
          }};
}

Commands placing_commands(const Extensions& extensions) {
  Commands commands;
  for (auto make : {make_place, make_compare, make_evaluate}) commands.push_back(make(extensions));
  for (auto make : {make_explain, make_bound, make_inspect, make_import}) commands.push_back(make());
  commands.push_back(make_export(extensions));
  return commands;
}

}  // namespace emplace::launcher

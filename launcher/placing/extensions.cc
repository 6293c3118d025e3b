#include "launcher/placing/extensions.h"

namespace emplace::launcher {
Result<Unit> RealExecutors::check(const std::string& kind, const Judge&, const ProcessRequest&) const {
  return not_in_this_program("--executor " + kind);
}

Result<std::unique_ptr<RealExecutor>> RealExecutors::start(const std::string& kind, const OpGraph&,
                                                           const DeviceSet&, const Judge&,
                                                           const ProcessRequest&) const {
  return not_in_this_program("--executor " + kind);
}

Result<ExitStatus> RunRecords::write(const RecordRequest& request, Console&) const {
  return not_in_this_program("export of the run " + request.run);
}

Extensions no_extensions() {
  static const RealExecutors executors;
  static const RunRecords records;
  return {[](const InputOptions&, bool) { return std::make_unique<LearnedMethods>(); }, executors, records};
}

Commands placing_commands(const Extensions& extensions) {
  Commands commands;
  for (auto make : {make_place, make_compare, make_evaluate}) commands.push_back(make(extensions));
  for (auto make : {make_explain, make_bound, make_inspect, make_import}) commands.push_back(make());
  commands.push_back(make_export(extensions));
  return commands;
}

}  // namespace emplace::launcher

#include <nlohmann/json.hpp>

#include "launcher/commands/commands.h"
#include "launcher/terminal/build_info.h"
#include "launcher/terminal/json_text.h"

namespace emplace::launcher {
namespace {

class Version final : public Command {
 public:
  Version()
      : Command{"version", "Print version, build type and the optional parts that are built in",
                "emplace version"} {}
  void declare(Options&) override {}
  Result<ExitStatus> run(Console& console) override {
    const BuildInfo& info = build_info();
    const Json json{{"version", info.version},
                    {"build_type", info.build_type},
                    {"compiler", info.compiler},
                    {"parts", info.parts},
                    {"without", info.without}};
    console.print(console.json() ? json_text(json) : describe(info));
    return ExitStatus::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> make_version() { return std::make_unique<Version>(); }

}  // namespace emplace::launcher

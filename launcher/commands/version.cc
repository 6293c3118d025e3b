#include "launcher/commands/commands.h"
#include "launcher/settings/build_info.h"
#include "launcher/settings/json_object.h"

namespace emplace::launcher {
namespace {

class Version final : public Command {
 public:
  std::string_view name() const override { return "version"; }
  std::string_view summary() const override {
    return "Version, build type and the optional parts that are in";
  }
  void declare(Options&) override {}
  Result<ExitStatus> run(Console& console) override {
    const BuildInfo& info = build_info();
    JsonObject json;
    json.add("version", info.version).add("build_type", info.build_type).add("compiler", info.compiler);
    json.add("parts", std::span<const std::string>{info.parts})
        .add("without", std::span<const std::string>{info.without});
    console.print(console.json() ? json.text() : describe(info));
    return ExitStatus::kDone;
  }
};

}  // namespace

std::unique_ptr<Command> make_version() { return std::make_unique<Version>(); }

}  // namespace emplace::launcher

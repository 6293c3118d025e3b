// emplace-exec-fake: an executor process whose steps are simulated. It tests everything between an executor
// process and a learner on machines without devices.
#include <poll.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "executor/plan/fake_executor.h"
#include "executor/timing.h"
#include "launcher/worker/serve.h"

namespace {

using namespace emplace;

/// The fake executor, which waits `delay_ms` before every measurement. With `refuses_surprises` a placement
/// fails if another one was announced.
class DelayedExecutor final : public FakeExecutor {
 public:
  DelayedExecutor(const OpGraph& graph, const DeviceSet& devices, const TimingOptions& timing,
                  bool refuses_surprises, int delay_ms, std::vector<std::string> notes)
      : FakeExecutor{graph, devices},
        timer_{timing},
        refuses_surprises_{refuses_surprises},
        delay_ms_{delay_ms},
        notes_{std::move(notes)} {}
  void expect(std::span<const DeviceId> placement) override {
    announced_.assign(placement.begin(), placement.end());
  }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    const bool surprised = !expected_.empty() && !std::ranges::equal(expected_, placement);
    expected_ = std::exchange(announced_, {});
    if (surprised && refuses_surprises_) return Error{Errc::kRunFailed, "another placement was announced"};
    if (delay_ms_ > 0) ::poll(nullptr, 0, delay_ms_);
    EMPLACE_TRY(FakeExecutor::measure(placement, out));
    if (!out.valid) return Unit{};
    EMPLACE_TRY_ASSIGN(auto timing, timer_.time([&]() -> Result<double> { return out.step_time_s; }));
    out.samples_s = std::move(timing.samples_s);
    return Unit{};
  }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  StepTimer timer_;
  const bool refuses_surprises_;
  const int delay_ms_;
  const std::vector<std::string> notes_;
  Placement announced_, expected_;
};

}  // namespace

int main(int argc, char** argv) {
  int delay_ms = 0;
  bool refuses = false, refuses_surprises = false;
  std::vector<std::string> notes;
  launcher::ExecutorProgram program{
      .kind = "fake", .version = [] { return std::string{EMPLACE_VERSION}; }, .takes_real_time = false};
  program.option = [&](std::string_view option) -> Result<Unit> {
    if (option == "--refuse") return refuses = true, Unit{};
    if (option.starts_with("--note=")) return notes = {std::string{option.substr(7)}}, Unit{};
    if (option == "--refuse-surprises") return refuses_surprises = true, Unit{};
    if (!option.starts_with("--delay="))
      return invalid(printable(option, 60), "is not an option", "use e.g. --delay=5ms");
    EMPLACE_TRY_ASSIGN(const double seconds, parse_seconds(option.substr(8)));
    delay_ms = static_cast<int>(std::ceil(seconds * 1e3));
    return Unit{};
  };
  program.make = [&](const OpGraph& graph, const DeviceSet& devices,
                     const RealOptions& options) -> Result<std::unique_ptr<RealExecutor>> {
    if (refuses) return Error{Errc::kUnsupported, "refuses every graph because of --refuse"};
    return std::unique_ptr<RealExecutor>{std::make_unique<DelayedExecutor>(
        graph, devices, options.timing, refuses_surprises, delay_ms, notes)};
  };
  return launcher::serve_executor(argc, argv, program);
}

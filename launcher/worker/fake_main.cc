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
class DelayedExecutor final : public RealExecutor {
 public:
  DelayedExecutor(const OpGraph& graph, const DeviceSet& devices, const TimingOptions& timing,
                  bool refuses_surprises, int delay_ms)
      : fake_{graph, devices}, timer_{timing}, refuses_surprises_{refuses_surprises}, delay_ms_{delay_ms} {}
  std::string_view kind() const override { return fake_.kind(); }
  void expect(std::span<const DeviceId> placement) override {
    announced_.assign(placement.begin(), placement.end());
  }
  Result<Unit> measure(std::span<const DeviceId> placement, Measurement& out) override {
    const bool surprised = !expected_.empty() && !std::ranges::equal(expected_, placement);
    expected_ = std::exchange(announced_, {});
    if (surprised && refuses_surprises_) return Error{Errc::kRunFailed, "another placement was announced"};
    if (delay_ms_ > 0) ::poll(nullptr, 0, delay_ms_);
    if (auto done = fake_.measure(placement, out); !done) return done;
    if (!out.valid) return Unit{};
    EMPLACE_TRY_ASSIGN(auto timing, timer_.time([&]() -> Result<double> { return out.step_time_s; }));
    out.samples_s = std::move(timing.samples_s);
    return Unit{};
  }
  Result<Unit> trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) override {
    return fake_.trace(placement, out, schedule);
  }
  Result<Verification> verify(std::span<const DeviceId> placement) override {
    return fake_.verify(placement);
  }
  Result<ExecutorProfile> profile() override { return fake_.profile(); }
  std::vector<std::string> synthetic_types() const override { return fake_.synthetic_types(); }
  std::vector<std::string> notes() const override { return notes_; }
  void add_note(const std::string& note) { notes_.push_back(note); }

 private:
  FakeExecutor fake_;
  StepTimer timer_;
  const bool refuses_surprises_;
  Placement announced_, expected_;
  std::vector<std::string> notes_;
  const int delay_ms_;
};

}  // namespace

int main(int argc, char** argv) {
  int delay_ms = 0;
  bool refuses = false, refuses_surprises = false;
  std::string note;
  launcher::ExecutorProgram program{
      .kind = "fake", .version = [] { return std::string{EMPLACE_VERSION}; }, .takes_real_time = false};
  program.option = [&](std::string_view option) -> Result<Unit> {
    if (option == "--refuse") return refuses = true, Unit{};
    if (option.starts_with("--note=")) return note = option.substr(7), Unit{};
    if (option == "--refuse-surprises") return refuses_surprises = true, Unit{};
    if (!option.starts_with("--delay="))
      return invalid(printable(option, 60), "is not an option", "use e.g. --delay=5ms");
    const auto seconds = parse_seconds(option.substr(8));
    if (!seconds) return seconds.error();
    delay_ms = static_cast<int>(std::ceil(*seconds * 1e3));
    return Unit{};
  };
  program.make = [&](const OpGraph& graph, const DeviceSet& devices,
                     const RealOptions& options) -> Result<std::unique_ptr<RealExecutor>> {
    if (refuses) return Error{Errc::kUnsupported, "refuses every graph because of --refuse"};
    auto executor =
        std::make_unique<DelayedExecutor>(graph, devices, options.timing, refuses_surprises, delay_ms);
    if (!note.empty()) executor->add_note(note);
    return std::unique_ptr<RealExecutor>{std::move(executor)};
  };
  return launcher::serve_executor(argc, argv, program);
}

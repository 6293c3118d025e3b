#include "launcher/worker/chaos.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <utility>

#include "base/text/words.h"
#include "executor/plan/out_of_memory.h"

namespace emplace::launcher {

Result<ChaosPlan> parse_chaos(std::string_view text) {
  ChaosPlan plan;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const std::string_view word = part.substr(0, equals);
    std::uint64_t* const every = word == "crash-every"    ? &plan.crash_every
                                 : word == "hang-every"   ? &plan.hang_every
                                 : word == "poison-every" ? &plan.poison_every
                                 : word == "oom-every"    ? &plan.oom_every
                                                          : nullptr;
    const std::string_view number = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    const auto [end, failed] = every == nullptr
                                   ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                   : std::from_chars(number.data(), number.data() + number.size(), *every);
    if (failed != std::errc{} || end != number.data() + number.size())
      return invalid("chaos '" + printable(part, 40) + "'", "is not a failure",
                     "use crash-every=N, hang-every=N, poison-every=N and oom-every=N, with commas");
  }
  return plan;
}

ChaosExecutor::ChaosExecutor(std::unique_ptr<RealExecutor> inner, ChaosPlan plan, const OpGraph& graph,
                             const DeviceSet& devices)
    : inner_{std::move(inner)}, plan_{plan}, graph_{graph}, devices_{devices} {}

Result<Unit> ChaosExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  const auto due = [&](std::uint64_t every) { return every > 0 && number_ % every == 0; };
  if (due(plan_.crash_every)) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    (void)::signal(SIGSEGV, SIG_DFL);
    (void)::raise(SIGSEGV);
  }
  while (due(plan_.hang_every)) ::poll(nullptr, 0, -1);
  if (due(plan_.poison_every))
    return Error{Errc::kDeviceLost, "measurement " + std::to_string(number_) + " lost its device on purpose"};
  if (!due(plan_.oom_every)) return inner_->measure(placement, out);
  const OpId op{static_cast<std::uint32_t>(number_ % graph_.num_ops())};
  const DeviceId device = placement[index(op)];
  const std::int64_t free = devices_[device].memory_bytes;
  out = Measurement{};
  out.peak_bytes.assign(devices_.size(), 0);
  out.busy_s.assign(devices_.size(), 0);
  write_out_of_memory({op, device, free + 1, free}, graph_, devices_, out);
  return Unit{};
}

}  // namespace emplace::launcher

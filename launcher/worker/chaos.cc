#include "launcher/worker/chaos.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <string>

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

Result<bool> inject_failure(const ChaosPlan& plan, std::uint64_t number, std::span<const DeviceId> placement,
                            const OpGraph& graph, const DeviceSet& devices, Measurement& out) {
  const auto due = [&](std::uint64_t every) { return every > 0 && number % every == 0; };
  if (due(plan.crash_every)) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    (void)::signal(SIGSEGV, SIG_DFL);
    (void)::raise(SIGSEGV);
  }
  while (due(plan.hang_every)) ::poll(nullptr, 0, -1);
  if (due(plan.poison_every))
    return Error{Errc::kDeviceLost, "measurement " + std::to_string(number) + " lost its device on purpose"};
  if (!due(plan.oom_every)) return false;
  const OpId op{static_cast<std::uint32_t>(number % graph.num_ops())};
  const DeviceId device = placement[index(op)];
  const std::int64_t free = devices[device].memory_bytes;
  out = Measurement{};
  out.peak_bytes.assign(devices.size(), 0);
  out.busy_s.assign(devices.size(), 0);
  write_out_of_memory({op, device, free + 1, free}, graph, devices, out);
  return true;
}

}  // namespace emplace::launcher

#include "launcher/worker/executors.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text/words.h"
#include "launcher/inputs/torch_model.h"
#include "launcher/worker/chaos.h"
#include "launcher/worker/helper_program.h"
#include "launcher/worker/process_executor.h"

namespace emplace::launcher {
namespace {

/// PyTorch's libraries hold the lock of Python's interpreter while they are loaded, which delays heartbeats.
constexpr Nanos kTorchStart = std::chrono::minutes{2};

bool has_shaped_link(const DeviceSet& devices) {
  for (std::size_t s = 0; s < devices.size(); ++s)
    for (std::size_t t = 0; t < devices.size(); ++t)
      if (devices.link(static_cast<DeviceId>(s), static_cast<DeviceId>(t)).shaped) return true;
  return false;
}

}  // namespace

Result<Unit> check_process_executor(const std::string& kind, const Judge& judge,
                                    const ProcessRequest& request) {
  const auto kinds = process_executor_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    return invalid("", "unknown executor '" + printable(kind, 40) + "'",
                   "expected sim, placeto, cpu, cuda, fake or torch");
  if (judge.objective != Objective::kStepTime)
    return invalid("executor '" + kind + "'", "measures only step times",
                   "use --objective step-time, or the executor sim");
  if (request.real.timing.samples == 0)
    return invalid("executor '" + kind + "'", "needs at least one sample", "use e.g. 5");
  if (auto plan = parse_chaos(request.chaos); !plan) return plan.error();
  if (kind == "torch") EMPLACE_TRY(check_model(request.model));
  if (auto program = helper_program(kind); !program) return program.error();
  return Unit{};
}

Result<Unit> check_process_links(const std::string& kind, const DeviceSet& devices) {
  if (kind == "torch" && has_shaped_link(devices))
    return invalid("executor 'torch'", "does not slow copies down to a shaped link",
                   "remove shaped from the device file, or use cpu");
  if (kind != "fake" || devices.is_simple()) return Unit{};
  return invalid("executor 'fake'", "does not simulate shared links or several copy engines in a process",
                 "use sim");
}

Result<Unit> lease_gpus(const std::string& kind, const DeviceSet& devices, ProcessRequest& request) {
  if (kind != "cuda") return Unit{};
  if (request.gpus == nullptr) request.gpus = std::make_shared<GpuLease>(GpuSources::real());
  return request.gpus->take(devices);
}

std::unique_ptr<RealExecutor> make_process_executor(const std::string& kind, const OpGraph& graph,
                                                    const DeviceSet& devices, const ProcessRequest& request) {
  static const SystemClock clock;
  ProcessExecutorOptions options;
  options.kind = kind;
  options.command = helper_command(kind);
  std::uint32_t threads = 1;
  if (kind == "torch") {
    threads = request.threads;
    options.command.arguments = {"--model=" + request.model, "--threads=" + std::to_string(threads)};
    options.supervision.silence_at_start = kTorchStart;
  }
  for (std::size_t at = 0; at < request.chaos.size();) {  // Turn "a=1,b=2" into the options --a=1 --b=2.
    const std::size_t end = std::min(request.chaos.find(',', at), request.chaos.size());
    options.command.arguments.push_back("--" + request.chaos.substr(at, end - at));
    at = end + 1;
  }
  if (kind == "fake" && request.delay_s > 0)
    options.command.arguments.push_back("--delay=" + std::to_string(request.delay_s) + "s");
  // Waiting threads must not spin on cores where other threads are being timed.
  options.command.environment = {"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT=0",
                                 "OMP_NUM_THREADS=" + std::to_string(threads)};
  // Every stream of the logical devices on a GPU needs a queue of its own, else streams wait for each other.
  if (kind == "cuda") {
    options.command.environment.insert(options.command.environment.end(),
                                       {"CUDA_DEVICE_MAX_CONNECTIONS=32", "CUDA_DEVICE_ORDER=PCI_BUS_ID"});
    options.gpus = request.gpus ? request.gpus : std::make_shared<GpuLease>(GpuSources::real());
  }
  options.real = request.real;
  options.supervision.least_deadline = Nanos{static_cast<std::int64_t>(request.deadline_s * 1e9)};
  options.supervision.silence = std::clamp(options.supervision.least_deadline, Nanos{std::chrono::seconds{3}},
                                           options.supervision.silence);
  options.supervision.restarts_per_minute = static_cast<int>(request.restarts);
  options.supervision.seed = request.real.seed;
  options.interrupted = request.interrupted;
  options.note = request.note;
  return std::make_unique<ProcessExecutor>(graph, devices, std::move(options), clock);
}

Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const Judge& judge,
                                                const ProcessRequest& request) {
  if (kind == "sim" || kind == "placeto") {
    Judge own = judge;
    own.placeto = kind == "placeto";
    return make_model(graph, devices, own);
  }
  if (auto fit = check_process_executor(kind, judge, request); !fit) return fit.error();
  if (auto links = check_process_links(kind, devices); !links) return links.error();
  ProcessRequest own = request;
  EMPLACE_TRY(lease_gpus(kind, devices, own));
  return std::unique_ptr<Executor>{make_process_executor(kind, graph, devices, own)};
}

}  // namespace emplace::launcher

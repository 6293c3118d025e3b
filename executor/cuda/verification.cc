// Compares a run on several devices with a run on a single device, by samples of every tensor.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "executor/cuda/cuda_executor.h"
#include "executor/cuda/executor_state.h"

namespace emplace::cuda {
namespace {

constexpr std::size_t kMaxSamples = 1024;
constexpr float kTolerance = 0.01f;

using Sample = std::vector<std::byte>;

/// Takes every nth element, at most kMaxSamples.
void sample(std::span<const std::byte> tensor, std::size_t element, Sample& out) {
  const std::size_t count = tensor.size() / element, step = count / kMaxSamples + 1;
  for (std::size_t i = 0; i < count; i += step)
    out.insert(out.end(), &tensor[i * element], &tensor[i * element] + element);
}

bool agree(const Sample& a, const Sample& b, DType dtype) {
  if (dtype != DType::kF32) return a == b;
  if (a.size() != b.size()) return false;
  std::vector<float> x(a.size() / sizeof(float)), y(x.size());
  std::memcpy(x.data(), a.data(), a.size());
  std::memcpy(y.data(), b.data(), b.size());
  float largest = 0;
  for (const float value : y)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(y[i]) ? !(std::fabs(x[i] - y[i]) <= kTolerance * largest + 1e-6f)
                            : std::isnan(x[i]) != std::isnan(y[i]))
      return false;
  }
  return true;
}

}  // namespace

Result<Verification> CudaExecutor::verify(std::span<const DeviceId> placement) {
  State& state = *state_;
  EMPLACE_TRY(check_devices(placement, state.lowered.num_ops(), state.devices.size()));
  if (state.session.poisoned()) return state.session.sticky_error();
  state.finish_background();
  const auto samples_of = [&](std::span<const DeviceId> placed) -> Result<std::vector<std::vector<Sample>>> {
    const TaskPlan plan = state.plan(placed);
    const StepProgram program = state.program(plan);
    if (program.out_of_memory()) {
      Measurement full;
      write_out_of_memory(*program.out_of_memory(), state.graph, state.devices, full);
      return Error{Errc::kRunFailed, full.failure};
    }
    std::vector<std::vector<Sample>> samples(state.lowered.num_ops());
    std::vector<std::byte> host;
    const StepStream::Watch watch = [&](const Instruction& instruction) -> Result<Unit> {
      const OpId op{plan.tasks()[instruction.task].what};
      samples[index(op)].resize(state.graph.num_outputs(op));
      for (std::size_t k = 0; k < state.graph.num_outputs(op); ++k) {
        const TensorId tensor = state.graph.output(op, k);
        host.resize(static_cast<std::size_t>(state.graph.bytes(tensor)));
        const std::byte* const from = program.memory(plan.home_slot(state.lowered.buffer(tensor)));
        EMPLACE_TRY(state.from_device(instruction.stream / kStreamsPerDevice, from, host));
        sample(host, static_cast<std::size_t>(element_bytes(state.graph.dtype(tensor))),
               samples[index(op)][k]);
      }
      return Unit{};
    };
    EMPLACE_TRY(state.prepare(plan, program));
    EMPLACE_TRY(state.stream->watched_step(program, watch));
    return samples;
  };
  const auto placed = samples_of(placement);
  if (!placed) return call_failed(state.failed(placed.error()));
  const auto alone = samples_of(Placement(state.lowered.num_ops(), DeviceId{0}));
  if (!alone) {
    const Error why = state.failed(alone.error());
    return call_failed({why.code, "on a single device: " + why.context});
  }
  Verification out;
  out.identical = true;
  std::vector<bool> filler(state.lowered.num_ops(), false);
  for (const OpId op : state.graph.topological_order()) {
    if (!state.lowered.takes_time(op)) continue;
    bool skipped = state.kernels[index(placement[index(op)])].kernel(op).synthetic ||
                   state.kernels[0].kernel(op).synthetic;
    for (const BufferId buffer : state.lowered.reads(op))
      skipped = skipped || filler[index(state.lowered.owner(buffer))];
    filler[index(op)] = skipped;
    for (std::size_t k = 0; k < state.graph.num_outputs(op); ++k) {
      ++(skipped ? out.skipped : out.compared);
      if (skipped || !out.identical) continue;
      if (agree((*placed)[index(op)][k], (*alone)[index(op)][k],
                state.graph.dtype(state.graph.output(op, k))))
        continue;
      out.identical = false;
      out.first_difference = state.graph.name(op);
    }
  }
  return out;
}

}  // namespace emplace::cuda

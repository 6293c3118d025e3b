// Compares a run on several devices with a run on a single device, by samples of every tensor.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "executor/cuda/cuda_executor.h"
#include "executor/plan/compared_steps.h"

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
  EMPLACE_TRY(check_devices(placement, lowered_.num_ops(), devices_.size()));
  if (session_.poisoned()) return session_.sticky_error();
  finish_background();
  const auto samples_of = [&](std::span<const DeviceId> placed) -> Result<std::vector<std::vector<Sample>>> {
    const PlacedProgram made{*this, placed};
    const TaskPlan& plan = made.plan;
    const StepProgram& program = made.program;
    if (program.out_of_memory()) return run_failed(*program.out_of_memory(), graph_, devices_);
    std::vector<std::vector<Sample>> samples(lowered_.num_ops());
    std::vector<std::byte> host;
    const StepStream::Watch watch = [&](const Instruction& instruction) -> Result<Unit> {
      const OpId op{plan.tasks()[instruction.task].what};
      samples[index(op)].resize(graph_.num_outputs(op));
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
        const TensorId tensor = graph_.output(op, k);
        host.resize(static_cast<std::size_t>(graph_.bytes(tensor)));
        const std::byte* const from = program.memory(plan.home_slot(lowered_.buffer(tensor)));
        EMPLACE_TRY(from_device(instruction.stream / kStreamsPerDevice, from, host));
        sample(host, static_cast<std::size_t>(element_bytes(graph_.dtype(tensor))), samples[index(op)][k]);
      }
      return Unit{};
    };
    EMPLACE_TRY(prepare(plan, program));
    EMPLACE_TRY(stream_->watched_step(program, watch));
    return samples;
  };
  const auto placed = samples_of(placement);
  if (!placed) return call_failed(failed(placed.error()));
  const auto alone = samples_of(Placement(lowered_.num_ops(), DeviceId{0}));
  if (!alone) {
    const Error why = failed(alone.error());
    return call_failed({why.code, "on a single device: " + why.context});
  }
  return compare_steps(
      lowered_,
      [&](OpId op) {
        return kernels_[index(placement[index(op)])].kernel(op).synthetic || kernels_[0].kernel(op).synthetic;
      },
      [&](OpId op, std::size_t k) {
        return agree((*placed)[index(op)][k], (*alone)[index(op)][k], graph_.dtype(graph_.output(op, k)));
      });
}

}  // namespace emplace::cuda

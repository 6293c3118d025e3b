#pragma once
/// A step's program on a simulated machine, for tests.

#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "executor/cuda/program/step_program.h"
#include "executor/cuda/program/task_order.h"
#include "executor/sim/simulator.h"
#include "tests/executor/cuda/recording_api.h"

namespace emplace::testing {

/// A graph on a simulated machine, up to the program of one placement.
struct Enqueued {
  Enqueued(const OpGraph& graph, const DeviceSet& devices, const Placement& placement, int gpus,
           bool real_memory = false, std::int64_t chunk_bytes = 0, const cuda::MakeHostKernel& make_host = {})
      : recording{gpus, real_memory},
        session{recording.api()},
        lowered{graph},
        in_place{lowered},
        costs{graph, devices} {
    auto made = cuda::DeviceGroup::make(session, devices, 0, nullptr, make_host != nullptr);
    EMPLACE_CHECK(made.ok(), made.error().context);
    group = *std::move(made);
    for (std::size_t d = 0; d < devices.size(); ++d) {
      EMPLACE_CHECK((*group)[d].make_current().ok(), "current");
      auto bound = cuda::bind_graph(lowered, (*group)[d].lane(), static_cast<DeviceId>(d), costs, true,
                                    nullptr, (*group)[d].on_host() ? make_host : cuda::MakeHostKernel{});
      EMPLACE_CHECK(bound.ok(), bound.error().context);
      kernels.push_back(*std::move(bound));
    }
    for (const OpId op : lowered.kernels())
      for (const cuda::BoundGraph& of : kernels)
        if (!of.kernel(op).kernel->may_overwrite(0)) in_place.keep_apart(op);
    cuda::HostStages stages = cuda::stages_for(devices.size());
    if (chunk_bytes > 0) stages.chunk_bytes = chunk_bytes, stages.count = 2;
    stages.memory = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 39);
    if (real_memory) {
      staged.resize(static_cast<std::size_t>(stages.total_bytes(devices.size())));
      stages.memory = staged.data();
    }
    plan.emplace(lowered, devices.size(), placement, TaskPlan::Rules::kReal, &in_place);
    Measurement measured;
    Schedule schedule;
    EMPLACE_CHECK(Simulator(graph, devices).trace(placement, measured, schedule).ok(), "simulated");
    order = cuda::task_order(*plan, schedule);
    program.emplace(cuda::ProgramMachine{lowered, *group, kernels, stages}, *plan, order);
  }

  RecordingApi recording;
  cuda::Session session;
  const LoweredGraph lowered;
  InPlaceWrites in_place;
  const CostTable costs;
  std::unique_ptr<cuda::DeviceGroup> group;
  std::vector<cuda::BoundGraph> kernels;
  std::vector<std::byte> staged;
  std::optional<TaskPlan> plan;
  std::vector<std::uint32_t> order;
  std::optional<cuda::StepProgram> program;
};

}  // namespace emplace::testing

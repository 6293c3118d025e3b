#include "tests/support/sample_graphs.h"

#include <algorithm>
#include <utility>

#include "graph/copied_op.h"

namespace emplace::testing {

OpGraph sample_graph(const std::vector<SampleOp>& ops) {
  OpGraphBuilder builder;
  builder.set_name("sample");
  for (const SampleOp& op : ops) {
    OpSpec spec;
    spec.name = op.name;
    spec.type = op.type;
    spec.inputs = op.inputs;
    for (const std::int64_t bytes : op.output_bytes) spec.outputs.push_back({DType::kU8, {bytes}});
    spec.view = op.view;
    spec.phase = op.phase;
    spec.colocate = op.colocate;
    spec.param_bytes =
        class_of_type(op.type) == OpClass::kState && op.type != "Input" ? op.output_bytes.at(0) : 0;
    spec.measured_us = {{"gpu", op.gpu_us}, {"cpu", op.cpu_us}};
    builder.add(std::move(spec));
  }
  return std::move(builder).build().value();
}

OpGraph random_graph(Rng& rng, std::uint32_t ops) {
  std::vector<SampleOp> list;
  for (std::uint32_t i = 0; i < ops; ++i) {
    SampleOp op{.name = "op" + std::to_string(i)};
    op.gpu_us = rng.below(4) == 0 ? 0 : 1 + rng.below(20);
    op.cpu_us = 3 * op.gpu_us;
    op.output_bytes = {1 + rng.below(5000)};
    if (rng.below(4) == 0) op.output_bytes.push_back(1 + rng.below(5000));
    const auto any_output = [&](std::uint32_t of) {
      return EdgeSpec{of, rng.below(static_cast<std::uint32_t>(list[of].output_bytes.size()))};
    };
    if (i < ops / 5) {
      op.type = "Parameter";
      op.output_bytes.resize(1);
    } else {
      for (std::uint32_t k = 0, count = 1 + rng.below(3); k < count && i > 0; ++k)
        op.inputs.push_back(any_output(rng.below(i)));
      const std::uint32_t role = rng.below(8);
      if (role == 0) op.view = true;
      if (role == 1) {
        op.phase = Phase::kUpdate;
        op.colocate = OpId{rng.below(ops / 5 + 1) % i};
      }
    }
    list.push_back(std::move(op));
  }
  return sample_graph(list);
}

OpGraph random_graph(std::uint64_t seed, std::uint32_t ops) {
  Rng rng{seed, Purpose::kTest};
  return random_graph(rng, ops);
}

OpGraph random_training_graph(Rng& rng, std::uint32_t ops) {
  const OpGraph graph = random_graph(rng, ops);
  OpGraphBuilder builder;
  builder.set_name("training");
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    OpSpec op = copied_op(graph, OpId{i});
    if (i >= ops / 2 && op.phase == Phase::kForward) op.phase = Phase::kBackward;
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

MemoryPlan random_plan(Rng& rng, const OpGraph& graph, std::size_t devices) {
  MemoryPlan plan;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (!not_recomputable(graph, op).empty() || graph.num_outputs(op) == 0) continue;
    const TensorId tensor = graph.first_output(op);
    const bool waits = std::ranges::any_of(
        graph.consumers(tensor), [&](OpId reader) { return graph.phase(reader) != Phase::kForward; });
    const std::uint32_t choice = rng.below(3);
    if (choice == 0) plan.recompute.push_back(op);
    if (choice == 1 && waits)
      plan.moved.push_back({tensor, static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(devices)))});
  }
  return plan;
}

OpGraph layers_step(const std::vector<double>& us, double back, std::int64_t activation) {
  const auto n = static_cast<std::uint32_t>(us.size());
  const std::uint32_t f = n + 1, b = f + n;  // Numbers of f0 and of the last b.
  std::vector<SampleOp> ops{{"in", {}, {10}, 0, 0, "Input"}};
  for (std::uint32_t k = 0; k < n; ++k)
    ops.push_back({"w" + std::to_string(k), {}, {100}, 0, 0, "Parameter"});
  const auto read_by = [&](std::uint32_t k) { return EdgeSpec{k == 0 ? 0 : f + k - 1, 0}; };
  for (std::uint32_t k = 0; k < n; ++k)
    ops.push_back({"f" + std::to_string(k), {read_by(k), {1 + k, 0}}, {activation}, us[k], us[k]});
  for (std::uint32_t k = n; k-- > 0;)
    ops.push_back({"b" + std::to_string(k),
                   {{b + n - 2 - k, 0}, read_by(k), {1 + k, 0}},
                   {activation, 100},
                   back * us[k],
                   back * us[k],
                   "Work",
                   false,
                   Phase::kBackward});
  for (std::uint32_t k = 0; k < n; ++k)
    ops.push_back({"u" + std::to_string(k),
                   {{1 + k, 0}, {b + n - 1 - k, 1}},
                   {100},
                   1,
                   1,
                   "Work",
                   false,
                   Phase::kUpdate});
  return sample_graph(ops);
}

std::vector<OpId> random_order(Rng& rng, const OpGraph& graph) {
  std::vector<std::size_t> missing(graph.num_ops());
  std::vector<OpId> ready, order;
  for (std::uint32_t i = 0; i < missing.size(); ++i) {
    missing[i] = graph.inputs(OpId{i}).size();
    if (missing[i] == 0) ready.push_back(OpId{i});
  }
  while (!ready.empty()) {
    std::swap(ready[rng.below(static_cast<std::uint32_t>(ready.size()))], ready.back());
    const OpId op = ready.back();
    ready.pop_back();
    order.push_back(op);
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId output = graph.output(op, k);
      for (const OpId reader : graph.consumers(output)) {
        const auto inputs = graph.inputs(reader);
        missing[index(reader)] -= static_cast<std::size_t>(std::count(inputs.begin(), inputs.end(), output));
        if (missing[index(reader)] == 0) ready.push_back(reader);
      }
    }
  }
  return order;
}

OpGraph restricted_graph() {
  OpGraphBuilder builder;
  builder.set_name("restricted");
  for (std::uint32_t i = 0; i < 12; ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.type = "Work";
    if (i > 0) op.inputs = {{i - 1, 0}};
    op.outputs = {{DType::kF32, {4}}};
    if (i % 4 == 0) op.allowed_devices = {"gpu:1"}, op.has_allowed_devices = true;
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

SampleTask::SampleTask(OpGraph g, DeviceSet d)
    : graph{std::move(g)}, devices{std::move(d)}, constraints{Constraints::make(graph, devices).value()} {}

OpGraph layered_graph(Rng& rng, std::uint32_t ops) {
  constexpr std::uint32_t kWidth = 25;
  std::vector<SampleOp> list;
  for (std::uint32_t i = 0; i < ops; ++i) {
    SampleOp op{.name = "op" + std::to_string(i)};
    op.gpu_us = 1 + rng.below(50);
    op.output_bytes = {4 + rng.below(1 << 20)};
    op.type = "Type" + std::to_string(rng.below(200));
    const std::uint32_t reach = std::min(i, 3 * kWidth);
    for (std::uint32_t k = 0; reach > 0 && (k == 0 || rng.below(10) < 4) && k < 4; ++k)
      op.inputs.push_back({i - 1 - rng.below(reach), 0});
    list.push_back(std::move(op));
  }
  return sample_graph(list);
}

DeviceSet sample_devices(std::size_t gpus, bool cpu, std::int64_t memory, Link link) {
  std::vector<Device> devices;
  if (cpu) devices.push_back({"cpu:0", *find_profile("haswell18"), memory, ""});
  for (std::size_t k = 0; k < gpus; ++k)
    devices.push_back({"gpu:" + std::to_string(k), *find_profile("k40"), memory, ""});
  return *DeviceSet::make(std::move(devices), link);
}

DeviceSet with_random_sharing(Rng& rng, DeviceSet devices, bool one_engine_each) {
  const std::size_t group = 1 + rng.below(3);
  std::vector<SharedLink> shared;
  for (std::size_t first = 0; first + group <= devices.size() && group < devices.size(); first += group) {
    SharedLink& link = shared.emplace_back();
    link.name = "nic" + std::to_string(first);
    for (std::size_t d = first; d < first + group; ++d) link.devices.push_back(static_cast<DeviceId>(d));
    link.engines = 1 + rng.below(2);
  }
  if (shared.size() >= 2 && 2 * group < devices.size() && rng.below(2) == 0) {
    SharedLink both{"switch", shared[0].devices, 1};
    both.devices.insert(both.devices.end(), shared[1].devices.begin(), shared[1].devices.end());
    shared.push_back(std::move(both));
  }
  if (!one_engine_each && rng.below(2) == 0) {
    std::vector<std::uint32_t> engines;
    for (std::size_t d = 0; d < devices.size(); ++d) engines.push_back(rng.below(4));
    devices = *devices.with_engines(std::move(engines));
  }
  return *devices.with_shared(std::move(shared));
}

Placement random_placement(Rng& rng, std::size_t ops, std::size_t devices) {
  Placement placement;
  for (std::size_t i = 0; i < ops; ++i) {
    placement.push_back(static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(devices))));
  }
  return placement;
}

}  // namespace emplace::testing

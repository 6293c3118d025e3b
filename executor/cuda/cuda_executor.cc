#include "executor/cuda/cuda_executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "executor/cuda/device/self_test.h"
#include "executor/cuda/executor_state.h"
#include "executor/cuda/program/task_order.h"
#include "executor/timing.h"

namespace emplace::cuda {

namespace {

/// Change of a reference computation's time above which results have a note.
constexpr double kClockMoved = 0.05;

}  // namespace

PinnedMemory::~PinnedMemory() {
  for (void* const block : blocks_)
    session_.give_back([&](const CudaApi& api) { return api.runtime.FreeHost(block); });
}

Result<std::byte*> PinnedMemory::take(std::int64_t bytes) {
  void* block = nullptr;
  EMPLACE_TRY(session_.check(session_.api().runtime.MallocHost(&block, static_cast<std::size_t>(bytes)),
                             "cudaMallocHost"));
  blocks_.push_back(block);
  return static_cast<std::byte*>(block);
}

CudaExecutor::State::State(const OpGraph& graph_, const DeviceSet& devices_, const RealOptions& options_,
                           const Clock& clock_, const CudaApi& api)
    : graph{graph_},
      devices{devices_},
      options{options_},
      clock{clock_},
      lowered{graph_},
      in_place{lowered},
      costs{graph_, devices_},
      values{lowered, options_.seed},
      simulator{graph_, devices_},
      session{api},
      fills(lowered.num_buffers()) {}

TaskPlan CudaExecutor::State::plan(std::span<const DeviceId> placement) const {
  return {lowered, devices.size(), placement, TaskPlan::Rules::kReal, &in_place};
}

StepProgram CudaExecutor::State::program(const TaskPlan& plan) {
  Placement placement;
  for (std::uint32_t op = 0; op < lowered.num_ops(); ++op) placement.push_back(plan.device(OpId{op}));
  Measurement simulated;
  Schedule schedule;
  const auto done = simulator.trace(placement, simulated, schedule);
  EMPLACE_CHECK(done.ok(), "simulating a checked placement cannot fail");
  return {{lowered, *group, kernels, stages}, plan, task_order(plan, schedule)};
}

void CudaExecutor::State::finish_background() {
  if (background.valid()) background.wait();
}

std::unique_ptr<const CudaExecutor::State::PlacedProgram> CudaExecutor::State::take_program(
    std::span<const DeviceId> placement) {
  finish_background();
  was_expected = background.valid() && std::ranges::equal(in_background, placement);
  auto made = background.valid() ? background.get() : nullptr;
  if (!was_expected) made = std::make_unique<const PlacedProgram>(*this, placement);
  in_background = std::exchange(expected, {});
  if (!in_background.empty())
    background = std::async(std::launch::async,
                            [this] { return std::make_unique<const PlacedProgram>(*this, in_background); });
  return made;
}

Result<Unit> CudaExecutor::State::from_device(std::size_t device, const std::byte* from,
                                              std::span<std::byte> to) {
  if ((*group)[device].on_host()) {
    std::copy_n(from, to.size(), to.data());
    return Unit{};
  }
  EMPLACE_TRY((*group)[device].make_current());
  const cudaStream_t on = (*group)[device].stream(StreamKind::kCompute);
  EMPLACE_TRY(
      session.check(session.api().runtime.MemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, on),
                    "cudaMemcpyAsync"));
  return session.check(session.api().runtime.StreamSynchronize(on), "cudaStreamSynchronize");
}

Result<Unit> CudaExecutor::State::fill(const TaskPlan& plan, const StepProgram& program) {
  for (std::size_t d = 0; d < group->size(); ++d) EMPLACE_TRY((*group)[d].pin(program.reach_bytes(d)));
  std::unique_ptr<Kernel> zeros;
  for (std::uint32_t slot = 0; slot < plan.slots().size(); ++slot) {
    const TaskPlan::Slot& state = plan.slots()[slot];
    if (!state.resident || state.bytes == 0) continue;
    std::byte* const memory = program.memory(slot);
    const Pointers pointers{{}, {&memory, 1}, nullptr};
    const LogicalDevice& device = (*group)[index(state.device)];
    EMPLACE_TRY(device.make_current());
    const bool known = index(state.buffer) != TaskPlan::kNone;
    auto& fill = known ? fills[index(state.buffer)] : zeros;
    if (!known) fill = make_fill({.zeros = true, .elements = state.bytes});
    if (fill == nullptr) fill = make_fill(values.fill_of(state.buffer));
    if (device.on_host()) {
      fill->run_on_host(pointers);
    } else {
      EMPLACE_TRY(fill->enqueue(device.lane(), pointers));
    }
  }
  return group->synchronize();
}

Result<Unit> CudaExecutor::State::prepare(const TaskPlan& plan, const StepProgram& program) {
  EMPLACE_TRY(fill(plan, program));
  return stream->prepare(program);
}

Error CudaExecutor::State::failed(const Error& error) {
  if (session.poisoned()) return session.sticky_error();
  auto answers = group->synchronize();
  // Errors that do not stick by their number may mean a lost device all the same: then it does not answer.
  if (answers && error.code != Errc::kOutOfMemory) answers = group->probe();
  if (session.poisoned()) return session.sticky_error();
  return answers || answers.error().code == Errc::kOutOfMemory ? error : session.lose(answers.error());
}

Error call_failed(const Error& error) {
  return {error.code == Errc::kDeviceLost ? Errc::kDeviceLost : Errc::kRunFailed, error.context};
}

Result<double> CudaExecutor::State::step(const StepProgram& program) {
  if (options.progress != nullptr) ++*options.progress;
  return stream->step(program);
}

Result<Unit> CudaExecutor::State::capture(const StepProgram& program) {
  if (!options.timing.capture || !why_not_captured.empty()) return Unit{};
  EMPLACE_TRY(step(program));  // Loads the kernels, which a capture cannot do.
  const auto captured = stream->capture(program);
  if (captured) return Unit{};
  if (session.poisoned()) return session.sticky_error();
  if (captured.error().code != Errc::kOutOfMemory) why_not_captured = captured.error().context;
  return Unit{};
}

Result<std::vector<double>> CudaExecutor::State::reference_us(const StepProgram& program) {
  std::vector<double> times;
  for (const std::size_t d : program.used_devices()) {
    if ((*group)[d].on_host()) continue;
    EMPLACE_TRY_ASSIGN(const double us, stream->reference_us(d));
    times.push_back(us);
  }
  return times;
}

Result<Unit> CudaExecutor::State::warm_up(const StepProgram& program) {
  constexpr Nanos kLong = std::chrono::milliseconds{100};
  const Nanos begin = clock.now();
  while (clock.now() - begin < kLong) EMPLACE_TRY(step(program));
  return Unit{};
}

CudaExecutor::CudaExecutor(std::unique_ptr<State> state) : state_{std::move(state)} {}
CudaExecutor::~CudaExecutor() = default;

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::make(const OpGraph& graph, const DeviceSet& devices,
                                                         const RealOptions& options, const Clock& clock,
                                                         const CudaApi& api, int gpus,
                                                         const MakeHostKernel& make_host) {
  auto state = std::make_unique<State>(graph, devices, options, clock, api);
  EMPLACE_TRY_ASSIGN(
      state->group, DeviceGroup::make(state->session, devices, gpus, options.progress, make_host != nullptr));
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const LogicalDevice& device = (*state->group)[d];
    EMPLACE_TRY(device.make_current());
    Lane lane = device.lane();
    lane.engines = &state->engines;
    if (!device.on_host()) lane.trial_memory = {device.memory(), static_cast<std::size_t>(device.bytes())};
    EMPLACE_TRY_ASSIGN(auto kernels, BoundGraph::make(state->lowered, lane, static_cast<DeviceId>(d),
                                                      state->costs, options.allow_synthetic, options.progress,
                                                      device.on_host() ? make_host : MakeHostKernel{}));
    state->kernels.push_back(std::move(kernels));
  }
  for (const OpId op : state->lowered.kernels())
    if (std::ranges::any_of(state->kernels,
                            [&](const BoundGraph& of) { return !of.kernel(op).kernel->may_overwrite(0); }))
      state->in_place.keep_apart(op);
  state->pinned = std::make_unique<PinnedMemory>(state->session);
  if (state->group->has_staged_links()) {
    state->stages = stages_for(devices.size());
    EMPLACE_TRY_ASSIGN(state->stages.memory, state->pinned->take(state->stages.total_bytes(devices.size())));
  }
  state->stream = std::make_unique<StepStream>(state->session, *state->group, clock);
  return std::unique_ptr<CudaExecutor>{new CudaExecutor{std::move(state)}};
}

std::vector<std::string> CudaExecutor::synthetic_types() const {
  std::set<std::string> all;
  for (const BoundGraph& kernels : state_->kernels)
    for (const auto& [type, why] : kernels.synthetic_types()) all.insert(type);
  return {all.begin(), all.end()};
}

Result<Unit> CudaExecutor::self_test() {
  auto done = cuda::self_test(state_->session, *state_->group);
  return done ? done : Result<Unit>{call_failed(state_->failed(done.error()))};
}

bool CudaExecutor::poisoned() const { return state_->session.poisoned(); }
double CudaExecutor::clock_ratio() const { return state_->clock_ratio; }
double CudaExecutor::prepare_s() const { return state_->prepare_s; }
bool CudaExecutor::was_expected() const { return state_->was_expected; }
double CudaExecutor::enqueue_s() const { return state_->enqueue_s; }

std::vector<std::string> CudaExecutor::notes() const {
  std::vector<std::string> notes{"math tf32", "dispatch ordered"};
  bool shaped = false;
  for (std::size_t s = 0; s < state_->group->size(); ++s)
    for (std::size_t t = 0; t < state_->group->size(); ++t) shaped |= state_->group->is_shaped(s, t);
  if (state_->group->has_staged_links()) notes.emplace_back("links through the host, emulated");
  if (shaped) notes.emplace_back("links slowed down to those of the device file, emulated");
  for (std::size_t d = 0; d < state_->group->size(); ++d)
    if ((*state_->group)[d].on_host())
      notes.push_back(state_->devices[static_cast<DeviceId>(d)].name +
                      " runs in host functions of the driver, which run one at a time");
  switch (state_->group->isolation()) {
    case Isolation::kGpus:
      break;
    case Isolation::kGreenContexts:
      notes.emplace_back("logical devices by green contexts");
      break;
    case Isolation::kNone:
      notes.emplace_back("logical devices not isolated: " + state_->group->why_not_isolated());
      break;
  }
  if (state_->host_limits)
    notes.emplace_back("the host limits steps: enqueuing takes 90 % of their time or more");
  if (state_->clock_moved)
    notes.emplace_back("the clock of a GPU moved by more than 5 % while a placement was timed");
  if (!state_->why_not_captured.empty())
    notes.push_back("steps are enqueued kernel by kernel: " + state_->why_not_captured);
  std::map<std::string, std::string> refused;
  for (const BoundGraph& kernels : state_->kernels)
    refused.insert(kernels.synthetic_types().begin(), kernels.synthetic_types().end());
  for (const auto& [type, why] : refused) notes.push_back(type + " is stood in for: " + why);
  return notes;
}

Result<Unit> CudaExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  return run(placement, out, nullptr);
}

Result<Unit> CudaExecutor::trace(std::span<const DeviceId> placement, Measurement& out, Schedule& schedule) {
  schedule = {};
  return run(placement, out, &schedule);
}

void CudaExecutor::expect(std::span<const DeviceId> placement) {
  State& state = *state_;
  if (check_devices(placement, state.lowered.num_ops(), state.devices.size()))
    state.expected.assign(placement.begin(), placement.end());
}

Result<Unit> CudaExecutor::run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule) {
  State& state = *state_;
  EMPLACE_TRY(check_devices(placement, state.lowered.num_ops(), state.devices.size()));
  if (state.session.poisoned()) return state.session.sticky_error();
  out = {};
  const Nanos begin = state.clock.now();
  const auto placed = state.take_program(placement);
  const StepProgram& program = placed->program;
  state.prepare_s = static_cast<double>((state.clock.now() - begin).count()) * 1e-9;
  for (std::size_t d = 0; d < state.devices.size(); ++d) out.peak_bytes.push_back(program.peak_bytes(d));
  out.busy_s.assign(state.devices.size(), 0);
  if (program.out_of_memory()) {
    write_out_of_memory(*program.out_of_memory(), state.graph, state.devices, out);
    return Unit{};
  }
  auto timed = state.time(*placed);
  if (!timed) {
    const Error why = state.failed(timed.error());
    if (why.code != Errc::kOutOfMemory) return call_failed(why);
    out.failure = "oom: " + why.context;
    return Unit{};
  }
  out.valid = true;
  out.step_time_s = timed->steps.step_time_s;
  out.samples_s = std::move(timed->steps.samples_s);
  out.bytes_moved = program.bytes_moved();
  state.add_busy(*placed, timed->times, out);
  out.label = measured_label(out.synthetic_share, state.is_emulated(placed->plan, placement));
  state.clock_ratio = out.step_time_s > 0 ? timed->traced_s / out.step_time_s : 1;
  state.enqueue_s = state.stream->enqueue_s();
  state.host_limits |= state.enqueue_s >= 0.9 * out.step_time_s;
  if (schedule != nullptr) *schedule = state.schedule_of(*placed, timed->times);
  return Unit{};
}

Result<CudaExecutor::State::Timed> CudaExecutor::State::time(const PlacedProgram& placed) {
  const StepProgram& program = placed.program;
  EMPLACE_TRY(prepare(placed.plan, program));
  EMPLACE_TRY(capture(program));
  if (options.timing.warmups > 0) EMPLACE_TRY(warm_up(program));
  Timed timed;
  EMPLACE_TRY_ASSIGN(const auto before_us, reference_us(program));
  EMPLACE_TRY_ASSIGN(timed.steps, timer.time([&] { return step(program); }));
  EMPLACE_TRY_ASSIGN(const auto after_us, reference_us(program));
  for (std::size_t i = 0; i < before_us.size(); ++i)
    clock_moved |= std::abs(after_us[i] / before_us[i] - 1) > kClockMoved;
  EMPLACE_TRY_ASSIGN(timed.traced_s, stream->timed_step(program, timed.times));
  return timed;
}

void CudaExecutor::State::add_busy(const PlacedProgram& placed, std::span<const InstructionTime> times,
                                   Measurement& out) const {
  double synthetic_us = 0, all_us = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = placed.program.instructions()[i];
    if (instruction.kind != Instruction::Kind::kKernel) continue;
    const std::size_t d = instruction.stream / kStreamsPerDevice;
    const double us = times[i].end_us - times[i].start_us;
    out.busy_s[d] += us * 1e-6;
    all_us += us;
    if (kernels[d].kernel(OpId{placed.plan.tasks()[instruction.task].what}).synthetic) synthetic_us += us;
  }
  out.synthetic_share = all_us > 0 ? synthetic_us / all_us : 0;
}

bool CudaExecutor::State::is_emulated(const TaskPlan& plan, std::span<const DeviceId> placement) const {
  const bool emulated = std::ranges::any_of(plan.tasks(), [&](const TaskPlan::Task& task) {
    const std::size_t source = index(task.source), target = index(task.target);
    return task.is_copy &&
           (group->is_shaped(source, target) || (*group)[source].physical() == (*group)[target].physical());
  });
  // Devices that take multiprocessors from each other are not the devices of the file.
  const bool shared = group->isolation() == Isolation::kNone &&
                      std::ranges::any_of(placement, [&](DeviceId d) { return d != placement[0]; });
  return emulated || shared;
}

Schedule CudaExecutor::State::schedule_of(const PlacedProgram& placed,
                                          std::span<const InstructionTime> times) const {
  Schedule schedule;
  // A staged copy is several instructions: it starts with its first and ends with its last.
  std::vector<std::size_t> copy(placed.plan.tasks().size(), times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = placed.program.instructions()[i];
    const TaskPlan::Task& task = placed.plan.tasks()[instruction.task];
    if (instruction.kind == Instruction::Kind::kKernel) {
      schedule.ops.push_back(
          {OpId{task.what}, task.target, times[i].start_us * 1e-6, times[i].end_us * 1e-6});
      continue;
    }
    const BufferId buffer{task.what};
    std::size_t& at = copy[instruction.task];
    if (at == times.size()) {
      at = schedule.transfers.size();
      schedule.transfers.push_back({lowered.tensor(buffer), task.source, task.target, lowered.bytes(buffer),
                                    times[i].start_us * 1e-6, 0});
    }
    TransferRun& transfer = schedule.transfers[at];
    transfer.end_s = std::max(transfer.end_s, times[i].end_us * 1e-6);
  }
  std::ranges::stable_sort(schedule.ops, {}, &OpRun::start_s);
  std::ranges::stable_sort(schedule.transfers, {}, &TransferRun::start_s);
  return schedule;
}

}  // namespace emplace::cuda

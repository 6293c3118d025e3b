#include "executor/cuda/cuda_executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "executor/cuda/device/self_test.h"
#include "executor/cuda/program/task_order.h"
#include "executor/timing.h"

namespace emplace::cuda {

namespace {

/// Change of a reference computation's time above which results have a note.
constexpr double kClockMoved = 0.05;

}  // namespace

CudaExecutor::CudaExecutor(const OpGraph& graph, const DeviceSet& devices, const RealOptions& options,
                           const Clock& clock, const CudaApi& api)
    : graph_{graph},
      devices_{devices},
      options_{options},
      clock_{clock},
      lowered_{graph},
      in_place_{lowered_},
      costs_{graph, devices},
      values_{lowered_, options.seed},
      simulator_{graph, devices},
      session_{api},
      fills_(lowered_.num_buffers()) {}

TaskPlan CudaExecutor::plan(std::span<const DeviceId> placement) const {
  return {lowered_, devices_.size(), placement, TaskPlan::Rules::kReal, &in_place_};
}

StepProgram CudaExecutor::program(const TaskPlan& plan) {
  Placement placement;
  for (std::uint32_t op = 0; op < lowered_.num_ops(); ++op) placement.push_back(plan.device(OpId{op}));
  Measurement simulated;
  Schedule schedule;
  const auto done = simulator_.trace(placement, simulated, schedule);
  EMPLACE_CHECK(done.ok(), "simulating a checked placement cannot fail");
  return {{lowered_, *group_, kernels_, stages_}, plan, task_order(plan, schedule)};
}

void CudaExecutor::finish_background() {
  if (background_.valid()) background_.wait();
}

std::unique_ptr<const CudaExecutor::PlacedProgram> CudaExecutor::take_program(
    std::span<const DeviceId> placement) {
  finish_background();
  was_expected_ = background_.valid() && std::ranges::equal(in_background_, placement);
  auto made = background_.valid() ? background_.get() : nullptr;
  if (!was_expected_) made = std::make_unique<const PlacedProgram>(*this, placement);
  in_background_ = std::exchange(expected_, {});
  if (!in_background_.empty())
    background_ = std::async(std::launch::async,
                             [this] { return std::make_unique<const PlacedProgram>(*this, in_background_); });
  return made;
}

Result<Unit> CudaExecutor::from_device(std::size_t device, const std::byte* from, std::span<std::byte> to) {
  if ((*group_)[device].on_host()) {
    std::copy_n(from, to.size(), to.data());
    return Unit{};
  }
  EMPLACE_TRY((*group_)[device].make_current());
  const cudaStream_t on = (*group_)[device].stream(StreamKind::kCompute);
  EMPLACE_TRY(session_.check(
      session_.api().runtime.MemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, on),
      "cudaMemcpyAsync"));
  return session_.check(session_.api().runtime.StreamSynchronize(on), "cudaStreamSynchronize");
}

Result<Unit> CudaExecutor::fill(const TaskPlan& plan, const StepProgram& program) {
  for (std::size_t d = 0; d < group_->size(); ++d) EMPLACE_TRY((*group_)[d].pin(program.reach_bytes(d)));
  std::unique_ptr<Kernel> zeros;
  for (std::uint32_t slot = 0; slot < plan.slots().size(); ++slot) {
    const TaskPlan::Slot& state = plan.slots()[slot];
    if (!state.resident || state.bytes == 0) continue;
    std::byte* const memory = program.memory(slot);
    const Pointers pointers{{}, {&memory, 1}, nullptr};
    const LogicalDevice& device = (*group_)[index(state.device)];
    EMPLACE_TRY(device.make_current());
    const bool known = index(state.buffer) != TaskPlan::kNone;
    auto& fill = known ? fills_[index(state.buffer)] : zeros;
    if (!known) fill = make_fill({.zeros = true, .elements = state.bytes});
    if (fill == nullptr) fill = make_fill(values_.fill_of(state.buffer));
    if (device.on_host()) {
      fill->run(pointers);
    } else {
      EMPLACE_TRY(fill->enqueue(device.lane(), pointers));
    }
  }
  return group_->synchronize();
}

Result<Unit> CudaExecutor::prepare(const TaskPlan& plan, const StepProgram& program) {
  EMPLACE_TRY(fill(plan, program));
  return stream_->prepare(program);
}

Error CudaExecutor::failed(const Error& error) {
  if (session_.poisoned()) return session_.sticky_error();
  auto answers = group_->synchronize();
  // Errors that do not stick by their number may mean a lost device all the same: then it does not answer.
  if (answers && error.code != Errc::kOutOfMemory) answers = group_->probe();
  if (session_.poisoned()) return session_.sticky_error();
  return answers || answers.error().code == Errc::kOutOfMemory ? error : session_.lose(answers.error());
}

Error call_failed(const Error& error) {
  return {error.code == Errc::kDeviceLost ? Errc::kDeviceLost : Errc::kRunFailed, error.context};
}

Result<double> CudaExecutor::step(const StepProgram& program) {
  if (options_.progress != nullptr) ++*options_.progress;
  return stream_->step(program);
}

Result<Unit> CudaExecutor::capture(const StepProgram& program) {
  if (!options_.timing.capture || !why_not_captured_.empty()) return Unit{};
  EMPLACE_TRY(step(program));  // Loads the kernels, which a capture cannot do.
  const auto captured = stream_->capture(program);
  if (captured) return Unit{};
  if (session_.poisoned()) return session_.sticky_error();
  if (captured.error().code != Errc::kOutOfMemory) why_not_captured_ = captured.error().context;
  return Unit{};
}

Result<std::vector<double>> CudaExecutor::reference_us(const StepProgram& program) {
  std::vector<double> times;
  for (const std::size_t d : program.used_devices()) {
    if ((*group_)[d].on_host()) continue;
    EMPLACE_TRY_ASSIGN(const double us, stream_->reference_us(d));
    times.push_back(us);
  }
  return times;
}

Result<Unit> CudaExecutor::warm_up(const StepProgram& program) {
  constexpr Nanos kLong = std::chrono::milliseconds{100};
  const Nanos begin = clock_.now();
  while (clock_.now() - begin < kLong) EMPLACE_TRY(step(program));
  return Unit{};
}

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::make(const OpGraph& graph, const DeviceSet& devices,
                                                         const RealOptions& options, const Clock& clock,
                                                         const CudaApi& api, int gpus,
                                                         const MakeHostKernel& make_host) {
  auto made = std::unique_ptr<CudaExecutor>{new CudaExecutor{graph, devices, options, clock, api}};
  EMPLACE_TRY_ASSIGN(
      made->group_, DeviceGroup::make(made->session_, devices, gpus, options.progress, make_host != nullptr));
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const LogicalDevice& device = (*made->group_)[d];
    EMPLACE_TRY(device.make_current());
    Lane lane = device.lane();
    lane.engines = &made->engines_;
    if (!device.on_host()) lane.trial_memory = {device.memory(), static_cast<std::size_t>(device.bytes())};
    EMPLACE_TRY_ASSIGN(auto kernels, bind_graph(made->lowered_, lane, static_cast<DeviceId>(d), made->costs_,
                                                options.allow_synthetic, options.progress,
                                                device.on_host() ? make_host : MakeHostKernel{}));
    made->kernels_.push_back(std::move(kernels));
  }
  for (const OpId op : made->lowered_.kernels())
    if (std::ranges::any_of(made->kernels_,
                            [&](const BoundGraph& of) { return !of.kernel(op).kernel->may_overwrite(0); }))
      made->in_place_.keep_apart(op);
  if (made->group_->has_staged_links()) {
    made->stages_ = stages_for(devices.size());
    const auto bytes = static_cast<std::size_t>(made->stages_.total_bytes(devices.size()));
    Session& session = made->session_;
    EMPLACE_TRY(session.check(session.api().runtime.MallocHost(made->pinned_.fill(session), bytes),
                              "cudaMallocHost"));
    made->stages_.memory = static_cast<std::byte*>(made->pinned_.get());
  }
  made->stream_ = std::make_unique<StepStream>(made->session_, *made->group_, clock);
  return made;
}

std::vector<std::string> CudaExecutor::synthetic_types() const {
  std::set<std::string> all;
  for (const BoundGraph& kernels : kernels_)
    for (const auto& [type, why] : kernels.synthetic_types()) all.insert(type);
  return {all.begin(), all.end()};
}

Result<Unit> CudaExecutor::self_test() {
  auto done = cuda::self_test(session_, *group_);
  return done ? done : Result<Unit>{call_failed(failed(done.error()))};
}

std::vector<std::string> CudaExecutor::notes() const {
  std::vector<std::string> notes{"math tf32", "dispatch ordered"};
  bool shaped = false;
  for (std::size_t s = 0; s < group_->size(); ++s)
    for (std::size_t t = 0; t < group_->size(); ++t) shaped |= group_->is_shaped(s, t);
  if (group_->has_staged_links()) notes.emplace_back("links through the host, emulated");
  if (shaped) notes.emplace_back("links slowed down to those of the device file, emulated");
  for (std::size_t d = 0; d < group_->size(); ++d)
    if ((*group_)[d].on_host())
      notes.push_back(devices_[static_cast<DeviceId>(d)].name +
                      " runs in host functions of the driver, which run one at a time");
  switch (group_->isolation()) {
    case Isolation::kGpus:
      break;
    case Isolation::kGreenContexts:
      notes.emplace_back("logical devices by green contexts");
      break;
    case Isolation::kNone:
      notes.emplace_back("logical devices not isolated: " + group_->why_not_isolated());
      break;
  }
  if (host_limits_) notes.emplace_back("the host limits steps: enqueuing takes 90 % of their time or more");
  if (clock_moved_)
    notes.emplace_back("the clock of a GPU moved by more than 5 % while a placement was timed");
  if (!why_not_captured_.empty())
    notes.push_back("steps are enqueued kernel by kernel: " + why_not_captured_);
  std::map<std::string, std::string> refused;
  for (const BoundGraph& kernels : kernels_)
    refused.insert(kernels.synthetic_types().begin(), kernels.synthetic_types().end());
  for (const auto& [type, why] : refused) notes.push_back(type + " is stood in for: " + why);
  return notes;
}

void CudaExecutor::expect(std::span<const DeviceId> placement) {
  if (check_devices(placement, lowered_.num_ops(), devices_.size()))
    expected_.assign(placement.begin(), placement.end());
}

Result<Unit> CudaExecutor::run(std::span<const DeviceId> placement, Measurement& out, Schedule* schedule) {
  EMPLACE_TRY(check_devices(placement, lowered_.num_ops(), devices_.size()));
  if (session_.poisoned()) return session_.sticky_error();
  out = {};
  const Nanos begin = clock_.now();
  const auto placed = take_program(placement);
  const StepProgram& program = placed->program;
  prepare_s_ = static_cast<double>((clock_.now() - begin).count()) * 1e-9;
  for (std::size_t d = 0; d < devices_.size(); ++d) out.peak_bytes.push_back(program.peak_bytes(d));
  out.busy_s.assign(devices_.size(), 0);
  if (program.out_of_memory()) {
    write_out_of_memory(*program.out_of_memory(), graph_, devices_, out);
    return Unit{};
  }
  auto timed = time(*placed);
  if (!timed) {
    const Error why = failed(timed.error());
    if (why.code != Errc::kOutOfMemory) return call_failed(why);
    out.failure = "oom: " + why.context;
    return Unit{};
  }
  out.valid = true;
  out.step_time_s = timed->steps.step_time_s;
  out.samples_s = std::move(timed->steps.samples_s);
  out.bytes_moved = program.bytes_moved();
  add_busy(*placed, timed->times, out);
  out.label = measured_label(out.synthetic_share, is_emulated(placed->plan, placement));
  clock_ratio_ = out.step_time_s > 0 ? timed->traced_s / out.step_time_s : 1;
  enqueue_s_ = stream_->enqueue_s();
  host_limits_ |= enqueue_s_ >= 0.9 * out.step_time_s;
  if (schedule != nullptr) *schedule = schedule_of(*placed, timed->times);
  return Unit{};
}

Result<CudaExecutor::Timed> CudaExecutor::time(const PlacedProgram& placed) {
  const StepProgram& program = placed.program;
  EMPLACE_TRY(prepare(placed.plan, program));
  EMPLACE_TRY(capture(program));
  if (options_.timing.warmups > 0) EMPLACE_TRY(warm_up(program));
  Timed timed;
  EMPLACE_TRY_ASSIGN(const auto before_us, reference_us(program));
  EMPLACE_TRY_ASSIGN(timed.steps, timer_.time([&] { return step(program); }));
  EMPLACE_TRY_ASSIGN(const auto after_us, reference_us(program));
  for (std::size_t i = 0; i < before_us.size(); ++i)
    clock_moved_ |= std::abs(after_us[i] / before_us[i] - 1) > kClockMoved;
  EMPLACE_TRY_ASSIGN(timed.traced_s, stream_->timed_step(program, timed.times));
  return timed;
}

void CudaExecutor::add_busy(const PlacedProgram& placed, std::span<const InstructionTime> times,
                            Measurement& out) const {
  double synthetic_us = 0, all_us = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = placed.program.instructions()[i];
    if (instruction.kind != Instruction::Kind::kKernel) continue;
    const std::size_t d = instruction.stream / kStreamsPerDevice;
    const double us = times[i].end_us - times[i].start_us;
    out.busy_s[d] += us * 1e-6;
    all_us += us;
    if (kernels_[d].kernel(OpId{placed.plan.tasks()[instruction.task].what}).synthetic) synthetic_us += us;
  }
  out.synthetic_share = all_us > 0 ? synthetic_us / all_us : 0;
}

bool CudaExecutor::is_emulated(const TaskPlan& plan, std::span<const DeviceId> placement) const {
  const bool emulated = std::ranges::any_of(plan.tasks(), [&](const TaskPlan::Task& task) {
    const std::size_t source = index(task.source), target = index(task.target);
    return task.is_copy && (group_->is_shaped(source, target) ||
                            (*group_)[source].physical() == (*group_)[target].physical());
  });
  // Devices that take multiprocessors from each other are not the devices of the file.
  const bool shared = group_->isolation() == Isolation::kNone &&
                      std::ranges::any_of(placement, [&](DeviceId d) { return d != placement[0]; });
  return emulated || shared;
}

Schedule CudaExecutor::schedule_of(const PlacedProgram& placed,
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
      schedule.transfers.push_back({lowered_.tensor(buffer), task.source, task.target, lowered_.bytes(buffer),
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

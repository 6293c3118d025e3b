#include "tests/executor/cuda/recording_api.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "executor/cuda/libraries/session.h"

namespace emplace::testing {

using cuda::CublasLtApi;
using cuda::CudaApi;
using cuda::CudnnApi;
using cuda::DriverApi;
using cuda::MemoryUse;
using cuda::RuntimeApi;

namespace {

RecordingApi* active = nullptr;
constexpr std::int64_t kWorkspace = 1000;  // Workspace that the libraries request [B].

template <class R>
R failure(cudaError_t code) {
  if constexpr (std::is_same_v<R, cudaError_t>) {
    return code;
  } else if constexpr (std::is_same_v<R, CUresult>) {
    return static_cast<CUresult>(code);
  } else if constexpr (std::is_same_v<R, cublasStatus_t>) {
    return code == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
  } else if constexpr (std::is_same_v<R, cudnnStatus_t>) {
    return code == cudaErrorMemoryAllocation ? CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                                             : CUDNN_STATUS_EXECUTION_FAILED;
  } else {
    return R{};
  }
}

template <auto Member, auto Other>
constexpr bool same() {
  if constexpr (std::is_same_v<decltype(Member), decltype(Other)>) {
    return Member == Other;
  } else {
    return false;
  }
}

}  // namespace

/// What each function does beyond being noted.
struct Calls {
  template <auto Member, class... A>
  static void act(RecordingApi& r, std::tuple<A...> args) {
    const auto arg = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) { return std::get<I>(args); };
    constexpr std::integral_constant<std::size_t, 0> a0;
    constexpr std::integral_constant<std::size_t, 1> a1;
    constexpr std::integral_constant<std::size_t, 2> a2;
    if constexpr (same<Member, &RuntimeApi::GetDeviceCount>()) {
      *arg(a0) = r.gpus_;
    } else if constexpr (same<Member, &RuntimeApi::SetDevice>()) {
      r.mine().current = static_cast<std::uint64_t>(arg(a0)) + 1;
      r.gpu_of_[r.mine().current] = arg(a0);
    } else if constexpr (same<Member, &RuntimeApi::MemGetInfo>()) {
      *arg(a0) = *arg(a1) = r.free_;
    } else if constexpr (same<Member, &RuntimeApi::Malloc>() || same<Member, &RuntimeApi::MallocHost>()) {
      if constexpr (same<Member, &RuntimeApi::MallocHost>())
        r.pinned_bytes_ += static_cast<std::int64_t>(arg(a1));
      *arg(a0) = reinterpret_cast<void*>(r.next_address_);
      if (r.real_memory_) {
        *arg(a0) = std::aligned_alloc(4096, (arg(a1) + 4095) / 4096 * 4096);
        r.memory_.emplace_back(*arg(a0), std::free);
      }
      r.held_.emplace(reinterpret_cast<std::uintptr_t>(*arg(a0)) >> 4, "memory");
      r.next_address_ += (arg(a1) + 4095) / 4096 * 4096 + 4096;
    } else if constexpr (same<Member, &RuntimeApi::Free>() || same<Member, &RuntimeApi::FreeHost>()) {
      r.drop(arg(a0), "memory");
    } else if constexpr (same<Member, &RuntimeApi::DeviceCanAccessPeer>()) {
      *arg(a0) = r.peers_reach_ ? 1 : 0;
    } else if constexpr (same<Member, &RuntimeApi::StreamCreateWithPriority>()) {
      *arg(a0) = r.hold<cudaStream_t>("stream");
      r.streams_[*arg(a0)] = {static_cast<std::uint32_t>(r.streams_.size()), r.mine().current, 0, {}};
    } else if constexpr (same<Member, &DriverApi::GreenCtxStreamCreate>()) {
      *arg(a0) = r.hold<cudaStream_t>("stream");
      r.streams_[*arg(a0)] = {static_cast<std::uint32_t>(r.streams_.size()), r.green_.at(arg(a1)), 0, {}};
    } else if constexpr (same<Member, &RuntimeApi::StreamDestroy>()) {
      r.drop(arg(a0), "stream");
    } else if constexpr (same<Member, &RuntimeApi::EventCreateWithFlags>()) {
      *arg(a0) = r.hold<cudaEvent_t>("event");
      r.events_[*arg(a0)].context = r.mine().current;
    } else if constexpr (same<Member, &RuntimeApi::EventDestroy>()) {
      r.drop(arg(a0), "event");
    } else if constexpr (same<Member, &RuntimeApi::EventRecord>()) {
      auto& stream = r.stream(arg(a1));
      if (r.events_.at(arg(a0)).context != stream.context)
        r.complain("an event of another context was recorded");
      r.events_.at(arg(a0)).clock = stream.clock;
      r.events_.at(arg(a0)).captured = stream.captured;
      if (r.capturing_ && !stream.captured) r.complain("an event was recorded beside the capture");
      r.events_.at(arg(a0)).recorded_at = r.calls_ + r.misses_;
    } else if constexpr (same<Member, &RuntimeApi::StreamWaitEvent>()) {
      auto& stream = r.stream(arg(a0));
      const auto& event = r.events_.at(arg(a1));
      r.learn(stream.clock, event.clock);
      if (r.capturing_ && !event.captured) r.complain("a captured stream waits for an event of before");
      if (!r.capturing_ && event.captured) r.complain("a stream waits for an event of a capture");
      stream.captured = stream.captured || event.captured;
    } else if constexpr (same<Member, &RuntimeApi::StreamSynchronize>()) {
      r.learn(r.host_clock_, r.stream(arg(a0)).clock);
      r.running_.erase(arg(a0));
    } else if constexpr (same<Member, &RuntimeApi::EventElapsedTime>()) {
      const auto &begin = r.events_.at(arg(a1)), &end = r.events_.at(arg(a2));
      const double calls = static_cast<double>(end.recorded_at) - static_cast<double>(begin.recorded_at);
      *arg(a0) = static_cast<float>(static_cast<double>(r.clock_.call.count()) * 1e-6 * calls);
    } else if constexpr (same<Member, &RuntimeApi::LaunchHostFunc>()) {
      r.work_on(arg(a0));
      if (!r.capturing_) arg(a1)(arg(a2));
    } else if constexpr (same<Member, &RuntimeApi::HostRegister>()) {
      r.held_.emplace(reinterpret_cast<std::uintptr_t>(arg(a0)) >> 4, "pinned memory");
      r.pinned_bytes_ += static_cast<std::int64_t>(arg(a1));
    } else if constexpr (same<Member, &RuntimeApi::HostUnregister>()) {
      r.drop(arg(a0), "pinned memory");
    } else if constexpr (same<Member, &RuntimeApi::StreamBeginCapture>()) {
      r.begin_capture(arg(a0));
    } else if constexpr (same<Member, &RuntimeApi::StreamEndCapture>()) {
      *arg(a1) = r.hold<cudaGraph_t>("graph");
    } else if constexpr (same<Member, &RuntimeApi::GraphInstantiate>()) {
      *arg(a0) = r.hold<cudaGraphExec_t>("executable graph");
    } else if constexpr (same<Member, &RuntimeApi::GraphDestroy>()) {
      r.drop(arg(a0), "graph");
    } else if constexpr (same<Member, &RuntimeApi::GraphExecDestroy>()) {
      r.drop(arg(a0), "executable graph");
    } else if constexpr (same<Member, &RuntimeApi::GraphLaunch>()) {
      ++r.launches_;
      r.running_.insert(arg(a1));
      if (r.running_.size() > 1) r.misses_ += r.neighbour_calls_;
    } else if constexpr (same<Member, &RuntimeApi::LaunchKernel>()) {
      r.work_on(std::get<5>(args));
      if (r.calls_ >= r.throttle_from_) r.misses_ += r.throttle_calls_;
      if (r.watch_launches_) r.watch_launches_(arg(a0), std::get<3>(args));
    } else if constexpr (same<Member, &RuntimeApi::DeviceGetAttribute>()) {
      if (arg(a1) == cudaDevAttrL2CacheSize) *arg(a0) = r.cache_bytes_;
    } else if constexpr (same<Member, &RuntimeApi::MemsetAsync>()) {
      if (r.cache_bytes_ > 0 && arg(a2) >= static_cast<std::size_t>(r.cache_bytes_)) r.cached_.clear();
    } else if constexpr (same<Member, &RuntimeApi::MemcpyAsync>()) {
      r.cached_.insert(arg(a0));
      r.work_on(std::get<4>(args));
    } else if constexpr (same<Member, &RuntimeApi::MemcpyPeerAsync>()) {
      r.work_on(std::get<5>(args));
    } else if constexpr (same<Member, &RuntimeApi::PeekAtLastError>() ||
                         same<Member, &RuntimeApi::GetLastError>()) {
      EMPLACE_CHECK(false, "answered elsewhere");
    } else if constexpr (same<Member, &DriverApi::DeviceGet>()) {
      *arg(a0) = static_cast<CUdevice>(arg(a1));
    } else if constexpr (same<Member, &DriverApi::DeviceGetDevResource>()) {
      arg(a1)->sm = {132, 8, 8};
    } else if constexpr (same<Member, &DriverApi::DevSmResourceSplitByCount>()) {
      if (std::get<5>(args) > r.largest_group_) *arg(a1) = 1;
      for (unsigned i = 0; i < *arg(a1); ++i) arg(a0)[i].sm = {std::get<5>(args), 8, 8};
    } else if constexpr (same<Member, &DriverApi::GreenCtxCreate>()) {
      *arg(a0) = r.hold<CUgreenCtx>("green context");
      r.gpu_of_[1000 + r.green_.size()] = static_cast<int>(arg(a2));
      r.green_.emplace(*arg(a0), 1000 + r.green_.size());
    } else if constexpr (same<Member, &DriverApi::GreenCtxDestroy>()) {
      r.drop(arg(a0), "green context");
    } else if constexpr (same<Member, &DriverApi::CtxFromGreenCtx>()) {
      *arg(a0) = reinterpret_cast<CUcontext>(r.green_.at(arg(a1)));
    } else if constexpr (same<Member, &DriverApi::CtxSetCurrent>()) {
      r.mine().current = reinterpret_cast<std::uint64_t>(arg(a0));
    } else if constexpr (same<Member, &CublasLtApi::Create>()) {
      *arg(a0) = r.hold<cublasLtHandle_t>("cuBLASLt");
    } else if constexpr (same<Member, &CublasLtApi::Destroy>()) {
      r.drop(arg(a0), "cuBLASLt");
    } else if constexpr (same<Member, &CublasLtApi::MatmulDescCreate>()) {
      *arg(a0) = r.hold<cublasLtMatmulDesc_t>("product");
    } else if constexpr (same<Member, &CublasLtApi::MatmulDescDestroy>()) {
      r.drop(arg(a0), "product");
    } else if constexpr (same<Member, &CublasLtApi::MatrixLayoutCreate>()) {
      *arg(a0) = r.hold<cublasLtMatrixLayout_t>("layout");
    } else if constexpr (same<Member, &CublasLtApi::MatrixLayoutDestroy>()) {
      r.drop(arg(a0), "layout");
    } else if constexpr (same<Member, &CublasLtApi::MatmulPreferenceCreate>()) {
      *arg(a0) = r.hold<cublasLtMatmulPreference_t>("preference");
    } else if constexpr (same<Member, &CublasLtApi::MatmulPreferenceDestroy>()) {
      r.drop(arg(a0), "preference");
    } else if constexpr (same<Member, &CublasLtApi::MatmulAlgoGetHeuristic>()) {
      std::get<8>(args)->workspaceSize = kWorkspace;
      if (r.spoils_algorithms_) std::get<8>(args)->state = CUBLAS_STATUS_NOT_SUPPORTED;
      *std::get<9>(args) = 1;
    } else if constexpr (same<Member, &CublasLtApi::Matmul>()) {
      r.work_on(std::get<15>(args));
      if (std::get<14>(args) != kWorkspace) r.complain("a workspace of another size than the algorithm's");
      r.use(std::get<13>(args), std::get<14>(args), true);
    } else if constexpr (same<Member, &CudnnApi::Create>()) {
      *arg(a0) = r.hold<cudnnHandle_t>("cuDNN");
    } else if constexpr (same<Member, &CudnnApi::Destroy>()) {
      r.drop(arg(a0), "cuDNN");
    } else if constexpr (same<Member, &CudnnApi::SetStream>()) {
      r.handle_streams_[arg(a0)] = arg(a1);
    } else if constexpr (same<Member, &CudnnApi::BackendCreateDescriptor>()) {
      *arg(a1) = r.hold<cudnnBackendDescriptor_t>("descriptor");
    } else if constexpr (same<Member, &CudnnApi::BackendDestroyDescriptor>()) {
      r.drop(arg(a0), "descriptor");
    } else if constexpr (same<Member, &CudnnApi::BackendSetAttribute>()) {
      if (arg(a1) == CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
        r.workspaces_[arg(a0)] = *static_cast<const void* const*>(std::get<4>(args));
      if (arg(a1) == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
        r.engine_of_[arg(a0)] = r.engine_of_.at(*static_cast<void* const*>(std::get<4>(args)));
    } else if constexpr (same<Member, &CudnnApi::BackendGetAttribute>()) {
      *std::get<4>(args) = 1;
      if (arg(a1) == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        *std::get<4>(args) = static_cast<std::int64_t>(r.engine_calls_.size());
        for (std::size_t i = 0; i < r.engine_calls_.size(); ++i)
          r.engine_of_[static_cast<void**>(std::get<5>(args))[i]] = i;
      }
      if (arg(a1) == CUDNN_ATTR_ENGINECFG_ENGINE)
        r.engine_of_[*static_cast<void**>(std::get<5>(args))] = r.engine_of_.at(arg(a0));
      if (arg(a1) == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
        *static_cast<cudnnBackendNumericalNote_t*>(std::get<5>(args)) =
            r.halves_inputs_                                ? CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS
            : r.varying_engine_ == r.engine_of_.at(arg(a0)) ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
                                                            : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      if (arg(a1) == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *static_cast<std::int64_t*>(std::get<5>(args)) = kWorkspace;
    } else if constexpr (same<Member, &CudnnApi::BackendExecute>()) {
      r.work_on(r.handle_streams_.at(arg(a0)));
      r.use(r.workspaces_.at(arg(a2)), kWorkspace, true);
      ++r.engine_runs_[r.engine_of_.at(arg(a1))];
      r.misses_ += r.engine_calls_[r.engine_of_.at(arg(a1))];
    }
  }
};

template <auto Member, class Function>
struct Thunk;
template <auto Member, class R, class... A>
struct Thunk<Member, R (*)(A...)> {
  static inline const char* called = "";
  static R call(A... args) {
    RecordingApi& r = *active;
    if (r.delayed_) r.slow_down();
    const std::lock_guard lock{r.mutex_};
    if constexpr (same<Member, &RuntimeApi::PeekAtLastError>()) {
      return r.pending_;
    } else if constexpr (same<Member, &RuntimeApi::GetLastError>()) {
      return std::exchange(r.pending_, cudaSuccess);
    } else {
      // A capture ends even if the call that ends it fails.
      if constexpr (same<Member, &RuntimeApi::StreamEndCapture>())
        r.end_capture(std::get<0>(std::tuple<A...>{args...}));
      if (const auto code = r.begin(called)) return failure<R>(*code);
      if constexpr (same<Member, &RuntimeApi::DeviceEnablePeerAccess>()) {
        // Like a device: the second call is an error, which stays until it is read.
        if (!r.peers_.emplace(r.mine().current, std::get<0>(std::tuple<A...>{args...})).second)
          return r.pending_ = cudaErrorPeerAccessAlreadyEnabled;
      }
      if constexpr (same<Member, &RuntimeApi::EventElapsedTime>()) {
        const std::tuple<A...> given{args...};
        if (r.gpu_of_.at(r.events_.at(std::get<1>(given)).context) !=
            r.gpu_of_.at(r.events_.at(std::get<2>(given)).context))
          return r.pending_ = cudaErrorInvalidResourceHandle;
      }
      if constexpr (same<Member, &DriverApi::DevSmResourceSplitByCount>()) {
        if (r.split_status_ != CUDA_SUCCESS) return r.split_status_;
      }
      Calls::act<Member>(r, std::tuple<A...>{args...});
      return R{};
    }
  }
};

RecordingApi::RecordingApi(int gpus, bool real_memory) : gpus_{gpus}, real_memory_{real_memory} {
  EMPLACE_CHECK(active == nullptr, "one recording at a time");
  active = this;
#define INSTALL(table, Type, prefix, name)                         \
  Thunk<&Type::name, decltype(Type::name)>::called = prefix #name; \
  api_.table.name = &Thunk<&Type::name, decltype(Type::name)>::call;
#define X(name) INSTALL(runtime, RuntimeApi, "cuda", name)
  EMPLACE_CUDA_RUNTIME(X)
#undef X
#define X(name, version) INSTALL(driver, DriverApi, "cu", name)
  EMPLACE_CUDA_DRIVER(X)
#undef X
#define X(name) INSTALL(blas, CublasLtApi, "cublasLt", name)
  EMPLACE_CUBLASLT(X)
#undef X
#define X(name) INSTALL(dnn, CudnnApi, "cudnn", name)
  EMPLACE_CUDNN(X)
#undef X
  api_.observer = this;
}

RecordingApi::~RecordingApi() { active = nullptr; }

std::optional<cudaError_t> RecordingApi::begin(const char* name) {
  if (stuck_ == std::this_thread::get_id())
    complain(std::string{name} + " was called after an error that sticks");
  for (const std::string_view denied : {"Synchronize", "Malloc", "Free", "ElapsedTime", "Create", "Query"})
    if (capturing_ && std::string_view{name}.starts_with("cuda") &&
        std::string_view{name}.find(denied) != std::string_view::npos)
      complain(std::string{name} + " was called while a stream was captured");
  if (refused_ == name) return ++calls_, failed_in_capture_ = capturing_.has_value(), cudaErrorInvalidValue;
  const bool gone = fail_from_ && calls_ >= *fail_from_;
  if (fail_at_ != calls_++ && !gone) return std::nullopt;
  failed_ = name;
  failed_in_capture_ = capturing_.has_value();
  pending_ = code_;
  if (cuda::is_sticky(code_)) stuck_ = std::this_thread::get_id();
  return code_;
}

RecordingApi::Stream& RecordingApi::stream(cudaStream_t handle) {
  const auto at = streams_.find(handle);
  EMPLACE_CHECK(at != streams_.end(), "a stream that was never made");
  return at->second;
}

void RecordingApi::learn(std::vector<std::uint32_t>& clock, const std::vector<std::uint32_t>& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (std::size_t s = 0; s < other.size(); ++s) clock[s] = std::max(clock[s], other[s]);
}

void RecordingApi::begin_capture(cudaStream_t handle) {
  if (capturing_) complain("a capture started within another");
  capturing_ = handle;
  failed_in_capture_ = false;
  stream(handle).captured = true;
}

void RecordingApi::end_capture(cudaStream_t handle) {
  if (capturing_ != handle) complain("a capture ended that had not started");
  const std::vector<std::uint32_t>& known = stream(handle).clock;
  for (auto& [other, on] : streams_) {
    const std::uint32_t joined = on.number < known.size() ? known[on.number] : 0;
    if (on.captured && joined < on.stamps && !failed_in_capture_)
      complain("a captured stream was not joined");
    on.captured = false;
  }
  capturing_.reset();
}

void RecordingApi::work_on(cudaStream_t handle) {
  Stream& on = stream(handle);
  if (capturing_ && !on.captured) complain("work was enqueued beside the capture");
  if (on.context != mine().current) complain("work was enqueued with another device current");
  learn(on.clock, host_clock_);
  if (!mine().in_task) return;
  RecordedWork& work = works_[mine().work];
  if (work.calls++ == 0) {
    work.stream = on.number, work.stamp = ++on.stamps, work.clock = on.clock;
    if (on.clock.size() <= on.number) on.clock.resize(on.number + 1, 0);
    on.clock[on.number] = work.stamp;
  } else if (work.stream != on.number) {
    complain("one task's calls went to two streams");
  }
}

void RecordingApi::use(const void* begin, std::size_t bytes, bool written) {
  if (begin == nullptr) complain("no workspace where one is needed");
  if (mine().in_task) works_[mine().work].uses.push_back({begin, bytes, written});
}

void RecordingApi::on_task_start(std::string_view name, std::span<const MemoryUse> uses) {
  const std::lock_guard lock{mutex_};
  mine().in_task = true, mine().work = works_.size();
  works_.push_back({.task = std::string{name}, .uses = {uses.begin(), uses.end()}});
  if (cache_bytes_ == 0) return;
  for (const MemoryUse& use : uses) misses_ += cached_.insert(use.begin).second ? 1 : 0;
}

void RecordingApi::on_task_end() {
  const std::lock_guard lock{mutex_};
  mine().in_task = false;
}

void RecordingApi::slow_down() {
  const bool slow = [&] {
    const std::lock_guard lock{mutex_};
    const auto at = gpu_of_.find(mine().current);
    return at != gpu_of_.end() && at->second == delayed_;
  }();
  volatile int busy = slow ? 5'000 : 0;
  while (busy > 0) busy = busy - 1;
}

std::string find_race(const std::vector<RecordedWork>& works) {
  const auto overlap = [](const MemoryUse& a, const MemoryUse& b) {
    const auto from = reinterpret_cast<std::uintptr_t>(a.begin),
               other = reinterpret_cast<std::uintptr_t>(b.begin);
    return (a.written || b.written) && from < other + b.bytes && other < from + a.bytes;
  };
  for (std::size_t i = 0; i < works.size(); ++i) {
    for (std::size_t j = i + 1; j < works.size(); ++j) {
      if (works[j].after(works[i])) continue;
      for (const MemoryUse& a : works[i].uses)
        for (const MemoryUse& b : works[j].uses)
          if (overlap(a, b)) return "tasks " + works[i].task + " and " + works[j].task + " race";
    }
  }
  return "";
}

}  // namespace emplace::testing

#pragma once
/// CUDA without a GPU: functions that record the calls and the order that streams and events allow, and that
/// fail on request.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "executor/cuda/libraries/api.h"

namespace emplace::testing {

/// The work that was enqueued for one task: on one stream, after everything in its clock.
struct RecordedWork {
  std::string task;
  std::uint32_t stream = 0;
  std::uint32_t stamp = 0;            ///< Its number on its stream, from 1.
  std::vector<std::uint32_t> clock;   ///< [streams] stamps that have ended before it starts.
  std::vector<cuda::MemoryUse> uses;  ///< The task's own uses, and workspaces of libraries.
  std::size_t calls = 0;

  bool after(const RecordedWork& other) const {
    return other.stream < clock.size() && clock[other.stream] >= other.stamp;
  }
};

/// Every call takes a quarter of a millisecond, on the devices as on the host, unless set otherwise. Events
/// of two GPUs have no common clock. One at a time: the functions find the one that exists. Functions
/// and observer: any thread, as CUDA's; everything else: one thread, while no other one calls a function.
class RecordingApi final : public cuda::TaskObserver {
 public:
  /// `real_memory`: allocations are host memory, for tests that run programs on it; else unmapped addresses.
  explicit RecordingApi(int gpus, bool real_memory = false);
  ~RecordingApi() override;

  const cuda::CudaApi& api() const { return api_; }
  /// Call number `call` (from 0) returns `code` (or the library's equivalent).
  void fail_at(std::uint64_t call, cudaError_t code) { fail_at_ = call, code_ = code; }
  /// All calls from number `call` on return `code`: the device is gone.
  void fail_from(std::uint64_t call, cudaError_t code) { fail_from_ = call, code_ = code; }
  /// Each call of the library function `name` fails, and no device does.
  void refuse(const std::string& name) { refused_ = name; }
  /// cuBLASLt's heuristics return an algorithm that does not compute the product.
  void spoil_algorithms() { spoils_algorithms_ = true; }
  /// Every engine of cuDNN computes with 16-bit inputs.
  void halve_inputs() { halves_inputs_ = true; }
  /// Every call takes this long.
  void set_call_time(Nanos time) { clock_.call = time; }
  /// Every GPU has an L2 cache of `bytes`: a task takes a call's time longer for each range of memory that
  /// was not used since a write of that size.
  void set_cache(int bytes) { cache_bytes_ = bytes; }
  /// A captured step takes `calls` calls' times longer while others run on other streams.
  void slow_neighbours(std::uint64_t calls) { neighbour_calls_ = calls; }
  /// From call number `call` on, launched kernels take `calls` calls' times longer.
  void throttle_from(std::uint64_t call, std::uint64_t calls) {
    throttle_from_ = call, throttle_calls_ = calls;
  }
  /// Calls `watch` with each kernel that is launched, and its arguments.
  void watch_launches(std::function<void(const void* function, void** arguments)> watch) {
    watch_launches_ = std::move(watch);
  }
  /// There is no libcudnn on the machine.
  void remove_cudnn(const std::string& reason) { api_.dnn = {}, api_.missing_dnn = reason; }
  /// No GPU reaches another one.
  void cut_peers() { peers_reach_ = false; }
  /// cuDNN suggests an engine for each of `calls`; its runs take that many calls' times longer.
  void set_engines(std::vector<std::uint64_t> calls) { engine_calls_ = std::move(calls); }
  /// This engine of cuDNN gives other bytes in every run.
  void let_vary(std::size_t engine) { varying_engine_ = engine; }
  /// Runs of each engine of cuDNN.
  std::vector<std::size_t> engine_runs() const {
    std::vector<std::size_t> runs(engine_calls_.size(), 0);
    for (const auto& [engine, count] : engine_runs_) runs[engine] = count;
    return runs;
  }
  /// Free bytes of each GPU.
  void set_free(std::size_t bytes) { free_ = bytes; }
  /// The largest groups into which the multiprocessors of a GPU split.
  void set_largest_group(unsigned processors) { largest_group_ = processors; }
  /// Splitting the multiprocessors fails with `status`.
  void refuse_split(CUresult status) { split_status_ = status; }
  /// Threads that use this GPU are slow: others overtake them unless something prevents it.
  void delay(int gpu) { delayed_ = gpu; }
  std::uint64_t calls() const { return calls_; }
  /// The host's clock.
  const Clock& clock() const { return clock_; }
  /// Pinned memory that was requested.
  std::int64_t pinned_bytes() const { return pinned_bytes_; }
  /// (context, peer) that may copy directly.
  const std::set<std::pair<std::uint64_t, int>>& peers() const { return peers_; }
  /// The function that failed; empty if none has.
  const std::string& failed() const { return failed_; }
  const std::vector<RecordedWork>& works() const { return works_; }
  /// Steps that were launched as graphs.
  std::size_t launches() const { return launches_; }
  void forget_works() { works_.clear(); }
  /// Wrong calls: after an error that sticks, with another device current, …; empty if there are none.
  const std::string& complaint() const { return complaint_; }
  /// Objects that are not released: allocations, streams, events, contexts, handles and descriptors.
  std::size_t held() const { return held_.size(); }

  void on_task_start(std::string_view name, std::span<const cuda::MemoryUse> uses) override;
  void on_task_end() override;

 private:
  template <auto Member, class Function>
  friend struct Thunk;
  friend struct Calls;
  struct Stream {
    std::uint32_t number = 0;
    std::uint64_t context = 0;
    std::uint32_t stamps = 0;
    std::vector<std::uint32_t> clock;
    bool captured = false;
  };
  struct Event {
    std::uint64_t context = 0, recorded_at = 0;
    std::vector<std::uint32_t> clock;
    bool captured = false;  ///< It was recorded on a stream that was being captured.
  };

  /// Counts the call; the code with which it fails, if it does.
  std::optional<cudaError_t> begin(const char* name);
  void complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = what;
  }
  template <class T>
  T hold(const char* kind) {
    held_.emplace(++next_handle_, kind);
    return reinterpret_cast<T>(next_handle_ << 4);
  }
  template <class T>
  void drop(T handle, const char* kind) {
    const auto at = held_.find(reinterpret_cast<std::uint64_t>(handle) >> 4);
    if (at == held_.end() || at->second != kind) return complain(std::string{"gave back no "} + kind);
    held_.erase(at);
  }
  Stream& stream(cudaStream_t handle);
  void work_on(cudaStream_t handle);
  void begin_capture(cudaStream_t handle);
  void end_capture(cudaStream_t handle);
  void use(const void* begin, std::size_t bytes, bool written);
  static void learn(std::vector<std::uint32_t>& clock, const std::vector<std::uint32_t>& other);

  struct CallClock final : Clock {
    explicit CallClock(const std::atomic<std::uint64_t>& calls) : calls_{calls} {}
    Nanos now() const override { return call * static_cast<std::int64_t>(calls_.load()); }
    Nanos wall() const override { return now(); }
    Nanos call = std::chrono::microseconds{250};
    const std::atomic<std::uint64_t>& calls_;
  };

  cuda::CudaApi api_;
  const int gpus_;
  const bool real_memory_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> memory_;
  /// State of CUDA and its observer per thread.
  struct PerThread {
    std::uint64_t current = 0;
    bool in_task = false;
    std::size_t work = 0;
  };
  PerThread& mine() { return threads_[std::this_thread::get_id()]; }
  void slow_down();
  std::mutex mutex_;  // Protects everything that the functions change, except calls_.
  std::map<std::thread::id, PerThread> threads_;
  std::optional<int> delayed_;
  std::atomic<std::uint64_t> calls_{0};
  std::uint64_t next_handle_ = 0;
  CallClock clock_{calls_};
  std::vector<std::uint64_t> engine_calls_{0};
  std::optional<std::size_t> varying_engine_;
  std::map<std::size_t, std::size_t> engine_runs_;
  std::map<void*, std::size_t> engine_of_;  // Engines, their configurations and plans.
  std::function<void(const void*, void**)> watch_launches_;
  bool peers_reach_ = true;
  std::uint64_t neighbour_calls_ = 0, throttle_from_ = 0, throttle_calls_ = 0;
  std::set<cudaStream_t> running_;  // Captured steps that no call has waited for.
  int cache_bytes_ = 0;
  std::uint64_t misses_ = 0;
  std::set<const void*> cached_;
  std::optional<std::uint64_t> fail_at_, fail_from_;
  std::string refused_;
  std::size_t free_ = std::size_t{1} << 62;
  unsigned largest_group_ = 132;
  bool halves_inputs_ = false, spoils_algorithms_ = false;
  CUresult split_status_ = CUDA_SUCCESS;
  std::set<std::pair<std::uint64_t, int>> peers_;  // (context, peer) with access.
  cudaError_t code_ = cudaSuccess, pending_ = cudaSuccess;
  std::string failed_;
  std::optional<std::thread::id> stuck_;   // The thread that received an error that sticks.
  std::optional<cudaStream_t> capturing_;  // The stream with which a capture started.
  bool failed_in_capture_ = false;
  std::size_t launches_ = 0;
  std::string complaint_;
  std::map<std::uint64_t, std::string> held_;
  std::map<cudaStream_t, Stream> streams_;
  std::map<cudaEvent_t, Event> events_;
  std::map<void*, cudaStream_t> handle_streams_;  // cuDNN handles
  std::map<void*, const void*> workspaces_;       // Variant packs
  std::map<CUgreenCtx, std::uint64_t> green_;
  std::map<std::uint64_t, int> gpu_of_;  // Keyed by context.
  std::int64_t pinned_bytes_ = 0;
  std::vector<std::uint32_t> host_clock_;
  std::vector<RecordedWork> works_;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 40;
};

/// Pairs of works that touch the same memory, one of them writing, without an order between them; empty if
/// there are none.
std::string find_race(const std::vector<RecordedWork>& works);

}  // namespace emplace::testing

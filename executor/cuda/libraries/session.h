#pragma once
/// Tracks whether CUDA may still be called. After a sticky error (an illegal access, a failed launch, …) it
/// may not: the process must end and be restarted. Out of memory is not sticky.

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "executor/cuda/libraries/api.h"

namespace emplace::cuda {

/// True for errors after which every further call fails, according to CUDA's documentation of cudaError_t.
bool is_sticky(cudaError_t status);

/// Any thread; a call that another thread makes while an error sticks may still reach the library.
class Session {
 public:
  explicit Session(const CudaApi& api) : api_{&api} {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The functions. Once poisoned: replacements that call nothing and fail.
  const CudaApi& api() const;
  /// Checks a status. The message is `what: NAME: text`. Errors: kOutOfMemory (the session remains usable);
  /// kUnsupported for a launch that is too large for the device, or a library without an implementation;
  /// kDeviceLost for a sticky error; kRunFailed for others.
  Result<Unit> check(cudaError_t status, std::string_view what);
  Result<Unit> check(CUresult status, std::string_view what);
  Result<Unit> check(cublasStatus_t status, std::string_view what);
  Result<Unit> check(cudnnStatus_t status, std::string_view what);

  /// Poisons the session: the device answers no call any more, although the number of `why` does not show it.
  /// Returns the error to pass on.
  Error lose(const Error& why);

  /// Releases a resource where errors cannot be returned. Calls nothing once poisoned.
  template <class Call>
  void give_back(Call call) {
    if (!poisoned()) (void)check(call(api()), "releasing");
  }

  /// True after a sticky error; CUDA resources must then not be released.
  bool poisoned() const { return poisoned_; }
  const Error& sticky_error() const { return why_; }  ///< @pre poisoned()

 private:
  /// Handles a library error; checks whether the device failed.
  Result<Unit> library_failed(bool out_of_memory, bool unsupported, std::string text);

  const CudaApi* api_;
  Mutex mutex_;                        // Protects why_ until poisoned_ is set.
  std::atomic<bool> poisoned_{false};  // Set once, after why_, which stays.
  Error why_;
};

/// Owns a handle of a library, which the function `Release` of its table gives back; not once the session is
/// poisoned.
template <class Handle, auto Table, auto Release>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : session_{other.session_}, handle_{std::exchange(other.handle_, Handle{})} {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(session_, other.session_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    session_->give_back([&](const CudaApi& api) { return (api.*Table.*Release)(handle_); });
  }
  /// Where a library writes a new handle.
  Handle* fill(Session& session) { return session_ = &session, &handle_; }
  Handle get() const { return handle_; }

 private:
  Session* session_ = nullptr;
  Handle handle_{};
};

}  // namespace emplace::cuda

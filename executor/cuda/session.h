#pragma once
/// Whether CUDA may still be called. After an error that sticks to the process (an illegal access, a failed
/// launch, …) nothing may: the process must end and be made anew. Out of memory does not stick.

#include <string>
#include <string_view>

#include "base/result.h"
#include "executor/cuda/api.h"

namespace emplace::cuda {

/// True for errors that no call mends, as CUDA's documentation of cudaError_t names them.
bool is_sticky(cudaError_t status);

/// Thread: one at a time.
class Session {
 public:
  explicit Session(const CudaApi& api) : api_{&api} {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The functions; once poisoned, others in their place that call nothing and fail.
  const CudaApi& api() const;
  /// Nothing, or `what: NAME: text`. Errors: kOutOfMemory (and the session goes on); kUnsupported for a
  /// launch that is too large for the device or a library that has no way; kDeviceLost for one that sticks;
  /// kRunFailed for the others.
  Result<Unit> check(cudaError_t status, std::string_view what);
  Result<Unit> check(CUresult status, std::string_view what);
  Result<Unit> check(cublasStatus_t status, std::string_view what);
  Result<Unit> check(cudnnStatus_t status, std::string_view what);

  /// The same for who gives something back and cannot fail: nothing is called once poisoned.
  template <class Call>
  void give_back(Call call) {
    if (!poisoned()) (void)check(call(api()), "giving back");
  }

  /// True after a sticky error: whoever holds something of CUDA leaves it where it is.
  bool poisoned() const { return poisoned_; }
  const Error& why_poisoned() const { return why_; }  ///< @pre poisoned()

 private:
  /// A library failed: did the device?
  Result<Unit> library_failed(bool out_of_memory, bool unsupported, std::string text);

  const CudaApi* api_;
  bool poisoned_ = false;
  Error why_;
};

}  // namespace emplace::cuda

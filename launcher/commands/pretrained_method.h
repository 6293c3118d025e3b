#pragma once
/// The method `pretrained` as a command line asks for it.

#include <memory>
#include <string>

#include "base/result.h"
#include "launcher/pretrained/pretrained.h"

namespace emplace::launcher {

struct PretrainedMethod {
  std::unique_ptr<policy::SchedulerPolicy> own;  ///< Named weights; null: those in the program.
  std::unique_ptr<Pretrained> method;
};

/// `weights`: a file of weights or a run of scheduler; empty: those in the program. `samples`: the text of
/// --samples. Errors: those of read_scheduler(); kInvalid for a number out of range.
Result<PretrainedMethod> pretrained_method(const std::string& weights, const std::string& samples);

}  // namespace emplace::launcher

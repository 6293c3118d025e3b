#pragma once
/// Negative log likelihood of target classes, and its gradient: aten::nll_loss and nll_loss2d.

#include "executor/cpu/kernel.h"

namespace emplace::cpu {

/// Log probabilities [N, C, …], classes i64 [N, …] (, weights [C]) → loss, total weight. Packed. A class
/// outside [0, C) is ignored. Errors: kUnsupported.
Result<std::unique_ptr<Kernel>> make_nll_loss(const Signature& signature);
/// Loss' gradient, log probabilities, classes (, weights), total weight → log probabilities' gradient.
Result<std::unique_ptr<Kernel>> make_nll_loss_backward(const Signature& signature);

}  // namespace emplace::cpu

#pragma once
/// The placement files that `emplace place` writes.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/inputs/inputs.h"
#include "solver/answer.h"

namespace emplace::launcher {

/// Path and facts of the file of an answer; the others of --best-of are beside it.
struct PlacementOutput {
  std::string path;  ///< Empty: no file.
  std::string executor = "sim";
  std::uint64_t seed = 1;

  /// Path of the k-th placement: placement.json, placement-2.json, …
  std::string path_of(std::size_t k) const;
  /// Checks before a search that the file can be created. Errors: kIo.
  Result<Unit> check_writable() const;
  /// Writes an answer as the k-th placement. Errors: those of save_placement().
  Result<Unit> save(const Inputs& inputs, const Answer& answer, const Clock& clock, std::size_t k = 1) const;
};

}  // namespace emplace::launcher

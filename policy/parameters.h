#pragma once
/// Learned parameters: named float32 matrices in one flat store, with their gradients.

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/rng.h"

namespace emplace::policy {

using Matrix = Eigen::MatrixXf;  // Column-major float32.
using MatrixMap = Eigen::Map<Matrix>;
using ConstMatrixMap = Eigen::Map<const Matrix>;

enum class ParameterId : std::uint32_t {};

/// Initialisation of a matrix.
enum class Init : std::uint8_t {
  kZero,
  kGlorot,  ///< Uniform in ±sqrt(6 / (rows + cols)).
};

/// A value type: copied, saved, loaded, hashed and compared. Thread: const members from any thread while no
/// thread writes.
class ParameterStore {
 public:
  /// Adds a [rows, cols] matrix. Random initial values depend only on (seed, name), not on the order of
  /// calls. `learning_scale` multiplies the learning rate of this matrix. @pre the name is new.
  ParameterId add(std::string name, Eigen::Index rows, Eigen::Index cols, Init init, std::uint64_t seed,
                  float learning_scale = 1);

  std::size_t size() const { return values_.size(); }  ///< Total number of floats.
  MatrixMap value(ParameterId id);
  ConstMatrixMap value(ParameterId id) const;
  MatrixMap gradient(ParameterId id);
  std::span<float> values() { return values_; }
  std::span<const float> values() const { return values_; }
  std::span<float> gradients() { return gradients_; }
  std::span<const float> gradients() const { return gradients_; }
  void clear_gradients();
  /// Learning scale of each float's matrix, run-length encoded: (end position, scale).
  std::vector<std::pair<std::size_t, float>> learning_scales() const;

  /// Little-endian float32 in insertion order; load() checks the length. Errors: kInvalid.
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span{values_}); }
  Result<Unit> load(std::span<const std::byte> bytes);
  /// SHA-256 over (name, rows, cols, float32s), sorted by name. 64 hex digits.
  std::string sha256() const;

 private:
  struct Entry {
    std::string name;
    Eigen::Index rows, cols;
    std::size_t begin;
    float learning_scale;
  };
  std::vector<Entry> entries_;
  // The alignment must be fixed: Eigen groups the terms of a sum by alignment, and that of a plain vector
  // varies between runs.
  using AlignedFloats = std::vector<float, Eigen::aligned_allocator<float>>;
  AlignedFloats values_, gradients_;
};

}  // namespace emplace::policy

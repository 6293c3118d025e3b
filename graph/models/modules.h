#pragma once
/// Modules of image networks, created where they are used: a module creates its parameters and runs, so a
/// name appears at one place. Parameter names follow the scope: "cells.9/ops.7/pw1" has
/// "cells.9.ops.7.pw1.weight".

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/tape/training_tape.h"

namespace emplace::models {

/// A convolution. Padding is "same", half the kernel on each side, unless `padded` is false.
struct ConvShape {
  std::int64_t in, out, kernel = 1, stride = 1, groups = 1;
  std::int64_t kernel_width = 0;  ///< 0: equal to the height.
  bool padded = true;             ///< False: no padding.
  bool bias = false;
};

class Modules {
 public:
  explicit Modules(TrainingTape& tape) : tape_{tape} {}
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  /// A scope level and the corresponding module path, for the lifetime of this object.
  class Level {
   public:
    Level(Modules& modules, const std::string& level);
    ~Level() { modules_.path_.resize(length_); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Modules& modules_;
    const std::size_t length_;
    const TrainingTape::Scope scope_;
  };

  Tensor conv(const std::string& module, Tensor x, ConvShape shape);
  Tensor norm(const std::string& module, Tensor x);
  Tensor linear(const std::string& module, Tensor x, std::int64_t out);
  std::int64_t channels_of(Tensor x) const { return tape_.shape(x)[1]; }

 protected:
  TrainingTape& tape_;

 private:
  std::string name(std::string_view field) const { return path_ + std::string{field}; }
  std::string path_;
};

}  // namespace emplace::models

#include "executor/cpu/kernels/elementwise/elementwise_kernel.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "executor/cpu/kernels/elementwise/elementwise_math.h"

namespace emplace::cpu {
namespace {

constexpr std::int64_t kTile = 4096;  ///< Tile size of a staged operand [elements].
/// Tile of a transposed operand: whole cache lines.
constexpr std::int64_t kSquareRows = 64, kSquareColumns = 64;

class ElementwiseKernel final : public Kernel {
 public:
  void run(const Pointers& memory) const override {
    const std::byte* in[3];
    std::byte* const out = memory.outputs[0];
    for (std::size_t k = 0; k < operands_; ++k) {
      in[k] =
          k < memory.inputs.size() ? memory.inputs[k] : reinterpret_cast<const std::byte*>(&constants_[k]);
    }
    if (rows_ == 1 && !staged_) {
      if (loop_.inner() > 0) row_(loop_.inner(), out, in, scalars_.data());
    } else if (rows_ > 0 && loop_.inner() > 0) {
      staged_ ? run_tiles(out, in) : run_rows(out, in);
    }
  }

  bool may_overwrite(std::size_t input) const override {
    return input < in_place_.size() && in_place_[input];
  }

  // The stages of make_elementwise(), in order.
  Result<Unit> bind_operands(const Signature& signature, const ElementwiseForm& form, DType compute);
  std::optional<std::size_t> choose_row(const Signature& signature, const RowSet& rows, DType compute);
  void set_tiles(std::optional<std::size_t> along);

 private:
  void run_rows(std::byte* out, const std::byte* const* in) const {
    Odometer<4> at{loop_, loop_.dims - 1};
    for (std::int64_t row = 0; row < rows_; ++row, at.step()) {
      const std::byte* from[3];
      for (std::size_t k = 0; k < operands_; ++k) from[k] = in[k] + at.offset(k + 1);
      row_(loop_.inner(), out + at.offset(0), from, scalars_.data());
    }
  }

  /// Processes the last two dimensions in tiles; operands that a row cannot read are packed first.
  void run_tiles(std::byte* out, const std::byte* const* in) const {
    alignas(64) std::byte tiles[3][kTile * 8];
    const std::size_t r = loop_.dims - 2, c = loop_.dims - 1;
    const std::int64_t all_rows = loop_.extent[r], all_columns = loop_.inner();
    const std::int64_t outer = all_rows == 0 ? 0 : rows_ / all_rows;
    Odometer<4> at{loop_, r};
    for (std::int64_t i = 0; i < outer; ++i, at.step()) {
      for (std::int64_t r0 = 0; r0 < all_rows; r0 += tile_rows_) {
        const std::int64_t rows = std::min(tile_rows_, all_rows - r0);
        for (std::int64_t c0 = 0; c0 < all_columns; c0 += tile_columns_) {
          const std::int64_t columns = std::min(tile_columns_, all_columns - c0);
          const std::byte* from[3];
          std::int64_t step[3];
          for (std::size_t k = 0; k < operands_; ++k) {
            const auto& stride = loop_.stride[k + 1];
            from[k] = in[k] + at.offset(k + 1) + r0 * stride[r] + c0 * stride[c];
            step[k] = stride[r];
            if (load_[k] == nullptr) continue;
            step[k] = tile_columns_ * compute_bytes_;
            load_[k](from[k], stride[r], stride[c], rows, columns, tiles[k], step[k]);
            from[k] = tiles[k];
          }
          std::byte* to = out + at.offset(0) + r0 * loop_.stride[0][r] + c0 * loop_.stride[0][c];
          for (std::int64_t row = 0; row < rows; ++row, to += loop_.stride[0][r]) {
            row_(columns, to, from, scalars_.data());
            for (std::size_t k = 0; k < operands_; ++k) from[k] += step[k];
          }
        }
      }
    }
  }

  Row row_ = nullptr;
  StridedLoop loop_;  // Operand 0 is the output.
  std::int64_t rows_ = 0, compute_bytes_ = 0;
  std::size_t operands_ = 0;
  bool staged_ = false;
  std::int64_t tile_rows_ = 1, tile_columns_ = kTile;
  std::array<LoadTile, 3> load_{};            // Null: the operand is read in place.
  std::array<std::uint64_t, 3> constants_{};  // Bits of scalar operands.
  std::array<double, 2> scalars_{};
  std::array<bool, 3> in_place_{};
};

/// Order: f64, f32, i64, i32. i32 also represents smaller integers and booleans.
DType widest(std::span<const Operand> inputs) {
  DType best = DType::kI32;
  for (const Operand& input : inputs) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kI64}) {
      if (best == dtype) break;
      if (input.dtype == dtype) best = dtype;
    }
  }
  return best;
}

/// Errors: kUnsupported: a comparison whose output is not boolean.
Result<DType> compute_dtype(const Signature& signature, const ElementwiseForm& form) {
  const DType output = signature.outputs[0].dtype;
  if (form.kind != ElementwiseForm::Kind::kCompare) return output;
  if (output == DType::kBool) return widest(signature.inputs);
  return unsupported(signature, "output dtype " + std::string{dtype_name(output)} + "; expected bool");
}

/// The rows of the form, null if it has none for the dtype.
const RowSet* rows_of(const ElementwiseForm& form, DType compute) {
  const RowSet* wide = compute == DType::kF32 ? wide_rows(form.first_type()) : nullptr;
  return wide != nullptr ? wide : form.rows(compute);
}

/// Reads scalars, and makes the loop over the output and all operands. A missing operand is a constant that
/// repeats.
Result<Unit> ElementwiseKernel::bind_operands(const Signature& signature, const ElementwiseForm& form,
                                              DType compute) {
  Attributes attributes{signature};
  for (std::size_t k = 0; k < 2; ++k) {
    const Scalar& scalar = form.scalars[k];
    scalars_[k] = scalar.key.empty() ? scalar.value : attributes.number(scalar.key, scalar.value);
  }
  const Operand& output = signature.outputs[0];
  std::vector<std::vector<std::int64_t>> strides{output.strides};
  std::vector<std::int64_t> sizes{element_bytes(output.dtype)};
  for (std::size_t k = 0; k < form.operands; ++k) {
    if (k >= signature.inputs.size()) {
      const Scalar& scalar = form.missing[k - 1];
      if (scalar.key.empty()) return unsupported(signature, fmt::format("operand {} is missing", k));
      constants_[k] = scalar_bits(compute, attributes.number(scalar.key, scalar.value));
      strides.emplace_back(output.shape.size(), 0);
      sizes.push_back(element_bytes(compute));
      continue;
    }
    const Operand& input = signature.inputs[k];
    auto view = broadcast_strides(input, output.shape);
    if (!view) return unsupported(signature, fmt::format("input {} does not broadcast to the output", k));
    strides.push_back(*std::move(view));
    sizes.push_back(element_bytes(input.dtype));
    if (convert_tile(input.dtype, compute) == nullptr) return unsupported(signature, input.dtype);
    in_place_[k] = input.dtype == output.dtype && input.shape == output.shape && input.is_packed();
  }
  if (attributes.fault()) return *attributes.fault();
  EMPLACE_TRY_ASSIGN(loop_, collapse(signature, output.shape, strides, sizes));
  operands_ = form.operands;
  compute_bytes_ = element_bytes(compute);
  return Unit{};
}

/// A row reads packed operands, or repeated elements if it has such a variant; other operands are staged.
/// Returns the dimension with the smallest stride of a strided operand; nothing if none is transposed.
std::optional<std::size_t> ElementwiseKernel::choose_row(const Signature& signature, const RowSet& rows,
                                                         DType compute) {
  std::size_t repeats = 0;
  std::optional<std::size_t> along;
  for (std::size_t k = 0; k < operands_; ++k) {
    const std::int64_t inner = loop_.inner_stride(k + 1);
    const DType from = k < signature.inputs.size() ? signature.inputs[k].dtype : compute;
    if (inner == 0 && from == compute && loop_.elements() > 1) {
      if (const std::size_t with = repeats | std::size_t{1} << k; with < 4 && rows.row[with] != nullptr) {
        repeats = with;
        continue;
      }
    }
    if (inner == compute_bytes_ && from == compute) continue;
    load_[k] = convert_tile(from, compute);
    staged_ = true;
    for (std::size_t d = 0; d + 1 < loop_.dims && inner != 0; ++d) {
      const std::int64_t stride = loop_.stride[k + 1][d];
      if (stride != 0 && stride < inner && (!along || stride < loop_.stride[k + 1][*along])) along = d;
    }
  }
  row_ = rows.row[repeats];
  return along;
}

/// Sets the tiles of staged operands: squares if one is transposed, with `along` as their rows.
void ElementwiseKernel::set_tiles(std::optional<std::size_t> along) {
  if (staged_ && loop_.dims == 1) loop_.add_row();
  if (staged_ && along) {
    loop_.move(*along, loop_.dims - 2);
    tile_rows_ = kSquareRows;
    tile_columns_ = kSquareColumns;
  } else if (staged_ && loop_.inner() < kTile) {
    tile_columns_ = std::max<std::int64_t>(loop_.inner(), 1);
    tile_rows_ = kTile / tile_columns_;
  }
  rows_ = loop_.rows();
}

}  // namespace

Made make_elementwise(const Signature& signature, const ElementwiseForm& form) {
  const std::size_t given = signature.inputs.size();
  if (signature.outputs.empty() || given == 0 || given > form.operands) {
    return unsupported(signature, fmt::format("{} inputs; expected 1 to {}", given, form.operands));
  }
  // Stage 1: the dtype to compute in, and the rows for it.
  EMPLACE_TRY_ASSIGN(const DType compute, compute_dtype(signature, form));
  const RowSet* rows = rows_of(form, compute);
  if (rows == nullptr) return unsupported(signature, compute);
  auto kernel = std::make_unique<ElementwiseKernel>();
  // Stage 2: scalars, and the loop over all operands.
  EMPLACE_TRY(kernel->bind_operands(signature, form, compute));
  // Stage 3: the variant of the row, and the operands that it cannot read where they are.
  const std::optional<std::size_t> along = kernel->choose_row(signature, *rows, compute);
  // Stage 4: the tiles in which these operands are packed.
  kernel->set_tiles(along);
  return std::unique_ptr<Kernel>{std::move(kernel)};
}

}  // namespace emplace::cpu

#pragma once
/// The table behind find_kind (graph/op_kind.h), which is the public interface.

#include <span>
#include <string_view>

#include "graph/op_kind.h"

namespace emplace {

/// Types with the same meaning, separated by spaces. A '*' matches any text; such a row has no class.
struct OpKindRow {
  OpClass op_class;
  WorkRule work;
  std::string_view types;
  bool view = false;
  StateKind state = StateKind::kNone;
};

/// Rows in matching order; patterns come last.
std::span<const OpKindRow> kind_rows(Vocabulary vocabulary);

}  // namespace emplace

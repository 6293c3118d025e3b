#pragma once
/// The rows behind find_kind (graph/op_kind.h), which is what everybody else asks.

#include <span>
#include <string_view>

#include "graph/op_kind.h"

namespace emplace {

/// Types that mean the same, with a space between them. A '*' stands for any text; such a row gives no class.
struct OpKindRow {
  OpClass op_class;
  WorkRule work;
  std::string_view types;
  bool view = false;
  StateKind state = StateKind::kNone;
};

/// In the order in which patterns are tried; those come last.
std::span<const OpKindRow> kind_rows(Vocabulary vocabulary);

}  // namespace emplace

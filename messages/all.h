#pragma once
/// All messages as one type list, for code that treats them uniformly: tests and the register.

#include <tuple>

#include "messages/episode_measured.h"
#include "messages/executor_control.h"
#include "messages/executor_process.h"
#include "messages/learning.h"
#include "messages/library.h"
#include "messages/log.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/run_control.h"
#include "messages/status.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// The types after the first, so that a comma may precede every entry of a list.
template <class None, class... Messages>
struct TypesAfter {
  using Tuple = std::tuple<Messages...>;
};

#define EMPLACE_COMMA_TYPE(name, number) , name
/// In the order of the register. For tests: round trips and golden files of every message.
using AllMessages = TypesAfter<void EMPLACE_MESSAGES(EMPLACE_COMMA_TYPE)>::Tuple;
#undef EMPLACE_COMMA_TYPE

}  // namespace emplace::messages

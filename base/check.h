#pragma once
/// A broken invariant is a bug in emplace: it aborts the process and prints file, line and values.

#include <string_view>

namespace emplace {

/// Prints one line to standard error and aborts. Any thread.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view detail);

}  // namespace emplace

/// EMPLACE_CHECK(condition, detail): `detail` is a std::string_view, evaluated only on failure. Enabled in
/// every build type.
#define EMPLACE_CHECK(condition, detail)                                 \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::emplace::check_failed(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)

#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace emplace {

void check_failed(const char* file, int line, const char* condition, std::string_view detail) {
  (void)std::fprintf(stderr, "emplace: broken invariant at %s:%d: %s (%.*s)\n", file, line, condition,
                     static_cast<int>(detail.size()), detail.data());
  std::abort();
}

}  // namespace emplace

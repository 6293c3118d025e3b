// The fuzzer: one program for all targets; the environment names the target (EMPLACE_FUZZ=graph_json).
// scripts/fuzz.sh runs it.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {
const emplace::fuzz::Target* g_target = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const name = std::getenv("EMPLACE_FUZZ");
  for (const auto& target : emplace::fuzz::kTargets)
    if (name != nullptr && target.name == name) g_target = &target;
  if (g_target != nullptr) return 0;
  std::fprintf(stderr, "error: EMPLACE_FUZZ names no target of tests/fuzz/targets.h\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  g_target->run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

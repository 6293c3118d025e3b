// The fault proxy as a program: `fault_proxy PORT TARGET [SEED]`, with lines of control on standard input.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/chaos/fault_proxy.h"

int main(int argc, char** argv) {
  using emplace::testing::FaultProxy;
  if (argc < 3) return std::fprintf(stderr, "fault_proxy PORT TARGET [SEED]\n"), 2;
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  auto proxy = FaultProxy::make(static_cast<std::uint16_t>(number(1)), static_cast<std::uint16_t>(number(2)),
                                argc > 3 ? number(3) : 1);
  if (!proxy) return std::fprintf(stderr, "error: %s\n", proxy.error().context.c_str()), 2;
  std::printf("listening on %u\n", (*proxy)->port());
  for (std::string line; std::getline(std::cin, line);) {
    const auto done = (*proxy)->command(line);
    std::printf("%s\n", done ? done->c_str() : done.error().context.c_str());
    std::fflush(stdout);
  }
  return 0;
}

#pragma once
/// Coverage marks: names in rare branches, so that tests can prove that a branch ran. A mark that no seed
/// reaches is a gap in the simulated world.

#include <atomic>
#include <set>
#include <string>

namespace emplace {

/// A mark at one place in the code. Thread: any.
struct Mark {
  const char* name;
  std::atomic<bool> reached{false};
  Mark* next = nullptr;  ///< Next reached mark; written once.
};

/// Records that the mark was reached.
void reach(Mark& mark);
/// The names of all marks reached by this process. Any thread. For tests: simulated runs must reach them all.
std::set<std::string> reached_marks();

}  // namespace emplace

/// EMPLACE_MARK("part.what_happened"): costs a load and a branch once reached. It is compiled into every
/// build, so that every build can report its marks.
#define EMPLACE_MARK(text)                                                  \
  do {                                                                      \
    static constinit ::emplace::Mark emplace_mark{text};                    \
    if (!emplace_mark.reached.load(std::memory_order_relaxed)) [[unlikely]] \
      ::emplace::reach(emplace_mark);                                       \
  } while (false)

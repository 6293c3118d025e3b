#pragma once
/// Coverage marks: names in rare branches, so that the tests can prove that they were there. A mark that no
/// seed ever reached is a hole in the simulated world.

#include <atomic>
#include <set>
#include <string>

namespace emplace {

/// One place in the code. Thread: any.
struct Mark {
  const char* name;
  std::atomic<bool> reached{false};
  Mark* next = nullptr;  ///< Of those that were reached; written once.
};

/// Notes that the process was here.
void reach(Mark& mark);
/// The names of all marks that this process has reached. Any thread.
std::set<std::string> reached_marks();

}  // namespace emplace

/// EMPLACE_MARK("part.what_happened"): a load and a branch once it was reached. Never compiled out, so that
/// every build can tell.
#define EMPLACE_MARK(text)                                                  \
  do {                                                                      \
    static constinit ::emplace::Mark emplace_mark{text};                    \
    if (!emplace_mark.reached.load(std::memory_order_relaxed)) [[unlikely]] \
      ::emplace::reach(emplace_mark);                                       \
  } while (false)

#pragma once
/// `EMPLACE_IVDEP` before a `for`: the iterations do not depend on each other, so g++ vectorizes the loop
/// without a check for overlap. Empty for clang: it checks at run time, and its own pragma is an error if it
/// cannot vectorize.

#if defined(__clang__)
#define EMPLACE_IVDEP
#else
#define EMPLACE_IVDEP _Pragma("GCC ivdep")
#endif

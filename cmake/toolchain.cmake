# Language, warnings and sanitizers of every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(EMPLACE_CCACHE ccache)
if(EMPLACE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache needs this sloppiness to cache precompiled headers. Depend mode uses the compiler's list of headers;
  # without it, ccache preprocesses every file that is not in the cache a second time.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${EMPLACE_CCACHE})
endif()

add_library(emplace_options INTERFACE)
# One instruction set for the whole program, so that results are the same on every machine; wider kernels are
# separate files, chosen at run time. The compiler must not contract to fused multiply-adds, which would change
# results.
target_compile_options(emplace_options INTERFACE
  -march=x86-64-v3 -ffp-contract=off
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  # False warnings of g++ 12 about overlaps in "x" + std::string (GCC PR 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  -Wno-missing-field-initializers  # Options structs use designated initializers; other fields have defaults.
  # Fields name the mutex that guards them (base/guarded.h), and clang checks each access.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety;-Werror=thread-safety>
  -Werror)
# Release builds use -O3, or the level in a target's EMPLACE_OPTIMIZE property. The flag follows CMake's own and
# wins.
target_compile_options(emplace_options INTERFACE
  $<$<CONFIG:Release>:-O$<IF:$<STREQUAL:$<TARGET_PROPERTY:EMPLACE_OPTIMIZE>,>,3,$<TARGET_PROPERTY:EMPLACE_OPTIMIZE>>>)
# Less frequent garbage collection in g++: 10 % less time for 20 % more memory.
target_compile_options(emplace_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
target_include_directories(emplace_options INTERFACE ${CMAKE_SOURCE_DIR})
find_package(Threads REQUIRED)
target_link_libraries(emplace_options INTERFACE Threads::Threads)
target_compile_options(emplace_options INTERFACE -pthread)  # Some libraries require it, and all files must have the same flags.
# lld, where it is installed: linking takes a third of the time.
find_program(EMPLACE_LLD ld.lld)
if(EMPLACE_LLD)
  target_link_options(emplace_options INTERFACE -fuse-ld=lld)
endif()
if(EMPLACE_SANITIZE)
  # g++ 12 takes more variables for uninitialized in instrumented code than there are (its manual warns of that).
  target_compile_options(emplace_options INTERFACE -fsanitize=${EMPLACE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(emplace_options INTERFACE -fsanitize=${EMPLACE_SANITIZE})
endif()
if(EMPLACE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "EMPLACE_FUZZ needs clang++ (libFuzzer); scripts/fuzz.sh sets it up")
  endif()
  target_compile_options(emplace_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

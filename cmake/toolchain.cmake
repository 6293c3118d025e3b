# Language, warnings and sanitizers for every target of ours.
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
  # The sloppiness is what precompiled headers need to be cached at all. Depend mode reads the compiler's list of
  # headers: without it every file that is not in the cache is preprocessed once more.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${EMPLACE_CCACHE})
endif()

add_library(emplace_options INTERFACE)
# One instruction set for the whole program, so that a run means the same on every machine that starts it;
# wider kernels are separate files, chosen at run time. No fused multiply-add is invented by the compiler.
target_compile_options(emplace_options INTERFACE
  -march=x86-64-v3 -ffp-contract=off
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  # g++ 12 sees overlaps in "x" + std::string that are not there (GCC PR 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  -Wno-missing-field-initializers  # Options structs are filled by name; what is left out has its default.
  # Every mutex names what it guards (base/guarded.h), and clang checks each access.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety;-Werror=thread-safety>
  -Werror)
# What computes is compiled at 3; a target whose EMPLACE_OPTIMIZE says so, at less (CMake's own level goes before).
target_compile_options(emplace_options INTERFACE
  $<$<CONFIG:Release>:-O$<IF:$<STREQUAL:$<TARGET_PROPERTY:EMPLACE_OPTIMIZE>,>,3,$<TARGET_PROPERTY:EMPLACE_OPTIMIZE>>>)
# g++ collects its garbage less often: a tenth of its time for a fifth more memory.
target_compile_options(emplace_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
target_include_directories(emplace_options INTERFACE ${CMAKE_SOURCE_DIR})
find_package(Threads REQUIRED)
target_link_libraries(emplace_options INTERFACE Threads::Threads)
target_compile_options(emplace_options INTERFACE -pthread)  # Some libraries ask for it and all files must agree.
if(EMPLACE_SANITIZE)
  target_compile_options(emplace_options INTERFACE -fsanitize=${EMPLACE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(emplace_options INTERFACE -fsanitize=${EMPLACE_SANITIZE})
endif()
if(EMPLACE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "EMPLACE_FUZZ needs clang++ (libFuzzer); scripts/fuzz.sh sets it up")
  endif()
  target_compile_options(emplace_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

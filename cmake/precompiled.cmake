# Headers of others that most of our files include, compiled once: they took half of a file's time. A compiler takes
# them only with the flags that they were made with, so there is one set for each level of optimisation.
# Sources include what they use all the same: with EMPLACE_PRECOMPILE=OFF (preset dev) nothing is included for them.
option(EMPLACE_PRECOMPILE "Precompile the headers that most files include" ON)
set(standard_headers <algorithm> <chrono> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
  <span> <sstream> <string> <string_view> <unordered_map> <variant> <vector> <nlohmann/json.hpp>)

# emplace_precompiled(NAME LEVEL HEADERS… LINKS…): a target that holds them, at -O LEVEL in a release.
function(emplace_precompiled name level)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINKS" ${ARGN})
  if(NOT EMPLACE_PRECOMPILE)
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/${name}.cc)
  file(GENERATE OUTPUT ${source} CONTENT "// CMake wants a source: the headers are what ${name} is for.\n")
  add_library(${name} OBJECT ${source})
  set_target_properties(${name} PROPERTIES EMPLACE_OPTIMIZE ${level})
  target_link_libraries(${name} PRIVATE emplace_options ${ARG_LINKS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

function(emplace_use_precompiled target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
    # What g++ 12 sees in the inside of "x" + std::string and is not there (GCC PR 105651): it forgets that precompiled
    # headers are the system's. Builds without them keep these warnings.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>)
  endif()
endfunction()

emplace_precompiled(emplace_precompiled 3 HEADERS ${standard_headers} <Eigen/Core> LINKS Eigen3::Eigen)
emplace_precompiled(emplace_precompiled_glue 1 HEADERS ${standard_headers} <Eigen/Core> LINKS Eigen3::Eigen)
if(EMPLACE_TESTS)
  emplace_precompiled(emplace_precompiled_tests 0
    HEADERS ${standard_headers} <Eigen/Core> <gtest/gtest.h> <gmock/gmock.h> LINKS Eigen3::Eigen GTest::gtest GTest::gmock)
endif()

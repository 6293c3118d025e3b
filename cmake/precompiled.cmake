# Precompiled headers of the external headers that most files include; they took half of a file's compile time.
# A compiler accepts them only with the flags of their creation, so there is one set per optimisation level.
# Every file still includes what it uses: EMPLACE_PRECOMPILE=OFF (preset dev) turns them off.
option(EMPLACE_PRECOMPILE "Precompile the headers that most files include" ON)
set(standard_headers <algorithm> <chrono> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
  <span> <sstream> <string> <string_view> <unordered_map> <variant> <vector> <nlohmann/json.hpp>)

# emplace_precompiled(NAME LEVEL HEADERS… LINKS…): adds a target with these precompiled headers, at -O LEVEL in
# Release.
function(emplace_precompiled name level)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINKS" ${ARGN})
  if(NOT EMPLACE_PRECOMPILE)
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/${name}.cc)
  file(GENERATE OUTPUT ${source} CONTENT "// CMake needs a source file; ${name} only has precompiled headers.\n")
  add_library(${name} OBJECT ${source})
  set_target_properties(${name} PROPERTIES EMPLACE_OPTIMIZE ${level})
  target_link_libraries(${name} PRIVATE emplace_options ${ARG_LINKS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

function(emplace_use_precompiled target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
    # False warnings of g++ 12 inside "x" + std::string (GCC PR 105651): with precompiled headers it does not treat
    # them as system headers. Builds without precompiled headers keep these warnings.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>)
  endif()
endfunction()

emplace_precompiled(emplace_precompiled 3 HEADERS ${standard_headers} <Eigen/Core> LINKS Eigen3::Eigen)
emplace_precompiled(emplace_precompiled_glue 1 HEADERS ${standard_headers} <Eigen/Core> LINKS Eigen3::Eigen)
if(EMPLACE_TESTS)
  emplace_precompiled(emplace_precompiled_tests 0
    HEADERS ${standard_headers} <Eigen/Core> <gtest/gtest.h> <gmock/gmock.h> LINKS Eigen3::Eigen GTest::gtest GTest::gmock)
endif()

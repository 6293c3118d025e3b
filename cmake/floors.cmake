# emplace_floor(NAME SOURCES… [PUBLIC targets…] [PRIVATE targets…]): one static library per floor.
# GLUE says that it moves words about and computes nothing: -O1 takes a third less time to compile there.
function(emplace_floor name)
  cmake_parse_arguments(ARG "GLUE" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(emplace_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(emplace_${name} PUBLIC emplace_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  if(ARG_GLUE)
    set_target_properties(emplace_${name} PROPERTIES EMPLACE_OPTIMIZE 1)
    emplace_use_precompiled(emplace_${name} emplace_precompiled_glue)
  else()
    emplace_use_precompiled(emplace_${name} emplace_precompiled)
  endif()
endfunction()

# emplace_test(NAME SOURCES… LINKS…): one GoogleTest program per room, its cases listed to CTest one by one.
# WHOLE lists the program as one: for hundreds of cases that take less time than a program's start.
# FIXTURES is where the small real graphs of the tests lie.
function(emplace_test name)
  cmake_parse_arguments(ARG "WHOLE" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE emplace_options ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES EMPLACE_OPTIMIZE 0)
  emplace_use_precompiled(${name} emplace_precompiled_tests)
  target_compile_definitions(${name} PRIVATE EMPLACE_FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures"
    EMPLACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" EMPLACE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
    return()
  endif()
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# emplace_bench(NAME SOURCES… LINKS…): a Google Benchmark program, and a tiny run of it as a test so that none rots.
function(emplace_bench name)
  cmake_parse_arguments(ARG "" "SMOKE" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE emplace_options ${ARG_LINKS} benchmark::benchmark)
  emplace_use_precompiled(${name} emplace_precompiled)
  target_compile_definitions(${name} PRIVATE EMPLACE_FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures"
    EMPLACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(EMPLACE_TESTS)
    if(NOT ARG_SMOKE)
      set(ARG_SMOKE ".")
    endif()
    add_test(NAME ${name}_smoke COMMAND ${name} --benchmark_min_time=0.001 --benchmark_filter=${ARG_SMOKE})
    set_tests_properties(${name}_smoke PROPERTIES TIMEOUT 120)
  endif()
endfunction()

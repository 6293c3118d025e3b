# Files of one folder are compiled several at a time: what their headers make of templates is then compiled once, not
# twelve times. So names without linkage are unique within a folder. Each file includes what it uses all the same: with
# EMPLACE_TOGETHER=OFF (preset dev, clang-tidy) each is compiled alone.
option(EMPLACE_TOGETHER "Compile up to twelve files of a folder at a time" ON)
function(emplace_compile_together target)
  if(NOT EMPLACE_TOGETHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # A class that hides its State in its source uses names without linkage there; g++ takes that source for a header now.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} ABSOLUTE)
    get_filename_component(folder ${folder} DIRECTORY)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND sources_${folder} ${source})
    list(LENGTH sources_${folder} count)
    math(EXPR group "(${count} - 1) / 12")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
endfunction()

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
  emplace_compile_together(emplace_${name} ${ARG_SOURCES})
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
  emplace_compile_together(${name} ${ARG_SOURCES})
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

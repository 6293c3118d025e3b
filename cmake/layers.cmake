# Unity builds: up to twelve files are compiled together, so that headers and templates are compiled once instead of
# twelve times. Hot code is grouped by folder; glue and tests are grouped by target (WHOLE), which takes a third less
# time where folders are small. Names without linkage must therefore be unique within a folder, or a target. Every file
# still includes what it uses: EMPLACE_TOGETHER=OFF (preset dev, clang-tidy) compiles each file alone.
option(EMPLACE_TOGETHER "Compile up to twelve files of a folder or a target at a time" ON)
function(emplace_compile_together target)
  cmake_parse_arguments(ARG "WHOLE" "" "SOURCES" ${ARGN})
  if(NOT EMPLACE_TOGETHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # A class whose State is defined in a source file may use names without linkage there. In a unity build g++
  # treats that file as a header and warns.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source ${ARG_SOURCES})
    set(room all)  # Two targets may share a source, which has one group.
    if(NOT ARG_WHOLE)
      get_filename_component(room ${source} ABSOLUTE)
      get_filename_component(room ${room} DIRECTORY)
      file(RELATIVE_PATH room ${CMAKE_SOURCE_DIR} ${room})
      string(MAKE_C_IDENTIFIER "${room}" room)
    endif()
    list(APPEND sources_${room} ${source})
    list(LENGTH sources_${room} count)
    math(EXPR group "(${count} - 1) / 12")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room}_${group})
  endforeach()
endfunction()

# emplace_layer(NAME [GLUE] SOURCES… [PUBLIC targets…] [PRIVATE targets…]): adds one static library, emplace_NAME.
# GLUE: no hot code; compile at -O1, which takes a third less time.
function(emplace_layer name)
  cmake_parse_arguments(ARG "GLUE" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(emplace_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(emplace_${name} PUBLIC emplace_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  if(ARG_GLUE)
    set_target_properties(emplace_${name} PROPERTIES EMPLACE_OPTIMIZE 1)
    emplace_use_precompiled(emplace_${name} emplace_precompiled_glue)
    emplace_compile_together(emplace_${name} WHOLE SOURCES ${ARG_SOURCES})
  else()
    emplace_use_precompiled(emplace_${name} emplace_precompiled)
    emplace_compile_together(emplace_${name} SOURCES ${ARG_SOURCES})
  endif()
endfunction()

# emplace_test(NAME [WHOLE] [TIMEOUT s] SOURCES… [OPTIMIZED…] LINKS… [LABELS…]): adds a GoogleTest program.
# Each case is a CTest test.
# WHOLE: the program is one CTest test, for hundreds of cases that take less time than starting a program, or for cases
# that share what takes long to make.
# OPTIMIZED: sources of these whose loops take longer than compiling them alone, optimized.
# The macro EMPLACE_FIXTURES is the folder of the tests' small graphs. TIMEOUT defaults to 120 s.
function(emplace_test name)
  cmake_parse_arguments(ARG "WHOLE" "TIMEOUT" "SOURCES;OPTIMIZED;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE emplace_options ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  emplace_compile_together(${name} WHOLE SOURCES ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES EMPLACE_OPTIMIZE 0)
  emplace_use_precompiled(${name} emplace_precompiled_tests)
  set_source_files_properties(${ARG_OPTIMIZED} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
    COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>")
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

# emplace_bench(NAME [SMOKE filter] SOURCES… LINKS…): adds a Google Benchmark program, and a short run of it as a
# test.
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

# emplace_list_sources(TARGET FILE): writes the sources of a target and of all that it links, one path from the root per
# line. Call it after all targets are defined.
function(emplace_list_sources target file)
  set(todo ${target})
  set(seen "")
  set(sources "")
  while(todo)
    list(POP_FRONT todo each)
    if(each IN_LIST seen OR NOT TARGET ${each})
      continue()
    endif()
    list(APPEND seen ${each})
    get_target_property(imported ${each} IMPORTED)
    if(imported)
      continue()
    endif()
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(links ${each} ${property})
      if(links)
        string(REGEX REPLACE "\\$<LINK_ONLY:([^>]*)>" "\\1" links "${links}")
        list(APPEND todo ${links})
      endif()
    endforeach()
    get_target_property(own ${each} SOURCES)
    get_target_property(folder ${each} SOURCE_DIR)
    foreach(source ${own})
      get_filename_component(path ${source} ABSOLUTE BASE_DIR ${folder})
      file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${path})
      list(APPEND sources ${path})
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES sources)
  list(SORT sources)
  list(JOIN sources "\n" sources)
  file(GENERATE OUTPUT ${file} CONTENT "${sources}\n")
endfunction()

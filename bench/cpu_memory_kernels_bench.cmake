if(TARGET emplace_cpu_kernels)
  emplace_bench(cpu_memory_kernels_bench
    SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/cpu_memory_kernels_bench.cc ${CMAKE_SOURCE_DIR}/tests/executor/cpu/kernel_run.cc
    LINKS emplace_cpu_kernels GTest::gtest SMOKE "1048576")
endif()

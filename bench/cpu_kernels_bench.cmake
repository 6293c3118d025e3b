if(TARGET emplace_cpu_kernels)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  emplace_bench(cpu_kernels_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/cpu_kernels_bench.cc
    LINKS emplace_cpu_kernels OpenMP::OpenMP_CXX SMOKE "Tiny|Matmul/64|1024,14")
  set_target_properties(cpu_kernels_bench PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # OpenMP compiles with its own flag.
endif()

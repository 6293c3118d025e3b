if(TARGET emplace_cpu_executor)
  emplace_bench(cpu_executor_bench SOURCES cpu_executor_bench.cc LINKS emplace_cpu_executor)
endif()

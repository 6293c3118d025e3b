if(TARGET recording_api)
  emplace_bench(cuda_program_bench SOURCES cuda_program_bench.cc LINKS emplace_models recording_api test_support SMOKE "rnnlm")
endif()

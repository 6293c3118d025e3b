# CUDA support. AUTO: use CUDA if it is found; ON: fail if it is missing; OFF: do not look for it. Sets
# EMPLACE_HAS_CUDA.
#
# cudart is linked statically, the driver is found at run time, and cuBLASLt and cuDNN are opened with dlopen
# (executor/cuda/libraries/api.h). So a program built with CUDA starts on any machine and reports what is missing
# there. Linking the libraries would make the loader fail without them, and map half a gigabyte before main() with
# them.
set(EMPLACE_CUDA AUTO CACHE STRING "CUDA executor: AUTO, ON or OFF")
set_property(CACHE EMPLACE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(EMPLACE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING
  "CMAKE_CUDA_ARCHITECTURES; default: machine code for 80 and 90, and PTX of 90 for later ones. Also 75, 86, 89, 100, 120")
set(EMPLACE_HAS_CUDA OFF)
if(EMPLACE_CUDA STREQUAL "OFF")
  return()
endif()

include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER)
  find_program(EMPLACE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(EMPLACE_NVCC)
    set(CMAKE_CUDA_COMPILER ${EMPLACE_NVCC})
  endif()
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  get_filename_component(EMPLACE_CUDA_ROOT ${CMAKE_CUDA_COMPILER} REALPATH)
  get_filename_component(EMPLACE_CUDA_ROOT ${EMPLACE_CUDA_ROOT}/../.. ABSOLUTE)
  find_path(EMPLACE_CUDA_INCLUDE cuda_runtime.h HINTS ${EMPLACE_CUDA_ROOT}/include NO_DEFAULT_PATH)
  find_path(EMPLACE_CUBLASLT_INCLUDE cublasLt.h HINTS ${EMPLACE_CUDA_ROOT}/include)
  find_path(EMPLACE_CUDNN_INCLUDE cudnn_backend.h HINTS ${EMPLACE_CUDA_ROOT}/include)
  find_library(EMPLACE_CUDART cudart_static HINTS ${EMPLACE_CUDA_ROOT}/lib64 ${EMPLACE_CUDA_ROOT}/lib)
endif()
set(wanted CMAKE_CUDA_COMPILER EMPLACE_CUDA_INCLUDE EMPLACE_CUBLASLT_INCLUDE EMPLACE_CUDNN_INCLUDE EMPLACE_CUDART)
foreach(name ${wanted})
  if(NOT ${name})
    if(EMPLACE_CUDA STREQUAL "ON")
      message(FATAL_ERROR "EMPLACE_CUDA=ON, but ${name} was not found; install the CUDA toolkit with cuBLAS and cuDNN 9, or set -D${name}=…")
    endif()
    message(STATUS "no CUDA executor: ${name} was not found")
    return()
  endif()
endforeach()

set(CMAKE_CUDA_ARCHITECTURES ${EMPLACE_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(EMPLACE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${EMPLACE_CCACHE})
endif()
enable_language(CUDA)
# Versions of driver entry points and some error numbers are in the headers from 12.8 on.
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
  if(EMPLACE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "EMPLACE_CUDA=ON, but CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old; install 12.8 or later")
  endif()
  message(STATUS "no CUDA executor: CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old; 12.8 or later is needed")
  return()
endif()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 lacks the C++20 option of nvcc.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(EMPLACE_HAS_CUDA ON)
message(STATUS "CUDA executor: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, machine code for ${CMAKE_CUDA_ARCHITECTURES}")

# Include directories and libraries of the CUDA toolkit.
add_library(emplace_cuda_toolkit INTERFACE)
target_include_directories(emplace_cuda_toolkit SYSTEM INTERFACE ${EMPLACE_CUDA_INCLUDE} ${EMPLACE_CUBLASLT_INCLUDE}
  ${EMPLACE_CUDNN_INCLUDE})
target_link_libraries(emplace_cuda_toolkit INTERFACE ${EMPLACE_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
# Folder in which dlopen looks for cuBLASLt and cuDNN after LD_LIBRARY_PATH: that of the toolkit at build time.
target_compile_definitions(emplace_cuda_toolkit INTERFACE EMPLACE_CUDA_LIBRARY_DIR="${EMPLACE_CUDA_ROOT}/lib64")

#pragma once
/// EMPLACE_HD marks functions that nvcc compiles for host and device, and other compilers for the host.

#ifdef __CUDACC__
#define EMPLACE_HD __host__ __device__ __forceinline__
#else
#define EMPLACE_HD inline
#endif

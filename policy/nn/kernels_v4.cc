#include "policy/nn/kernels_body.h"

namespace emplace::policy::detail {
extern const Kernels kKernelsV4 = {"x86-64-v4",        product,          attend,         attend_backward,
                                   exponentials,       find_running_sum, add_noise,      affine,
                                   product_of_columns, sum_columns,      add_to_columns, add_columns};
}

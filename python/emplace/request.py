"""The settings of a request for a placement, in the order of ``emplace place --help``.

Made from Request::list() (solver/request.cc); EMPLACE_WRITE_REFERENCE=1 solver_test writes it again.
"""

SETTINGS = (
    "method",
    "budget",
    "policy",
    "samples",
    "weights",
    "unseen-order",
    "pass",
    "order",
    "allow",
    "best-of",
    "robust",
    "threads",
)

"""The executor of kind ``torch``: PyTorch measures placements of a traced step.

``emplace-exec-torch`` (``python -m emplace.torch_executor``) is started by ``emplace evaluate --executor
torch``, by runs and by nodes that join one. It speaks the protocol of every executor process
(docs/reference/wire_format.md).
"""

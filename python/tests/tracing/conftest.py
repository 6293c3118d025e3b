"""Where torch is absent these tests are skipped; ``--newest`` runs the long ones."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
try:
    import torch
except ImportError:
    collect_ignore_glob = ["test_*.py"]
else:
    torch.set_num_threads(1)

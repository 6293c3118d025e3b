"""The page's text around its numbers."""

HEAD = """\
# Step times beside measurements
How far the times of cost version 2 are from public measurements on real GPUs, worst first, beside those of
version 1 and the errors that others publish. The formula stands in `placement/costs/kernel_model.h`;
`bench/costs/measure.py` writes this page.

- Error: |predicted / measured − 1|. p90: nine rows in ten have at most this error.
- **Held out.** A kernel is held out by its shape, on all devices at once: `crc32(key) % 10 == 0`
  (`scripts/costs/rows.py`). Errors of kernels are those of a fit without these shapes, errors of families
  those of a fit without the device. The tables in the program are then fitted to all rows.
- **Whole models** were not fitted to, but for constants of launch and host, which may use the rows without
  a `*`.
"""

OTHERS = """\
| source | judged on | error |
|---|---|--:|
| habitat, by NeuSight's authors | 123 whole models | 385 % mean |
| micro-benchmarks, by NeuSight's authors | 123 whole models | 60 % mean |
| roofline, by NeuSight's authors | 123 whole models | 31 % mean |
| NeuSight, of GPUs that it was fitted to and others | 123 whole models | 9.7 % mean |
| vTrain, steps of Megatron | 1,440 plans on 2 to 8 A100; 109 on 64 to 512 | 8.4 %; 14.7 % mean |
| a thesis at TU Wien, 2026 (hdl 20.500.12708/227225) | ONNX layers on unlike workers | 8.4 % |
| aiconfigurator 0.12.0, from its tables without the row | products in BF16 | 3.6 to 4.9 % median |
"""

MODELS = """\
Forward passes, and forward with backward of the sum of all logits, in float32 without TF32, traced by
`em.trace` (`bench/costs/trace_models.py`), on one GPU. Order of devices: pairs of devices whose measured
steps of one model differ by more than 10 %. No source has the kernels of backward passes other than products
alone, nor embeddings and copies: their bytes are counted by what PyTorch's kernels read and write, and that
was compared with the measured nodes of these models.
"""

MODEL_ROWS = """\
Times in milliseconds. `*`: no constant may be fitted to this row. `!`: the label contradicts itself
(below). Its nodes: the sum of the measured times of the model's nodes, beside the measured step. Stated: the
error beside the prediction; bold where the measurement is not within it. Sources: of the costs, by time.
"""

DOUBTS = """\
Labels that disagree with the measured times of their own nodes, with a smaller batch, or with themselves:
backward takes 1.54 to 2.02 times as long as forward, but less in five of them. All are in the tables above.
"""

KERNELS = """\
Held-out shapes of measured devices, by the fit: means over devices, then every device.
"""

KERNEL_ROWS = """\
Version 1 answered for at most 150 of these rows. Program and fit: how far the program's times of these rows,
as ops of a graph, are from those that `scripts/costs` computes from the tables of the program, for 99 rows
in 100. Prompts of one token are left out there: the program counts them as decoding.
"""

PEERS = """\
`bench/costs/peer.py` asks the estimator of `aiconfigurator-core` 0.12.0 for the held-out rows, with tables
that lack them, and takes off what it adds to rows that its tables have. It keeps all other rows and
interpolates between them; ours is the fit without the held-out rows. Bold: it is better than ours.
"""

COLLECTIVES = """\
Message sizes that were held out, over all numbers of GPUs: median errors of each number, and their mean.
"""

LINKS = """\
Copies from one GPU to another: the catalogue's links have the measured values.
"""

FAMILIES = """\
A device without tables of its own gets those of its family, with its own peaks, bandwidth and L2. L40S, RTX
PRO 6000 and P100 were left out of the fit whole, then judged.
"""

RATIOS = """\
How many times as fast as a V100 (PCIe, 32 GB) a GPU is in float32 linear layers of at least 10^10
operations, without TF32: medians over the layers that were measured on both, all of which the tables are
fitted to.
"""

DATA = """\
## Data
| source | licence | used for |
|---|---|---|
| NeuSight (`sitar-lab/NeuSight` at 6945927) | MIT | kernels in FP32 of six GPUs; whole models on eight |
| `aiconfigurator-core` 0.12.0 of PyPI | Apache-2.0 | kernels in 16 and 8 bits of ten systems; collectives |
| vTrain (`VIA-Research/vTrain`) | MIT | all-reduce on A100 and V100 |

`scripts/fit_costs.py` writes the tables and their errors, with the source of each, to
`placement/costs/fitted.toml`. The measurements are not part of emplace.

## Again
```sh
pip install numpy scipy pandas pyarrow torch transformers  # or EMPLACE_TORCH=PYTHON, one with the last two
bench/costs/measure.py --program build/release/emplace --measured ../shared/measured-gpus
bench/costs/measure.py --only-page                         # from docs/results/costs.jsonl alone
```
"""

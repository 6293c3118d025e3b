"""The messages between an executor and its child process, which are of one build: never on a connection of a
run (docs/reference/wire_messages.md).
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from emplace.wire.codec import (
    F64,
    I64,
    U8,
    U32,
    U64,
    Bool,
    Bulk,
    F64s,
    I64s,
    Message,
    Section,
    Text,
    Texts,
    U8s,
    U32s,
    U64s,
    none_of,
)


class Measurement(Message):
    """A struct: one measurement."""

    valid: Bool = False
    step_time_s: F64 = 0.0
    peak_bytes: I64s = none_of(np.int64)
    busy_s: F64s = none_of(np.float64)
    bytes_moved: I64 = 0
    bytes_over: I64 = 0
    synthetic_share: F64 = 0.0
    samples_s: F64s = none_of(np.float64)
    failure: Text = ""
    label: U8 = 0


class DeviceFacts(Message):
    """A struct: a device of the machine, exactly."""

    name: Text = ""
    host: Text = ""
    profile: Text = ""
    kind: Text = ""
    memory_bytes: I64 = 0
    profile_memory_bytes: I64 = 0
    peak_gflops: F64 = 0.0
    matrix_peak_gflops: F64 = 0.0
    bandwidth_gbs: F64 = 0.0
    bandwidth_efficiency: F64 = 1.0
    launch_us: F64 = 0.0
    efficiency: F64s = none_of(np.float64)
    signatures: U64s = none_of(np.uint64)
    signature_us: F64s = none_of(np.float64)
    costs: U8 = 1
    own_efficiency: U32 = 0
    peaks_gflops: F64s = none_of(np.float64)
    l2_bytes: I64 = 0
    tables: Texts = field(default_factory=list)
    family: Text = ""
    dispatch_us: F64 = 0.0
    unaligned_rate: F64 = 1.0


class PrepareExecutor(Message, number=15):
    """parent -> executor process, the first message."""

    graph_sha256: Text = ""
    graph: Bulk = Section()
    devices: list[DeviceFacts] = field(default_factory=list)
    link_bytes_per_s: F64s = none_of(np.float64)
    link_latency_s: F64s = none_of(np.float64)
    warmups: U32 = 5
    samples: U32 = 5
    most_samples: U32 = 15
    statistic: U8 = 0
    seed: U64 = 0
    allow_synthetic: Bool = True
    copies: U8 = 0
    corun: F64 = 1.0
    link_shaped: U8s = none_of(np.uint8)
    stop_ratio: F64 = 0.0
    capture: Bool = True
    tune: Bool = True
    link_names: Texts = field(default_factory=list)


class ExecutorReady(Message, number=83):
    """executor process -> parent: the graph is loaded and the self-test passed."""

    kind: Text = ""
    version: Text = ""
    synthetic_types: Texts = field(default_factory=list)
    stand_ins: Texts = field(default_factory=list)


class ExecutorRefused(Message, number=84):
    """executor process -> parent: this graph can never run on this machine."""

    code: U8 = 0
    error: Text = ""


class ExecutorBeat(Message, number=85):
    """executor process -> parent, a few times a second, from a thread that does not compute."""

    progress: U64 = 0


class RunPlacement(Message, number=16):
    """parent -> executor process."""

    id: U64 = 0
    task: U8 = 0
    placement: Bulk = Section()
    next: Bulk = Section()


class ScheduleFacts(Message):
    """A struct: a schedule as columns."""

    ops: U32s = none_of(np.uint32)
    op_devices: U32s = none_of(np.uint32)
    op_start_s: F64s = none_of(np.float64)
    op_end_s: F64s = none_of(np.float64)
    tensors: U32s = none_of(np.uint32)
    sources: U32s = none_of(np.uint32)
    targets: U32s = none_of(np.uint32)
    transfer_bytes: I64s = none_of(np.int64)
    transfer_start_s: F64s = none_of(np.float64)
    transfer_end_s: F64s = none_of(np.float64)
    level_devices: U32s = none_of(np.uint32)
    level_at_s: F64s = none_of(np.float64)
    level_bytes: I64s = none_of(np.int64)


class VerificationFacts(Message):
    """A struct: result of a verification."""

    identical: Bool = False
    compared: U64 = 0
    skipped: U64 = 0
    first_difference: Text = ""


class ProfileFacts(Message):
    """A struct: a profile as columns; `ops` is [devices, kernels]."""

    devices: U32 = 0
    ops: U32s = none_of(np.uint32)
    samples: U32s = none_of(np.uint32)
    us: F64s = none_of(np.float64)
    mad_us: F64s = none_of(np.float64)
    synthetic: U8s = none_of(np.uint8)
    sources: U32s = none_of(np.uint32)
    targets: U32s = none_of(np.uint32)
    latency_s: F64s = none_of(np.float64)
    bytes_per_s: F64s = none_of(np.float64)
    task_overhead_us: F64s = none_of(np.float64)
    step_time_s: F64 = 0.0
    hot_us: F64s = none_of(np.float64)
    cold_us: F64s = none_of(np.float64)
    task_host_us: F64s = none_of(np.float64)
    corun: F64s = none_of(np.float64)


class PlacementRan(Message, number=17):
    """executor process -> parent."""

    id: U64 = 0
    measurement: Measurement = field(default_factory=Measurement)
    notes: Texts = field(default_factory=list)


class PlacementTraced(Message, number=19):
    """executor process -> parent."""

    id: U64 = 0
    measurement: Measurement = field(default_factory=Measurement)
    schedule: ScheduleFacts = field(default_factory=ScheduleFacts)


class PlacementVerified(Message, number=20):
    """executor process -> parent."""

    id: U64 = 0
    verification: VerificationFacts = field(default_factory=VerificationFacts)


class ExecutorProfiled(Message, number=21):
    """executor process -> parent."""

    id: U64 = 0
    profile: ProfileFacts = field(default_factory=ProfileFacts)


class TaskFailed(Message, number=91):
    """executor process -> parent: the task failed as a whole."""

    id: U64 = 0
    code: U8 = 0
    error: Text = ""

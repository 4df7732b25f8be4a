"""Writes rope.json beside itself: how mlx_lm rotates the pairs of a head when RoPE is scaled.
Each case has a configuration, the angle of each pair at position 1, and what queries and keys
are multiplied by.

    pip install mlx[cpu] mlx-lm==0.32.2
    python llm/model/testdata/rope.py      (from the root of the repository)
"""

import json
import os

import mlx.core as mx
import numpy as np
from mlx_lm.models.rope_utils import initialize_rope

mx.set_default_device(mx.cpu)

cases = [
    dict(head_dim=128, rope_theta=1e6, rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    dict(head_dim=64, rope_theta=1e4, rope_scaling=dict(type="yarn", factor=16, beta_fast=20, beta_slow=2.5, original_max_position_embeddings=4096)),
    dict(head_dim=32, rope_theta=1e4, rope_scaling=dict(rope_type="yarn", factor=1, original_max_position_embeddings=256)),
    # Both limits of the ramp are 0, and then both are past the last pair.
    dict(head_dim=16, rope_theta=1e4, rope_scaling=dict(rope_type="yarn", factor=2.5, original_max_position_embeddings=6)),
    dict(head_dim=16, rope_theta=2, rope_scaling=dict(rope_type="yarn", factor=8, original_max_position_embeddings=1 << 20)),
    dict(head_dim=128, rope_theta=5e5, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)),
    dict(head_dim=64, rope_theta=1e4, rope_scaling=dict(rope_type="linear", factor=2.5)),
]

for case in cases:
    dims = case["head_dim"]
    rope = initialize_rope(dims, case["rope_theta"], False, case["rope_scaling"], 4096)
    x = np.zeros((1, 1, 1, dims), np.float32)
    x[..., :dims // 2] = 1
    y = np.array(rope(mx.array(x), offset=1), np.float64).reshape(2, dims // 2)
    magnitudes = np.hypot(*y)
    assert np.ptp(magnitudes) < 1e-5, magnitudes
    case.update(angles=np.arctan2(y[1], y[0]).tolist(), magnitude=float(magnitudes.mean()))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rope.json"), "w") as f:
    json.dump(cases, f, indent=1)
    f.write("\n")

"""Writes two small random Qwen2 checkpoints beside itself, and what Hugging Face
transformers computes from them in float32 on a CPU:

    dense/     bfloat16 weights, tied embeddings
    q4/        MLX's 4-bit form, groups of 32, untied
    .../goldens.json, .../goldens.safetensors

    pip install torch==2.15.0 transformers==5.23.0 mlx[cpu] mlx-lm==0.32.2
    python llm/qwen2/testdata/goldens.py      (from the root of the repository)

With --check it writes nothing, and compares the logits to those of mlx_lm.
"""

import json
import os
import sys

import mlx.core as mx
import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

mx.set_default_device(mx.cpu)
torch.set_num_threads(1)
here = os.path.dirname(os.path.abspath(__file__))
group, bits, vocabulary = 32, 4, 160
prompts = [[3, 14, 15, 92, 65], list(range(20, 150, 3)) * 2]


def config(quantized):
    c = dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", hidden_size=64, intermediate_size=128,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=vocabulary, max_position_embeddings=1024,
        rms_norm_eps=1e-6, rope_theta=1000000.0, use_sliding_window=False, sliding_window=512, max_window_layers=2,
        tie_word_embeddings=not quantized, torch_dtype="bfloat16", eos_token_id=2)
    if quantized:
        c["quantization"] = c["quantization_config"] = dict(group_size=group, bits=bits)
    return c


def make_weights(c, quantized, seed):
    """Returns what the file holds, and the same decoded to float32."""
    rng = np.random.default_rng(seed)
    stored, decoded = {}, {}

    def add(name, shape, mean, deviation):
        w = mx.array(rng.normal(mean, deviation, shape).astype(np.float32)).astype(mx.bfloat16)
        if quantized and len(shape) == 2:
            q, scales, biases = mx.quantize(w, group_size=group, bits=bits)
            path = name.removesuffix(".weight")
            stored.update({path + ".weight": q, path + ".scales": scales, path + ".biases": biases})
            w = mx.dequantize(q, scales.astype(mx.float32), biases.astype(mx.float32), group_size=group, bits=bits)
        else:
            stored[name] = w
        decoded[name] = torch.from_numpy(np.array(w.astype(mx.float32)))

    hidden, inner = c["hidden_size"], c["intermediate_size"]
    keys = hidden // c["num_attention_heads"] * c["num_key_value_heads"]
    add("model.embed_tokens.weight", (vocabulary, hidden), 0, 0.5)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        add(p + "input_layernorm.weight", (hidden,), 1, 0.2)
        add(p + "post_attention_layernorm.weight", (hidden,), 1, 0.2)
        for name, out, inn in [("self_attn.q", hidden, hidden), ("self_attn.k", keys, hidden), ("self_attn.v", keys, hidden), ("self_attn.o", hidden, hidden),
                               ("mlp.gate", inner, hidden), ("mlp.up", inner, hidden), ("mlp.down", hidden, inner)]:
            add(f"{p}{name}_proj.weight", (out, inn), 0, 2.5 / inn**0.5)
            if name[-1] in "qkv":
                add(f"{p}{name}_proj.bias", (out,), 0, 1)
    add("model.norm.weight", (hidden,), 1, 0.2)
    if not c["tie_word_embeddings"]:
        add("lm_head.weight", (vocabulary, hidden), 0, 0.5)
    return stored, decoded


def load(folder, decoded):
    raw = AutoConfig.from_pretrained(folder)
    if hasattr(raw, "quantization_config"):
        del raw.quantization_config  # MLX's, which the decoded weights do not need
    raw._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(raw, torch_dtype=torch.float32).eval()
    missing, unexpected = model.load_state_dict(decoded, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


@torch.no_grad()
def greedy(model, prompt, steps):
    """Whole passes without a cache: logits of the prompt, then of each step."""
    ids, rows, margin = list(prompt), [], float("inf")
    prompt_logits = model(torch.tensor([ids])).logits[0].numpy()
    while len(ids) < len(prompt) + steps:
        row = model(torch.tensor([ids])).logits[0, -1].numpy()
        best = np.sort(row)[-2:]
        margin = min(margin, float(best[1] - best[0]))
        rows.append(row)
        ids.append(int(row.argmax()))
    return prompt_logits, np.stack(rows), ids[len(prompt):], margin


def run(folder, c, quantized):
    for seed in range(1000):
        stored, decoded = make_weights(c, quantized, seed)
        model = load(folder, decoded)
        cases, tensors = [], {}
        for i, prompt in enumerate(prompts):
            logits, steps, ids, margin = greedy(model, prompt, 16)
            if margin < 0.02 or len(set(ids)) < 6 or 2 in ids:  # too close to call, or too monotonous
                break
            cases.append(dict(prompt_ids=prompt, generated_ids=ids, smallest_top2_margin=margin))
            tensors[f"case{i}.prompt_logits"] = logits if i == 0 else logits[-1:]
            tensors[f"case{i}.step_logits"] = steps
        else:
            return seed, stored, cases, tensors
    raise SystemExit("no seed gives answers with clear margins and some variety")


def dump(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def check(folder):
    """Compares what is on disk to mlx_lm, in float32."""
    from pathlib import Path

    from mlx_lm.utils import load_model
    model, _ = load_model(Path(folder))
    model.set_dtype(mx.float32)
    goldens = mx.load(os.path.join(folder, "goldens.safetensors"))
    for i, case in enumerate(json.load(open(os.path.join(folder, "goldens.json")))["cases"]):
        want = np.array(goldens[f"case{i}.prompt_logits"])
        got = np.array(model(mx.array([case["prompt_ids"]]))[0])[-len(want):]
        print(folder, i, "largest difference", np.abs(got - want).max(), "of", np.abs(want).max())


for name in ["dense", "q4"]:
    folder = os.path.join(here, name)
    if "--check" in sys.argv:
        check(folder)
        continue
    os.makedirs(folder, exist_ok=True)
    c = config(name == "q4")
    dump(os.path.join(folder, "config.json"), c)
    seed, stored, cases, tensors = run(folder, c, name == "q4")
    mx.save_safetensors(os.path.join(folder, "model.safetensors"), stored, metadata={"format": "mlx"})
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, os.path.join(folder, "goldens.safetensors"))
    dump(os.path.join(folder, "goldens.json"), dict(seed=seed, cases=cases))
    print(name, "seed", seed, [round(x["smallest_top2_margin"], 3) for x in cases])

"""What the scripts share that make small random checkpoints beside an architecture's tests, and
what Hugging Face transformers computes from them in float32 on a CPU."""

import json
import os
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

mx.set_default_device(mx.cpu)
torch.set_num_threads(1)
group, bits = 32, 4  # of quantized weights
quantization = dict(group_size=group, bits=bits)


def make_weights(c, quantized, seed, biased=()):
    """Returns what the file holds, and the same decoded to float32. biased are projections with a bias."""
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
    head = c.get("head_dim", hidden // c["num_attention_heads"])
    queries, keys = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    add("model.embed_tokens.weight", (c["vocab_size"], hidden), 0, 0.5)
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        add(p + "input_layernorm.weight", (hidden,), 1, 0.2)
        add(p + "post_attention_layernorm.weight", (hidden,), 1, 0.2)
        for name, out, inn in [("self_attn.q", queries, hidden), ("self_attn.k", keys, hidden), ("self_attn.v", keys, hidden), ("self_attn.o", hidden, queries),
                               ("mlp.gate", inner, hidden), ("mlp.up", inner, hidden), ("mlp.down", hidden, inner)]:
            add(f"{p}{name}_proj.weight", (out, inn), 0, 2.5 / inn**0.5)
            if name in biased:
                add(f"{p}{name}_proj.bias", (out,), 0, 1)
    add("model.norm.weight", (hidden,), 1, 0.2)
    if not c["tie_word_embeddings"]:
        add("lm_head.weight", (c["vocab_size"], hidden), 0, 0.5)
    return stored, decoded


def load(folder, decoded):
    """Returns transformers' model of a folder's config.json with these weights."""
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
def greedy(model, prompt, steps, eos):
    """Whole passes without a cache: logits of the prompt, then of each step. None if a choice is too close to call."""
    ids, rows, margin = list(prompt), [], float("inf")
    prompt_logits = model(torch.tensor([ids])).logits[0].numpy()
    while len(ids) < len(prompt) + steps:
        row = model(torch.tensor([ids])).logits[0, -1].numpy()
        best = np.sort(row)[-2:]
        margin = min(margin, float(best[1] - best[0]))
        if margin < 0.02:
            return None
        rows.append(row)
        ids.append(int(row.argmax()))
        if ids[-1] in eos:
            break
    return prompt_logits, np.stack(rows), ids[len(prompt):], margin


def dump(path, value, **how):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, **how)
        f.write("\n")


def save(folder, name, seed, stored, cases, tensors):
    """Writes the weights, the cases and their tensors."""
    mx.save_safetensors(os.path.join(folder, "model.safetensors"), stored, metadata={"format": "mlx"})
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, os.path.join(folder, "goldens.safetensors"))
    dump(os.path.join(folder, "goldens.json"), dict(seed=seed, cases=cases), ensure_ascii=True, indent=1)
    print(name, "seed", seed, [round(x["smallest_top2_margin"], 3) for x in cases], [len(x["generated_ids"]) for x in cases])


def check(folder):
    """Compares what is on disk to mlx_lm, in float32."""
    from mlx_lm.utils import load_model
    model, _ = load_model(Path(folder))
    model.set_dtype(mx.float32)
    goldens = mx.load(os.path.join(folder, "goldens.safetensors"))
    for i, case in enumerate(json.load(open(os.path.join(folder, "goldens.json")))["cases"]):
        want = np.array(goldens[f"case{i}.prompt_logits"])
        got = np.array(model(mx.array([case["prompt_ids"]]))[0])[-len(want):]
        print(folder, i, "largest difference", np.abs(got - want).max(), "of", np.abs(want).max())

"""Writes two small random Qwen2 checkpoints beside itself, and what Hugging Face
transformers computes from them in float32 on a CPU:

    dense/     bfloat16 weights, tied embeddings
    q4/        MLX's 4-bit form, groups of 32, untied
    .../goldens.json, .../goldens.safetensors

    pip install torch==2.15.0 transformers==5.23.0 mlx[cpu] mlx-lm==0.32.2
    python llm/qwen2/testdata/goldens.py      (from the root of the repository)

With --check it writes nothing, and compares the logits to those of mlx_lm.
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../../internal/testmodel"))
from goldens import check, dump, greedy, load, make_weights, quantization, save  # noqa: E402

eos = 2
prompts = [[3, 14, 15, 92, 65], list(range(20, 150, 3)) * 2]


def config(quantized):
    c = dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", hidden_size=64, intermediate_size=128,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=160, max_position_embeddings=1024,
        rms_norm_eps=1e-6, rope_theta=1000000.0, use_sliding_window=False, sliding_window=512, max_window_layers=2,
        tie_word_embeddings=not quantized, torch_dtype="bfloat16", eos_token_id=eos)
    if quantized:
        c["quantization"] = c["quantization_config"] = quantization
    return c


def run(folder, c, quantized):
    for seed in range(1000):
        stored, decoded = make_weights(c, quantized, seed, ["self_attn.q", "self_attn.k", "self_attn.v"])
        model = load(folder, decoded)
        cases, tensors = [], {}
        for i, prompt in enumerate(prompts):
            answer = greedy(model, prompt, 16, [])
            if answer is None or len(set(answer[2])) < 6 or eos in answer[2]:
                break
            logits, steps, ids, margin = answer
            cases.append(dict(prompt_ids=prompt, generated_ids=ids, smallest_top2_margin=margin))
            tensors[f"case{i}.prompt_logits"] = logits if i == 0 else logits[-1:]
            tensors[f"case{i}.step_logits"] = steps
        else:
            return seed, stored, cases, tensors
    raise SystemExit("no seed gives answers with clear margins and some variety")


for name in ["dense", "q4"]:
    folder = os.path.join(here, name)
    if "--check" in sys.argv:
        check(folder)
        continue
    os.makedirs(folder, exist_ok=True)
    c = config(name == "q4")
    dump(os.path.join(folder, "config.json"), c, indent=1)
    save(folder, name, *run(folder, c, name == "q4"))

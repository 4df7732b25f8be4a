"""Writes two small random Llama checkpoints beside itself, and what Hugging Face
transformers computes from them in float32 on a CPU:

    dense/     bfloat16 weights, tied embeddings
    q4/        MLX's 4-bit form, groups of 32, untied
    .../goldens.json, .../goldens.safetensors

Both scale RoPE as Llama 3.1 does, and share a made tokenizer of Llama 3's kind.

    pip install torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 mlx[cpu] mlx-lm==0.32.2
    python llm/llama/testdata/goldens.py      (from the root of the repository)

With --check it writes nothing, and compares the logits to those of mlx_lm.
"""

import json
import os
import random
import sys

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../../internal/testmodel"))
from goldens import check, dump, greedy, load, make_weights, quantization, save  # noqa: E402

pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")
special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
template = (
    "{{- bos_token }}\n"
    "{%- for message in messages %}\n"
    "    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
    "{%- endif %}\n")
corpus = """The device computes while the host records. A stream runs its work in order; an event lets another one wait.
What is the answer to the question that the user asks? The assistant says that there are 12 months and 365 days in the year.
It's not what they're saying: we'll see, I'd think, you've read it, can't you? Numbers such as 1234567 and 3.14159 are cut in threes.
你好，世界。 Ünïcode, façade and naïve words."""


def make_tokenizer():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)])
    t.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    trainer = trainers.BpeTrainer(vocab_size=312, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    t.train_from_iterator(corpus.splitlines(), trainer)
    # Two words without merges that lead to them: ignore_merges finds them whole.
    raw = json.loads(t.to_str())
    for word in ["Ġkompute", "xyzzy"]:
        raw["model"]["vocab"][word] = len(raw["model"]["vocab"])
    t = Tokenizer.from_str(json.dumps(raw))
    t.add_special_tokens(special)
    bos = special[0]
    t.post_processor = processors.Sequence([
        processors.ByteLevel(add_prefix_space=True, trim_offsets=False, use_regex=True),
        processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, t.token_to_id(bos))])])
    return t


def config(tokenizer, quantized):
    c = dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=64, intermediate_size=128,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=1024, rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False, mlp_bias=False,
        # Wavelengths of 16-element heads at this base: one pair is fast, two lie between, five are slow.
        rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
        tie_word_embeddings=not quantized, torch_dtype="bfloat16",
        bos_token_id=tokenizer.token_to_id(special[0]), eos_token_id=[tokenizer.token_to_id(special[1]), tokenizer.token_to_id(special[4])])
    if quantized:
        c["quantization"] = c["quantization_config"] = quantization
    return c


def frequencies_of(model):
    frequencies = model.model.rotary_emb.inv_freq
    plain = 1e4 ** (-torch.arange(0, 16, 2) / 16)
    assert not torch.allclose(frequencies, plain, rtol=0.1), "RoPE is not scaled"
    return frequencies.numpy()


chats = [
    [dict(role="user", content="What is the answer?")],
    [dict(role="system", content="Be brief. "), dict(role="user", content="Hi"), dict(role="assistant", content="It's 12."),
     dict(role="user", content=" And 1234567? 你好 ")],
]
texts = ["The device computes while the host records.", "<|begin_of_text|>It's the year 2024.", (corpus.replace("\n", " ") + " ") * 2]


def prompts(fast):
    for messages in chats:
        rendered = fast.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = fast(rendered, add_special_tokens=False)["input_ids"]
        yield dict(messages=messages, rendered=rendered, prompt_ids=ids)
    for text in texts:
        ids = fast(text, add_special_tokens=not text.startswith(special[0]))["input_ids"]
        yield dict(text=text, prompt_ids=ids)


def run(folder, tokenizer, quantized):
    c = config(tokenizer, quantized)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[4], chat_template=template)
    for seed in range(1000):
        stored, decoded = make_weights(c, quantized, seed)
        model = load(folder, decoded)
        cases, tensors = [], {"inverse_frequencies": frequencies_of(model)}
        for i, case in enumerate(prompts(fast)):
            answer = greedy(model, case["prompt_ids"], 16, c["eos_token_id"])
            if answer is None or len(set(answer[2])) < 6:
                break
            logits, steps, ids, margin = answer
            cases.append(dict(case, generated_ids=ids, text_out=tokenizer.decode(ids), smallest_top2_margin=margin))
            tensors[f"case{i}.prompt_logits"] = logits if i == 0 else logits[-1:]
            if i < 2:
                tensors[f"case{i}.step_logits"] = steps
        else:
            return seed, stored, cases, tensors
    raise SystemExit("no seed gives answers with clear margins and some variety")


def tokenizer_cases(tokenizer):
    rng = random.Random(3)
    pool = list("abcdehistrSTRE''  \n\r\t0123456789.,;!?-") + [
        "\u00a0", "\u3000", "\u0085", "\u200d", "e\u0301", "\u00e9", "\u017f", "\u212b", "\u00b2", "\u0661\u0662\u0663\u0664", "\u4f60", "\u597d", "\uac00", "\U0001f642",
        "\u0915\u094d", "\u212a", "\ufffd", "\u0000", "<|eot_id|>", "<|begin_of_text|>", "<|eot", "'s", "'LL", "'re", " kompute", "kompute", "xyzzy", " xyzzy", "12345", " the", "answer"]
    cases = ["", " ", "Hello, world!", "12", "1234", "1234567 89", "x1y22z333w4444", "\u0661\u0662\u0663\u0664\u0665", " kompute kompute", "xyzzy xyzzyx", "It's THEY'RE we'lL", "\n\n  \n x", "a\r\nb"]
    cases += ["".join(rng.choice(pool) for _ in range(rng.randint(1, 30))) for _ in range(200)]
    out = []
    for text in cases:
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        out.append(dict(text=text, ids=plain, with_special=tokenizer.encode(text).ids,
                        decoded=tokenizer.decode(plain, skip_special_tokens=False), skipped=tokenizer.decode(plain, skip_special_tokens=True)))
    return out


def main():
    tokenizer = make_tokenizer()
    for name in ["dense", "q4"]:
        folder = os.path.join(here, name)
        if "--check" in sys.argv:
            check(folder)
            continue
        os.makedirs(folder, exist_ok=True)
        c = config(tokenizer, name == "q4")
        dump(os.path.join(folder, "config.json"), c, indent=2)
        dump(os.path.join(folder, "tokenizer.json"), json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
        dump(os.path.join(folder, "tokenizer_config.json"), dict(bos_token=special[0], eos_token=special[4], chat_template=template), indent=2)
        seed, stored, cases, tensors = run(folder, tokenizer, name == "q4")
        save(folder, name, seed, stored, cases, tensors)
    if "--check" not in sys.argv:
        dump(os.path.join(here, "tokenizer_cases.json"), tokenizer_cases(tokenizer), ensure_ascii=True, separators=(",", ":"))


main()

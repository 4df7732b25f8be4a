"""Writes vectors.json: what Hugging Face tokenizers makes of many texts, with the
demo model's tokenizer.json and with variants of it.

    pip install tokenizers==0.22.1
    python llm/tokenizer/testdata/vectors.py      (from the root of the repository)
"""

import copy
import json
import random

from tokenizers import Tokenizer

base = json.load(open("llm/demomodel/mote-4bit/tokenizer.json", encoding="utf-8"))


def added(content, i, **flags):
    token = dict(id=i, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    token.update(flags)
    return token


def variant(**changes):
    t = copy.deepcopy(base)
    for key, value in changes.items():
        if key == "added":
            t["added_tokens"] += value
        elif key == "ignore_merges":
            t["model"]["ignore_merges"] = value
        else:
            t[key] = value
    return t


def byte_level(**flags):
    return dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True, **flags)


split = base["pre_tokenizer"]["pretokenizers"]
variants = {
    "base": {},
    "gpt2": dict(pre_tokenizer=byte_level()),
    "prefix": dict(pre_tokenizer=byte_level() | dict(add_prefix_space=True)),
    "ignore_merges": dict(ignore_merges=True),
    "digits3": dict(pre_tokenizer=dict(type="Sequence", pretokenizers=[
        dict(split[0], pattern=dict(Regex=split[0]["pattern"]["Regex"].replace(r"|\p{N}|", r"|\p{N}{1,3}|"))), split[1]])),
    "string": dict(pre_tokenizer=dict(type="Sequence", pretokenizers=[dict(split[0], pattern=dict(String="a.")), split[1]])),
    "nfkc": dict(normalizer=dict(type="Sequence", normalizers=[dict(type="NFD"), dict(type="NFKC")])),
    "nfd": dict(normalizer=dict(type="NFD")),
    "added": dict(added=[
        added("<left>", 2048, lstrip=True), added("<right>", 2049, rstrip=True, special=True),
        added("word", 2050, single_word=True), added("\u4f60\u00e9", 2051, normalized=True),
        added("<left>er", 2052), added("both", 2053, single_word=True, lstrip=True, rstrip=True)]),
}

rng = random.Random(20240611)
pool = list("abcdeistmrvlSTRE''  \n\r\t0123456789.,;!?-_<>|()") + [
    "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\u200d", "\u0301", "\u0323", "\u0344", "\u00e9", "e\u0301", "\u017f", "\u212b",
    "\ufb01", "\u2460", "\u00b2", "\u0661", "\u216b", "\u4f60", "\u597d", "\uac00", "\u1100\u1161\u11a8", "\U0001f642", "\U0001f44d\U0001f3fd",
    "\u0915\u094d", "\u0e01\u0e34", "\u0130", "\u212a", "\ufffd", "\u0000", "<|im_end|>", "<think>", "<|im", "'s", "'LL", "'re", "'\u017f",
    "word", " word ", "<left>", "<left>er", " <left> ", "<right>", "<right>  ", "both", " both ", "\u4f60\u00e9", "\u4f60e\u0301", "_word",
]
texts = ["".join(rng.choice(pool) for _ in range(rng.randint(0, 24))) for _ in range(260)]
texts += ["a" + "\u0301" * 40 + "b", "e" + "\u0323\u0301" * 30, "\u0301" * 35, "a\u0344" + "\u0300\u0316" * 20 + " x", "\u1100" + "\u0301" * 33 + "\u1161"]
texts += ["\u09a8" + "\u09be" * 31, "\u0b95" + "\u0bbe" * 40 + "x", "\u1112" + "\u116e" * 41 + "\u11ab" * 40, "\u0dd9" + "\u0dcf" * 33]
texts += ["x" * 500, " " * 300, "\n" * 100 + "x", "ab" * 300, "'" * 40]

out = []
for name, changes in variants.items():
    tokenizer = Tokenizer.from_str(json.dumps(variant(**changes)))
    cases = texts if name in ("base", "added") else texts[::3] + texts[-10:]
    rows = []
    for text in cases:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append(dict(text=text, ids=ids, decoded=tokenizer.decode(ids, skip_special_tokens=False)))
    out.append(dict(name=name, changes=changes, cases=rows))

# Decoding of ids in any order: characters cut apart, and special tokens left out.
tokenizer = Tokenizer.from_str(json.dumps(base))
streams = []
for _ in range(150):
    ids = [rng.choice([rng.randrange(256), rng.randrange(128, 256), rng.randrange(2048)]) for _ in range(rng.randint(0, 20))]
    streams.append(dict(ids=ids, decoded=tokenizer.decode(ids, skip_special_tokens=False), plain=tokenizer.decode(ids, skip_special_tokens=True)))

with open("llm/tokenizer/testdata/vectors.json", "w", encoding="ascii") as f:
    json.dump(dict(variants=out, streams=streams), f, separators=(",", ":"))
    f.write("\n")

#!/usr/bin/env python3
"""Makes the vectors that ops/optest checks every backend against.

Run from the root of the repository:

    python3 -m venv build/mlx
    build/mlx/bin/pip install "mlx[cpu]==0.32.*" numpy
    build/mlx/bin/python scripts/mlx_vectors.py

It writes ops/optest/testdata/OP.safetensors, one file per op, the same bytes on
every run: each case draws from a generator that is seeded with its name. The
file's metadata holds the cases as JSON:

    {"name", "params": {...}, "inputs": {operand: tensor}, "views": {operand: [view...]}, "out": tensor}

A view is ["transpose", axes...], ["slice", axis, start, stop, step],
["broadcast", shape...] or ["expand", axis]; it is applied to the stored operand
before the op.

What is computed in float16 or bfloat16 here is computed by MLX in float32, and
rounded once at the end: that is what the ops promise, while MLX's own CPU
kernels round in between. Cases whose meaning MLX leaves open, or where the ops
deviate from it on purpose (their doc comments say where), are left out.
"""

import hashlib
import json
import pathlib
import struct
import zlib

import mlx.core as mx
import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "ops" / "optest" / "testdata"

F32, F16, BF16 = mx.float32, mx.float16, mx.bfloat16
I32, U32, BOOL, U8 = mx.int32, mx.uint32, mx.bool_, mx.uint8
FLOATS = [F32, F16, BF16]
NUMBERS = FLOATS + [I32, U32]
CODES = {F32: "F32", F16: "F16", BF16: "BF16", I32: "I32", U32: "U32", BOOL: "BOOL", U8: "U8"}
NAN, INF = float("nan"), float("inf")


def short(dtype):
    return CODES[dtype].lower()


def raw(a):
    """The bytes of an array; MLX hands bfloat16 to numpy as its bits."""
    a = mx.contiguous(a)
    return np.array(a.view(mx.uint16) if a.dtype == BF16 else a).tobytes()


class File:
    """The cases of one op."""

    def __init__(self, op):
        self.op, self.cases, self.tensors, self.names = op, [], {}, {}

    def tensor(self, a):
        data, shape = raw(a), list(a.shape)
        key = hashlib.sha256(data + repr((CODES[a.dtype], shape)).encode()).hexdigest()
        if key not in self.names:
            self.names[key] = f"t{len(self.names)}"
            self.tensors[self.names[key]] = (CODES[a.dtype], shape, data)
        return self.names[key]

    def add(self, name, inputs, out, params=None, views=None):
        assert name not in [c["name"] for c in self.cases], name
        self.cases.append({
            "name": name, "params": params or {}, "views": views or {}, "out": self.tensor(out),
            "inputs": {k: self.tensor(v) for k, v in inputs.items() if v is not None},
        })

    def save(self):
        cases = json.dumps(self.cases, separators=(",", ":"))
        header, body = {"__metadata__": {"mlx": mx.__version__, "op": self.op, "cases": cases}}, b""
        for name, (dtype, shape, data) in self.tensors.items():
            body += bytes(-len(body) % 8)
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        (FOLDER / f"{self.op}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
        print(f"{self.op}: {len(self.cases)} cases, {len(body):,} bytes")
        return len(self.cases), len(body)


def rng(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def normal(r, shape, dtype=F32, scale=1.0):
    return mx.array((r.standard_normal(shape) * scale).astype(np.float32)).astype(dtype)


def integers(r, lo, hi, shape, dtype=I32):
    return mx.array(r.integers(lo, hi, shape).astype(np.int64)).astype(dtype)


def numbers(r, shape, dtype):
    """Any numbers of a type that arithmetic can take without overflow."""
    if dtype == I32:
        return integers(r, -50, 50, shape)
    if dtype == U32:
        return integers(r, 0, 100, shape, U32)
    return normal(r, shape, dtype, 3.0)


def up(a):
    return None if a is None else a.astype(F32)


def view(a, steps):
    """Applies views as the Go reader does."""
    for kind, *args in steps:
        if kind == "transpose":
            a = mx.transpose(a, args)
        elif kind == "slice":
            axis, start, stop, step = args
            a = a[(slice(None),) * axis + (slice(start, stop, step),)]
        elif kind == "broadcast":
            a = mx.broadcast_to(a, args)
        else:
            a = mx.expand_dims(a, args[0])
    return a


AWKWARD = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 65000.0, INF, -INF, NAN]


def binary(f):
    arithmetic = {"add": mx.add, "sub": mx.subtract, "mul": mx.multiply, "div": mx.divide, "max": mx.maximum,
                  "min": mx.minimum, "pow": mx.power, "mod": mx.remainder}
    compare = {"equal": mx.equal, "not_equal": mx.not_equal, "less": mx.less, "less_equal": mx.less_equal,
               "greater": mx.greater, "greater_equal": mx.greater_equal, "and": mx.logical_and, "or": mx.logical_or}
    bits = {"bit_and": mx.bitwise_and, "bit_or": mx.bitwise_or, "bit_xor": mx.bitwise_xor,
            "shift_left": mx.left_shift, "shift_right": mx.right_shift}

    def case(kind, fn, dtype, label, a, b):
        f.add(f"{kind}/{short(dtype)}/{label}", {"a": a, "b": b}, fn(a, b), {"kind": kind})

    def types(kind):
        if kind in compare or kind in ("max", "min"):
            return list(CODES)
        return NUMBERS + [U8]

    for kind, fn in {**arithmetic, **compare}.items():
        for dtype in types(kind):
            r = rng(f"binary {kind} {dtype}")
            draw = (lambda shape: integers(r, 0, 2 if dtype == BOOL else 256, shape).astype(dtype)) if dtype in (BOOL, U8) else \
                (lambda shape: numbers(r, shape, dtype))
            a, b = draw((3, 1, 5)), draw((4, 5))
            if kind == "pow":
                a, b = (mx.abs(a), b) if dtype in FLOATS else (a, mx.abs(integers(r, 0, 6, (4, 5)).astype(dtype)))
            if kind in ("mod", "div") and dtype not in FLOATS:
                b = mx.where(b == 0, mx.array(7, dtype), b).astype(dtype)
            run = mx.floor_divide if kind == "div" and dtype not in FLOATS else fn
            if kind in compare and dtype != BOOL:
                b = mx.where(b > 0, mx.broadcast_to(a[:1, 0], b.shape), b).astype(dtype)
            case(kind, run, dtype, "broadcast", a, b)
        for dtype in FLOATS:
            a = mx.array(AWKWARD).astype(dtype)
            if kind == "pow":  # infinities and NaN, but no overflow in between
                a = mx.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, INF, -INF, NAN]).astype(dtype)
            case(kind, fn, dtype, "awkward", a[:, None], a[None, :])
    for kind, fn in bits.items():
        for dtype in (I32, U32, U8) if "shift" in kind else (I32, U32, U8, BOOL):
            r = rng(f"binary {kind} {dtype}")
            low = -2**31 if dtype == I32 else 0
            a = integers(r, low, 2**31, (3, 5)).astype(dtype)
            b = integers(r, 0, 32, (5,), dtype) if "shift" in kind else integers(r, 0, 2**31, (5,)).astype(dtype)
            case(kind, fn, dtype, "broadcast", a, b)
    for kind in ("shift_left", "shift_right"):
        a, b = [0, 1, 2, 5, 2**30, 2**31 - 1], [0, 1, 31, 32, 33, 63, 64]
        case(kind, bits[kind], I32, "wide", mx.array(a + [-1, -5, -2**31], dtype=I32)[:, None], mx.array(b + [-1, -31], dtype=I32))
        case(kind, bits[kind], U32, "wide", mx.array(a + [2**32 - 1], dtype=U32)[:, None], mx.array(b + [2**32 - 1], dtype=U32))
    signs = mx.array([7, -7, 6, -6, 1, -1, 0, 2**31 - 1, -2**31 + 1], dtype=I32)
    for kind, fn in (("div", mx.floor_divide), ("mod", mx.remainder)):
        case(kind, fn, I32, "signs", signs[:, None], mx.array([3, -3, 2, -2, 1, 7, -7, 2**31 - 1], dtype=I32))
        case(kind, fn, U32, "large", mx.array([2**32 - 1, 2**31, 7], dtype=U32)[:, None], mx.array([2, 3, 2**31, 2**32 - 1], dtype=U32))
    case("pow", mx.power, I32, "wrap", mx.array([0, 1, -1, 2, -3, 5, 65537], dtype=I32)[:, None], mx.array([0, 1, 2, 5, 31], dtype=I32))
    case("pow", mx.power, I32, "negative", mx.array([2, 3, -2, 5], dtype=I32)[:, None], mx.array([-1, -2, -31], dtype=I32))
    big = mx.array([2**31 - 1, -2**31, 2**31 - 1, -1], dtype=I32)
    for kind in ("add", "sub", "mul", "mod", "less"):
        case(kind, {**arithmetic, **compare}[kind], I32, "wrap", big[:, None], big[None, :3])
    for kind in ("add", "sub", "mul"):
        case(kind, arithmetic[kind], U8, "wrap", mx.array([0, 1, 200, 255], dtype=U8)[:, None], mx.array([0, 2, 100, 255], dtype=U8))
    r = rng("binary layouts")
    a, b = normal(r, (6, 4, 10)), normal(r, (10, 8))
    va, vb = [["transpose", 2, 0, 1], ["slice", 0, 1, 9, 2]], [["slice", 0, 2, 8, 1], ["slice", 1, 1, 8, 2]]
    f.add("sub/f32/views", {"a": a, "b": b}, view(a, va) - view(b, vb), {"kind": "sub"}, {"a": va, "b": vb})
    f.add("add/f32/rank8", {"a": a[:2, :2, :2][None, None, :, None, :, None, :, None], "b": b[:2, :1]},
          a[:2, :2, :2][None, None, :, None, :, None, :, None] + b[:2, :1], {"kind": "add"})
    for label, v in {"rows": [["broadcast", 4, 8]], "column": [["slice", 0, 3, 4, 1], ["expand", 0], ["broadcast", 4, 8]]}.items():
        f.add(f"mul/f32/stride 0/{label}", {"a": a[:4, 0, :8], "b": b[0]}, a[:4, 0, :8] * view(b[0], v), {"kind": "mul"}, {"b": v})
    odd = [["slice", 0, 3, 30, 1]]
    x, y = normal(r, (40,)).astype(F16), normal(r, (40,)).astype(F16)
    f.add("add/f16/odd offset", {"a": x, "b": y}, (up(view(x, odd)) + up(view(y, [["slice", 0, 5, 32, 1]]))).astype(F16), {"kind": "add"},
          {"a": odd, "b": [["slice", 0, 5, 32, 1]]})
    for label, x, y in [("empty", mx.zeros((0, 3)), mx.zeros((3,))), ("empty rank 8", mx.zeros((2, 1, 3, 0, 1, 1, 2, 1)), mx.zeros((1, 5))), ("scalar", mx.array(2.5), normal(r, (7,))),
                        ("rank0", mx.array(2.5), mx.array(-1.5))]:
        case("mul", mx.multiply, F32, label, x, y)


def unary(f):
    def gelu(x):
        return x * 0.5 * (1 + mx.erf(x / 2**0.5))

    floats = {"exp": mx.exp, "log": mx.log, "sqrt": mx.sqrt, "rsqrt": mx.rsqrt, "sin": mx.sin, "cos": mx.cos,
              "tanh": mx.tanh, "sigmoid": mx.sigmoid, "silu": lambda x: x * mx.sigmoid(x), "gelu": gelu, "erf": mx.erf}
    numeric = {"neg": mx.negative, "abs": mx.abs, "square": mx.square, "floor": mx.floor, "ceil": mx.ceil, "round": mx.round}
    for kind, fn in {**floats, **numeric, "not": mx.logical_not}.items():
        for dtype in FLOATS:
            r = rng(f"unary {kind} {dtype}")
            x = normal(r, (5, 13), dtype, 4.0)
            if kind in ("log", "sqrt", "rsqrt"):
                x = mx.abs(x)
            run = (lambda x: fn(x)) if kind in ("neg", "abs", "not") else (lambda x: fn(up(x)).astype(dtype))
            f.add(f"{kind}/{short(dtype)}", {"x": x}, run(x), {"kind": kind})
            x = mx.array(AWKWARD + [-0.5, 1.5, 2.5, -1.5, 1e-30, -70.0]).astype(dtype)
            f.add(f"{kind}/{short(dtype)}/awkward", {"x": x}, run(x), {"kind": kind})
        if kind in numeric or kind == "not":
            for dtype in (I32, U32, U8):
                r = rng(f"unary {kind} {dtype}")
                x = integers(r, 0, 256, (3, 7), U8) if dtype == U8 else numbers(r, (3, 7), dtype)
                f.add(f"{kind}/{short(dtype)}", {"x": x}, fn(x), {"kind": kind})
    x = mx.array([True, False, True])
    f.add("not/bool", {"x": x}, mx.logical_not(x), {"kind": "not"})
    x = mx.array([100.0, 1000.0, -2500.25, 5000.5, 9999.0, 12345.678, -1e5, 1e6, 1e7, 123456789.0, -1e10, 1e15, 1e30, 3e38])
    for kind in ("sin", "cos"):
        f.add(f"{kind}/f32/large", {"x": x}, floats[kind](x), {"kind": kind})
    x, steps = normal(rng("unary views"), (4, 9, 6)), [["transpose", 1, 2, 0], ["slice", 0, 1, 8, 3]]
    f.add("exp/f32/views", {"x": x}, mx.exp(view(x, steps)), {"kind": "exp"}, {"x": steps})


def copy(f):
    steps = {
        "whole": [], "transposed": [["transpose", 2, 0, 1]], "rows": [["slice", 1, 1, 5, 2]], "odd": [["slice", 2, 1, 4, 1]],
        "repeated": [["slice", 0, 1, 2, 1], ["broadcast", 3, 7, 5]], "empty": [["slice", 1, 3, 3, 1]],
        "all": [["transpose", 1, 2, 0], ["slice", 0, 2, 7, 2], ["expand", 1], ["slice", 2, 1, 5, 1]],
    }
    for dtype in CODES:
        x = mx.array(rng(f"copy {dtype}").integers(0, 100, (4, 7, 5))).astype(dtype)
        for label, s in steps.items():
            f.add(f"{short(dtype)}/{label}", {"x": x}, view(x, s), views={"x": s})


def cast(f):
    values = {
        F32: AWKWARD[:-3] + [2049.0, 1.00390625, 1.01171875, 3.4e38, 1e-8, 6e-8, 70000.0, INF, -INF, NAN], I32: [0, 1, -1, 255, 2049, 65537, -2**31, 2**31 - 1, 16777217],
        U32: [0, 1, 255, 256, 2049, 65537, 2**31, 2**32 - 1, 16777217], BOOL: [True, False, True], U8: [0, 1, 127, 128, 255],
    }
    values[F16] = values[BF16] = AWKWARD
    for src in CODES:
        for dst in CODES:
            v = values[src]
            if src in FLOATS and dst not in FLOATS + [BOOL]:  # only what is defined: in range and not NaN
                v = [0.0, -0.0, 1.0, 0.5, 2.75, 100.0, 255.0] + ([-1.5, -100.9] if dst == I32 else [])
            x = mx.array(v, dtype=src if src in (I32, U32, BOOL, U8) else F32).astype(src)
            f.add(f"{short(src)}_{short(dst)}", {"x": x}, x.astype(dst))
    x, s = normal(rng("cast views"), (5, 9)), [["transpose", 1, 0], ["slice", 0, 1, 8, 2]]
    f.add("f32_bf16/views", {"x": x}, view(x, s).astype(BF16), views={"x": s})


def silu_mul(f):
    for dtype in FLOATS:
        for shape in [(1, 1), (3, 257), (2, 3, 64), (0, 4)]:
            r = rng(f"silu_mul {dtype} {shape}")
            g, u = normal(r, shape, dtype, 3.0), normal(r, shape, dtype)
            f.add(f"{short(dtype)}/{shape}", {"gate": g, "up": u}, (up(g) * mx.sigmoid(up(g)) * up(u)).astype(dtype))
    r = rng("silu_mul views")
    x, vg, vu = normal(r, (3, 20)), [["slice", 1, 0, 10, 1]], [["slice", 1, 10, 20, 1]]
    g, u = view(x, vg), view(x, vu)
    f.add("f32/halves", {"gate": x, "up": x}, g * mx.sigmoid(g) * u, views={"gate": vg, "up": vu})


def softmax(f):
    def case(name, x, steps=()):
        out = mx.softmax(up(view(x, steps)), axis=-1).astype(x.dtype)
        f.add(name, {"x": x}, out, views={"x": list(steps)})

    for dtype in FLOATS:
        for shape in [(1,), (3, 1), (4, 2, 33), (2, 1000), (1, 5000), (0, 3), (3, 0)]:
            if shape[-1] >= 1000 and dtype == F16:
                continue
            case(f"{short(dtype)}/{shape}", normal(rng(f"softmax {dtype} {shape}"), shape, dtype, 4.0))
        case(f"{short(dtype)}/awkward", mx.array([[0, 1, -INF], [INF, 1, 2], [NAN, 1, 2], [-INF] * 3, [6e4, 6e4, -6e4]]).astype(dtype))
    x = normal(rng("softmax views"), (6, 3, 8))
    case("f32/transposed", x, [["transpose", 1, 2, 0]])
    case("bf16/strided", x.astype(BF16), [["slice", 2, 1, 8, 3], ["slice", 0, 1, 6, 2]])


def rms_norm(f):
    for dtype in FLOATS:
        for shape in [(1,), (3, 1), (2, 3, 31), (5, 128), (2, 1000), (1, 5000), (0, 3), (3, 0)]:
            if shape[-1] >= 1000 and dtype == F16:
                continue
            r = rng(f"rms_norm {dtype} {shape}")
            x, w = normal(r, shape, dtype, 2.0), normal(r, shape[-1:], dtype)
            for label, weight, eps in [("weight", w, 1e-6), ("plain", None, 1e-5)]:
                out = mx.fast.rms_norm(up(x), up(weight), eps).astype(dtype) if x.size else x
                f.add(f"{short(dtype)}/{shape}/{label}", {"x": x, "weight": weight}, out, {"eps": eps})
    w = mx.array([1.0, 2.0, -1.0])
    x = mx.array([[0, 0, 0], [1e-4, 0, 0], [1e15, 0, 1e15], [NAN, 1, 2]])
    f.add("f32/awkward", {"x": x, "weight": w}, mx.fast.rms_norm(x, w, 1e-3), {"eps": 1e-3})
    r = rng("rms_norm views")
    x, w = normal(r, (4, 6, 5)), normal(r, (11,))
    vx, vw = [["transpose", 2, 0, 1], ["slice", 2, 1, 6, 1]], [["slice", 0, 1, 11, 2]]
    out = mx.fast.rms_norm(mx.contiguous(view(x, vx)), mx.contiguous(view(w, vw)), 1e-6)
    f.add("f32/views", {"x": x, "weight": w}, out, {"eps": 1e-6}, {"x": vx, "weight": vw})


REDUCTIONS = {"sum": mx.sum, "mean": mx.mean, "amax": mx.max, "amin": mx.min, "prod": mx.prod, "all": mx.all, "any": mx.any,
              "arg_max": mx.argmax, "arg_min": mx.argmin, "log_sum_exp": mx.logsumexp}


def reduce(f):
    def case(label, kind, x, axes=None, steps=(), keepdims=False):
        v, run = view(x, steps), REDUCTIONS[kind]
        if kind in ("sum", "mean", "prod", "log_sum_exp") and x.dtype in FLOATS:
            v = up(v)
        if kind.startswith("arg"):
            out = run(v, axis=axes[0], keepdims=keepdims)
        else:
            out = run(v, axis=axes, keepdims=keepdims)
        if v.dtype != x.dtype:
            out = out.astype(x.dtype)
        f.add(f"{kind}/{short(x.dtype)}/{label}", {"x": x}, out, {"kind": kind, "axes": axes, "keepdims": keepdims}, {"x": list(steps)})

    def operand(name, kind, dtype, shape):
        r = rng(f"reduce {name} {dtype}")  # kinds share operands: the file stays small
        if kind == "prod":
            return mx.exp(normal(r, shape, F32, 0.2)).astype(dtype) if dtype in FLOATS else integers(r, 1, 4, shape, dtype)
        if dtype in (BOOL, U8) or kind in ("all", "any"):
            return integers(r, 0, 2 if dtype == BOOL or kind in ("all", "any") else 256, shape).astype(dtype)
        return numbers(r, shape, dtype)

    for kind in REDUCTIONS:
        for dtype in FLOATS if kind == "log_sum_exp" else CODES:
            case("last", kind, operand("last", kind, dtype, (4, 3, 37)), [-1])
            case("first", kind, operand("first", kind, dtype, (19, 5)), [0], keepdims=True)
            case("middle", kind, operand("middle", kind, dtype, (3, 17, 5)), [1])
            if not kind.startswith("arg"):
                x = operand("views", kind, dtype, (6, 5, 7))
                case("all", kind, x)
                case("outer", kind, x, [0, -1], keepdims=True)
                case("views", kind, x, [2, 0], [["transpose", 2, 0, 1], ["slice", 0, 1, 7, 2], ["slice", 2, 1, 4, 1]])
                case("none", kind, x[0], [])
                case("rank0", kind, x[0, 0, 0])
                if kind != "log_sum_exp":
                    case("empty", kind, mx.zeros((0, 3), dtype), [1])
                if kind not in ("amax", "amin", "log_sum_exp"):
                    case("of nothing", kind, mx.zeros((2, 0), dtype), [1])
            else:
                case("views", kind, operand("views", kind, dtype, (8, 6, 5)), [-1], [["transpose", 2, 1, 0], ["slice", 2, 1, 8, 2]])
                case("equal", kind, mx.array([[5, 5, 5], [1, 5, 5], [0, 0, 0]]).astype(dtype), [-1])
                case("one", kind, mx.array([3]).astype(dtype), [-1])
        for dtype in FLOATS:
            rows = [[1, NAN, 5, NAN], [INF, 1, INF, 0], [-INF] * 4, [-INF, -INF, -1, -2], [INF, -INF, 1, 2], [0, -0.0, 0, -0.0], [1, 2, 3, 0]]
            case("awkward", kind, mx.array(rows).astype(dtype), [-1])
        case("long", kind, operand("long", kind, F32, (2, 5003)), [1])
        case("tall", kind, operand("tall", kind, F32, (5003, 2)), [0])
    for kind in ("arg_max", "arg_min", "amax", "amin", "sum", "prod"):
        case("extreme", kind, mx.array([[-2**31, 2**31 - 1, 3], [-2**31, -2**31, 65537]], dtype=I32), [1])
        case("extreme", kind, mx.array([[1, 2**32 - 1, 2**31], [65537, 65537, 65537]], dtype=U32), [1])


def layer_norm(f):
    for dtype in FLOATS:
        for shape in [(1,), (3, 1), (2, 3, 31), (5, 128), (2, 1000), (1, 5000), (0, 3), (3, 0)]:
            if shape[-1] >= 1000 and dtype == F16:
                continue
            r = rng(f"layer_norm {dtype} {shape}")
            x, w, b = normal(r, shape, dtype, 2.0), normal(r, shape[-1:], dtype), normal(r, shape[-1:], dtype)
            for label, weight, bias, eps in [("both", w, b, 1e-6), ("weight", w, None, 1e-5), ("bias", None, b, 1e-3), ("plain", None, None, 1e-5)]:
                if shape[-1] >= 1000 and label != "both":
                    continue
                out = mx.fast.layer_norm(up(x), up(weight), up(bias), eps).astype(dtype) if x.size else x
                f.add(f"{short(dtype)}/{shape}/{label}", {"x": x, "weight": weight, "bias": bias}, out, {"eps": eps})
    w, b = mx.array([1.0, 2.0, -1.0]), mx.array([0.5, 0.0, -1.0])
    x = mx.array([[0, 0, 0], [1e-4, 0, 0], [1000.0, 1000.25, 1000.5], [NAN, 1, 2], [INF, 1, 2], [7, 7, 7]])
    f.add("f32/awkward", {"x": x, "weight": w, "bias": b}, mx.fast.layer_norm(x, w, b, 1e-3), {"eps": 1e-3})
    r = rng("layer_norm views")
    x, w, b = normal(r, (4, 6, 5)), normal(r, (11,)), normal(r, (3,))
    vx, vw, vb = [["transpose", 2, 0, 1], ["slice", 2, 1, 6, 1]], [["slice", 0, 1, 11, 2]], [["slice", 0, 1, 2, 1], ["broadcast", 5]]
    out = mx.fast.layer_norm(mx.contiguous(view(x, vx)), mx.contiguous(view(w, vw)), mx.contiguous(view(b, vb)), 1e-6)
    f.add("f32/views", {"x": x, "weight": w, "bias": b}, out, {"eps": 1e-6}, {"x": vx, "weight": vw, "bias": vb})


def gather(f):
    def case(name, x, i, axis, views={}):
        out = mx.take(view(x, views.get("x", [])), view(i, views.get("indices", [])), axis=axis)
        f.add(name, {"x": x, "indices": i}, out, {"axis": axis}, views)

    for dtype in CODES:
        x = mx.array(rng(f"gather {dtype}").integers(0, 100, (7, 4, 5))).astype(dtype)
        case(f"{short(dtype)}/rows", x, mx.array([[0, 6, -1], [3, 3, -7]], dtype=I32), 0)
        case(f"{short(dtype)}/u32", x, mx.array([3, 0, 1, 3], dtype=U32), 1)
        case(f"{short(dtype)}/last", x, mx.array([[4], [-5]], dtype=I32), -1)
        case(f"{short(dtype)}/scalar", x, mx.array(2, dtype=I32), 1)
    x, i = normal(rng("gather views"), (6, 9, 4)), mx.array([[0, 1, 2, 3], [4, 5, -1, -2]], dtype=I32)
    case("f32/views", x, i, 1, {"x": [["transpose", 2, 0, 1], ["slice", 2, 1, 9, 2]], "indices": [["transpose", 1, 0]]})
    case("f32/empty", x, mx.zeros((0, 2), dtype=I32), 0)


def codes(r, rows, k, bits, group, dtype):
    """Random codes of every value, with scales of either sign."""
    w = mx.array(r.integers(0, 2**32, (*rows, k * bits // 32), dtype=np.uint32))
    sign = r.choice([-1.0, 1.0], (*rows, k // group))
    scales = mx.array((sign * r.uniform(0.2, 1.0, sign.shape) / 2**bits).astype(np.float32)).astype(dtype)
    return w, scales, normal(r, sign.shape, dtype, 0.3)


FORMS = [(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]


def quantized(w, s, b, bits, group):
    return mx.dequantize(w, up(s), up(b), group_size=group, bits=bits)


# Modes without biases: bits, group, and a range of scales that float16 results can take.
MODES = {"mxfp4": (4, 32, 117, 135), "nvfp4": (4, 16, 0, 126), "mxfp8": (8, 32, 108, 128)}


def small_codes(r, mode, rows, k):
    bits, group, low, high = MODES[mode]
    w = r.integers(0, 2**32, (*rows, k * bits // 32), dtype=np.uint32)
    if mode == "mxfp8":
        w &= 0xF7F7F7F7  # no NaN
    return mx.array(w), mx.array(r.integers(low, high, (*rows, k // group), dtype=np.uint8))


def small(w, s, mode):
    """Elements in float32, where they are exact; rounded to a type later."""
    return mx.dequantize(w, s, mode=mode, dtype=F32)


def small_params(mode, **more):
    return {"mode": mode, "bits": MODES[mode][0], "group_size": MODES[mode][1], **more}


def special_groups(r, group, dtype):
    """A row of groups each, of 256 elements: ordinary, constant, zeros, of one sign, huge, tiny, with ties."""
    x = r.standard_normal((16, 256)).astype(np.float32)
    x[1] = 0
    x[2] = -0.0
    x[3] = r.standard_normal((256 // group, 1)).repeat(group, 1).reshape(-1)
    x[4] = -np.abs(x[4])
    x[5] = np.abs(x[5])
    x[6] = x[6] - 9
    x[7] *= 1e4
    x[8] *= 1e-4
    x[9] *= 1e-7  # subnormal in float16
    x[10] *= np.exp2(r.integers(-14, 14, (256 // group, 1)).repeat(group, 1).reshape(-1))
    x[11] = r.integers(-12, 13, 256) / 4.0
    x[12] = r.integers(-7, 8, 256) * 0.5
    x[13, ::5] = 0
    x[14] = np.where(r.random(256) < 0.9, 0, x[14])
    x[15] = x[15] ** 9
    if dtype != F16:
        x[7] *= 1e25
        x[8] *= 1e-26
    return mx.array(x).astype(dtype)


def quantize(f):
    def case(name, x, params, views=()):
        source = view(x, views)
        results = mx.quantize(mx.contiguous(source), group_size=params["group_size"], bits=params["bits"], mode=params.get("mode", "affine"))
        for kind, out in zip(("codes", "scales", "biases"), results):
            f.add(f"{name}/{kind}", {"x": x}, out, {**params, "kind": kind}, {"x": list(views)})

    for dtype in FLOATS:
        for bits, group in FORMS:
            name = f"b{bits}g{group}/{short(dtype)}"
            case(name, special_groups(rng("quantize " + name), group, dtype), {"bits": bits, "group_size": group})
        for mode in MODES:
            name = f"{mode}/{short(dtype)}"
            x = special_groups(rng("quantize " + name), MODES[mode][1], dtype)
            case(name, x, small_params(mode))
    r = rng("quantize awkward")
    # No NaN elements here: MLX's codes for them are what a conversion happens to give.
    x = np.stack([np.full(64, 3e38), np.clip(r.standard_normal(64) * 3e38, -3.4e38, 3.4e38), np.where(np.arange(64) == 7, INF, 1.5),
                  np.where(np.arange(64) == 8, -INF, r.standard_normal(64)), np.linspace(-1e-7, 1e-7, 64), np.full(64, 1e-40)])
    x = mx.array(x.astype(np.float32))
    for bits in (2, 4, 5, 8):
        for kind, out in zip(("scales", "biases"), mx.quantize(x, group_size=32, bits=bits)[1:]):
            f.add(f"awkward/b{bits}/{kind}", {"x": x}, out, {"bits": bits, "group_size": 32, "kind": kind})
    case("awkward/b4g64", mx.concatenate([x[:2], x[4:]]), {"bits": 4, "group_size": 64})
    case("awkward/nvfp4", x, small_params("nvfp4"))
    # Scales of E8M0 below 2^-127 wrap around in MLX, and those of infinities are what a conversion happens to give.
    case("awkward/mxfp4", x[:2], small_params("mxfp4"))
    case("awkward/mxfp8", x[:2], small_params("mxfp8"))
    nan = mx.array(np.where(np.arange(64) % 9 == 3, NAN, r.standard_normal((2, 64))).astype(np.float32))
    for kind, out in zip(("scales", "biases"), mx.quantize(nan, group_size=32, bits=4)[1:]):
        f.add(f"nan/{kind}", {"x": nan}, out, {"bits": 4, "group_size": 32, "kind": kind})
    case("nan/nvfp4", nan, small_params("nvfp4"))
    # Beyond the largest scale, where distances to all values are one number of bfloat16.
    r = rng("quantize large")
    large = mx.array((r.standard_normal((8, 32)) * np.array([[10.0 ** (i + 3)] for i in range(8)])).astype(np.float32))
    for dtype in (F32, BF16):
        case(f"large/nvfp4/{short(dtype)}", large.astype(dtype), small_params("nvfp4"))
    x = normal(rng("quantize views"), (64, 6, 5))
    steps = [["transpose", 2, 1, 0], ["slice", 1, 1, 6, 2]]
    case("views/b3", x, {"bits": 3, "group_size": 32}, steps)
    case("views/nvfp4", x, small_params("nvfp4"), steps)


def dequantize(f):
    for n, (bits, group) in enumerate(FORMS):
        for k, dtype in enumerate(FLOATS):
            name = f"b{bits}g{group}/{short(dtype)}"
            w, s, b = codes(rng("dequantize " + name), (3,), 256 if group == 128 else 128, bits, group, FLOATS[(n + k) % 3])
            out = quantized(w, s, b, bits, group).astype(dtype)
            f.add(name, {"w": w, "scales": s, "biases": b}, out, {"group_size": group, "bits": bits})
    # What MLX's own quantization makes, of ordinary and awkward groups.
    x = normal(rng("quantize"), (4, 64))
    x = mx.concatenate([x, mx.zeros((1, 64)), mx.full((1, 64), -3.0), -mx.abs(x[:1]), mx.abs(x[:1]) * 1e-9])
    for bits in (2, 3, 4, 5, 6, 8):
        w, s, b = mx.quantize(x, group_size=64, bits=bits)
        f.add(f"mlx/b{bits}", {"w": w, "scales": s, "biases": b}, quantized(w, s, b, bits, 64), {"group_size": 64, "bits": bits})
    for mode in MODES:
        r = rng("dequantize " + mode)
        w, s = small_codes(r, mode, (2, 3), 128)
        for dtype in FLOATS:
            f.add(f"{mode}/{short(dtype)}", {"w": w, "scales": s}, small(w, s, mode).astype(dtype), small_params(mode))
        s = mx.arange(256).astype(U8).reshape(8, 32)  # every scale
        w, _ = small_codes(r, mode, (8,), 32 * MODES[mode][1])
        f.add(f"{mode}/scales", {"w": w, "scales": s}, small(w, s, mode), small_params(mode))
        w = mx.arange(256).astype(U8).reshape(4, 64).view(U32)  # every code
        s = mx.full((4, w.shape[1] * 32 // MODES[mode][0] // MODES[mode][1]), 121).astype(U8)
        f.add(f"{mode}/codes", {"w": w, "scales": s}, small(w, s, mode), small_params(mode))
        x = normal(r, (4, 128))
        w, s = mx.quantize(x, mode=mode)
        f.add(f"{mode}/mlx", {"w": w, "scales": s}, small(w, s, mode), small_params(mode))
    w, s, b = codes(rng("dequantize batch"), (2, 3, 2), 64, 4, 32, F32)
    f.add("b4g32/batch", {"w": w, "scales": s, "biases": b}, quantized(w, s, b, 4, 32), {"group_size": 32, "bits": 4})


def quantized_gather(f):
    for n, (bits, group) in enumerate(FORMS):
        name, dtype = f"b{bits}g{group}", FLOATS[n % 3]
        w, s, b = codes(rng("quantized_gather " + name), (11,), 128, bits, group, FLOATS[n // 3 % 3])
        i = mx.array([[0, 10, 3], [-1, 7, -11]], dtype=I32) if n % 2 else mx.array([10, 0, 5, 5], dtype=U32)
        out = mx.take(quantized(w, s, b, bits, group), i, axis=0).astype(dtype)
        f.add(name, {"w": w, "scales": s, "biases": b, "indices": i}, out, {"group_size": group, "bits": bits})
    for mode in MODES:
        for dtype in FLOATS:
            w, s = small_codes(rng(f"quantized_gather {mode}"), mode, (11,), 96)
            i = mx.array([[0, 10, 3], [-1, 7, -11]], dtype=I32)
            f.add(f"{mode}/{short(dtype)}", {"w": w, "scales": s, "indices": i}, mx.take(small(w, s, mode), i, axis=0).astype(dtype),
                  small_params(mode))


def quantized_matmul(f):
    def small_case(name, shape, n, mode, transpose, dtype):
        r = rng("quantized_matmul " + name)
        x = normal(r, shape, dtype)
        w, _ = small_codes(r, mode, (n,) if transpose else (shape[-1],), shape[-1] if transpose else n)
        low = {"mxfp4": 124, "nvfp4": 40, "mxfp8": 116}[mode]
        s = mx.array(r.integers(low, low + 5, (w.shape[0], w.shape[1] * 32 // MODES[mode][0] // MODES[mode][1]), dtype=np.uint8))
        out = mx.quantized_matmul(up(x), w, s, mode=mode, transpose=transpose)
        f.add(name, {"x": x, "w": w, "scales": s}, out.astype(dtype), small_params(mode, transpose=transpose))

    for mode in MODES:
        for dtype in FLOATS:
            for rows in (1, 5, 13, 40) if dtype == F32 else (1, 13):
                for transpose in (True, False):
                    name = f"{mode}{'t' if transpose else ''}/{short(dtype)}/{rows}"
                    small_case(name, (rows, 128), 10 if transpose else 96, mode, transpose, dtype)
        small_case(f"{mode}/batch", (2, 3, 4, 64), 9, mode, True, F32)
        small_case(f"{mode}/long", (1, 3072), 5, mode, True, BF16)

    def case(name, shape, n, bits, group, transpose, dtype, sdtype, steps=()):
        r = rng("quantized_matmul " + name)
        x = normal(r, shape, dtype)
        k = view(x, steps).shape[-1]
        w, s, b = codes(r, (n,) if transpose else (k,), k if transpose else n, bits, group, sdtype)
        out = mx.quantized_matmul(up(mx.contiguous(view(x, steps))), w, up(s), up(b), transpose=transpose, group_size=group, bits=bits)
        f.add(name, {"x": x, "w": w, "scales": s, "biases": b}, out.astype(dtype),
              {"group_size": group, "bits": bits, "transpose": transpose}, {"x": list(steps)})

    for n, (bits, group) in enumerate(FORMS):
        for transpose in (True, False):
            for m, dtype in enumerate(FLOATS):
                rows = [1, 5, 13][(n + m) % 3]
                size = 10 if transpose else 128
                case(f"b{bits}g{group}{'t' if transpose else ''}/{short(dtype)}/{rows}", (rows, 128), size, bits, group, transpose,
                     dtype, FLOATS[(n + 2 * m) % 3])
    case("rows/40", (40, 64), 24, 4, 64, True, F32, BF16)
    case("rows/17", (17, 32), 64, 4, 64, False, F32, BF16)
    case("batch", (2, 3, 4, 64), 9, 4, 32, True, F32, F16)
    case("long", (1, 3072), 5, 4, 128, True, BF16, BF16)
    case("long_untransposed", (1, 1111), 32, 3, 32, False, F32, F32)
    case("views", (64, 6, 2), 7, 8, 32, True, F32, F32, [["transpose", 2, 1, 0], ["slice", 1, 1, 6, 2]])


def matmul(f):
    def case(name, sa, sb, dtype, views={}):
        r = rng("matmul " + name)
        a, b = normal(r, sa, dtype), normal(r, sb, dtype)
        out = mx.matmul(up(view(a, views.get("a", []))), up(view(b, views.get("b", [])))).astype(dtype)
        f.add(name, {"a": a, "b": b}, out, views=views)

    for dtype in FLOATS:
        d = short(dtype)
        case(f"{d}/1x1x1", (1, 1), (1, 1), dtype)
        case(f"{d}/vector", (1, 67), (67, 33), dtype)
        case(f"{d}/odd", (5, 19), (19, 7), dtype)
        case(f"{d}/tile", (35, 40), (40, 37), dtype)
        case(f"{d}/batch", (3, 1, 4, 9), (2, 9, 5), dtype)
        case(f"{d}/transposed", (9, 11), (6, 11), dtype, {"b": [["transpose", 1, 0]]})
        case(f"{d}/both", (2, 9, 8), (2, 6, 9), dtype, {n: [["transpose", 0, 2, 1]] for n in "ab"})
        case(f"{d}/sliced", (9, 12), (12, 13), dtype,
             {"a": [["slice", 1, 1, 12, 2]], "b": [["slice", 0, 0, 6, 1], ["slice", 1, 3, 13, 3]]})
    case("f32/long", (2, 1500), (1500, 3), F32)
    case("f32/inner0", (3, 0), (0, 4), F32)
    case("f32/empty", (0, 3), (3, 4), F32)


def rope(f):
    def case(name, shape, dtype, dims, traditional, offset, base=None, scale=1.0, freqs=None, steps=()):
        x = normal(rng("rope " + name), shape, dtype)
        freqs = None if freqs is None else mx.array(freqs, dtype=F32)
        device = isinstance(offset, list)
        o = mx.array(offset, dtype=I32) if device else offset
        out = mx.fast.rope(up(mx.contiguous(view(x, steps))), dims, traditional=traditional, base=None if freqs is not None else base or 10000.0,
                           scale=scale, offset=o, freqs=freqs)
        params = {"dims": dims, "traditional": traditional, "base": 0.0 if freqs is not None else base or 10000.0, "scale": scale}
        inputs = {"x": x, "freqs": freqs}
        if device:
            inputs["offset"] = o
        else:
            params["offset"] = offset
        f.add(name, inputs, out.astype(dtype), params, {"x": list(steps)})

    for dtype in FLOATS:
        for traditional in (False, True):
            form = f"{short(dtype)}/{'traditional' if traditional else 'half'}"
            case(f"{form}/whole", (1, 2, 5, 64), dtype, 64, traditional, 0)
            case(f"{form}/offset", (2, 2, 3, 32), dtype, 32, traditional, 1000, 1e6)
            case(f"{form}/partial", (1, 3, 2, 80), dtype, 32, traditional, 7, scale=0.25)
            case(f"{form}/batch", (3, 2, 2, 32), dtype, 32, traditional, [5, 0, 900])
            case(f"{form}/freqs", (2, 1, 3, 16), dtype, 8, traditional, [11], freqs=[1.0, 7.5, 100.0, 3000.0])
            case(f"{form}/transposed", (2, 4, 3, 32), dtype, 32, traditional, 3, steps=[["transpose", 0, 2, 1, 3]])
    case("f32/half/two", (1, 1, 1, 2), F32, 2, False, 4)
    case("f32/half/far", (1, 1, 4, 128), F32, 128, False, 30000, 1e6)


def philox(counter, key):
    """Philox 4x32-10, as its authors define it."""
    c, k, mask = list(counter), list(key), 2**32 - 1
    for _ in range(10):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & mask, p0 >> 32 ^ c[3] ^ k[1], p0 & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c


def random(f):
    """The numbers that the op's definition makes of Philox's words; MLX has another generator."""

    def case(name, shape, dtype, kind, low, high, seed, counter):
        n, words = int(np.prod(shape)), []
        state = [seed % 2**32, seed >> 32, counter % 2**32, counter >> 32]
        for block in range((n + 3) // 4):
            words += philox([block, *state[2:], {"uniform": 1, "normal": 2}[kind]], state[:2])
        words = np.array(words, dtype=np.uint64)
        if kind == "uniform":
            u = mx.array((words >> 8).astype(np.float32)) * 2.0**-24
            out = mx.minimum((u * (high - low) + low).astype(dtype), mx.array(high - 2.0**-8, dtype=dtype))
        else:
            pairs = words.reshape(-1, 2)
            radius = mx.sqrt(-2 * mx.log(mx.array(((pairs[:, 0] >> 8) + 1) / 2**24, dtype=mx.float64)))
            angle = mx.array(pairs[:, 1] / 2**32 * 2 * np.pi, dtype=mx.float64)
            z = mx.stack([radius * mx.cos(angle), radius * mx.sin(angle)], axis=1).reshape(-1)
            out = (z * high + low).astype(dtype)
        params = {"kind": kind, "low": low, "high": high, "shape": list(shape)}
        f.add(name, {"state": mx.array(state, dtype=U32)}, out[:n].reshape(shape), params)

    for dtype in FLOATS:
        # Below 1, bfloat16 has steps of 2^-8, and nothing of the others reaches 1 - 2^-8 by chance.
        case(f"{short(dtype)}/uniform", (6, 7), dtype, "uniform", 0.0, 1.0, 3, 2**40 + 1)
        case(f"{short(dtype)}/normal", (3, 5, 7), dtype, "normal", 0.5, 2.0, 2**33 + 1, 9)
    case("f32/uniform/shifted", (63,), F32, "uniform", -2.0, 6.0, 2**63, 0)


def sample(f):
    """mlx_lm's filters (top-p, min-p, top-k, each over what the ones before left), in float64; then the draw."""
    wide = mx.float64

    def filtered(logits, top_p, min_p, top_k):
        logprobs = logits - mx.logsumexp(logits, keepdims=True)
        if 0 < top_p < 1:
            order = mx.argsort(logprobs)
            ascending = mx.cumsum(mx.exp(logprobs)[order])
            kept = mx.zeros(logprobs.shape, dtype=BOOL)
            kept[order] = ascending > 1 - top_p
            logprobs = mx.where(kept, logprobs, -INF)
        if min_p > 0:
            logprobs = mx.where(logprobs >= mx.max(logprobs) + float(np.log(min_p)), logprobs, -INF)
        if top_k > 0:
            logprobs = mx.where(logprobs >= mx.sort(logprobs)[-min(top_k, logprobs.size)], logprobs, -INF)
        return logprobs

    def token(logits, p, row):
        if p["Temperature"] == 0:
            return int(mx.argmax(logits))
        kept = filtered(logits, p.get("TopP", 0), p.get("MinP", 0), p.get("TopK", 0))
        sums = np.array(mx.cumsum(mx.softmax(kept / p["Temperature"])))
        r = philox([p["Counter"], 0, row, 0], [p["Seed"], 0])
        u = (r[0] + r[1] / 2**32) / 2**32 * sums[-1]
        assert np.min(np.abs(sums - u)) > 1e-6, "too close to call"
        return int(np.searchsorted(sums, u, side="right"))

    def words(p):
        out, t = [0] * 9, p["Temperature"]
        out[4], out[5], out[7] = 2**32 - 1, p["Seed"], p["Counter"]
        if t > 0:
            mantissa, exponent = np.frexp(np.log2(np.e) / t)
            out[0], out[1] = round(mantissa * 2**32), (int(exponent) - 32) % 2**32
            out[2] = p.get("TopK", 0)
            out[3] = round(p["TopP"] * 2**32) if 0 < p.get("TopP", 0) < 1 else 0
            if p.get("MinP", 0) > 0:
                out[4] = int(-np.log2(p["MinP"]) * 2**26)
        return mx.array(np.array(out, dtype=np.uint32))

    def case(name, shape, dtype, step=None, **p):
        p = {"Seed": 7, "Counter": 3, **p}
        logits = normal(rng("sample " + name), shape, dtype, 2.0)
        drawn = {**p, "Counter": p["Counter"] + (step or 0)}
        rows = logits.astype(wide).reshape(-1, shape[-1])
        out = mx.array([token(rows[i], drawn, i) for i in range(rows.shape[0])], dtype=U32).reshape(shape[:-1])
        device = None if step is None else mx.array([step], dtype=I32)
        f.add(name, {"logits": logits, "params": words(p), "step": device}, out)

    for dtype in FLOATS:
        d = short(dtype)
        case(f"{d}/greedy", (3, 40), dtype, Temperature=0)
        case(f"{d}/plain", (4, 5, 30), dtype, Temperature=1.0)
        case(f"{d}/warm", (20, 100), dtype, Temperature=2.5, step=11)
        case(f"{d}/cold", (20, 100), dtype, Temperature=0.3)
    case("f32/top_p", (40, 200), F32, Temperature=1.0, TopP=0.7)
    case("f32/min_p", (40, 200), F32, Temperature=4.0, MinP=0.03)
    case("f32/top_k", (40, 200), F32, Temperature=6.0, TopK=9)
    case("f32/all", (40, 200), F32, Temperature=1.5, TopP=0.93, MinP=0.02, TopK=12)
    case("f32/long", (3, 3000), F32, Temperature=1.1, TopP=0.9, Seed=12345)


def paged_update(f):
    for cache, dtype in [(F32, F32), (F16, F32), (BF16, F32), (BF16, BF16), (F32, F16)]:
        name = f"{short(cache)}/{short(dtype)}"
        r = rng("paged_update " + name)
        pages, rows = normal(r, (4, 2, 8, 12), cache), normal(r, (6, 2, 12), dtype)
        slots = mx.array([5, 31, -1, 16, 40, 8], dtype=I32)
        flat = mx.contiguous(pages.transpose(0, 2, 1, 3)).reshape(32, 2, 12)
        kept = mx.array([0, 1, 3, 5])
        flat[slots[kept]] = rows[kept].astype(cache)
        out = flat.reshape(4, 8, 2, 12).transpose(0, 2, 1, 3)
        f.add(name, {"pages": pages, "rows": rows, "slots": slots}, mx.contiguous(out))


def penalize(f):
    for name, n, s, v in [("rows", 4, 3, 40), ("one", 1, 1, 300)]:
        r = rng("penalize " + name)
        logits, counts = normal(r, (n, v), scale=4.0), integers(r, 0, 5, (s, v), U32)
        prompt, rows = integers(r, 0, 2, (s, v), U32), integers(r, -1, s + 1, (n,))
        penalties = 1 + mx.abs(normal(r, (s, 1))), normal(r, (s, 1)), normal(r, (s, 1))
        own = mx.clip(rows, 0, s - 1)
        there = ((rows >= 0) & (rows < s))[:, None]
        repetition, presence, frequency = (p[own] for p in penalties)
        times, seen = counts[own], (counts[own] > 0) | (prompt[own] > 0)
        out = mx.where(seen, logits * mx.where(logits > 0, 1 / repetition, repetition), logits)
        out = mx.where(times > 0, out - (presence + frequency * times.astype(F32)), out)
        penalties = mx.concatenate([1 / penalties[0], *penalties], axis=1)
        f.add(name, {"logits": logits, "counts": counts + prompt * 2**31, "penalties": penalties, "rows": rows},
              mx.where(there, out, logits))


def tally(f):
    for name, s, v, n in [("rows", 3, 20, 90), ("one", 1, 7, 5)]:
        r = rng("tally " + name)
        counts, rows, tokens = integers(r, 0, 5, (s, v), U32), integers(r, -1, s + 1, (n,)), integers(r, 0, v + 1, (n,), U32)
        amounts = integers(r, 0, 9, (n,), U32)
        there = (rows >= 0) & (rows < s) & (tokens < v)
        at = mx.where(there, rows * v + tokens.astype(I32), s * v)
        sums = mx.concatenate([counts.reshape(-1), mx.zeros(1, U32)]).at[at].add(amounts)
        f.add(name, {"counts": counts, "rows": rows, "tokens": tokens, "amounts": amounts}, sums[:s * v].reshape(s, v))


def mask(f):
    def case(name, n, v, logit_views=(), bit_views=(), stored=None, words=None):
        r = rng("mask " + name)
        logits, words = normal(r, stored or (n, v), scale=4.0), words or (n, (v + 31) // 32)
        some, which = integers(r, 0, 2**32, words, U32), integers(r, 0, 4, words)
        allowed = mx.where(which == 0, mx.zeros_like(some), mx.where(which == 1, ~mx.zeros_like(some), some))
        seen, bits = view(logits, logit_views), view(allowed, bit_views)
        place = mx.arange(v)
        stays = (bits[:, place // 32] >> (place % 32).astype(U32)) & 1
        f.add(name, {"logits": logits, "allowed": allowed}, mx.where(stays > 0, seen, -INF),
              views={"logits": logit_views, "allowed": bit_views})

    case("rows", 4, 96)
    case("rest", 3, 301)
    case("one", 1, 1)
    case("views", 3, 70, [["transpose", 1, 0], ["slice", 1, 2, 72, 1]], [["slice", 1, 1, 7, 2]], (75, 3), (3, 7))
    case("broadcast", 5, 40, [], [["broadcast", 5, 2]], None, (1, 2))


def paged_sdpa(f):
    def case(name, dtype, cache, rows, hq, hkv, d, page, table, sequences, lengths, scale=None):
        r = rng("paged_sdpa " + name)
        pages = max(max(t) for t in table) + 1
        q = normal(r, (rows, hq, d), dtype)
        keys, values = (normal(r, (pages, hkv, page, d), cache) for _ in "kv")
        scale, outs = scale or d ** -0.5, []
        for i in range(rows):
            own = mx.array(table[sequences[i]])
            k, v = (up(a)[own].transpose(1, 0, 2, 3).reshape(hkv, -1, d)[None, :, :lengths[i]] for a in (keys, values))
            outs.append(mx.fast.scaled_dot_product_attention(up(q)[i][None, :, None], k, v, scale=scale)[0, :, 0])
        ints = {"table": table, "sequences": sequences, "lengths": lengths}
        inputs = {"q": q, "keys": keys, "values": values} | {n: mx.array(v, dtype=I32) for n, v in ints.items()}
        f.add(name, inputs, mx.stack(outs).astype(dtype), {"scale": scale})

    for dtype, cache in [(F32, F32), (F32, BF16), (F32, F16), (BF16, BF16), (F16, F16)]:
        d = f"{short(dtype)}/{short(cache)}"
        case(f"{d}/decode", dtype, cache, 3, 4, 2, 32, 8, [[2, 0, 3], [1, 4, 5]], [1, 0, 1], [24, 9, 1])
        case(f"{d}/prompt", dtype, cache, 5, 2, 1, 48, 4, [[1, 0], [3, 2]], [1, 1, 1, 1, 1], [3, 4, 5, 6, 7], scale=0.2)


def sdpa(f):
    def case(name, q, k, v, dtype, causal=False, mask=None, length=None, scale=None, views={}):
        r = rng("sdpa " + name)
        q, k, v = normal(r, q, dtype), normal(r, k, dtype), normal(r, v, dtype)
        vq, vk, vv = (up(mx.contiguous(view(a, views.get(n, [])))) for n, a in (("q", q), ("k", k), ("v", v)))
        shape = (vq.shape[0], vq.shape[1], vq.shape[2], vk.shape[2])
        scale = scale or vq.shape[-1] ** -0.5
        inputs, see, bias = {"q": q, "k": k, "v": v}, mx.ones(shape, dtype=BOOL), mx.zeros(shape)
        n = shape[3] if length is None else length
        see = see & (mx.arange(shape[3]) < n)
        if causal:
            see = see & (mx.arange(shape[3])[None, :] <= n - shape[2] + mx.arange(shape[2])[:, None])
        if mask is not None:
            dt, mshape = mask
            if dt == BOOL:
                inputs["mask"] = mx.array(r.random(mshape) < 0.6) | (mx.arange(mshape[-1]) == 0)
                see = see & inputs["mask"]
            else:
                inputs["mask"] = normal(r, mshape, dtype, 2.0)
                bias = bias + up(inputs["mask"])
        if length is not None:
            inputs["key_length"] = mx.array([length], dtype=I32)
        assert mx.all(mx.any(see, axis=-1)).item(), name
        bias = mx.where(see, bias, -INF)
        out = mx.fast.scaled_dot_product_attention(vq, vk, vv, scale=scale, mask=bias)
        f.add(name, inputs, out.astype(dtype), {"scale": scale, "causal": causal}, views)

    for dtype in FLOATS:
        d = short(dtype)
        case(f"{d}/one", (1, 2, 1, 32), (1, 2, 9, 32), (1, 2, 9, 32), dtype)
        case(f"{d}/grouped", (1, 4, 1, 64), (1, 2, 33, 64), (1, 2, 33, 64), dtype, scale=0.3)
        case(f"{d}/causal", (2, 4, 7, 32), (2, 1, 7, 32), (2, 1, 7, 32), dtype, causal=True)
        case(f"{d}/suffix", (1, 2, 3, 80), (1, 2, 12, 80), (1, 2, 12, 80), dtype, causal=True)
        case(f"{d}/bool", (2, 2, 5, 32), (2, 2, 8, 32), (2, 2, 8, 32), dtype, mask=(BOOL, (2, 1, 5, 8)))
        case(f"{d}/bias", (2, 2, 5, 32), (2, 1, 8, 32), (2, 1, 8, 32), dtype, mask=(F32, (5, 8)))
        case(f"{d}/length", (1, 4, 1, 32), (1, 2, 40, 32), (1, 2, 40, 32), dtype, length=17)
        case(f"{d}/length_causal", (1, 2, 4, 32), (1, 2, 20, 32), (1, 2, 20, 32), dtype, causal=True, length=13)
        case(f"{d}/transposed", (1, 5, 2, 32), (1, 5, 2, 32), (1, 5, 2, 32), dtype, causal=True,
             views={n: [["transpose", 0, 2, 1, 3]] for n in "qkv"})
        case(f"{d}/cache", (1, 2, 2, 32), (1, 1, 64, 32), (1, 1, 64, 32), dtype,
             views={n: [["slice", 2, 0, 21, 1]] for n in "kv"})
    case("f32/head128", (1, 2, 2, 128), (1, 1, 10, 128), (1, 1, 10, 128), F32)
    case("f32/head256", (1, 1, 2, 256), (1, 1, 5, 256), (1, 1, 5, 256), F32, causal=True)
    case("f32/values", (1, 2, 3, 32), (1, 2, 6, 32), (1, 2, 6, 48), F32)
    case("f32/long", (1, 2, 1, 32), (1, 1, 300, 32), (1, 1, 300, 32), F32)
    case("f32/one_key", (1, 1, 1, 32), (1, 1, 1, 32), (1, 1, 1, 32), F32, causal=True)


def slice_update(f):
    def case(name, dst, update, start, device, dtype, views={}):
        r = rng("slice_update " + name)
        dst, update = (mx.array(r.integers(0, 100, s)).astype(dtype) for s in (dst, update))
        vd, vu = view(dst, views.get("dst", [])), view(update, views.get("update", []))
        inputs, params = {"dst": dst, "update": update}, {}
        if device:
            inputs["start"] = mx.array(start, dtype=I32)
        else:
            params["start"] = start
        out = mx.slice_update(vd, vu, mx.array(start, dtype=I32), list(range(vd.ndim)))
        f.add(name, inputs, out, params, views)

    for dtype in CODES:
        for device in (False, True):
            d = f"{short(dtype)}/{'device' if device else 'host'}"
            case(f"{d}/cache", (1, 2, 8, 5), (1, 2, 1, 5), [0, 0, 3, 0], device, dtype)
            case(f"{d}/inner", (4, 7, 5), (2, 3, 2), [1, 4, 3], device, dtype)
    case("f32/whole", (3, 4), (3, 4), [0, 0], False, F32)
    case("f32/vector", (9,), (4,), [5], True, F32)
    case("f32/empty", (3, 4), (0, 4), [1, 0], False, F32)
    case("f32/views", (6, 4, 5), (4, 2, 3), [0, 3, 1], False, F32,
         {"dst": [["transpose", 1, 0, 2]], "update": [["transpose", 1, 2, 0], ["slice", 0, 1, 2, 1]]})


def any_type(name, shape, dtype):
    """Small whole numbers, or bools."""
    return mx.array(rng(name).integers(0, 2 if dtype == BOOL else 100, shape)).astype(dtype)


def fill(f):
    for dtype in CODES:
        values = {BOOL: [True, False], U8: [0, 200], U32: [2**32 - 1], I32: [-2**31, 7]}.get(dtype, [0.0, -2.5, 7.0])
        for k, v in enumerate(values):
            shape = [(3, 5), (), (0, 2), (2, 1, 3, 1, 2, 1, 2, 2)][k]
            f.add(f"{short(dtype)}/{v}", {}, mx.full(shape, mx.array(v, dtype=dtype)), {"shape": list(shape), "value": float(v)})


def arange(f):
    for dtype in NUMBERS + [U8]:
        ranges = [(0, 5, 1), (3, 30, 4), (7, 7, 1), (5, 0, 1), (250, 260, 1), (0, 257, 1)]
        if dtype in FLOATS + [I32]:
            ranges += [(5, -7, -3), (-4, 4, 1)]
        ranges += [(0, 1, 0.125), (-1, 1, 0.3), (1.5, -1.5, -0.7)] if dtype in FLOATS else [(0.5, 5, 1), (1, 6, 1.5)]
        for r in ranges:
            out = mx.arange(*r, dtype=F32).astype(dtype) if dtype in FLOATS else mx.arange(*r, dtype=dtype)
            f.add(f"{short(dtype)}/{r}", {}, out, {"range": list(r)})


def concat(f):
    def case(name, xs, axis, stack=False, views=None):
        seen = [view(x, (views or {}).get(f"x{i}", [])) for i, x in enumerate(xs)]
        out = mx.stack(seen, axis=axis) if stack else mx.concatenate(seen, axis=axis)
        f.add(name, {f"x{i}": x for i, x in enumerate(xs)}, out, {"axis": axis, "kind": "stack" if stack else "concat"}, views)

    for dtype in CODES:
        d = short(dtype)
        for axis in (0, 1, -1):
            shapes = [[3, 4, 5] for _ in range(4)]
            for s, n in zip(shapes, (2, 0, 3, 1)):
                s[axis] = n
            case(f"{d}/axis{axis}", [any_type(f"concat {dtype} {axis} {i}", s, dtype) for i, s in enumerate(shapes)], axis)
            case(f"{d}/stack{axis}", [any_type(f"stack {dtype} {axis} {i}", (2, 3), dtype) for i in range(3)], axis, True)
    x, y = normal(rng("concat views"), (6, 4)), normal(rng("concat views 2"), (4, 9))
    case("f32/views", [x, y], 0, views={"x0": [["transpose", 1, 0]], "x1": [["slice", 1, 1, 7, 1]]})
    case("f32/one", [x], 1)


def slices(f):
    def case(name, x, shape, start, device, steps=()):
        out = mx.slice(view(x, steps), mx.array(start, dtype=I32), list(range(len(shape))), list(shape))
        inputs, params = {"x": x}, {"shape": list(shape)}
        if device:
            inputs["start"] = mx.array(start, dtype=I32)
        else:
            params["start"] = start
        f.add(name, inputs, out, params, {"x": list(steps)})

    for dtype in CODES:
        for device in (False, True):
            d = f"{short(dtype)}/{'device' if device else 'host'}"
            x = any_type(f"slice {dtype}", (4, 7, 5), dtype)
            case(f"{d}/inner", x, (2, 3, 2), [1, 4, 3], device)
            case(f"{d}/row", x, (1, 7, 5), [3, 0, 0], device)
            case(f"{d}/views", x, (3, 2, 2), [2, 1, 0], device, [["transpose", 1, 2, 0], ["slice", 0, 1, 7, 1]])
    case("f32/empty", any_type("slice empty", (3, 4), F32), (0, 2), [1, 2], True)


def pad(f):
    def case(name, x, widths, edge, value=0.0, steps=()):
        seen = view(x, steps)
        w = widths * seen.ndim if len(widths) == 1 else widths
        out = mx.pad(seen, w, mode="edge") if edge else mx.pad(seen, w, constant_values=mx.array(value).astype(x.dtype))
        f.add(name, {"x": x}, out, {"widths": widths, "kind": "edge" if edge else "constant", "value": value}, {"x": list(steps)})

    for dtype in CODES:
        for edge in (False, True):
            d = f"{short(dtype)}/{'edge' if edge else 'constant'}"
            x = any_type(f"pad {dtype}", (3, 4, 5), dtype)
            case(f"{d}/all", x, [(1, 2)], edge, 1.0)
            case(f"{d}/last", x, [(0, 0), (0, 0), (0, 6)], edge)
            case(f"{d}/mixed", x, [(2, 0), (0, 0), (1, 3)], edge, 1.0)
            case(f"{d}/views", x, [(1, 1), (0, 2), (3, 0)], edge, 1.0, [["transpose", 2, 0, 1], ["slice", 0, 1, 5, 2]])
        x = any_type(f"pad 8 {dtype}", (2, 1, 2, 1, 2, 1, 2, 1), dtype)
        case(f"{short(dtype)}/rank8", x, [(1, 0), (0, 1), (0, 0), (1, 1), (0, 1), (1, 0), (0, 0), (0, 2)], False, 1.0)
    case("f32/empty", mx.zeros((0, 2)), [(1, 2)], False, 3.0)


def where(f):
    def case(name, c, a, b, views=None):
        seen = [view(x, (views or {}).get(n, [])) for n, x in (("condition", c), ("a", a), ("b", b))]
        f.add(name, {"condition": c, "a": a, "b": b}, mx.where(*seen).astype(a.dtype), views=views)

    for dtype in CODES:
        d = short(dtype)
        for k, (sc, sa, sb) in enumerate([((7,), (7,), (7,)), ((), (3, 4), (4,)), ((5, 1, 4), (3, 1), ()), ((4,), (3, 1), (2, 1, 1)), ((0, 4), (1, 4), (4,))]):
            c = any_type(f"where {dtype} {k}", sc, BOOL)
            case(f"{d}/{k}", c, any_type(f"where a {dtype} {k}", sa, dtype), any_type(f"where b {dtype} {k}", sb, dtype))
    x = mx.array(AWKWARD)
    case("f32/awkward", x > 0.3, x, -x)
    c, a, b = any_type("where views", (4, 9), BOOL), normal(rng("where views"), (9, 4)), normal(rng("where views 2"), (4, 9))
    case("f32/views", c, a, b, {"a": [["transpose", 1, 0]], "condition": [["slice", 1, 1, 9, 2]], "b": [["slice", 1, 0, 8, 2]]} | {"a": [["transpose", 1, 0], ["slice", 1, 0, 4, 1]]})


def gather_axis(f):
    def case(name, x, i, axis, views=None):
        out = mx.take_along_axis(view(x, (views or {}).get("x", [])), view(i, (views or {}).get("indices", [])), axis=axis)
        f.add(name, {"x": x, "indices": i}, out, {"axis": axis}, views)

    for dtype in CODES:
        x, r = any_type(f"gather_axis {dtype}", (4, 5, 6), dtype), rng(f"gather_axis indices {dtype}")
        for axis in (0, 1, -1):
            shape = [4, 5, 6]
            shape[axis] = 3
            case(f"{short(dtype)}/axis{axis}", x, integers(r, -4, 4, shape), axis)
            shape[(axis + 1) % 3] = 1
            case(f"{short(dtype)}/broadcast{axis}", x, integers(r, 0, 4, shape, U32), axis)
    x = normal(rng("gather_axis views"), (5, 6, 4))
    i = integers(rng("gather_axis views"), -5, 5, (3, 4, 5))
    case("f32/views", x, i, 0, {"x": [["transpose", 1, 0, 2]], "indices": [["transpose", 0, 2, 1]]})
    case("f32/empty", x, mx.zeros((5, 0, 4), dtype=I32), 1)


def scatter(f):
    def case(name, x, i, u, axis, kind, along=False, views=None):
        get = lambda n, a: view(a, (views or {}).get(n, []))
        sx, si, su = get("x", x), get("indices", i), get("updates", u)
        half = sx.dtype in (F16, BF16)
        wx, wu = (up(sx), up(su)) if half else (sx, su)
        if along:
            out = mx.put_along_axis(wx, si, wu, axis=axis)
        else:
            at = wx.at[(slice(None),) * axis + (si,)]
            if kind == "set":
                out = mx.array(wx)
                out[(slice(None),) * axis + (si,)] = wu
            else:
                out = {"add": at.add, "mul": at.multiply, "min": at.minimum, "max": at.maximum}[kind](wu)
        f.add(name, {"x": x, "indices": i, "updates": u}, out.astype(sx.dtype), {"axis": axis, "kind": kind, "along": along}, views)

    def few_of(a):
        """Numbers that can be multiplied in every type."""
        return a if a.dtype == BOOL else a % 4

    for dtype in CODES:
        for kind in ("set", "add", "mul", "min", "max"):
            n = f"{short(dtype)}/{kind}"
            x = any_type(f"scatter {n}", (7, 4, 5), dtype)
            dup = mx.array([[0, 6, -1], [3, 3, -7]], dtype=I32)
            few = mx.array([[0, 6, -2], [3, 2, -3]], dtype=I32)
            rows = few if kind == "set" else dup
            case(f"{n}/rows", x, rows, few_of(any_type(f"scatter rows {n}", (2, 3, 4, 5), dtype)), 0, kind)
            case(f"{n}/u32", x, mx.array([3, 0, 1], dtype=U32), any_type(f"scatter u32 {n}", (7, 3, 5), dtype), 1, kind)
            case(f"{n}/one", x, mx.array([4, 0], dtype=I32), any_type(f"scatter one {n}", (5,), dtype), 0, kind)
        i = mx.array([[2, 0, 1], [-1, 3, 0]], dtype=I32)
        case(f"{short(dtype)}/along", any_type(f"put {dtype}", (2, 4), dtype), i, any_type(f"put values {dtype}", (2, 3), dtype), 1, "set", True)
    r = rng("scatter sums")
    case("f32/add/many", normal(r, (5, 3)), integers(r, 0, 5, (300,)), normal(r, (300, 3)), 0, "add")
    case("bf16/add/many", normal(r, (5, 3), BF16), integers(r, 0, 5, (50,)), normal(r, (50, 3), BF16), 0, "add")
    case("i32/add/wrap", mx.array([2**31 - 1, -2**31], dtype=I32), mx.array([0, 1, 1]), mx.array([1, -1, -1], dtype=I32), 0, "add")
    case("f32/add/views", normal(r, (4, 6)), integers(r, -6, 6, (3, 2)), normal(r, (2, 4, 3)), 1, "add",
         views={"x": [["slice", 1, 0, 6, 1]], "indices": [["transpose", 1, 0]], "updates": [["transpose", 1, 0, 2]]})


def repeat(f):
    for dtype in CODES:
        d, x = short(dtype), any_type(f"repeat {dtype}", (3, 4, 5), dtype)
        for axis in (0, 1, -1):
            f.add(f"{d}/axis{axis}", {"x": x}, mx.repeat(x, 3, axis=axis), {"kind": "repeat", "axis": axis, "reps": [3]})
        for reps in ([2], [2, 3], [2, 1, 3], [2, 1, 1, 2], [0, 1]):
            f.add(f"{d}/tile{reps}", {"x": x}, mx.tile(x, reps), {"kind": "tile", "reps": reps})
        steps = [["transpose", 2, 0, 1], ["slice", 0, 1, 5, 2]]
        f.add(f"{d}/views", {"x": x}, mx.repeat(view(x, steps), 2, axis=1), {"kind": "repeat", "axis": 1, "reps": [2]}, {"x": steps})
        f.add(f"{d}/never", {"x": x}, mx.repeat(x, 0, axis=1), {"kind": "repeat", "axis": 1, "reps": [0]})


def scan(f):
    runs = {"sum": mx.cumsum, "prod": mx.cumprod}

    def case(label, kind, x, axis, steps=(), exclusive=False, reverse=False):
        v = view(x, steps)
        v = up(v) if x.dtype in FLOATS else v
        out = runs[kind](v, axis=axis, inclusive=not exclusive, reverse=reverse)
        out = out.astype(x.dtype)
        f.add(f"{kind}/{short(x.dtype)}/{label}", {"x": x}, out,
              {"kind": kind, "axis": axis, "exclusive": exclusive, "reverse": reverse}, {"x": list(steps)})

    for kind in runs:
        for dtype in NUMBERS + [U8]:
            r = rng(f"scan {kind} {dtype}")
            if kind == "prod":
                x = mx.exp(normal(r, (4, 9, 5), F32, 0.2)).astype(dtype) if dtype in FLOATS else integers(r, 1, 4, (4, 9, 5), dtype)
            elif dtype == U8:
                x = integers(r, 0, 256, (4, 9, 5)).astype(dtype)
            else:
                x = numbers(r, (4, 9, 5), dtype)
            for exclusive in (False, True):
                for reverse in (False, True):
                    label = ("exclusive" if exclusive else "inclusive") + (" reverse" if reverse else "")
                    case(label, kind, x, 1, exclusive=exclusive, reverse=reverse)
            case("last", kind, x, -1)
            case("first", kind, x, 0, reverse=True)
            case("views", kind, x, 0, [["transpose", 1, 2, 0], ["slice", 0, 1, 9, 2]])
            case("one", kind, mx.array([3]).astype(dtype), 0)
    case("long", "sum", normal(rng("scan long"), (2, 3001)), 1)
    case("wrap", "sum", mx.array([2**31 - 1, 1, -5], dtype=I32), 0)
    case("wrap", "prod", mx.array([65537, 65537, 3], dtype=I32), 0)


def main():
    mx.set_default_device(mx.cpu)
    FOLDER.mkdir(parents=True, exist_ok=True)
    total = [0, 0]
    for make in (arange, binary, cast, concat, copy, dequantize, fill, gather, gather_axis, layer_norm, mask, matmul, pad,
                 paged_sdpa, paged_update, penalize, quantize,
                 quantized_gather, quantized_matmul, random, reduce, repeat, rms_norm, rope, sample, scan, scatter, sdpa, silu_mul, slice_update,
                 slices, softmax, tally, unary, where):
        f = File({"slices": "slice"}.get(make.__name__, make.__name__))
        make(f)
        total = [a + b for a, b in zip(total, f.save())]
    print(f"all: {total[0]} cases, {total[1]:,} bytes")


if __name__ == "__main__":
    main()

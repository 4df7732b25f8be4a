"""Times MLX's CPU backend at what BenchmarkOps of package fallback does.

    pip install "mlx[cpu]"; OPENBLAS_NUM_THREADS=1 python scripts/mlx_cpu_bench.py [filter]

Each line is the fastest of many runs in microseconds, and the same name as in Go.
"""
import sys
import time

import mlx.core as mx

mx.set_default_device(mx.cpu)
F32, BF16, F16 = mx.float32, mx.bfloat16, mx.float16


def random(dtype, *shape):
    x = mx.random.normal(shape).astype(dtype)
    mx.eval(x)
    return x


def cases():
    for dtype, name in ((F32, "f32"), (BF16, "bf16"), (F16, "f16")):
        for rows, cols in ((1, 1024), (1, 4096), (512, 4096)):
            shape = f"{name}/{rows}x{cols}"
            a, b, w = random(dtype, rows, cols), random(dtype, rows, cols), random(dtype, cols)
            positive = mx.abs(a) + 0.1
            column, scalar = random(dtype, rows, 1), mx.array(2.0, dtype=dtype)
            mx.eval(positive)
            yield f"add/{shape}", lambda a=a, b=b: a + b
            yield f"mul_row/{shape}", lambda a=a, w=w: a * w
            yield f"mul_column/{shape}", lambda a=a, c=column: a * c
            yield f"mul_scalar/{shape}", lambda a=a, s=scalar: a * s
            yield f"div/{shape}", lambda a=a, b=positive: a / b
            yield f"max/{shape}", lambda a=a, b=b: mx.maximum(a, b)
            yield f"less/{shape}", lambda a=a, b=b: a < b
            yield f"neg/{shape}", lambda a=a: -a
            yield f"exp/{shape}", lambda a=a: mx.exp(a)
            yield f"log/{shape}", lambda a=positive: mx.log(a)
            yield f"sqrt/{shape}", lambda a=positive: mx.sqrt(a)
            yield f"rsqrt/{shape}", lambda a=positive: mx.rsqrt(a)
            yield f"tanh/{shape}", lambda a=a: mx.tanh(a)
            yield f"erf/{shape}", lambda a=a: mx.erf(a)
            yield f"sin/{shape}", lambda a=a: mx.sin(a)
            yield f"sigmoid/{shape}", lambda a=a: mx.sigmoid(a)
            yield f"softmax/{shape}", lambda a=a: mx.softmax(a, axis=-1)
            yield f"rms_norm/{shape}", lambda a=a, w=w: mx.fast.rms_norm(a, w, 1e-6)
            yield f"layer_norm/{shape}", lambda a=a, w=w: mx.fast.layer_norm(a, w, w, 1e-6)
            yield f"sum_rows/{shape}", lambda a=a: mx.sum(a, axis=-1)
            yield f"sum_columns/{shape}", lambda a=a: mx.sum(a, axis=0)
            yield f"max_rows/{shape}", lambda a=a: mx.max(a, axis=-1)
            yield f"argmax_rows/{shape}", lambda a=a: mx.argmax(a, axis=-1)
            yield f"logsumexp_rows/{shape}", lambda a=a: mx.logsumexp(a, axis=-1)
            yield f"cumsum/{shape}", lambda a=a: mx.cumsum(a, axis=-1)
            yield f"transpose/{shape}", lambda a=a: mx.contiguous(a.T)
            yield f"to_f32/{shape}", lambda a=a: a.astype(F32) if a.dtype != F32 else a.astype(BF16)
            yield f"where/{shape}", lambda a=a, b=b, c=a > 0: mx.where(c, a, b)
            yield f"concat/{shape}", lambda a=a, b=b: mx.concatenate([a, b], axis=-1)
        table, ids = random(dtype, 16384, 1024), (mx.arange(512) * 31) % 16384
        mx.eval(ids)
        yield f"gather/{name}/512x1024", lambda t=table, i=ids: t[i]
        for m, n, k in ((1, 4096, 4096), (4, 3072, 1024), (64, 3072, 1024), (512, 1024, 1024)):
            x, w = random(dtype, m, k), random(dtype, n, k)
            b = mx.contiguous(w.T)
            mx.eval(b)
            yield f"matmul_t/{name}/{m}x{n}x{k}", lambda x=x, w=w: x @ w.T
            yield f"matmul/{name}/{m}x{n}x{k}", lambda x=x, b=b: x @ b
        for queries, keys in ((1, 64), (1, 1024), (512, 512)):
            q, k, v = random(dtype, 1, 16, queries, 128), random(dtype, 1, 8, keys, 128), random(dtype, 1, 8, keys, 128)
            mask = "causal" if queries > 1 else None
            yield f"sdpa/{name}/{queries}x{keys}", lambda q=q, k=k, v=v, m=mask: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.09, mask=m)
        x, w = random(dtype, 1, 1024), random(F32, 3072, 1024)
        many = random(dtype, 64, 1024)
        for bits in (4, 8):
            codes, scales, biases = mx.quantize(w.astype(dtype), 64, bits)
            mx.eval(codes, scales, biases)
            for rows, of in ((1, x), (64, many)):
                yield f"quantized_matmul{bits}/{name}/{rows}x3072x1024", lambda x=of, c=codes, s=scales, b=biases, n=bits: mx.quantized_matmul(x, c, s, b, True, 64, n)
    a, b = random(F32, 1 << 24), random(F32, 1 << 24)
    yield "add/f32/16M", lambda: a + b
    yield "exp/f32/16M", lambda: mx.exp(a)
    yield "sum/f32/16M", lambda: mx.sum(a)
    yield "copy/f32/16M", lambda: mx.contiguous(mx.as_strided(a, (1 << 12, 1 << 12), (1 << 12, 1), 0)[:, ::2])


for name, run in cases():
    if len(sys.argv) > 1 and sys.argv[1] not in name:
        continue
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < 0.25:
        begin = time.perf_counter()
        mx.eval(run())
        best = min(best, time.perf_counter() - begin)
    print(f"{name} {best * 1e6:.1f}", flush=True)

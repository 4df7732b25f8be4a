// Products like those of quantized_matmul_coopmat, but lanes make matrices of float16 in their registers
// (fragments.glsl). quantized_matmul_split writes the parts of x in the order in which lanes load them
// (fragment_runs.glsl), and scales as pairs of float16. Subgroups that have the same rows of w decode a part of them
// each (fragment_codes.glsl), and share them through shared memory. The columns that quantized_matmul_split adds for
// the biases follow those of x; their weights are not decoded, but copied.
//
// x is the first operand, 16 rows a matrix, and w the second, 8 rows a matrix. With g = lane / 4 and t = lane % 4, a
// lane has 32 neighbouring columns of a chunk of 128, which are 8 steps: of x, those of rows g and g + 8, and of w,
// those of one row. The rows of a pair of matrices of w are interleaved by twos, so that a lane has four neighbouring
// results.
//
// The loop over steps is not unrolled: in straight code, NVIDIA's driver moves loads of x to where they are needed. And
// it keeps all sums in memory if tiles of them are stored in a loop, or if the code that stores one has early returns.
//
// variants: narrow_subgroup_khr
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_vote : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 1
#define AFFINE_SPEC 2
#include "affine.glsl"
#include "math.glsl"
#include "rows.glsl"
#include "quads.glsl"
#include "float16_parts.glsl"
#include "fragments.glsl"

layout(constant_id = 1) const uint x_DT = DT_FLOAT32;
TENSOR_OUT(4, y, 5)
QUAD_BITS_OUT(4, y)
layout(set = 0, binding = 0) readonly buffer XWords { uint x_words[]; };
layout(set = 0, binding = 0) readonly buffer XQuads { uvec4 x_quads[]; };
layout(set = 0, binding = 5) readonly buffer Scaled { uint scaled[]; };
layout(set = 0, binding = 6) readonly buffer WMore { uvec4 w_more[]; };
layout(set = 0, binding = 7) readonly buffer XExponents { int x_exponents[]; };
layout(set = 0, binding = 8) readonly buffer WExponents { int w_exponents[]; };
layout(set = 0, binding = 9) writeonly buffer Sums { vec4 sums[]; };
layout(constant_id = 6) const uint SPLITS = 1;
layout(constant_id = 7) const uint PARTS = 1;       // of x
layout(constant_id = 8) const uint GROUP_SHIFT = 7; // log2 of the columns of a group
layout(constant_id = 9) const uint ROW_TILES = 4;   // of 16 rows of x, for each subgroup
layout(constant_id = 10) const uint W_PAIRS = 2;    // of 16 rows of w
layout(constant_id = 11) const uint WAVES_M = 1;
layout(constant_id = 12) const uint WAVES_N = 4;
layout(constant_id = 13) const uint RESIDUAL = 0; // whether one is added, of y's dtype; not with SPLITS
#define residual_DT y_DT
QUADS_IN(10, residual)

layout(push_constant) uniform Push { QuantizedMatMulMatrixParams q; };
#define p q.product

const uint FRAGMENTS = 1;
vec4 added; // of the residual
#define FINISHED(v) (RESIDUAL == 0 ? (v) : (v) + added)
#include "fragment_runs.glsl"
#include "fragment_codes.glsl"
#include "quantized_result.glsl"

const uint TILES = 2 * W_PAIRS;                // of w, of a subgroup
const uint OWN_PAIRS = W_PAIRS / WAVES_M;      // of them that it decodes
const uint BLOCK_M = ROW_TILES * 16, BLOCK_N = W_PAIRS * 16;
const uint STEPS = 8, HALF_STEPS = STEPS / 2;  // of a chunk, and of half of one
const uint UNIT_COLUMNS = 32, HALF_COLUMNS = 64;

uint g() { return gl_SubgroupInvocationID / 4; }
uint t() { return gl_SubgroupInvocationID % 4; }
uint wave_m() { return gl_SubgroupID / WAVES_N; }
uint wave_n() { return gl_SubgroupID % WAVES_N; }

// Half a chunk of w as float16, twice: for each pair of matrices and each step a lane's words of both. At the end,
// results.
const uint HALF = WAVES_N * W_PAIRS * HALF_STEPS * 32;
const uint STAGE_PITCH = W_PAIRS * 4 + 1, STAGES = WAVES_M * WAVES_N * 16 * STAGE_PITCH;
shared uvec4 work[2 * HALF > STAGES ? 2 * HALF : STAGES];

uint weights_at(uint half_, uint pair, uint step_) {
    return (((half_ % 2 * WAVES_N + wave_n()) * W_PAIRS + pair) * HALF_STEPS + step_) * 32 + gl_SubgroupInvocationID;
}

uint m0, n0;                // the subgroup's first rows
uint first_n;               // of w, where blocks before this one end
uint x_at[ROW_TILES];       // this lane's first quads of x
uint w_at;                  // and words of the first tile of w that it decodes
uint scale_at, more_at;
uint plane;                 // quads of a part of x
uvec4 held_x[PARTS * ROW_TILES];  // under way
uvec4 codes[2 * OWN_PAIRS];       // of half a chunk; of 4 bits in x and y
uint scales[2 * OWN_PAIRS];
uvec4 x_step[PARTS * ROW_TILES];  // of this step
uvec4 w_step[W_PAIRS];
vec4 acc[ROW_TILES * TILES];

// The first row of a tile, relative to that of tile 0.
uint row_of_tile(uint tile) { return tile / 2 * 16 + tile % 2 * 2; }

void fetch_x(uint step_) {
    [[unroll]] for (uint i = 0; i < PARTS * ROW_TILES; i++) {
        held_x[i] = x_quads[i / ROW_TILES * plane + x_at[i % ROW_TILES] + step_ * 32];
    }
}

// Behind the last column, the last codes are read; x is zero there.
void fetch_codes(uint half_) {
    uint unit = min(half_ / 2 * 4 + t(), p.x.cols / UNIT_COLUMNS - 1);
    [[unroll]] for (uint k = 0; k < 2 * OWN_PAIRS; k++) {
        if (BITS == 8) {
            codes[k] = w_4.data[(w_at + row_of_tile(k) * p.w_strides[0]) / 4 + unit * 2 + half_ % 2];
        } else {
            codes[k].xy = w_2.data[(w_at + row_of_tile(k) * p.w_strides[0]) / 2 + unit * 2 + half_ % 2];
        }
        uint words = GROUP_SHIFT == 4 ? p.x.cols / UNIT_COLUMNS : p.x.cols >> GROUP_SHIFT;
        scales[k] = scaled[scale_at + row_of_tile(k) * words + (GROUP_SHIFT < 5 ? unit : unit >> (GROUP_SHIFT - 5))];
    }
}

// Eight codes, in one word or two, as a lane's words for two steps.
uvec4 decode(uvec2 words, f16vec2 s) {
    return BITS == 8 ? weights_of_e4m3(words, s)
                     : SMALL_FLOATS ? weights_of_e2m1(words.x, s) : weights_of_integers(words.x, s);
}

f16vec2 scale_of_tile(uint k, uint half_) {
    uint bits = scales[k];
    if (GROUP_SHIFT == 4) {
        bits = ((bits >> (half_ % 2 * 16)) & 0xffffu) * 0x10001u;
    }
    return unpackFloat2x16(bits);
}

// Decodes the half of a chunk whose codes are here.
void decode_codes(uint half_) {
    [[unroll]] for (uint k = 0; k < OWN_PAIRS; k++) {
        f16vec2 s = scale_of_tile(2 * k, half_), other = scale_of_tile(2 * k + 1, half_);
        uint at = weights_at(half_, wave_m() * OWN_PAIRS + k, 0);
        uvec4 a = decode(codes[2 * k].xy, s), b = decode(codes[2 * k + 1].xy, other);
        work[at] = uvec4(a.xy, b.xy);
        work[at + 32] = uvec4(a.zw, b.zw);
        a = decode(BITS == 8 ? codes[2 * k].zw : codes[2 * k].yy, s);
        b = decode(BITS == 8 ? codes[2 * k + 1].zw : codes[2 * k + 1].yy, other);
        work[at + 64] = uvec4(a.xy, b.xy);
        work[at + 96] = uvec4(a.zw, b.zw);
    }
}

// The same of the columns that quantized_matmul_split has added, which are float16 already.
void copy_more(uint half_) {
    uint own = chunks_of(p.x.cols) * 2, quads = q.more / 8;
    [[unroll]] for (uint k = 0; k < OWN_PAIRS; k++) {
        uint at = weights_at(half_, wave_m() * OWN_PAIRS + k, 0);
        uint from = more_at + row_of_tile(2 * k) * quads + (half_ - own) * 8;
        [[unroll]] for (uint word = 0; word < 2; word++) {
            uvec4 a = w_more[from + word * 4], b = w_more[from + row_of_tile(1) * quads + word * 4];
            work[at + word * 64] = uvec4(a.xy, b.xy);
            work[at + word * 64 + 32] = uvec4(a.zw, b.zw);
        }
    }
}

// Takes the held x, and begins the loads of the step that follows.
void take_x(uint next) {
    [[unroll]] for (uint i = 0; i < PARTS * ROW_TILES; i++) {
        x_step[i] = held_x[i];
    }
    fetch_x(next);
}

void multiply() {
    [[unroll]] for (uint k = 0; k < TILES; k++) {
        [[unroll]] for (uint i = 0; i < PARTS * ROW_TILES; i++) {
            uint at = i % ROW_TILES * TILES + k;
            acc[at] = mul_add(x_step[i].xzyw, k % 2 == 0 ? w_step[k / 2].xy : w_step[k / 2].zw, acc[at]);
        }
    }
}

void locate() {
    uint tile_m = WAVES_M * BLOCK_M, tile_n = WAVES_N * BLOCK_N;
    uint tiles_m = (p.x.rows + tile_m - 1) / tile_m;
    m0 = workgroup_index() % tiles_m * tile_m + wave_m() * BLOCK_M;
    first_n = workgroup_index() / tiles_m * tile_n + wave_n() * BLOCK_N;
    n0 = min(first_n, p.n - BLOCK_N); // the last block begins among the rows of the one before
    uint row_tiles = (p.x.rows + 15) / 16, chunks = q.x_runs / CHUNK_RUNS;
    plane = row_tiles * chunks * STEPS * 32;
    [[unroll]] for (uint i = 0; i < ROW_TILES; i++) {
        x_at[i] = min(m0 / 16 + i, row_tiles - 1) * chunks * STEPS * 32 + gl_SubgroupInvocationID;
    }
    uint row = n0 + g() / 2 * 4 + g() % 2;
    row += row_of_tile(wave_m() * OWN_PAIRS * 2);
    more_at = row * (q.more / 8) + t();
    w_at = p.w_offset + row * p.w_strides[0];
    scale_at = row * (GROUP_SHIFT == 4 ? p.x.cols / UNIT_COLUMNS : p.x.cols >> GROUP_SHIFT);
}

bool exists(uint m, uint n) { return m < p.x.rows && n < p.n && n + 4 > first_n; }

// Whether one of four neighbouring results is of a row that float16 parts do not represent.
bool is_flagged(uint m, uint n) {
    int most = a_exponent(m);
    [[unroll]] for (uint c = 0; c < 4; c++) {
        most = max(most, b_exponent(min(n + c, p.n - 1)));
    }
    return most == NOT_FINITE;
}

void load_residual(uint m, uint n) {
    if (RESIDUAL != 0) {
        added = residual_quad(q.residual_offset + m * p.n + n);
    }
}

// Stores four neighbouring results. A residual may be in their place, so with one, flagged results are left to
// store_flagged.
void store_quad(uint m, uint n, vec4 v) {
    if (exists(m, n)) {
        if (SPLITS > 1) {
            sums[((gl_WorkGroupID.z * p.x.rows + m) * p.n + n) / 4] = v; // p.n is a multiple of 4
        } else if (RESIDUAL == 0 || !is_flagged(m, n)) {
            load_residual(m, n);
            store_results(m, n, v);
        }
    }
}

// A row tile's results, through shared memory, so that the code that stores them exists once for each.
void store_tile(uint i) {
    uint from = gl_SubgroupID * 16 * STAGE_PITCH;
    [[unroll]] for (uint pair = 0; pair < W_PAIRS; pair++) {
        vec4 a = acc[i * TILES + 2 * pair], b = acc[i * TILES + 2 * pair + 1];
        work[from + g() * STAGE_PITCH + pair * 4 + t()] = floatBitsToUint(vec4(a.xy, b.xy));
        work[from + (g() + 8) * STAGE_PITCH + pair * 4 + t()] = floatBitsToUint(vec4(a.zw, b.zw));
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[dont_unroll]] for (uint at = gl_SubgroupInvocationID; at < 16 * W_PAIRS * 4; at += 32) {
        uint row = at / (W_PAIRS * 4), quad = at % (W_PAIRS * 4);
        store_quad(m0 + i * 16 + row, n0 + quad * 4, uintBitsToFloat(work[from + row * STAGE_PITCH + quad]));
    }
    subgroupBarrier();
}

void store_tiles() {
    store_tile(0);
    if (ROW_TILES > 1) {
        store_tile(min(1, ROW_TILES - 1));
    }
    if (ROW_TILES > 2) {
        store_tile(min(2, ROW_TILES - 1));
        store_tile(min(3, ROW_TILES - 1));
    }
}

// After store_tiles: each lane has the quads that it had there, and with a residual stores all four of them. Blocks that
// overlap store the same results.
void store_flagged() {
    bool flagged = false;
    for (uint i = gl_SubgroupInvocationID; i < BLOCK_M; i += 32) {
        flagged = flagged || a_flagged(m0 + i);
    }
    for (uint i = gl_SubgroupInvocationID; i < BLOCK_N; i += 32) {
        flagged = flagged || b_flagged(n0 + i);
    }
    if (subgroupAny(flagged)) {
        const uint quads = BLOCK_N / 4;
        [[dont_unroll]] for (uint i = gl_SubgroupInvocationID; i < BLOCK_M * quads; i += 32) {
            uint m = m0 + i / quads, n = n0 + i % quads * 4;
            if (exists(m, n) && is_flagged(m, n)) {
                load_residual(m, n);
                [[dont_unroll]] for (uint c = 0; c < 4; c++) {
                    if (RESIDUAL != 0 || a_flagged(m) || b_flagged(n + c)) {
                        store_plain(m, n + c);
                    }
                }
            }
        }
    }
}

void main() {
    locate();
    uint coded = chunks_of(p.x.cols) * 2; // halves of chunks
    uint first = gl_WorkGroupID.z * q.split_runs * 2;
    bool last = gl_WorkGroupID.z + 1 == SPLITS;
    uint end = last ? coded + q.more / HALF_COLUMNS : first + q.split_runs * 2;
    [[unroll]] for (uint i = 0; i < ROW_TILES * TILES; i++) {
        acc[i] = vec4(0.0);
    }
    fetch_codes(first);
    decode_codes(first);
    fetch_codes(first + 1);
    fetch_x(first * HALF_STEPS);
    [[dont_unroll]] for (uint half_ = first; half_ < end; half_++) {
        barrier();
        if (half_ + 1 < coded) {
            decode_codes(half_ + 1);
            fetch_codes(min(half_ + 2, coded - 1));
        } else if (!SMALL_FLOATS && half_ + 1 < end) {
            copy_more(half_ + 1);
        }
        [[dont_unroll]] for (uint step_ = 0; step_ < HALF_STEPS; step_++) {
            [[unroll]] for (uint k = 0; k < W_PAIRS; k++) {
                w_step[k] = work[weights_at(half_, k, step_)];
            }
            take_x(half_ * HALF_STEPS + step_ + 1); // behind the last step there is room
            multiply();
        }
    }
    barrier();
    store_tiles();
    if (SPLITS == 1) {
        store_flagged();
    }
}

// Where top-k and top-p of sample.comp end, by histograms of the tokens: bins with how many there are in each, and
// their weight at temperature 1, from the best token down. Include it after sample_tokens.glsl.
#ifndef SAMPLE_BINS_GLSL
#define SAMPLE_BINS_GLSL

// A token is kept if there are fewer than `count` tokens before it, from the likeliest on, and their weight is below
// `mass`.
struct Limits {
    uint count;
    uvec2 mass;
};

// The probability to keep, of a total weight, rounded up.
uvec2 mass_of(uvec2 total) {
    uint high, low;
    umulExtended(total.x, chosen.top_p, high, low);
    uvec2 mass = wide_add(wide_mul(uvec2(total.y, 0u), chosen.top_p), uvec2(high, 0u));
    return low == 0u ? mass : wide_add(mass, uvec2(1u, 0u));
}

Limits limits_of(uvec2 total) {
    return Limits(filters_count() ? chosen.top_k : 0xffffffffu, filters_mass() ? mass_of(total) : uvec2(0xffffffffu));
}

bool reaches(uvec3 sum, Limits limits) { return sum.x >= limits.count || !wide_less(sum.yz, limits.mass); }

// Bins in shared memory, three words each: a count and a weight. An unused word follows every eight bins, so that
// threads with eight of them each use different banks.
const uint BIN_WORDS = 3u * SAMPLE_BINS + SAMPLE_BINS / 8u;
const uint FEWER_BINS = 256u, FEWER_WORDS = 3u * FEWER_BINS + FEWER_BINS / 8u;
// The same memory also holds the list, the sums of parts and, after them, FEWER_BINS bins; together they need more than
// BIN_WORDS.
shared uint bins[SAMPLE_LIST_WORDS * SAMPLE_LIST + 3u * SAMPLE_MOST_PARTS + FEWER_WORDS];

uint bin_at(uint from, uint b) { return from + 3u * b + b / 8u; }

uvec3 bin_sum(uint from, uint b) {
    uint at = bin_at(from, b);
    return uvec3(bins[at], bins[at + 1u], bins[at + 2u]);
}

// Adds atomically to a count and a weight.
#define ADD_TO_BIN(array, at, v) \
    if (v.x != 0u) { \
        atomicAdd(array[at], v.x); \
    } \
    if (v.yz != uvec2(0u)) { \
        uint old = atomicAdd(array[(at) + 1u], v.y); \
        uint carried = v.z + uint(old + v.y < old); \
        if (carried != 0u) { \
            atomicAdd(array[(at) + 2u], carried); \
        } \
    }

// A weight as three words of 22 bits, of which sums of up to 1,024 do not carry; and such sums as a weight.
uvec3 words_of(uvec2 v) { return uvec3(v.x & 0x3fffffu, ((v.x >> 22) | (v.y << 10)) & 0x3fffffu, v.y >> 12); }
uvec2 weight_of_words(uvec3 v) { return wide_add(uvec2(v.x, 0u), uvec2(v.y << 22, (v.y >> 10) + (v.z << 12))); }

void clear_bins(uint from, uint words) {
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x) {
        bins[from + i] = 0u;
    }
    barrier();
}

// Adds what the filters go by. Tokens that weigh nothing at any temperature are in no bin.
void add_token(uint key, uint bin) {
    if (key > UNLIKELIEST) {
        uvec3 v = uvec3(uint(filters_count()), filters_mass() ? natural_weight(key) : uvec2(0u));
        uint at = bin_at(0u, bin);
        ADD_TO_BIN(bins, at, v)
    }
}

// Adds up n bins, for find_bin; scanned_all() is their sum.
void scan_bins(uint from, uint n) {
    uint each = n / gl_WorkGroupSize.x;
    uvec3 sum = uvec3(0u);
    barrier();
    [[dont_unroll]] for (uint i = 0u; i < each; i++) {
        sum = plus(sum, bin_sum(from, gl_LocalInvocationID.x * each + i));
    }
    scan(sum);
}

shared uint found_bin; // n if there is none
shared uvec3 found_before;

// Finds the first of n bins with which the sums reach a limit, where `before` is the sum of what precedes the bins, and
// the sum of what precedes that bin.
void find_bin(uint from, uint n, uvec3 before, Limits limits) {
    uint t = gl_LocalInvocationID.x, b = t * (n / gl_WorkGroupSize.x);
    if (t == 0u) {
        found_bin = n;
    }
    barrier();
    uvec3 sum = plus(before, lanes[t]);
    before = plus(before, scanned_before());
    if (!reaches(before, limits) && reaches(sum, limits)) {
        for (sum = plus(before, bin_sum(from, b)); !reaches(sum, limits); sum = plus(before, bin_sum(from, b))) {
            before = sum;
            b++;
        }
        found_bin = b;
        found_before = before;
    }
    barrier();
}

#endif

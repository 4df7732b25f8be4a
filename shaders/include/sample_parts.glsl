// The draw of sample.comp by all parts of a row together. What top-k and top-p keep ends in one bin of a histogram of
// the tokens' distances from the best one. Each part adds up the weights of its tokens before that bin, and lists those
// in it. The last part to arrive knows all of these. Include it after sample_list.glsl.
#ifndef SAMPLE_PARTS_GLSL
#define SAMPLE_PARTS_GLSL

float bins_of_distance; // how many bins of the histogram a unit of natural_exponent() has

// `lowest` is the key of the least likely of the threads' best tokens. The bins span a multiple of its distance, and the
// last bin has everything beyond. The more tokens a thread has, the likelier its best one is, so the larger the multiple.
void set_distances(uint lowest) {
    float distance = float(max(natural_exponent(lowest), 1u)), times = run > AHEAD * gl_WorkGroupSize.x ? 2.5 : 1.5;
    bins_of_distance = float(SAMPLE_BINS) / times / distance;
}

// Different pipelines have to agree about a token's bin, so all of it is precise.
uint bin_of(float distance) { return uint(min(distance, float(SAMPLE_BINS - 1u))); }
float distance_in_bins(uint key) {
    precise float distance = float(natural_exponent(key)) * bins_of_distance;
    return distance;
}
uint distance_bin(uint key) { return bin_of(distance_in_bins(key)); }

// A bin divided into FEWER_BINS: which of these a token of the bin belongs to.
uint place_in_bin(uint key) {
    float distance = distance_in_bins(key);
    precise float place = (distance - float(bin_of(distance))) * float(FEWER_BINS);
    return uint(min(place, float(FEWER_BINS - 1u)));
}

// Adds the part's tokens to the row's histogram.
void add_part() {
    clear_bins(0u, BIN_WORDS);
    EACH_TOKEN(c, key, { add_token(key, distance_bin(key)); })
    barrier();
    [[dont_unroll]] for (uint b = gl_LocalInvocationID.x; b < SAMPLE_BINS; b += threads()) {
        uvec3 v = bin_sum(0u, b);
        uvec4 planes = uvec4(v.x, words_of(v.yz));
        [[unroll]] for (uint i = 0u; i < SAMPLE_PLANES; i++) {
            if (planes[i] != 0u) {
                atomicAdd(scratch[row_words + i * SAMPLE_BINS + b], planes[i]);
            }
        }
    }
}

// Loads the histogram, 8 bins of a thread at once.
void load_histogram() {
    const uint QUADS = SAMPLE_BINS / 4u, AT_ONCE = 2u;
    for (uint first = gl_LocalInvocationID.x; first < QUADS; first += AT_ONCE * gl_WorkGroupSize.x) {
        uvec4 planes[AT_ONCE][SAMPLE_PLANES];
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            [[unroll]] for (uint k = 0u; k < SAMPLE_PLANES; k++) {
                planes[i][k] =
                    scratch_quads[row_words / 4u + k * QUADS + min(first + i * gl_WorkGroupSize.x, QUADS - 1u)];
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u * AT_ONCE; i++) {
            uint c = i % 4u, at = bin_at(0u, 4u * min(first + i / 4u * gl_WorkGroupSize.x, QUADS - 1u) + c);
            uvec3 words = uvec3(planes[i / 4u][1][c], planes[i / 4u][2][c], planes[i / 4u][3][c]);
            uvec3 v = uvec3(planes[i / 4u][0][c], weight_of_words(words));
            bins[at] = v.x, bins[at + 1u] = v.y, bins[at + 2u] = v.z;
        }
    }
}

// The bin in which the tokens that are kept end, and what precedes it; or, if everything is kept, a bin past the last
// one.
struct Bound {
    uint bin;
    uvec3 before;
    Limits limits;
};

Bound find_bound() {
    scan_bins(0u, SAMPLE_BINS);
    Limits limits = limits_of(scanned_all().yz);
    find_bin(0u, SAMPLE_BINS, uvec3(0u), limits);
    return Bound(found_bin, found_before, limits);
}

// Stores the weight of the part's tokens before a bin, and lists those in it. Behind the last bin, that is all tokens.
void weigh_part(uint last_bin) {
    uvec3 sum = uvec3(0u);
    EACH_TOKEN(c, key, {
        uint bin = last_bin == SAMPLE_BINS ? 0u : distance_bin(key);
        if (bin < last_bin) {
            sum.yz = wide_add(sum.yz, weight_at(key));
        } else if (bin == last_bin && key > UNLIKELIEST) {
            list_token(key, c);
        }
    })
    sum = total(sum);
    if (gl_LocalInvocationID.x < 2u) {
        scratch[part_words(part) + SAMPLE_PART_SUM + gl_LocalInvocationID.x] = sum[gl_LocalInvocationID.x + 1u];
    }
}

// Sums of parts in shared memory, after the list.
uint part_at(uint i) { return SAMPLE_LIST_WORDS * SAMPLE_LIST + 3u * i; }
uvec3 part_sum(uint i) { return uvec3(bins[part_at(i)], bins[part_at(i) + 1u], bins[part_at(i) + 2u]); }

void load_part_sums() {
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < p.parts; i += threads()) {
        bins[part_at(i)] = 0u;
        bins[part_at(i) + 1u] = scratch[part_words(i) + SAMPLE_PART_SUM];
        bins[part_at(i) + 2u] = scratch[part_words(i) + SAMPLE_PART_SUM + 1u];
    }
}

shared uint last_key, last_ties;
shared uvec2 last_weight;

// Finds the place in the bin at which the n listed tokens that are kept end. Those with this place are rivals.
void find_place(uint n, Bound bound) {
    clear_bins(RIVALS_FROM, FEWER_WORDS);
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < n; i += threads()) {
        uvec3 v = uvec3(1u, natural_of_listed(i));
        uint at = bin_at(RIVALS_FROM, place_in_bin(listed_token(i).x));
        ADD_TO_BIN(bins, at, v)
    }
    scan_bins(RIVALS_FROM, FEWER_BINS);
    find_bin(RIVALS_FROM, FEWER_BINS, bound.before, bound.limits);
    if (gl_LocalInvocationID.x == 0u) {
        rivals = 0u;
        last_key = 0xffffffffu;
        last_ties = 0u;
    }
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < n; i += threads()) {
        if (place_in_bin(listed_token(i).x) == found_bin) {
            bins[RIVALS_FROM + atomicAdd(rivals, 1u)] = i;
        }
    }
    barrier();
}

// The last of the n listed tokens that is kept. Those that are kept are added to the sums of their parts.
Last add_listed(uint n, Bound bound) {
    find_place(n, bound);
    [[dont_unroll]] for (uint pass = 0u; pass < HIDDEN(2u, p.parts); pass++) {
        [[dont_unroll]] for (uint k = gl_LocalInvocationID.x; k < rivals; k += threads()) {
            uint i = bins[RIVALS_FROM + k], key = listed_token(i).x;
            if ((pass == 1u && key != last_key) || !is_kept(listed_token(i), found_before, bound.limits)) {
                continue;
            }
            if (pass == 0u) {
                atomicMin(last_key, key);
            } else {
                atomicAdd(last_ties, 1u);
                last_weight = listed_weight(i); // the same for all of them
            }
        }
        barrier();
    }
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < n; i += threads()) {
        uvec2 token = listed_token(i);
        if (token.x >= last_key) {
            uvec3 v = token.x == last_key ? uvec3(1u, 0u, 0u) : uvec3(0u, listed_weight(i));
            uint at = part_at(token.y / run);
            ADD_TO_BIN(bins, at, v)
        }
    }
    barrier();
    return Last(last_key, last_ties, last_weight);
}

shared uint drawn_part;
shared uvec3 drawn_before;

// Draws a part, and then one of its tokens.
void draw_part(Last last) {
    uint each = (p.parts + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    uint i = gl_LocalInvocationID.x * each, end = min(p.parts, i + each);
    uvec3 sum = uvec3(0u);
    [[dont_unroll]] for (uint k = i; k < end; k++) {
        sum = plus(sum, part_sum(k));
    }
    sum = scan(sum);
    uvec2 target = random_part(joint_weight(scanned_all(), last));
    uvec3 before = scanned_before();
    if (lies_between(target, before, sum, last)) {
        [[dont_unroll]] for (; i < end; i++) {
            sum = plus(before, part_sum(i));
            if (wide_less(target, joint_weight(sum, last))) {
                break;
            }
            before = sum;
        }
        drawn_part = i;
        drawn_before = before;
    }
    barrier();
    part = drawn_part;
    draw_from_part(last, false, target, drawn_before);
}

// With all parts' sums and lists.
void draw_from_all(Bound bound) {
    uint n = listed();
    if (n > SAMPLE_LIST) {
        draw_alone();
        return;
    }
    load_part_sums();
    load_list(n);
    barrier();
    Last last = NO_LAST;
    if (bound.bin != SAMPLE_BINS) {
        last = add_listed(n, bound);
    }
    draw_part(last);
}

#endif

// The list of sample.comp, and the draw from the list alone, for a small top-k. The k-th of the parts' best tokens is a
// limit: at least k tokens are as likely as it, and those are listed. Include it after sample_bins.glsl.
#ifndef SAMPLE_LIST_GLSL
#define SAMPLE_LIST_GLSL

uint row_words; // the row's scratch memory
uint part_words(uint i) { return row_words + SAMPLE_PARTS_FROM + SAMPLE_PART_WORDS * i; }
uint list_at(uint i) { return row_words + SAMPLE_LIST_FROM + SAMPLE_LIST_WORDS * i; }
uint listed() { return scratch[row_words + SAMPLE_LISTED]; } // too many: more than SAMPLE_LIST

bool is_ahead(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

const uint PART_LISTED = SAMPLE_LIST / 4u; // tokens that a part may list, so that many equal ones do not queue up
shared uint part_listed;                   // zero at first

void list_token(uint key, uint c) {
    uint of_part = atomicAdd(part_listed, 1u);
    if (of_part > PART_LISTED) {
        return;
    }
    // If the part has too many tokens, this makes the list too long, so that it is not used.
    uint i = atomicAdd(scratch[row_words + SAMPLE_LISTED], of_part < PART_LISTED ? 1u : SAMPLE_LIST + 1u);
    if (i >= SAMPLE_LIST || of_part == PART_LISTED) {
        return;
    }
    uvec2 weight = weight_at(key), natural = filters_mass() ? natural_weight(key) : uvec2(0u);
    uint words[SAMPLE_LIST_WORDS] = uint[](key, c, weight.x, weight.y, natural.x, natural.y);
    [[unroll]] for (uint k = 0u; k < SAMPLE_LIST_WORDS; k++) {
        scratch[list_at(i) + k] = words[k];
    }
}

// Reads the list from shared memory, where it takes the place of the bins.
uvec2 list_pair(uint i, uint k) {
    return uvec2(bins[SAMPLE_LIST_WORDS * i + 2u * k], bins[SAMPLE_LIST_WORDS * i + 2u * k + 1u]);
}
uvec2 listed_token(uint i) { return list_pair(i, 0u); }
uvec2 listed_weight(uint i) { return list_pair(i, 1u); }
uvec2 natural_of_listed(uint i) { return list_pair(i, 2u); }

// The first loads do not wait for n.
void load_list(uint n) {
    const uint AT_ONCE = 4u, LAST = SAMPLE_LIST_WORDS * SAMPLE_LIST - 1u;
    uint t = gl_LocalInvocationID.x;
    for (uint first = t; first == t || first < SAMPLE_LIST_WORDS * n; first += AT_ONCE * gl_WorkGroupSize.x) {
        uint words[AT_ONCE];
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            words[i] = scratch[list_at(0u) + min(first + i * gl_WorkGroupSize.x, LAST)];
        }
        [[unroll]] for (uint i = 0u; i < AT_ONCE; i++) {
            bins[min(first + i * gl_WorkGroupSize.x, LAST)] = words[i];
        }
    }
}

// Tokens of the list that compete for the last places, by their numbers in the list, at the end of the shared memory.
const uint RIVALS_FROM = SAMPLE_LIST_WORDS * SAMPLE_LIST + 3u * SAMPLE_MOST_PARTS;
shared uint rivals;

// Whether one of them is kept, where `before` is the sum of the tokens ahead of all of them.
bool is_kept(uvec2 token, uvec3 before, Limits limits) {
    [[dont_unroll]] for (uint first = 0u; first < rivals; first += 4u) {
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            uint i = bins[RIVALS_FROM + min(first + k, rivals - 1u)];
            bool counts = first + k < rivals && is_ahead(listed_token(i), token);
            before = plus(before, counts ? uvec3(1u, natural_of_listed(i)) : uvec3(0u));
        }
    }
    return !reaches(before, limits);
}

uint bests() { return p.parts * p.bests; }
bool lists() { return filters_count() && chosen.top_k <= bests() && bests() <= gl_WorkGroupSize.x; }

shared uint limit; // the key of the last token that is listed

// Finds the limit among the parts' best tokens, of which this thread's is given. Called by all threads together.
void find_limit(uint key) {
    uint t = gl_LocalInvocationID.x, rank = 1u, n = bests();
    barrier();
    bins[t] = t < n ? key : 0u;
    barrier();
    [[dont_unroll]] for (uint first = 0u; first < n; first += 4u) {
        [[unroll]] for (uint i = first; i < first + 4u; i++) {
            rank += uint(bins[i] > key || (bins[i] == key && i < t));
        }
    }
    if (t < n && rank == chosen.top_k) {
        limit = key;
    }
    barrier();
}

// Lists the part's tokens down to the limit, and adds the weight of all.
void list_part() {
    bool weighs = filters_mass();
    uvec3 sum = uvec3(0u);
    EACH_TOKEN(c, key, {
        if (weighs) {
            sum.yz = wide_add(sum.yz, natural_weight(key));
        }
        if (key > UNLIKELIEST && key >= limit) { // others weigh nothing
            list_token(key, c);
        }
    })
    if (weighs) {
        uvec3 words = words_of(total(sum).yz);
        if (gl_LocalInvocationID.x < 3u) {
            atomicAdd(scratch[row_words + SAMPLE_MASS + gl_LocalInvocationID.x], words[gl_LocalInvocationID.x]);
        }
    }
}

// Stores the listed token at which the sum of weights, by index, exceeds the target.
void draw_from_list() {
    uint mass = row_words + SAMPLE_MASS, n = listed();
    if (n > SAMPLE_LIST) {
        draw_alone();
        return;
    }
    Limits limits = limits_of(weight_of_words(uvec3(scratch[mass], scratch[mass + 1u], scratch[mass + 2u])));
    load_list(n);
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        bins[RIVALS_FROM + i] = i;
    }
    rivals = n;
    barrier();
    uvec3 sum = uvec3(0u);
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < n; i += threads()) {
        if (is_kept(listed_token(i), uvec3(0u), limits)) {
            sum.yz = wide_add(sum.yz, listed_weight(i));
        } else {
            bins[SAMPLE_LIST_WORDS * i + 2u] = 0u;
            bins[SAMPLE_LIST_WORDS * i + 3u] = 0u;
        }
    }
    uvec2 target = random_part(total(sum).yz);
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < n; i += threads()) {
        uint own = listed_token(i).y;
        uvec2 before = uvec2(0u);
        [[dont_unroll]] for (uint first = 0u; first < n; first += 4u) {
            [[unroll]] for (uint k = 0u; k < 4u; k++) {
                uint j = min(first + k, n - 1u);
                bool counts = first + k < n && listed_token(j).y < own;
                before = wide_add(before, counts ? listed_weight(j) : uvec2(0u));
            }
        }
        if (!wide_less(target, before) && wide_less(target, wide_add(before, listed_weight(i)))) {
            y[p.out_offset + row] = own;
        }
    }
}

#endif

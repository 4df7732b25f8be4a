// The short way of sample.comp, for a small top-k: at least k tokens are as likely as the best token of the part that
// comes k-th, so those that are as likely are listed, and one workgroup filters and draws. Where too many are, the
// histograms, to which the same tokens were added, find where top-k and top-p end. A part of sample_levels.glsl.
#ifndef SAMPLE_LIST_GLSL
#define SAMPLE_LIST_GLSL

bool lists() { return filters_count() && setting(SAMPLE_TOP_K) <= p.parts && p.parts <= gl_WorkGroupSize.x; }

uvec2 state_mass() { return uvec2(scratch[state + SAMPLE_MASS], scratch[state + SAMPLE_MASS + 1u]); }

uint list_at(uint i) { return hist + SAMPLE_HISTOGRAMS + 2u * i; }

const uint PART_LISTED = SAMPLE_LIST / 4u; // tokens that a part may list, so that many equal ones do not queue up
shared uint part_listed;

void list_token(uint key, uint c) {
    uint of_part = atomicAdd(part_listed, 1u);
    if (of_part > PART_LISTED) {
        return;
    }
    // One more than it may have makes the list too long.
    uint i = atomicAdd(scratch[state + SAMPLE_LISTED], of_part < PART_LISTED ? 1u : SAMPLE_LIST + 1u);
    if (i < SAMPLE_LIST && of_part < PART_LISTED) {
        scratch[list_at(i)] = key;
        scratch[list_at(i) + 1u] = c;
    }
}

// The number of tokens on the list; 0: it is not to be used.
uint listed() {
    uint n = scratch[state + SAMPLE_LISTED];
    return n <= SAMPLE_LIST ? n : 0u;
}

shared uvec2 limit; // the key and index of the last token that is listed

bool is_ahead(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

// Finds the limit among the parts' best tokens, of which this thread's is given. All threads together.
void find_limit(uvec2 own) {
    uint t = gl_LocalInvocationID.x, rank = 1u;
    barrier();
    bins[t] = own.x;
    barrier();
    for (uint i = 0u; i < p.parts; i++) {
        rank += uint(bins[i] > own.x || (bins[i] == own.x && i < t)); // parts are in the order of indices
    }
    if (t < p.parts && rank == setting(SAMPLE_TOP_K)) {
        limit = own;
    }
    barrier();
}

// The list in shared memory: keys, indices, and weights at temperature 1, then those of the tokens that are kept.
uvec2 list_token_of(uint i) { return uvec2(bins[4u * i], bins[4u * i + 1u]); }
uvec2 list_weight(uint i) { return uvec2(bins[4u * i + 2u], bins[4u * i + 3u]); }
uvec2 kept_weight(uint i) { return uvec2(bins[4u * SAMPLE_LIST + 2u * i], bins[4u * SAMPLE_LIST + 2u * i + 1u]); }

// Loads the list, and sets the weights of what the filters keep of it. Returns their sum. All threads together.
uvec2 filter_list(uint n, Scale warm, uint min_p) {
    bool masses = filters_mass();
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        uint key = scratch[list_at(i)];
        uvec2 weight = masses ? weight_at(key, natural(), FARTHEST) : uvec2(0u);
        bins[4u * i] = key;
        bins[4u * i + 1u] = scratch[list_at(i) + 1u];
        bins[4u * i + 2u] = weight.x;
        bins[4u * i + 3u] = weight.y;
    }
    barrier();
    uvec2 mass = masses ? mass_of(state_mass()) : uvec2(0u);
    uvec3 sum = uvec3(0u);
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        uvec2 own = list_token_of(i);
        uvec3 before = uvec3(0u); // the tokens that are likelier, and their weight
        for (uint j = 0u; j < n; j++) {
            if (is_ahead(list_token_of(j), own)) {
                before = plus(before, uvec3(1u, list_weight(j)));
            }
        }
        bool kept = before.x < setting(SAMPLE_TOP_K) && (!masses || wide_less(before.yz, mass));
        uvec2 weight = kept ? weight_at(own.x, warm, min_p) : uvec2(0u);
        bins[4u * SAMPLE_LIST + 2u * i] = weight.x;
        bins[4u * SAMPLE_LIST + 2u * i + 1u] = weight.y;
        sum.yz = wide_add(sum.yz, weight);
    }
    return total(sum).yz;
}

// The token of the list at which the running sum, by index, exceeds the target.
void draw_listed(uint n, uvec2 target) {
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        uint own = list_token_of(i).y;
        uvec2 before = uvec2(0u);
        for (uint j = 0u; j < n; j++) {
            if (list_token_of(j).y < own) {
                before = wide_add(before, kept_weight(j));
            }
        }
        if (!wide_less(target, before) && wide_less(target, wide_add(before, kept_weight(i)))) {
            y[p.out_offset + row] = own;
        }
    }
}

#endif

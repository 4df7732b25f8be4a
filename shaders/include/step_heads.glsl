// Part of attention_step: norms and rotates the heads of the new token, and stores them in shared memory.
#ifndef STEP_HEADS_GLSL
#define STEP_HEADS_GLSL

float first_of[SLOTS], second_of[SLOTS]; // the pairs
float first_gain[SLOTS], second_gain[SLOTS];

// The elements of a pair: rotated together or, beyond p.dims, just neighbours.
uvec2 pair_at(uint slot) {
    bool split = slot < p.dims / 2 && !has(STEP_TRADITIONAL);
    return split ? uvec2(slot, slot + p.dims / 2) : uvec2(2 * slot, 2 * slot + 1);
}

uint pair_slot(uint i) { return thread % TEAM + i * TEAM; }

// job: one of the HEADS query heads, then the key, then the value.
void load_head(uint job) {
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        first_gain[i] = second_gain[i] = 1.0;
        first_of[i] = second_of[i] = 0.0;
        if (pair_slot(i) >= D / 2) {
            continue;
        }
        uvec2 at = pair_at(pair_slot(i));
        if (job < HEADS) {
            uint from = p.q_offset + (first_head + job) * p.q_stride;
            first_of[i] = q_load(from + at.x);
            second_of[i] = q_load(from + at.y);
            if (has(STEP_Q_GAIN)) {
                first_gain[i] = q_gain_load(p.q_gain_offset + at.x);
                second_gain[i] = q_gain_load(p.q_gain_offset + at.y);
            }
        } else if (job == HEADS) {
            uint from = p.k_offset + kv_head * p.k_stride;
            first_of[i] = k_load(from + at.x);
            second_of[i] = k_load(from + at.y);
            if (has(STEP_K_GAIN)) {
                first_gain[i] = k_gain_load(p.k_gain_offset + at.x);
                second_gain[i] = k_gain_load(p.k_gain_offset + at.y);
            }
        } else if (job == HEADS + 1) {
            uint from = p.v_offset + kv_head * p.v_stride;
            first_of[i] = v_load(from + at.x);
            second_of[i] = v_load(from + at.y);
        }
    }
}

// Whether a part of the head is not there yet.
bool head_is_missing(uint job) {
    uint kind = job < HEADS ? 0 : job == HEADS ? 1 : 2;
    bool missing = false;
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        missing = missing || is_missing(kind, first_of[i]) || is_missing(kind, second_of[i]);
    }
    return missing;
}

// 1 / root mean square of the team's head. Called by all threads together.
float head_scale(float eps) {
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        squares += first_of[i] * first_of[i] + second_of[i] * second_of[i];
    }
    squares_s[thread / 4][thread & 3u] = squares;
    barrier();
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0; i < TEAM / 4; i++) {
        sum += squares_s[thread / TEAM * (TEAM / 4) + i];
    }
    return inversesqrt(dot(sum, vec4(1.0)) / float(D) + eps);
}

vec2 rotation(uint slot) {
    if (p.dims == 0) {
        return vec2(0.0, 1.0);
    }
    precise float position = float(has(STEP_DEVICE_POSITION) ? positions[p.position] : p.position) * p.rope_scale;
    float angle = 0.0;
    if (has(STEP_FREQS)) {
        angle = quotient(position, freqs[p.freqs_offset + min(slot, p.dims / 2 - 1) * p.freqs_stride]);
    } else {
        angle = position * inverse_frequency(slot);
    }
    return m_sincos(angle);
}

float as_stored(float v) { return bits_to_float(float_to_bits(v, DT), DT); }

vec2 turns[SLOTS]; // (sin, cos) of the pairs

void find_turns() {
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        turns[i] = rotation(pair_slot(i));
    }
}

void store_head(uint job, float scale) {
    bool is_value = job == HEADS + 1;
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        uint slot = pair_slot(i);
        if (slot >= D / 2 || job > HEADS + 1) {
            continue;
        }
        float a = first_of[i] * scale * first_gain[i];
        float b = second_of[i] * scale * second_gain[i];
        if (slot < p.dims / 2 && !is_value) {
            float turned = a * turns[i].y - b * turns[i].x;
            b = a * turns[i].x + b * turns[i].y;
            a = turned;
        }
        float factor = p.scale * LOG2_E;
        a = job < HEADS ? a * factor : as_stored(a);
        b = job < HEADS ? b * factor : as_stored(b);
        uvec2 at = pair_at(slot);
        heads_s[job * QUADS + at.x / 4][at.x & 3u] = a;
        heads_s[job * QUADS + at.y / 4][at.y & 3u] = b;
    }
}

void prepare_heads() {
    uint job = thread / TEAM;
    find_turns(); // while the heads are loaded
    bool norm = job < HEADS ? has(STEP_Q_NORM) : job == HEADS && has(STEP_K_NORM);
    float scale = head_scale(job < HEADS ? p.q_eps : p.k_eps);
    store_head(job, norm ? scale : 1.0);
    barrier();
}

#endif

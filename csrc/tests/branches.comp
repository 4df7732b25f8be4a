// Control flow of every kind, where specialization constants decide some of it: x[i] becomes what the function of a
// kind returns for it.
#version 450
layout(local_size_x = 32) in;
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint A = 0;
layout(constant_id = 2) const uint B = 0;
layout(set = 0, binding = 0) buffer Data { uint x[]; };

// Returns out of branches and loops.
uint returns(uint v) {
    if (A == 1) {
        return v + 1;
    }
    if (v > 9 && B != 0) {
        return v * 3;
    }
    for (uint i = 0; i < A; i++) {
        if (v == i + 7) {
            if (B == 2) {
                return i;
            }
            v++;
        }
        v += 2;
    }
    return v ^ 0x55;
}

// A switch that is left from within a branch, and one whose value is not constant.
uint switches(uint v) {
    switch (A) {
    case 0:
        v++;
    case 1: // as after 0
        if (v % 3 == B) {
            break;
        }
        v *= 2;
        break;
    case 2:
        if (B == 1) {
            v += 5;
            break;
        }
        v += 9;
        break;
    default:
        v--;
    }
    switch (v % 4) {
    case 0:
        v += A == 2 ? 3 : 4;
        break;
    case 3:
        if (B == 0) {
            break;
        }
        v += 7;
    }
    return v;
}

// Loops that run once, or are left and continued where constants say so.
uint loops(uint v) {
    do {
        v += 5;
        if (v % 3 == 0) {
            continue;
        }
        v ^= 1;
    } while (B == 2 && v < 100);
    for (uint i = 0;; i++) {
        if (A == 0 || i > 20) {
            break;
        }
        v++;
        if (v % 8 == 0) {
            break;
        }
        if (A == 3) {
            continue;
        }
        for (uint k = 0; k < B; k++) {
            if (A == 2) {
                break;
            }
            v += k;
        }
    }
    while (B == 1) {
        v += 2;
        if (A != 1) {
            break;
        }
        if (v > 50) {
            return v;
        }
    }
    return v;
}

// A switch in a loop, which a case continues or leaves.
uint nested(uint v) {
    for (uint i = 0; i < 5; i++) {
        switch (B) {
        case 0:
            if (v % 2 == 0) {
                continue;
            }
            break;
        case 1:
            if (A == 1) {
                return v;
            }
            v += 11;
            continue;
        default:
            v += i;
        }
        if (A > 1 && v > 30) {
            break;
        }
        v = (A == 0 ? v + 1 : v * 2) & 0xff;
    }
    return v;
}

// A loop that runs once and is only continued from within a switch.
uint once(uint v) {
    if (v != 3) {
        do {
            switch (A) {
            case 0:
                if (v > 9) {
                    v += 100;
                    break;
                }
                v += 7;
                continue;
            case 1:
                continue;
            }
            return v;
        } while (B == 3);
        v *= 2;
    }
    return v + 1;
}

void main() {
    uint i = gl_GlobalInvocationID.x, v = x[i];
    switch (KIND) {
    case 0:
        x[i] = returns(v);
        break;
    case 1:
        x[i] = switches(v);
        break;
    case 2:
        x[i] = loops(v);
        break;
    case 3:
        x[i] = nested(v);
        break;
    default:
        x[i] = once(v);
    }
}

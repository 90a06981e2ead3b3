// The loops over the D numbers of one slot, written so that the compiler vectorises them, and dropout from a hash.
#pragma once

#include <cmath>
#include <limits>

#include "product.h"

// Before a loop whose arrays do not overlap, where the compiler cannot know it.
#if defined(__clang__)
#define OM_NO_OVERLAP _Pragma("clang loop vectorize(assume_safety)")
#else
#define OM_NO_OVERLAP _Pragma("GCC ivdep")
#endif

namespace om {

template <class T> inline void copy(T* __restrict to, const T* __restrict from, Index n) {
    std::memcpy(to, from, n * sizeof(T));
}
template <class T> inline void fill_zero(T* to, Index n) { std::memset(to, 0, n * sizeof(T)); }
template <class T> inline bool is_zero(const T* from, Index n) {
    return std::all_of(from, from + n, [](T value) { return value == 0; });
}

template <class T> inline void add(T* __restrict to, const T* __restrict from, Index n) {
    for (Index d = 0; d < n; ++d) to[d] += from[d];
}
template <class T> inline void add_scaled(T* __restrict to, T scale, const T* __restrict from, Index n) {
    for (Index d = 0; d < n; ++d) to[d] += scale * from[d];
}
// torch.lerp; written so that weight 1 gives the end, exactly.
template <class T> inline void lerp(T* __restrict to, const T* start, const T* end, T weight, Index n) {
    const T rest = T(1) - weight;
    for (Index d = 0; d < n; ++d) to[d] = rest * start[d] + weight * end[d];
}

// The argument is clamped: fast arithmetic turns 1 / (1 + infinity) into a number that is none.
template <class T> inline T sigmoid(T z) {
    const T limit = 80;
    z = z < -limit ? -limit : z > limit ? limit : z;
    return T(1) / (T(1) + std::exp(-z));
}

template <class T> struct Moments {
    T mean, scale;  // scale: one over the standard deviation
};
template <class T> inline Moments<T> moments(const T* z, Index n) {
    T sum = 0, squares = 0;
    for (Index d = 0; d < n; ++d) sum += z[d];
    const T mean = sum / n;
    for (Index d = 0; d < n; ++d) squares += (z[d] - mean) * (z[d] - mean);
    return {mean, T(1) / std::sqrt(squares / n + T(1e-5))};
}

// Backward of LayerNorm for one row. `normal` is the row less its mean over its deviation; `grad` is of the output and
// becomes that of the input.
template <class T>
inline void layer_norm_backward(T* __restrict grad, const T* __restrict normal, T scale, const T* __restrict weight,
                                T* __restrict grad_weight, T* __restrict grad_bias, Index n) {
    T sum = 0, product = 0;
    for (Index d = 0; d < n; ++d) {
        const T g = grad[d] * weight[d];
        grad_weight[d] += grad[d] * normal[d];
        grad_bias[d] += grad[d];
        sum += g;
        product += g * normal[d];
    }
    sum /= n, product /= n;
    for (Index d = 0; d < n; ++d) grad[d] = scale * (grad[d] * weight[d] - sum - normal[d] * product);
}

// What a forward pass leaves for backward is most of the memory of training, so float32 is kept in 16 bits, as steps
// between the least and the largest number of a row: gradients are then off by about 1e-5 of the largest at most.
template <class T> using Brief = std::conditional_t<std::is_same_v<T, float>, uint16_t, T>;

template <class T> struct Range {
    T least = 0, step = 1;
};

template <class T> inline Range<T> shorten(Brief<T>* __restrict to, const T* __restrict from, Index n) {
    if constexpr (std::is_same_v<T, Brief<T>>) {
        copy(to, from, n);
        return {};
    } else {
        constexpr T STEPS = 65535;
        T least = from[0], most = from[0];
        for (Index d = 0; d < n; ++d) {
            least = from[d] < least ? from[d] : least;
            most = from[d] > most ? from[d] : most;
        }
        const T step = (most - least) / STEPS, in_steps = most > least ? STEPS / (most - least) : T(0);
        for (Index d = 0; d < n; ++d) to[d] = Brief<T>(int32_t((from[d] - least) * in_steps + T(0.5)));
        return {least, step};
    }
}
template <class T> inline void lengthen(T* __restrict to, const Brief<T>* __restrict from, Range<T> range, Index n) {
    for (Index d = 0; d < n; ++d) to[d] = range.least + range.step * T(from[d]);
}

// Numbers of which many are zero and none is less (a relu gave them): which are more than zero, and those alone.
template <class T> struct Sparse {
    uint64_t* bits;
    Brief<T>* values;
    Range<T> range;

    static Index words(Index n) { return (n + 63) / 64; }

    // Gives how many were written; there must be room for n, here and for the row that is shortened first.
    Index pack(const T* __restrict from, Index n, Brief<T>* __restrict brief) {
        range = shorten(brief, from, n);
        Index count = 0;
        for (Index start = 0; start < n; start += 64) {
            uint64_t word = 0;
            for (Index j = start; j < std::min(start + 64, n); ++j) {
                const bool more = from[j] > 0;
                values[count] = brief[j];
                count += more;
                word |= uint64_t(more) << (j - start);
            }
            bits[start / 64] = word;
        }
        return count;
    }
    void unpack(T* __restrict to, Index n) const {
        const Brief<T>* next = values;
        for (Index start = 0; start < n; start += 64) {
            uint64_t word = bits[start / 64];
            for (Index j = start; j < std::min(start + 64, n); ++j, word >>= 1) {
                // Read in any case, and no branch: nobody can foresee these bits. More than zero it stays.
                const T value = std::max(range.least + range.step * T(*next), std::numeric_limits<T>::min());
                to[j] = word & 1 ? value : T(0);
                next += word & 1;
            }
        }
    }
};

inline uint64_t mix(uint64_t z) {  // the finaliser of splitmix64
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

enum class Site : uint64_t { CELL_INPUT, CELL_HIDDEN, KEY_INPUT, SCORE, POINTER };

// A number from 0 up to but not 1, which depends on these alone: backward, where it computes again, finds the same.
inline double uniform(uint64_t seed, Site site, Index token) {
    return double(mix(mix(seed + uint64_t(site)) + uint64_t(token)) >> 11) / double(uint64_t(1) << 53);
}

// Which units are dropped is a hash of seed, place, token, slot and unit: nothing is stored, backward asks again, and
// threads have no part in it.
template <class T> class Dropout {
    uint32_t limit = 0;
    uint64_t seed = 0;

    static uint32_t hash(uint32_t low, uint32_t high, uint32_t unit) {
        uint32_t h = (unit + low) * 0x9E3779B1u;
        h = (h ^ (h >> 15)) * 0x85EBCA6Bu + high;
        h = (h ^ (h >> 13)) * 0xC2B2AE35u;
        return (h ^ (h >> 16)) >> 8;
    }

public:
    T scale = 1;

    Dropout() = default;
    Dropout(double rate, uint64_t seed_) : limit(uint32_t(rate * (1 << 24))), seed(seed_) {
        scale = rate < 1 ? T(1 / (1 - rate)) : T(0);
    }
    bool on() const { return limit > 0; }

    // Drops the units of n numbers, of which the first is unit number `start`.
    void apply(T* __restrict values, Index n, Site site, Index token, Index slot, Index start = 0) const {
        if (!on()) return;
        const uint64_t key = mix(mix(mix(seed + uint64_t(site)) + uint64_t(token)) + uint64_t(slot));
        const uint32_t low = uint32_t(key) + uint32_t(start), high = uint32_t(key >> 32);
        const int32_t dropped = int32_t(limit);
        const T kept = scale;
        for (int unit = 0; unit < int(n); ++unit)
            values[unit] *= int32_t(hash(low, high, uint32_t(unit))) >= dropped ? kept : T(0);
    }
};

}  // namespace om

// What a call is given: the sizes, the parameters laid out for the products, and where everything goes.
#pragma once

#include "arithmetic.h"

namespace om {

constexpr double MASK_FLOOR = 1e-5;  // as in memory.py

// The C interface; operator.py has its twin. Arrays are contiguous, of the precision of the function called. `tokens`
// counts all tokens of all rows; they lie step by step, longest rows first, as in a PackedSequence.
struct Call {
    Index D, N, rows, steps, tokens;
    const Index* sizes;  // rows at each step
    Index threads;
    Index paper, tree, hard;  // which attention, which cell, which pointer: 0 soft, 1 hard, 2 sampled
    Index keep;               // a tape is wanted: gradients will be asked for
    Index segment;            // steps between the states that are kept, the rest being computed again; 0 keeps all
    Index frozen;             // nobody asks for the gradients of the cell's weights: they stay zero
    double threshold, dropout, attention_dropout;
    uint64_t seed;
    const void *x, *query, *parameters;        // (tokens, D), (tokens, D), all in a row
    const void *M_start, *M_hat_start, *p_start;  // (rows, N, D) twice, (rows, N); or none
    void *output, *M, *M_hat, *p, *pointers;  // (tokens, D) or none, the last state, p at every token or none
    const void *grad_output, *grad_M, *grad_M_hat, *grad_p, *grad_pointers;  // each may be none
    void *grad_x, *grad_query, *grad_parameters, *grad_M_start, *grad_M_hat_start, *grad_p_start;
    Index tape;
};

// Where each parameter lies in the one array that holds them all; gradients lie in the same order.
template <class T> struct Parameters {
    T *norm_weight, *norm_bias;
    T *key_weight, *key_bias, *key_norm_weight, *key_norm_bias;  // the paper's form has only the first
    T *score_weight, *score_bias;
    T *inner_weight, *inner_bias, *outer_weight, *outer_bias;  // the tree-RNN cell has only the first two
    Index size;

    Parameters(T* base, const Call& call) {
        const Index D = call.D;
        T* next = base;
        auto take = [&next](Index n) { return (next += n) - n; };
        norm_weight = take(D), norm_bias = take(D);
        key_weight = take(D * D);
        key_bias = key_norm_weight = key_norm_bias = nullptr;
        if (!call.paper) key_bias = take(D), key_norm_weight = take(D), key_norm_bias = take(D);
        score_weight = take(D), score_bias = take(1);
        outer_weight = outer_bias = nullptr;
        const Index hidden = call.tree ? D : 4 * D;
        inner_weight = take(hidden * 2 * D), inner_bias = take(hidden);
        if (!call.tree) outer_weight = take(hidden * hidden), outer_bias = take(hidden);
        size = next - base;
    }
};

template <class T> struct Model {
    const Call call;
    const Index D, N, hidden;  // hidden: what the cell's first linear map gives, 4D, or D in the tree-RNN cell
    const bool released, gated, hard, sampled;  // hard: one slot has all weight; sampled: which, is drawn
    const T threshold, score_scale;
    const T *x, *query, *grad_output, *grad_pointers;
    const Parameters<const T> at;
    const Dropout<T> cell_dropout, attention_dropout;
    std::vector<Index> offsets;  // of each step's first token
    std::vector<T> zeros;
    // The cell's first map is kept in two halves: the memory's share of all slots is one product, before the chain.
    Panels<T> key, below, memory, outer;                      // forward
    std::vector<T> outer_rows;  // the last one row by row, for rows alone, which skip what relu made zero
    Panels<T> key_back, below_back, memory_back, outer_back;  // backward

    explicit Model(const Call& c, bool backward)
        : call(c), D(c.D), N(c.N), hidden(c.tree ? c.D : 4 * c.D), released(!c.paper), gated(!c.tree),
          hard(c.hard > 0), sampled(c.hard == 2), threshold(T(c.threshold)),
          score_scale(T(1 / std::sqrt(double(c.paper ? c.N : c.D)))),
          x(static_cast<const T*>(c.x)), query(static_cast<const T*>(c.query)),
          grad_output(static_cast<const T*>(c.grad_output)), grad_pointers(static_cast<const T*>(c.grad_pointers)),
          at(static_cast<const T*>(c.parameters), c), cell_dropout(c.dropout, c.seed),
          attention_dropout(c.attention_dropout, c.seed), zeros(c.D, T(0)) {
        Index offset = 0;
        for (Index step = 0; step < c.steps; ++step) offsets.push_back(offset), offset += c.sizes[step];
        key.pack_forward(at.key_weight, D, D, D);  // backward computes keys again: it is cheaper than to keep them
        if (!backward || c.segment > 0) {
            below.pack_forward(at.inner_weight, hidden, D, 2 * D);
            memory.pack_forward(at.inner_weight + D, hidden, D, 2 * D);
            if (gated && c.rows > 1) outer.pack_forward(at.outer_weight, hidden, hidden, hidden);
            if (gated && c.rows == 1) transpose(at.outer_weight);
        }
        if (backward) {
            key_back.pack_backward(at.key_weight, D, D, D);
            below_back.pack_backward(at.inner_weight, hidden, D, 2 * D);
            memory_back.pack_backward(at.inner_weight + D, hidden, D, 2 * D);
            if (gated) outer_back.pack_backward(at.outer_weight, hidden, hidden, hidden);
        }
    }

private:
    void transpose(const T* W) {
        constexpr Index BLOCK = 16;
        outer_rows.resize(hidden * hidden);
        for (Index i = 0; i < hidden; i += BLOCK)
            for (Index j = 0; j < hidden; ++j)
                for (Index row = i; row < std::min(i + BLOCK, hidden); ++row)
                    outer_rows[j * hidden + row] = W[row * hidden + j];
    }
};

}  // namespace om

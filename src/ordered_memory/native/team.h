// Several threads on one row. A row alone is bound by reading the weights, so every thread reads a part of them: each
// does all that is cheap for itself, and of every product its own columns, and then they exchange those.
#pragma once

#include "parallel.h"
#include "tape.h"

namespace om {

// What the threads of a team have in common.
template <class T> struct Team {
    Barrier barrier;
    std::vector<T> exchange[2];  // in turn, so that a fast thread does not write where a slow one still reads
    Index long_waits = 0;        // of the first member
    bool dissolved = false;

    Team(const Model<T>& model, Index threads) : barrier(threads) {
        for (std::vector<T>& buffer : exchange) buffer.resize(model.N * std::max(model.hidden, model.D));
    }
};

// out += sum over k of left[k] * right[k], where many of left are zero, as after a relu: their rows are never read.
template <class T>
void add_sparse(const T* left, Index depth, const T* right, Index stride, T* __restrict out, Index columns) {
    Index full[4];
    Index found = 0;
    for (Index k = 0; k < depth; ++k) {
        if (left[k] == 0) continue;
        full[found++] = k;
        if (found < 4) continue;
        found = 0;
        const T a = left[full[0]], b = left[full[1]], c = left[full[2]], d = left[full[3]];
        const T *A = right + full[0] * stride, *B = right + full[1] * stride;
        const T *C = right + full[2] * stride, *E = right + full[3] * stride;
        for (Index j = 0; j < columns; ++j) out[j] += a * A[j] + b * B[j] + c * C[j] + d * E[j];
    }
    for (Index i = 0; i < found; ++i) add_scaled(out, left[full[i]], right + full[i] * stride, columns);
}

// One thread's hand in the team, or, without a team, just the products.
template <class T> class Member {
    Team<T>* team;
    Index number, turn = 0;

public:
    explicit Member(Team<T>* team_ = nullptr, Index number_ = 0) : team(team_), number(number_) {}
    bool first() const { return number == 0; }

    // Before every step: whether this thread still has a part in it. On a machine that is busy with other work threads
    // wait for each other longer than they compute; then the first goes on alone, for it knows all that there is.
    bool takes_part(Index step) {
        constexpr Index TOO_MANY = 2, WITHIN = 100;
        if (!team) return true;
        if (first()) team->dissolved = team->long_waits > TOO_MANY;
        if (first() && step % WITHIN == 0) team->long_waits = 0;
        team->barrier.wait(number);
        if (!team->dissolved) return true;
        team = nullptr;
        return first();
    }
    void wait() {
        if (team->barrier.wait(number) && first()) ++team->long_waits;
    }

    void multiply(Index rows, const T* left, Index left_stride, const Panels<T>& right, T* out, Index out_stride,
                  Start start, const T* bias = nullptr) {
        if (!team) return om::multiply(rows, left, left_stride, right, out, out_stride, start, bias);
        T* shared = team->exchange[turn ^= 1].data();
        const Index panels = right.count(), from = panels * number / team->barrier.size();
        const Index to = panels * (number + 1) / team->barrier.size();
        const Start here = start == Start::ADD ? Start::ZERO : start;
        if (from < to) om::multiply(rows, left, left_stride, right, shared, right.columns, here, bias, from, to);
        wait();
        for (Index r = 0; r < rows; ++r) {
            const T* from_row = shared + r * right.columns;
            start == Start::ADD ? add(out + r * out_stride, from_row, right.columns)
                                : copy(out + r * out_stride, from_row, right.columns);
        }
    }

    // One row, with zeros in it, times a matrix that lies row by row.
    void multiply_sparse(const T* left, const std::vector<T>& right, Index depth, Index columns, T* out, const T* bias) {
        const Index members = team ? team->barrier.size() : 1, lanes = WIDTH<T>;
        const Index blocks = (columns + lanes - 1) / lanes;
        const Index from = std::min(columns, blocks * number / members * lanes);
        const Index to = std::min(columns, blocks * (number + 1) / members * lanes);
        T* sum = team ? team->exchange[turn ^= 1].data() : out;
        copy(sum + from, bias + from, to - from);
        add_sparse(left, depth, right.data() + from, columns, sum + from, to - from);
        if (!team) return;
        wait();
        copy(out, sum, columns);
    }
};

}  // namespace om

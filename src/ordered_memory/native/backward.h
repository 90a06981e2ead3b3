// The gradient of everything in forward.h, for one thread's rows, from the last step to the first.
#pragma once

#include "forward.h"

namespace om {

template <class T> class Backward {
    const Model<T>& model;
    Share<T>& share;
    const Index D, N, hidden;
    Forward<T> forward;
    Arena keep, scratch;           // for the whole call; emptied at every step
    Arena memories;                // of a few steps, written again
    const Parameters<T> grad;      // this thread's gradients of all parameters
    // Of each row: gradients of M and M_hat after the current step, known and stored for slots from `known` up, zero
    // above them; and that of cp, by the mask of the next step.
    T *grad_M, *grad_M_hat, *grad_cp;
    std::vector<Index> known;
    // Rows that wait to be multiplied into gradients of weights, many at a time.
    static constexpr size_t ENOUGH = DEPTH;
    Arena waiting;
    std::vector<const T*> inputs, units, grad_units, grad_gates, key_inputs, grad_keys;
    OuterProduct<T> outer_product;
    // Of the step at hand: its cells with a gradient (number on the tape, row, slot), where each wave of them begins, and
    // how many of its chain a row has.
    struct Used {
        Index cell, r, slot;
    };
    std::vector<Used> used;
    std::vector<Index> used_wave, chain;

public:
    // Gradients of parameters are added to `total`.
    Backward(const Model<T>& m, Share<T>& s, T* total)
        : model(m), share(s), D(m.D), N(m.N), hidden(m.hidden), forward(m, s), grad(total, m.call),
          known(s.rows.size(), m.N) {
        const Index rows = share.rows.size();
        grad_M = keep.take<T>(rows * N * D), grad_M_hat = keep.take<T>(rows * N * D), grad_cp = keep.take<T>(rows * N);
    }

    void run() {
        const Index steps = share.lengths.empty() ? 0 : share.lengths[0];
        const Index segment = model.call.segment;
        Step<T> given;
        const Step<T>* start = forward.start(given);
        if (!segment) {
            if (steps) write_again(steps - 1);
            for (Index t = steps; t-- > 0;) {
                if (t && forward.keeps_memory(t)) write_again(t - 1);
                retreat(t ? &share.steps[t - 1] : start, share.steps[t], t);
            }
        } else {
            Arena arena;
            std::vector<Step<T>> again;
            for (Index from = (steps - 1) / segment * segment; from >= 0; from -= segment) {
                const Index to = std::min(from + segment, steps);
                const Step<T>* before = from ? &share.steps[from / segment - 1] : start;
                arena.reset();
                forward.again(before, from, to, again, arena);
                for (Index t = to; t-- > from;) retreat(t > from ? &again[t - 1 - from] : before, again[t - from], t);
                flush(1);  // what waits lies partly in the arena
            }
        }
        flush(1);
        if (start) give_back_state();
    }

private:
    T* of_M(Index r, Index slot) { return grad_M + (r * N + slot) * D; }
    T* of_M_hat(Index r, Index slot) { return grad_M_hat + (r * N + slot) * D; }
    T* of_x(Index token) { return static_cast<T*>(model.call.grad_x) + token * D; }

    // The memory of step `last` and of those before it, back to one whose memory the tape has.
    void write_again(Index last) {
        memories.reset();
        Index t = last;
        while (!forward.keeps_memory(t)) --t;
        for (++t; t <= last; ++t)
            for (size_t r = 0; r < share.steps[t].rows.size(); ++r)
                forward.write(share.steps[t - 1].rows[r], share.steps[t].rows[r], memories);
    }

    void retreat(const Step<T>* before, const Step<T>& step, Index t) {
        scratch.reset();
        const Index rows = step.rows.size(), next = share.active(t + 1);
        for (Index r = next; r < rows; ++r) enter(r);
        for (Index r = 0; r < rows; ++r) prepare(step.rows[r], r);
        if (!before) return;
        T* grad_p = scratch.take<T>(rows * N);  // first of cp, then of p
        copy(grad_p, grad_cp, rows * N);
        compose(step, grad_p);
        for (Index r = 0; r < rows; ++r) {
            T* by_rcp = write(before->rows[r], step.rows[r], r);
            point(before->rows[r], step.rows[r], r, t, grad_p + r * N, by_rcp);
        }
        if (!model.hard) score(*before, step, grad_p);
        flush(ENOUGH);
    }

    // A row's last step: its gradient starts with that of the state which was returned.
    void enter(Index r) {
        const Call& call = model.call;
        const Index number = share.rows[r], size = N * D;
        fill_zero(grad_cp + r * N, N);
        known[r] = N;
        if (!call.grad_M && !call.grad_M_hat) return;
        known[r] = 0;
        auto fetch = [&](T* to, const void* from) {
            from ? copy(to, static_cast<const T*>(from) + number * size, size) : fill_zero(to, size);
        };
        fetch(of_M(r, 0), call.grad_M);
        fetch(of_M_hat(r, 0), call.grad_M_hat);
    }

    // Makes gradients known for all stored slots, adds the output's, and gives x those of slots that hold it.
    void prepare(const Row<T>& row, Index r) {
        const Index wanted = std::min({known[r], row.first, row.low, N - 1});
        if (wanted < known[r]) {
            fill_zero(of_M(r, wanted), (known[r] - wanted) * D);
            fill_zero(of_M_hat(r, wanted), (known[r] - wanted) * D);
            known[r] = wanted;
        }
        if (model.grad_output) add(of_M_hat(r, N - 1), model.grad_output + row.token * D, D);
        for (Index slot = known[r]; slot < row.first; ++slot) add(of_x(row.token), of_M_hat(r, slot), D);
    }

    // The cells of a step that have a gradient, in waves. With a soft pointer each of them has: the attention looked at
    // all candidates. With a hard one it gives none, and of a row's chain only what was written or put out counts.
    void find_used(const Step<T>& step) {
        used.clear();
        used_wave.assign(1, 0);
        const Index waves = step.wave.size() - 1;
        chain.assign(step.rows.size(), waves);
        if (model.hard)
            for (size_t r = 0; r < step.rows.size(); ++r) {
                const Index first = step.rows[r].first;
                Index end = N;
                while (end > first && is_zero(of_M_hat(r, end - 1), D)) --end;
                chain[r] = end - first;
            }
        for (Index k = 0; k < waves; ++k) {
            for (Index cell = step.wave[k]; cell < step.wave[k + 1]; ++cell) {
                const Index r = step.order[cell - step.wave[k]];
                if (k < chain[r]) used.push_back({cell, r, step.rows[r].first + k});
            }
            used_wave.push_back(used.size());
        }
    }

    // Eq. 6-7: cells in waves, last first.
    void compose(const Step<T>& step, T* grad_cp_now) {
        if (step.cells() == 0) return;
        find_used(step);
        const Index cells = used.size(), waves = used_wave.size() - 1;
        if (cells == 0) return;
        Arena& rows = model.call.frozen ? scratch : waiting;  // no weight waits for those of a frozen cell
        T* input = rows.take<T>(cells * 2 * D);
        T* grad_hidden = rows.take<T>(cells * hidden);
        T* grad_gate = model.gated ? rows.take<T>(cells * hidden) : grad_hidden;
        T* grad_input = scratch.take<T>(cells * D);
        T* unit = model.gated ? rows.take<T>(cells * hidden) : nullptr;
        for (Index i = 0; unit && i < cells; ++i) step.hidden[used[i].cell].unpack(unit + i * hidden, hidden);
        for (Index k = waves; k-- > 0;) {
            const Index start = used_wave[k], end = used_wave[k + 1];
            for (Index i = start; i < end; ++i) {
                const auto [cell, r, slot] = used[i];
                cell_backward(step, r, slot, cell, grad_gate + i * hidden, grad_cp_now[r * N + slot]);
            }
            if (model.gated) {
                multiply(end - start, grad_gate + start * hidden, hidden, model.outer_back,
                         grad_hidden + start * hidden, hidden, Start::ZERO);
                const T scale = model.cell_dropout.scale;
                const T* __restrict open = unit + start * hidden;
                T* __restrict to = grad_hidden + start * hidden;
                for (Index j = 0; j < (end - start) * hidden; ++j) to[j] *= open[j] > 0 ? scale : T(0);
            }
            multiply(end - start, grad_hidden + start * hidden, hidden, model.below_back, grad_input, D, Start::ZERO);
            for (Index i = start; i < end; ++i) {
                const auto [cell, r, slot] = used[i];
                const Row<T>& row = step.rows[r];
                T* from = grad_input + (i - start) * D;
                model.cell_dropout.apply(from, D, Site::CELL_INPUT, row.token, slot);
                add(slot > row.first ? of_M_hat(r, slot - 1) : of_x(row.token), from, D);
            }
        }
        multiply(cells, grad_hidden, hidden, model.memory_back, grad_input, D, Start::ZERO);
        for (Index i = 0; i < cells; ++i) {
            const auto [cell, r, slot] = used[i];
            const Row<T>& row = step.rows[r];
            T *from = grad_input + i * D, *in = input + i * 2 * D;
            model.cell_dropout.apply(from, D, Site::CELL_INPUT, row.token, slot, D);
            add(of_M(r, slot), from, D);
            if (model.call.frozen) continue;
            copy(in, below(row, slot), D), copy(in + D, forward.memory(row, slot), D);
            model.cell_dropout.apply(in, 2 * D, Site::CELL_INPUT, row.token, slot);
            inputs.push_back(in);
            grad_units.push_back(grad_hidden + i * hidden);
            if (!model.gated) continue;
            units.push_back(unit + i * hidden);
            grad_gates.push_back(grad_gate + i * hidden);
        }
    }

    const T* below(const Row<T>& row, Index slot) const {
        return slot == row.first ? model.x + row.token * D : forward.candidate(row, slot - 1);
    }

    // One cell, from the gradient of its candidate down to its last linear map.
    void cell_backward(const Step<T>& step, Index r, Index slot, Index cell, T* __restrict grad_gate, T& grad_cp_here) {
        const Row<T>& row = step.rows[r];
        const T cp = row.cp[slot], rest = T(1) - cp;
        const Moments<T> m = step.cell_moments[cell];
        const T* x = model.x + row.token * D;
        T* gates = scratch_row(2);
        for (Index gate = 0; gate < hidden / D; ++gate)
            lengthen(gates + gate * D, step.gates + cell * hidden + gate * D,
                     step.gate_ranges[cell * (hidden / D) + gate], D);
        const T* below_here = below(row, slot);
        const T* here = forward.memory(row, slot);
        const T *v = gates, *h = gates + D, *c = gates + 2 * D, *u = gates + 3 * D;
        const T* __restrict candidate = of_M_hat(r, slot);
        T* __restrict normal = scratch_row(0);
        T* __restrict grad_o = scratch_row(1);
        if (model.gated)
            for (Index d = 0; d < D; ++d) normal[d] = (v[d] * below_here[d] + h[d] * here[d] + c[d] * u[d] - m.mean) * m.scale;
        else
            for (Index d = 0; d < D; ++d) normal[d] = (gates[d] - m.mean) * m.scale;
        T* __restrict to_x = of_x(row.token);
        const T *weight = model.at.norm_weight, *bias = model.at.norm_bias;
        T by_cp = 0;
        OM_NO_OVERLAP
        for (Index d = 0; d < D; ++d) {
            const T g = candidate[d];
            by_cp += g * (normal[d] * weight[d] + bias[d] - x[d]);
            to_x[d] += rest * g;
            grad_o[d] = cp * g;
        }
        grad_cp_here += by_cp;
        layer_norm_backward(grad_o, normal, m.scale, weight, grad.norm_weight, grad.norm_bias, D);
        if (!model.gated) {
            for (Index d = 0; d < D; ++d) grad_gate[d] = grad_o[d] * (1 - gates[d] * gates[d]);
            return;
        }
        T* __restrict to_below = slot == row.first ? to_x : of_M_hat(r, slot - 1);
        T* __restrict to_memory = of_M(r, slot);
        OM_NO_OVERLAP
        for (Index d = 0; d < D; ++d) {
            const T g = grad_o[d];
            to_below[d] += g * v[d];
            to_memory[d] += g * h[d];
            grad_gate[d] = g * below_here[d] * v[d] * (1 - v[d]);
            grad_gate[D + d] = g * here[d] * h[d] * (1 - h[d]);
            grad_gate[2 * D + d] = g * u[d] * c[d] * (1 - c[d]);
            grad_gate[3 * D + d] = g * c[d];
        }
    }

    // Eq. 5. From here on the gradients are those of the step before.
    T* write(const Row<T>& was, const Row<T>& row, Index r) {
        T* by_rcp = scratch.take<T>(N);
        fill_zero(by_rcp, N);
        for (Index slot = known[r]; slot < row.low; ++slot) add(of_x(row.previous), of_M(r, slot), D);
        for (Index slot = row.low; slot < N; ++slot) {
            const T rcp = row.rcp[slot], rest = T(1) - rcp;
            const T *M = forward.memory(was, slot), *M_hat = forward.candidate(was, slot);
            T* __restrict to_M = of_M(r, slot);
            T* __restrict to_M_hat = of_M_hat(r, slot);
            T sum = 0;
            OM_NO_OVERLAP
            for (Index d = 0; d < D; ++d) {
                const T g = to_M[d];
                sum += g * (M_hat[d] - M[d]);
                to_M_hat[d] = rcp * g;
                to_M[d] = rest * g;
            }
            by_rcp[slot] = sum;
        }
        known[r] = row.low;
        return by_rcp;
    }

    // Eq. 3-4, 10-11: in `grad_p` comes that of cp and goes that of beta; the mask's goes to the step before.
    void point(const Row<T>& was, const Row<T>& row, Index r, Index t, T* grad_p, const T* by_rcp) {
        T* to_mask = grad_cp + r * N;
        fill_zero(to_mask, N);
        if (model.hard) return;
        const Call& call = model.call;
        const T* of_pointers = model.grad_pointers ? model.grad_pointers + row.token * N : nullptr;
        const bool last = share.lengths[r] == t + 1;
        const T* of_state = last && call.grad_p ? static_cast<const T*>(call.grad_p) + share.rows[r] * N : nullptr;
        T from_above = 0, mean = 0;
        for (Index i = N; i-- > 0;) grad_p[i] = from_above += grad_p[i];
        T from_below = 0;
        for (Index i = 0; i < N; ++i) {
            grad_p[i] += from_below += by_rcp[i];
            if (of_pointers) grad_p[i] += of_pointers[i];
            if (of_state) grad_p[i] += of_state[i];
            mean += row.p[i] * grad_p[i];
        }
        for (Index i = row.reach; i < N; ++i) {
            grad_p[i] = row.p[i] * (grad_p[i] - mean);
            if (i < N - 1) to_mask[i + 1] = grad_p[i] / was.cp[i + 1];
        }
    }

    // Eq. 8-9: from the gradient of beta to the query, the keys and the candidates of the step before. (That of the
    // score's bias stays zero: a softmax does not see what all slots have in common.)
    void score(const Step<T>& before, const Step<T>& step, const T* grad_beta) {
        const Index rows = step.rows.size();
        Index keys = 0;
        for (const Row<T>& row : step.rows) keys += N - row.reach;
        T *input = waiting.take<T>(keys * D), *grad_key = waiting.take<T>(keys * D);
        T *key = scratch.take<T>(keys * D), *grad_input = scratch.take<T>(keys * D);
        forward.keys_of(before, step, input, key);
        for (Index r = 0, number = 0; r < rows; ++r)
            for (Index slot = step.rows[r].reach; slot < N; ++slot, ++number) {
                const T grad_score = grad_beta[r * N + slot] * model.score_scale;
                key_backward(step.rows[r], slot, key + number * D, grad_score, grad_key + number * D);
                key_inputs.push_back(input + number * D);
                grad_keys.push_back(grad_key + number * D);
            }
        multiply(keys, grad_key, D, model.key_back, grad_input, D, Start::ZERO);
        for (Index r = 0; r < rows; ++r)
            for (Index slot = step.rows[r].reach; slot < N; ++slot, grad_input += D) {
                model.attention_dropout.apply(grad_input, D, Site::KEY_INPUT, step.rows[r].token, slot);
                add(of_M_hat(r, slot), grad_input, D);
            }
    }

    void key_backward(const Row<T>& row, Index slot, T* key, T grad_score, T* __restrict grad_key) {
        T* __restrict grad_query = static_cast<T*>(model.call.grad_query) + row.token * D;
        T* __restrict activated = scratch_row(0);
        T* __restrict dropped = scratch_row(1);
        const T scale = forward.activate(key, model.query + row.token * D, activated);
        std::fill(dropped, dropped + D, grad_score);
        model.attention_dropout.apply(dropped, D, Site::SCORE, row.token, slot);
        const T* w = model.at.score_weight;
        const bool released = model.released;
        OM_NO_OVERLAP
        for (Index d = 0; d < D; ++d) {
            const T open = activated[d] > 0 ? T(1) : T(0);
            const T slope = released ? open : 1 - activated[d] * activated[d];
            grad.score_weight[d] += dropped[d] * activated[d];
            grad_key[d] = dropped[d] * w[d] * slope;
            grad_query[d] += dropped[d] * w[d] * slope;
        }
        if (released)
            layer_norm_backward(grad_key, key, scale, model.at.key_norm_weight, grad.key_norm_weight,
                                grad.key_norm_bias, D);
    }

    // Multiplies the waiting rows into the gradients of the weights, once there are enough of them.
    void flush(size_t enough) {
        if (inputs.size() + grad_keys.size() < std::max<size_t>(enough, 1)) return;
        linear_backward(grad_units, hidden, inputs, 2 * D, grad.inner_weight, grad.inner_bias);
        linear_backward(grad_gates, hidden, units, hidden, grad.outer_weight, grad.outer_bias);
        linear_backward(grad_keys, D, key_inputs, D, grad.key_weight, grad.key_bias);
        waiting.reset();
    }
    void linear_backward(std::vector<const T*>& outputs, Index output_size, std::vector<const T*>& from, Index size,
                         T* weight, T* bias) {
        if (!outputs.empty())
            outer_product.add(outputs.size(), outputs.data(), output_size, from.data(), size, weight, size);
        if (bias)
            for (const T* row : outputs) add(bias, row, output_size);
        outputs.clear(), from.clear();
    }

    void give_back_state() {
        const Call& call = model.call;
        for (size_t r = 0; r < share.rows.size(); ++r) {
            const Index number = share.rows[r];
            copy(static_cast<T*>(call.grad_M_start) + number * N * D, of_M(r, 0), N * D);
            copy(static_cast<T*>(call.grad_M_hat_start) + number * N * D, of_M_hat(r, 0), N * D);
            T* grad_p = static_cast<T*>(call.grad_p_start) + number * N;
            T sum = 0;
            for (Index i = N; i-- > 0;) grad_p[i] = sum += grad_cp[r * N + i];
        }
    }

    std::vector<T> rows_of_scratch;
    T* scratch_row(Index number) {
        rows_of_scratch.resize(2 * D + hidden);
        return rows_of_scratch.data() + number * D;
    }
};

}  // namespace om

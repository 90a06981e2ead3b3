// Algorithm 1 for one thread's rows; names and equation numbers are those of memory.py.
#pragma once

#include <numeric>

#include "team.h"

namespace om {

template <class T> class Forward {
    const Model<T>& model;
    Share<T>& share;
    const Index D, N, hidden;
    Member<T> member;
    Arena scratch;      // emptied at every step
    Arena starts;       // cumulative pointer of a given state
    Arena turns[2];     // the states of this step and the one before, where no tape is kept
    Step<T> recent[2];
    std::vector<Brief<T>> brief_row;

public:
    Forward(const Model<T>& m, Share<T>& s, Member<T> hand = Member<T>())
        : model(m), share(s), D(m.D), N(m.N), hidden(m.hidden), member(hand) {}

    // The value of a slot, whether it is stored or not.
    const T* candidate(const Row<T>& row, Index slot) const {
        return slot < row.first ? model.x + row.token * D : row.M_hat + (slot - row.first) * D;
    }
    const T* memory(const Row<T>& row, Index slot) const {
        if (slot >= row.low) return row.M + (slot - row.low) * D;
        return row.previous < 0 ? model.zeros.data() : model.x + row.previous * D;
    }

    // The whole sequence: output, last state and, where asked for, pointers and tape.
    void run() {
        const Call& call = model.call;
        const Index steps = share.lengths.empty() ? 0 : share.lengths[0];
        const Index kept = !call.keep ? 0 : call.segment ? steps / call.segment : steps;
        share.steps.resize(kept);
        Step<T> given;
        const Step<T>* before = start(given);
        for (Index t = 0; t < steps && member.takes_part(t); ++t) {
            const bool whole = call.keep && !call.segment;
            const bool boundary = call.keep && call.segment && (t + 1) % call.segment == 0;
            Step<T>& after = whole ? share.steps[t] : boundary ? share.steps[t / call.segment] : recent[t % 2];
            turns[t % 2].reset();
            Arena& states = whole || boundary ? share.arena : turns[t % 2];
            Arena& memories = whole && !keeps_memory(t) ? turns[t % 2] : states;
            advance(before, after, t, states, memories, whole ? share.arena : scratch);
            if (member.first()) finish(after, t);
            before = &after;
        }
    }

    // Steps from `from` up to `to` again, with everything that backward needs.
    void again(const Step<T>* before, Index from, Index to, std::vector<Step<T>>& steps, Arena& arena) {
        steps.resize(to - from);
        for (Index t = from; t < to; ++t) {
            advance(before, steps[t - from], t, arena, arena, arena);
            before = &steps[t - from];
        }
    }

    // The state that the call was given, as the record of a step before the first; none if it was given none.
    const Step<T>* start(Step<T>& step) {
        const Call& call = model.call;
        if (!call.M_start) return nullptr;
        step.rows.resize(share.rows.size());
        starts.reset();
        T* cp = starts.take<T>(share.rows.size() * N);
        for (size_t r = 0; r < share.rows.size(); ++r, cp += N) {
            Row<T>& row = step.rows[r];
            const Index number = share.rows[r];
            row.M = static_cast<const T*>(call.M_start) + number * N * D;
            row.M_hat = static_cast<const T*>(call.M_hat_start) + number * N * D;
            row.p = static_cast<const T*>(call.p_start) + number * N;
            std::partial_sum(row.p, row.p + N, cp);
            row.cp = cp;
        }
        return &step;
    }

    // The keys of all slots in reach, in one product; `input` is what dropout leaves of the candidates.
    void keys_of(const Step<T>& before, const Step<T>& after, T* input, T* key) {
        Index keys = 0;
        for (size_t r = 0; r < after.rows.size(); ++r)
            for (Index slot = after.rows[r].reach; slot < N; ++slot, ++keys) {
                copy(input + keys * D, candidate(before.rows[r], slot), D);
                model.attention_dropout.apply(input + keys * D, D, Site::KEY_INPUT, after.rows[r].token, slot);
            }
        const Start how = model.released ? Start::BIAS : Start::ZERO;
        member.multiply(keys, input, D, model.key, key, D, how, model.at.key_bias);
    }

    // relu(query + LN(key)), or tanh(query + key). The key is normalised in place; gives its scale.
    T activate(T* __restrict key, const T* __restrict query, T* __restrict activated) const {
        if (model.released) {
            const Moments<T> m = moments(key, D);
            const T *weight = model.at.key_norm_weight, *bias = model.at.key_norm_bias;
            for (Index d = 0; d < D; ++d) {
                key[d] = (key[d] - m.mean) * m.scale;
                const T sum = query[d] + key[d] * weight[d] + bias[d];
                activated[d] = sum > 0 ? sum : T(0);
            }
            return m.scale;
        }
        for (Index d = 0; d < D; ++d) activated[d] = std::tanh(query[d] + key[d]);
        return T(1);
    }

    // A tape keeps the memory of every fourth step only; between them backward writes it again, from the candidates.
    static bool keeps_memory(Index t) { return t % 4 == 0; }

    void write(const Row<T>& was, Row<T>& row, Arena& memories) const {
        T* M = memories.take<T>((N - row.low) * D);
        row.M = M;
        for (Index i = row.low; i < N; ++i, M += D) lerp(M, memory(was, i), candidate(was, i), row.rcp[i], D);
    }

private:
    void advance(const Step<T>* before, Step<T>& after, Index t, Arena& states, Arena& memories, Arena& activations) {
        scratch.reset();
        const Index rows = share.active(t);
        after.rows.assign(rows, Row<T>{});
        after.order.clear(), after.wave.clear();
        for (Index r = 0; r < rows; ++r) after.rows[r].token = model.offsets[t] + share.rows[r];
        if (!before) return first_step(after, states);
        T* beta = score(*before, after);  // eq. 8-9
        for (Index r = 0; r < rows; ++r) {
            point(before->rows[r], after.rows[r], beta + r * N, states);  // eq. 2-4, 10-11
            write(before->rows[r], after.rows[r], memories);             // eq. 5
        }
        arrange(after);
        compose(after, states, activations);  // eq. 6-7
    }

    // The first token fills every candidate and points nowhere.
    void first_step(Step<T>& after, Arena& states) {
        const T* zero = static_cast<const T*>(std::memset(states.take<T>(N), 0, N * sizeof(T)));
        for (Row<T>& row : after.rows) row.first = row.low = N, row.p = row.cp = row.rcp = zero;
    }

    // The score of every slot in reach, for all rows in one product.
    T* score(const Step<T>& before, Step<T>& after) {
        Index keys = 0;
        for (size_t r = 0; r < after.rows.size(); ++r) {
            const Row<T>& was = before.rows[r];
            Row<T>& row = after.rows[r];
            row.reach = 0;
            while (row.reach < N - 1 && was.cp[row.reach + 1] < T(MASK_FLOOR)) ++row.reach;
            row.low = std::min(row.reach, was.first);
            row.previous = was.token;
                keys += N - row.reach;
        }
        T *input = scratch.take<T>(keys * D), *key = scratch.take<T>(keys * D);
        keys_of(before, after, input, key);
        T* beta = scratch.take<T>(after.rows.size() * N);
        T* activated = scratch.take<T>(D);
        for (size_t r = 0; r < after.rows.size(); ++r) {
            const Row<T>& row = after.rows[r];
            for (Index slot = row.reach; slot < N; ++slot, key += D) {
                activate(key, model.query + row.token * D, activated);
                model.attention_dropout.apply(activated, D, Site::SCORE, row.token, slot);
                T sum = *model.at.score_bias;
                for (Index d = 0; d < D; ++d) sum += activated[d] * model.at.score_weight[d];
                beta[r * N + slot] = sum * model.score_scale;
            }
        }
        return beta;
    }

    void point(const Row<T>& was, Row<T>& row, const T* beta, Arena& states) {
        T *p = states.take<T>(N), *cp = states.take<T>(N), *rcp = states.take<T>(N);
        const Index reach = row.reach;
        std::fill(p, p + reach, T(0));
        const T top = *std::max_element(beta + reach, beta + N);
        T sum = 0;
        for (Index i = reach; i < N; ++i) {
            const T mask = i == N - 1 ? T(1) : was.cp[i + 1];
            sum += p[i] = std::exp(beta[i] - top) * mask;
        }
        for (Index i = reach; i < N; ++i) p[i] /= sum;
        if (model.hard) {
            const Index chosen = model.sampled ? draw(p, row) : std::max_element(p, p + N) - p;
            std::fill(p, p + N, T(0));
            p[chosen] = 1;
        }
        std::partial_sum(p, p + N, cp);
        T rest = 0;
        for (Index i = N; i-- > 0;) rcp[i] = rest += p[i];
        row.first = 0;
        while (row.first < N && cp[row.first] < model.threshold) ++row.first;
        row.p = p, row.cp = cp, row.rcp = rcp;
    }

    // A slot, by the weights of those in reach.
    Index draw(const T* p, const Row<T>& row) const {
        double left = uniform(model.call.seed, Site::POINTER, row.token);
        Index last = N - 1;
        for (Index i = row.reach; i < N && left >= 0; ++i) {
            if (p[i] > 0) last = i;  // sums may be a little less than one: then it is the last that has any weight
            left -= p[i];
        }
        return last;
    }

    // Puts the step's cells into waves.
    void arrange(Step<T>& step) {
        auto count = [&](Index r) { return N - step.rows[r].first; };
        step.order.resize(step.rows.size());
        std::iota(step.order.begin(), step.order.end(), 0);
        std::stable_sort(step.order.begin(), step.order.end(), [&](Index a, Index b) { return count(a) > count(b); });
        step.wave.assign(1, 0);
        Index rows = step.order.size();
        for (Index k = 0; k < N; ++k) {
            while (rows > 0 && count(step.order[rows - 1]) <= k) --rows;
            if (rows == 0) break;
            step.wave.push_back(step.wave.back() + rows);
        }
    }

    void compose(Step<T>& step, Arena& states, Arena& activations) {
        const Index cells = step.cells();
        if (cells == 0) return;
        for (Row<T>& row : step.rows) row.M_hat = states.take<T>((N - row.first) * D);
        T* input = scratch.take<T>(cells * D);
        T* units = scratch.take<T>(cells * hidden);
        T* gates = model.gated ? scratch.take<T>(step.wave[1] * hidden) : nullptr;  // of one wave
        Arena* keep = &activations != &scratch ? &activations : nullptr;
        if (keep) {
            step.gates = keep->take<Brief<T>>(cells * hidden);
            step.gate_ranges = keep->take<Range<T>>(cells * hidden / D);
            step.cell_moments = keep->take<Moments<T>>(cells);
            if (model.gated) step.hidden = keep->take<Sparse<T>>(cells);
        }
        const Index waves = step.wave.size() - 1;
        for (Index k = 0; k < waves; ++k)
            for (Index cell = step.wave[k]; cell < step.wave[k + 1]; ++cell) {
                const Row<T>& row = step.rows[step.order[cell - step.wave[k]]];
                copy(input + cell * D, memory(row, row.first + k), D);
                model.cell_dropout.apply(input + cell * D, D, Site::CELL_INPUT, row.token, row.first + k, D);
            }
        member.multiply(cells, input, D, model.memory, units, hidden, Start::BIAS, model.at.inner_bias);
        for (Index k = 0; k < waves; ++k) wave(step, k, input, units, gates, keep);
    }

    // The k-th cell of every row that has so many; hidden units and gates are kept where there is an arena for them.
    void wave(Step<T>& step, Index k, T* input, T* all_units, T* gates, Arena* keep) {
        const Index start = step.wave[k], rows = step.wave[k + 1] - start;
        T* pre = all_units + start * hidden;
        for (Index i = 0; i < rows; ++i) {
            const Row<T>& row = step.rows[step.order[i]];
            const Index slot = row.first + k;
            copy(input + i * D, k ? candidate(row, slot - 1) : model.x + row.token * D, D);
            model.cell_dropout.apply(input + i * D, D, Site::CELL_INPUT, row.token, slot);
        }
        member.multiply(rows, input, D, model.below, pre, hidden, Start::ADD);
        if (model.gated) {
            for (Index i = 0; i < rows; ++i) {
                T* units = pre + i * hidden;
                for (Index d = 0; d < hidden; ++d) units[d] = units[d] > 0 ? units[d] : T(0);
                const Row<T>& row = step.rows[step.order[i]];
                model.cell_dropout.apply(units, hidden, Site::CELL_HIDDEN, row.token, row.first + k);
                if (keep) keep_hidden(step.hidden[start + i], units, *keep);
            }
            const T* bias = model.at.outer_bias;
            if (rows == 1 && !model.outer_rows.empty())
                member.multiply_sparse(pre, model.outer_rows, hidden, hidden, gates, bias);
            else
                member.multiply(rows, pre, hidden, model.outer, gates, hidden, Start::BIAS, bias);
        } else {
            gates = pre;
        }
        for (Index i = 0; i < rows; ++i, gates += hidden) {
            const Row<T>& row = step.rows[step.order[i]];
            const Moments<T> moments = candidate_of(row, row.first + k, gates);
            if (!keep) continue;
            const Index cell = start + i, count = hidden / D;
            step.cell_moments[cell] = moments;
            for (Index gate = 0; gate < count; ++gate)
                step.gate_ranges[cell * count + gate] =
                    shorten(step.gates + cell * hidden + gate * D, gates + gate * D, D);
        }
    }

    void keep_hidden(Sparse<T>& kept, const T* units, Arena& arena) {
        brief_row.resize(hidden);
        kept.bits = arena.take<uint64_t>(Sparse<T>::words(hidden));
        kept.values = arena.take<Brief<T>>(hidden);
        arena.shorten(kept.values, kept.pack(units, hidden, brief_row.data()));
    }

    // Eq. 6-7 of one slot, from the cell's last linear map.
    Moments<T> candidate_of(const Row<T>& row, Index slot, T* __restrict gates) const {
        const T* x = model.x + row.token * D;
        T* __restrict o = const_cast<T*>(row.M_hat) + (slot - row.first) * D;
        if (model.gated) {
            const T* below = slot == row.first ? x : candidate(row, slot - 1);
            const T* here = memory(row, slot);
            const T *v = gates, *h = gates + D, *c = gates + 2 * D, *u = gates + 3 * D;
            for (Index d = 0; d < 3 * D; ++d) gates[d] = sigmoid(gates[d]);
            for (Index d = 0; d < D; ++d) o[d] = v[d] * below[d] + h[d] * here[d] + c[d] * u[d];
        } else {
            for (Index d = 0; d < D; ++d) o[d] = gates[d] = std::tanh(gates[d]);
        }
        const Moments<T> m = moments(o, D);
        const T cp = row.cp[slot], rest = T(1) - cp;
        const T *weight = model.at.norm_weight, *bias = model.at.norm_bias;
        for (Index d = 0; d < D; ++d) o[d] = rest * x[d] + cp * ((o[d] - m.mean) * m.scale * weight[d] + bias[d]);
        return m;
    }

    // What leaves the engine after a step: outputs, pointers, and the state of the rows that end here.
    void finish(const Step<T>& step, Index t) {
        const Call& call = model.call;
        const Index next = share.active(t + 1);
        for (size_t r = 0; r < step.rows.size(); ++r) {
            const Row<T>& row = step.rows[r];
            if (call.output) copy(static_cast<T*>(call.output) + row.token * D, candidate(row, N - 1), D);
            if (call.pointers) copy(static_cast<T*>(call.pointers) + row.token * N, row.p, N);
            if (Index(r) < next) continue;
            const Index number = share.rows[r];
            for (Index slot = 0; slot < N; ++slot) {
                copy(static_cast<T*>(call.M) + (number * N + slot) * D, memory(row, slot), D);
                copy(static_cast<T*>(call.M_hat) + (number * N + slot) * D, candidate(row, slot), D);
            }
            copy(static_cast<T*>(call.p) + number * N, row.p, N);
        }
    }
};

}  // namespace om

// The gated cell along given trees: no pointer, no memory, one table of nodes that fills up step by step. Nodes of one
// step do not depend on each other, so that each step is two products; the weights' gradients are one product each, at
// the end, over all nodes.
#pragma once

#include "arithmetic.h"
#include "parallel.h"

namespace om {

// The C interface; composition.py has its twin. Nodes are numbered on from the last leaf, and a node's children have
// lower numbers, from earlier steps.
struct Composition {
    Index D, leaves, nodes, steps;
    const Index* ends;                // (steps): how many nodes there are once each step is done
    const Index *below, *memory;      // (nodes): the children's rows of the table
    Index threads;
    double dropout;
    uint64_t seed;
    const void* parameters;           // of the norm and of the cell, all in a row
    void* table;                      // (leaves + nodes, D): comes with the leaves in it
    void *hidden, *gates, *moments;   // (nodes, 4D) twice, (nodes, 2): for backward; or none
    void *grad_table, *grad_parameters;  // of all nodes, added to on the way down; comes full of zeros
};

// The part of a composition that one thread does: a share of each step's nodes.
template <class T> class Composer {
    const Composition& call;
    const Index D, hidden;
    Barrier& barrier;
    const Index number;
    const Dropout<T> dropout;
    T* const table;
    const Index *const below, *const memory;

public:
    struct Weights {
        const T *norm_weight, *norm_bias, *inner, *inner_bias, *outer, *outer_bias;
        Panels<T> inner_panels, outer_panels;

        Weights(const Composition& call, bool backward) {
            const Index D = call.D, hidden = 4 * D;
            const T* next = static_cast<const T*>(call.parameters);
            auto take = [&next](Index n) { return (next += n) - n; };
            norm_weight = take(D), norm_bias = take(D);
            inner = take(hidden * 2 * D), inner_bias = take(hidden);
            outer = take(hidden * hidden), outer_bias = take(hidden);
            if (backward) {
                inner_panels.pack_backward(inner, hidden, 2 * D, 2 * D);
                outer_panels.pack_backward(outer, hidden, hidden, hidden);
            } else {
                inner_panels.pack_forward(inner, hidden, 2 * D, 2 * D);
                outer_panels.pack_forward(outer, hidden, hidden, hidden);
            }
        }
    };
    // What backward's threads share: rows of all nodes, and of one step the gradients of both children.
    struct Gradients {
        std::vector<T> inputs, units, children;

        explicit Gradients(const Composition& call)
            : inputs(call.nodes * 2 * call.D), units(call.nodes * 4 * call.D), children(widest(call) * 2 * call.D) {}
    };

    Composer(const Composition& c, const Weights& w, Barrier& b, Index n)
        : call(c), D(c.D), hidden(4 * c.D), barrier(b), number(n), dropout(c.dropout, c.seed),
          table(static_cast<T*>(c.table)), below(c.below), memory(c.memory), weights(w) {}

    static Index widest(const Composition& call) {
        Index most = 0;
        for (Index step = 0; step < call.steps; ++step) most = std::max(most, size(call, step));
        return most;
    }

    void forward() {
        const bool keep = call.hidden;
        const Index room = share_of(widest(call)) + 1;
        std::vector<T> inputs(room * 2 * D), units(keep ? 0 : room * hidden), gates(keep ? 0 : room * hidden);
        for (Index step = 0; step < call.steps; ++step) {
            const auto [first, rows] = mine(step);
            T* unit = keep ? static_cast<T*>(call.hidden) + first * hidden : units.data();
            T* gate = keep ? static_cast<T*>(call.gates) + first * hidden : gates.data();
            for (Index i = 0; i < rows; ++i) gather(first + i, inputs.data() + i * 2 * D);
            multiply(rows, inputs.data(), 2 * D, weights.inner_panels, unit, hidden, Start::BIAS, weights.inner_bias);
            for (Index i = 0; i < rows; ++i) {
                T* __restrict row = unit + i * hidden;
                for (Index d = 0; d < hidden; ++d) row[d] = row[d] > 0 ? row[d] : T(0);
                dropout.apply(row, hidden, Site::CELL_HIDDEN, first + i, 0);
            }
            multiply(rows, unit, hidden, weights.outer_panels, gate, hidden, Start::BIAS, weights.outer_bias);
            for (Index i = 0; i < rows; ++i) {
                T* __restrict row = gate + i * hidden;
                for (Index d = 0; d < 3 * D; ++d) row[d] = sigmoid(row[d]);
                T* __restrict o = at(call.leaves + first + i);
                mix_children(first + i, row, o);
                const Moments<T> m = moments(o, D);
                for (Index d = 0; d < D; ++d)
                    o[d] = (o[d] - m.mean) * m.scale * weights.norm_weight[d] + weights.norm_bias[d];
                if (keep) static_cast<Moments<T>*>(call.moments)[first + i] = m;
            }
            barrier.wait(number);
        }
    }

    void backward(Gradients& all, T* grad_norm_weight, T* grad_norm_bias) {
        std::vector<T> normal(D);
        T* const hidden_units = static_cast<T*>(call.hidden);
        T* const all_gates = static_cast<T*>(call.gates);  // become their gradients
        for (Index step = call.steps; step-- > 0;) {
            const auto [first, rows] = mine(step);
            T* children = all.children.data() + (first - begin(step)) * 2 * D;
            for (Index i = 0; i < rows; ++i) {
                const Index node = first + i;
                T* gates = all_gates + node * hidden;
                T* grad = static_cast<T*>(call.grad_table) + (call.leaves + node) * D;
                const Moments<T> m = static_cast<Moments<T>*>(call.moments)[node];
                mix_children(node, gates, normal.data());
                for (Index d = 0; d < D; ++d) normal[d] = (normal[d] - m.mean) * m.scale;
                layer_norm_backward(grad, normal.data(), m.scale, weights.norm_weight, grad_norm_weight,
                                    grad_norm_bias, D);
                unmix(node, grad, gates, children + i * 2 * D);
                gather(node, all.inputs.data() + node * 2 * D);
            }
            T* grad_units = all.units.data() + first * hidden;
            multiply(rows, all_gates + first * hidden, hidden, weights.outer_panels, grad_units, hidden, Start::ZERO);
            for (Index i = 0; i < rows * hidden; ++i)  // what relu or dropout made zero has no gradient
                grad_units[i] *= hidden_units[first * hidden + i] > 0 ? dropout.scale : T(0);
            to_children(first, rows, grad_units, children);
            barrier.wait(number);
            scatter(step, all.children.data());
            barrier.wait(number);
        }
    }

    // Its share of the rows of the weights' gradients.
    void of_weights(const Gradients& all, T* grad) const {
        T *inner = grad + 2 * D, *inner_bias = inner + hidden * 2 * D;
        T *outer = inner_bias + hidden, *outer_bias = outer + hidden * hidden;
        const Index first = hidden * number / barrier.size(), last = hidden * (number + 1) / barrier.size();
        OuterProduct<T> product;
        auto linear = [&](const T* outputs, const T* inputs, Index width, T* weight, T* bias) {
            std::vector<const T*> left(call.nodes), right(call.nodes);
            for (Index node = 0; node < call.nodes; ++node) {
                left[node] = outputs + node * hidden + first, right[node] = inputs + node * width;
                add(bias + first, left[node], last - first);
            }
            product.add(call.nodes, left.data(), last - first, right.data(), width, weight + first * width, width);
        };
        linear(all.units.data(), all.inputs.data(), 2 * D, inner, inner_bias);
        linear(static_cast<T*>(call.gates), static_cast<T*>(call.hidden), hidden, outer, outer_bias);
    }

private:
    const Weights& weights;

    T* at(Index row) const { return table + row * D; }
    Index begin(Index step) const { return step ? call.ends[step - 1] : 0; }
    static Index size(const Composition& call, Index step) {
        return call.ends[step] - (step ? call.ends[step - 1] : 0);
    }
    Index share_of(Index nodes) const { return (nodes + barrier.size() - 1) / barrier.size(); }
    // The first of its nodes in a step, and how many they are.
    std::pair<Index, Index> mine(Index step) const {
        const Index nodes = size(call, step), threads = barrier.size();
        const Index from = nodes * number / threads, to = nodes * (number + 1) / threads;
        return {begin(step) + from, to - from};
    }

    // What the cell reads: both children, less what dropout takes.
    void gather(Index node, T* to) const {
        copy(to, at(below[node]), D), copy(to + D, at(memory[node]), D);
        dropout.apply(to, 2 * D, Site::CELL_INPUT, node, 0);
    }

    // Eq. 13, before its norm.
    void mix_children(Index node, const T* __restrict gates, T* __restrict o) const {
        const T *__restrict one = at(below[node]), *__restrict other = at(memory[node]);
        const T *v = gates, *h = gates + D, *c = gates + 2 * D, *u = gates + 3 * D;
        for (Index d = 0; d < D; ++d) o[d] = v[d] * one[d] + h[d] * other[d] + c[d] * u[d];
    }

    // Turns gates into gradients of what they were made of, and gives the children what comes through the gates.
    void unmix(Index node, const T* __restrict grad, T* __restrict gates, T* __restrict children) const {
        const T *__restrict one = at(below[node]), *__restrict other = at(memory[node]);
        OM_NO_OVERLAP
        for (Index d = 0; d < D; ++d) {
            const T v = gates[d], h = gates[D + d], c = gates[2 * D + d], u = gates[3 * D + d];
            children[d] = grad[d] * v, children[D + d] = grad[d] * h;
            gates[d] = grad[d] * one[d] * v * (1 - v);
            gates[D + d] = grad[d] * other[d] * h * (1 - h);
            gates[2 * D + d] = grad[d] * u * c * (1 - c);
            gates[3 * D + d] = grad[d] * c;
        }
    }

    // Adds what comes through the cell's first map.
    void to_children(Index first, Index rows, const T* grad_units, T* children) const {
        if (!dropout.on()) return multiply(rows, grad_units, hidden, weights.inner_panels, children, 2 * D, Start::ADD);
        std::vector<T> through(rows * 2 * D);
        multiply(rows, grad_units, hidden, weights.inner_panels, through.data(), 2 * D, Start::ZERO);
        for (Index i = 0; i < rows; ++i) dropout.apply(through.data() + i * 2 * D, 2 * D, Site::CELL_INPUT, first + i, 0);
        add(children, through.data(), rows * 2 * D);
    }

    // Adds a step's gradients to the children's. Several nodes may share a child, so that threads take columns.
    void scatter(Index step, const T* children) const {
        const Index from = D * number / barrier.size(), to = D * (number + 1) / barrier.size();
        T* grad = static_cast<T*>(call.grad_table);
        for (Index node = begin(step); node < call.ends[step]; ++node, children += 2 * D) {
            add(grad + below[node] * D + from, children + from, to - from);
            add(grad + memory[node] * D + from, children + D + from, to - from);
        }
    }
};

// Threads beyond one for some dozen nodes a step would only wait for each other.
inline Index threads_of(const Composition& call) {
    const Index useful = call.steps ? call.nodes / call.steps / 16 : 0;
    return std::max<Index>(1, std::min(call.threads, useful));
}

// Task, for every thread, with the barrier that they share; one that fails lets the others go.
template <class Task> void in_step(Index threads, const Task& task) {
    Barrier barrier(threads);
    in_parallel(threads, [&](Index number) {
        try {
            task(barrier, number);
        } catch (...) {
            barrier.leave();
            throw;
        }
    });
}

template <class T> void compose(const Composition& call) {
    const typename Composer<T>::Weights weights(call, false);
    in_step(threads_of(call), [&](Barrier& barrier, Index i) { Composer<T>(call, weights, barrier, i).forward(); });
}

template <class T> void compose_backward(const Composition& call) {
    const typename Composer<T>::Weights weights(call, true);
    typename Composer<T>::Gradients all(call);
    T* grad = static_cast<T*>(call.grad_parameters);
    const Index threads = threads_of(call), D = call.D;
    std::vector<T> norms(threads * 2 * D, T(0));
    in_step(threads, [&](Barrier& barrier, Index i) {
        Composer<T> composer(call, weights, barrier, i);
        composer.backward(all, norms.data() + i * 2 * D, norms.data() + i * 2 * D + D);
        composer.of_weights(all, grad);
    });
    for (Index i = 0; i < threads; ++i) add(grad, norms.data() + i * 2 * D, 2 * D);
}

}  // namespace om

// The native engine of Ordered Memory: the mathematics of memory.py, fast. This file is its C interface; operator.py
// calls it. Threads take rows of the batch for the whole sequence, forward and backward, and never wait for each other.
#include <map>

#include "backward.h"
#include "composition.h"

namespace om {

// Tapes wait here, by number, between forward and backward. A number that is not here is an error, never a crash.
template <class T> class Tapes {
    std::mutex mutex;
    std::map<Index, std::shared_ptr<Tape<T>>> tapes;
    Index last = 0;

public:
    static Tapes& get() {
        static Tapes* all = new Tapes;
        return *all;
    }
    Index add(std::shared_ptr<Tape<T>> tape) {
        std::lock_guard<std::mutex> lock(mutex);
        tapes[++last] = std::move(tape);
        return last;
    }
    std::shared_ptr<Tape<T>> find(Index number) {
        std::lock_guard<std::mutex> lock(mutex);
        auto found = tapes.find(number);
        if (found == tapes.end()) throw std::runtime_error("the record of the forward pass is gone");
        return found->second;
    }
    void remove(Index number) {
        std::shared_ptr<Tape<T>> tape;  // destroyed outside the lock
        std::lock_guard<std::mutex> lock(mutex);
        auto found = tapes.find(number);
        if (found != tapes.end()) tape = std::move(found->second), tapes.erase(found);
    }
};

// All threads on one row; the first one's tape is kept.
template <class T> Index one_row(const Model<T>& model) {
    const Call& call = model.call;
    Team<T> team(model, call.threads);
    std::vector<std::shared_ptr<Tape<T>>> tapes;
    for (Index i = 0; i < call.threads; ++i) tapes.push_back(std::make_shared<Tape<T>>(call, 1));
    in_parallel(call.threads, [&](Index i) {
        try {
            Forward<T>(model, *tapes[i]->shares[0], Member<T>(&team, i)).run();
        } catch (...) {
            team.barrier.leave();
            throw;
        }
    });
    return call.keep ? Tapes<T>::get().add(std::move(tapes[0])) : 0;
}

template <class T> Index forward(const Call& call) {
    const Model<T> model(call, false);
    const Index threads = std::max<Index>(1, std::min(call.threads, call.rows));
    if (call.rows == 1 && call.threads > 1) return one_row(model);
    auto tape = std::make_shared<Tape<T>>(call, threads);
    in_parallel(threads, [&](Index i) { Forward<T>(model, *tape->shares[i]).run(); });
    return call.keep ? Tapes<T>::get().add(std::move(tape)) : 0;
}

template <class T> void backward(const Call& call) {
    const Model<T> model(call, true);
    const std::shared_ptr<Tape<T>> tape = Tapes<T>::get().find(call.tape);
    const Index threads = tape->shares.size();
    T* sum = static_cast<T*>(call.grad_parameters);  // comes full of zeros; the first thread's goes there straight
    std::vector<std::vector<T>> totals(threads);
    in_parallel(threads, [&](Index i) {
        if (i > 0) totals[i].assign(model.at.size, T(0));
        Backward<T>(model, *tape->shares[i], i > 0 ? totals[i].data() : sum).run();
    });
    for (Index i = 1; i < threads; ++i) add(sum, totals[i].data(), totals[i].size());
}

thread_local std::string message;

template <class Task> int guarded(const Task& task) {
    try {
        task();
        return 0;
    } catch (const std::exception& error) {
        message = error.what();
        return 1;
    }
}

}  // namespace om

extern "C" {
// Each gives 0, or 1 when om_error() says what went wrong.
int om_forward_float(const om::Call* call, om::Index* tape) {
    return om::guarded([&] { *tape = om::forward<float>(*call); });
}
int om_forward_double(const om::Call* call, om::Index* tape) {
    return om::guarded([&] { *tape = om::forward<double>(*call); });
}
int om_backward_float(const om::Call* call) {
    return om::guarded([&] { om::backward<float>(*call); });
}
int om_backward_double(const om::Call* call) {
    return om::guarded([&] { om::backward<double>(*call); });
}
int om_compose_float(const om::Composition* call) {
    return om::guarded([&] { om::compose<float>(*call); });
}
int om_compose_double(const om::Composition* call) {
    return om::guarded([&] { om::compose<double>(*call); });
}
int om_compose_backward_float(const om::Composition* call) {
    return om::guarded([&] { om::compose_backward<float>(*call); });
}
int om_compose_backward_double(const om::Composition* call) {
    return om::guarded([&] { om::compose_backward<double>(*call); });
}
void om_forget_float(om::Index tape) { om::Tapes<float>::get().remove(tape); }
void om_forget_double(om::Index tape) { om::Tapes<double>::get().remove(tape); }
const char* om_error() { return om::message.c_str(); }
void om_release() { om::Pool::get().release(); }
om::Index om_pooled() { return om::Index(om::Pool::get().held()); }
// For tests: multiplies n numbers by what dropout makes of them.
void om_drop(double* values, om::Index n, double rate, uint64_t seed, om::Index site, om::Index token, om::Index slot) {
    om::Dropout<double>(rate, seed).apply(values, n, om::Site(site), token, slot);
}
void om_poison(int on) { om::Pool::get().poison = on; }
om::Index om_call_size() { return sizeof(om::Call); }
om::Index om_composition_size() { return sizeof(om::Composition); }
}

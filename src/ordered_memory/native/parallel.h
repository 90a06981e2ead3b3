// Threads that run side by side, and how they wait for each other.
#pragma once

#include <atomic>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

#include "product.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace om {

// Numbers too small to be normal cost a hundred times the others, and are zero for every purpose here.
class FlushDenormals {
#if defined(__SSE__)
    unsigned before = _mm_getcsr();

public:
    FlushDenormals() { _mm_setcsr(before | 0x8040); }
    ~FlushDenormals() { _mm_setcsr(before); }
#endif
};

// Runs task(0) ... task(count - 1), each on a thread of its own; the first is this one.
template <class Task> void in_parallel(Index count, const Task& task) {
    std::vector<std::exception_ptr> errors(count);
    auto guarded = [&](Index number) {
        try {
            FlushDenormals flush;
            task(number);
        } catch (...) {
            errors[number] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    for (Index number = 1; number < count; ++number) threads.emplace_back(guarded, number);
    guarded(0);
    for (std::thread& thread : threads) thread.join();
    for (std::exception_ptr& error : errors)
        if (error) std::rethrow_exception(error);
}

// Threads wait for each other by looking, not by sleeping: there are two waits for each cell, a few microseconds apart.
// Each counts its arrivals where the others see them, every count in a cache line of its own.
class Barrier {
    struct alignas(128) Arrivals {
        std::atomic<Index> count{0};
    };
    std::vector<Arrivals> arrivals;
    std::atomic<bool> broken{false};

public:
    static constexpr Index PATIENCE = 20000;  // looks, which is some hundred microseconds: the other is not running

    explicit Barrier(Index threads) : arrivals(threads) {}
    Index size() const { return arrivals.size(); }
    void leave() { broken.store(true); }  // by a thread that failed, so that the others do not wait for ever

    // Gives whether somebody was waited for unduly long.
    bool wait(Index number) {
        const Index mine = arrivals[number].count.load(std::memory_order_relaxed) + 1;
        arrivals[number].count.store(mine, std::memory_order_release);
        Index looks = 0;
        for (const Arrivals& other : arrivals)
            while (other.count.load(std::memory_order_acquire) < mine) {
                if (broken.load(std::memory_order_relaxed)) throw std::runtime_error("another thread failed");
                if (++looks > PATIENCE) std::this_thread::yield();
#if defined(__SSE__)
                else _mm_pause();
#endif
            }
        return looks > PATIENCE;
    }
};

}  // namespace om

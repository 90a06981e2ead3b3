// Memory that is used again and again, and the record of each step.
#pragma once

#include <cstdlib>
#include <memory>
#include <mutex>

#include "model.h"

namespace om {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool CHECKED = true;  // every piece of memory is a block of its own, so that steps over its edge are seen
#else
constexpr bool CHECKED = false;
#endif

// Blocks given back by arenas wait here for the next call: fresh pages from the system cost more than the arithmetic.
class Pool {
    struct Block {
        char* data;
        size_t size;
    };
    std::mutex mutex;
    std::vector<Block> free_blocks;

public:
    static constexpr size_t BLOCK = CHECKED ? 1 : size_t(4) << 20;
    bool poison = false;  // for tests: memory comes filled with NaN

    static Pool& get() {
        static Pool* pool = new Pool;  // never destroyed: tapes may outlive everything else at exit
        return *pool;
    }
    std::pair<char*, size_t> take(size_t wanted) {
        const size_t size = (wanted + BLOCK - 1) / BLOCK * BLOCK;
        std::pair<char*, size_t> block{nullptr, size};
        {
            std::lock_guard<std::mutex> lock(mutex);
            for (size_t i = free_blocks.size(); i-- > 0;)
                if (free_blocks[i].size == size) {
                    block.first = free_blocks[i].data;
                    free_blocks.erase(free_blocks.begin() + i);
                    break;
                }
        }
        if (!block.first) block.first = static_cast<char*>(allocate(size));
        if (!block.first) throw std::bad_alloc();
        if (poison) std::memset(block.first, 0xFF, size);  // all bits set is a NaN in both precisions
        return block;
    }
    static void* allocate(size_t size) { return CHECKED ? std::malloc(size) : std::aligned_alloc(64, size); }
    void give_back(char* data, size_t size) {
        std::lock_guard<std::mutex> lock(mutex);
        free_blocks.push_back({data, size});
    }
    void release() {
        std::lock_guard<std::mutex> lock(mutex);
        for (Block& block : free_blocks) std::free(block.data);
        free_blocks.clear();
    }
    size_t held() {
        std::lock_guard<std::mutex> lock(mutex);
        size_t total = 0;
        for (Block& block : free_blocks) total += block.size;
        return total;
    }
};

// Memory taken piece by piece and given back all at once.
class Arena {
    std::vector<std::pair<char*, size_t>> blocks;
    size_t block = 0, used = 0;

public:
    Arena() = default;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena() {
        for (auto& [data, size] : blocks) Pool::get().give_back(data, size);
    }
    void reset() { block = used = 0; }
    size_t bytes() const {
        size_t total = 0;
        for (auto& [data, size] : blocks) total += size;
        return total;
    }

    template <class T> T* take(Index count) {
        const size_t bytes = std::max<size_t>(count * sizeof(T), 1), wanted = CHECKED ? bytes : (bytes + 63) / 64 * 64;
        while (block < blocks.size() && used + wanted > blocks[block].second) ++block, used = 0;
        if (block == blocks.size()) blocks.push_back(Pool::get().take(wanted)), used = 0;
        char* piece = blocks[block].first + used;
        used = CHECKED ? blocks[block].second : used + wanted;
        return reinterpret_cast<T*>(piece);
    }
    // Gives back the end of the last piece, of which only `count` are used.
    template <class T> void shorten(T* piece, Index count) {
        if (!CHECKED) used = reinterpret_cast<char*>(piece) - blocks[block].first + (count * sizeof(T) + 63) / 64 * 64;
    }
};

// One row after one step. Slots that nothing has reached are not stored: candidates under `first` are the token
// itself, memory under `low` is the token before it. (Their pointer is zero, so that rcp there is one: eq. 5.)
template <class T> struct Row {
    Index first = 0, low = 0;
    Index token = -1;     // of x, and of what candidates under `first` hold
    Index previous = -1;  // token that memory under `low` holds; -1: zero
    Index reach = 0;      // first slot that the pointer could choose
    const T *M = nullptr, *M_hat = nullptr;  // (N - low, D), (N - first, D)
    const T *p = nullptr, *cp = nullptr, *rcp = nullptr;  // (N) each
};

// All of a thread's rows after one step, and what backward needs of it.
template <class T> struct Step {
    std::vector<Row<T>> rows;
    // Cells are computed in waves: the first cell of every row, then the second, and so on, with the rows that have
    // most cells first. Wave k has the first (wave[k + 1] - wave[k]) rows of `order`.
    std::vector<Index> order, wave;
    Sparse<T>* hidden = nullptr;         // (cells) of 4D, after relu and dropout
    Brief<T>* gates = nullptr;           // (cells, 4D), or D in the tree-RNN cell, after activation
    Range<T>* gate_ranges = nullptr;     // (cells, 4), or 1: each gate's own
    Moments<T>* cell_moments = nullptr;  // (cells)

    Index cells() const { return wave.empty() ? 0 : wave.back(); }
};

// What a thread remembers of its rows: every step, or the states at the start of each segment.
template <class T> struct Share {
    std::vector<Index> rows;  // their numbers in the batch, longest first
    std::vector<Index> lengths;
    std::vector<Step<T>> steps;
    Arena arena;

    Index active(Index step) const {  // rows that have this step
        return std::partition_point(lengths.begin(), lengths.end(), [step](Index n) { return n > step; }) -
               lengths.begin();
    }
};

template <class T> struct Tape {
    std::vector<std::unique_ptr<Share<T>>> shares;

    // Rows are dealt out to and fro, so that every share is about as long, whatever the lengths.
    Tape(const Call& call, Index threads) {
        for (Index i = 0; i < threads; ++i) shares.push_back(std::make_unique<Share<T>>());
        std::vector<Index> lengths(call.rows, 0);
        for (Index step = 0; step < call.steps; ++step)
            for (Index row = 0; row < call.sizes[step]; ++row) ++lengths[row];
        for (Index row = 0; row < call.rows; ++row) {
            const Index turn = row % (2 * threads), place = turn < threads ? turn : 2 * threads - 1 - turn;
            shares[place]->rows.push_back(row);
            shares[place]->lengths.push_back(lengths[row]);
        }
    }
};

}  // namespace om

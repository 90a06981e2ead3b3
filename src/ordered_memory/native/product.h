// Matrix products on one thread, shaped for this model: few rows (1 to some hundreds) times weights that stay the same
// for a whole call. So the weights are laid out once, in panels that the inner loop reads straight through.
//
// The vector types are the compiler's own, so the same code serves AVX2, AVX-512 and NEON.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace om {

using Index = int64_t;

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif

template <class T> struct Vectors;
template <> struct Vectors<float> {
    typedef float Register __attribute__((vector_size(VECTOR_BYTES)));
    typedef float Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
};
template <> struct Vectors<double> {
    typedef double Register __attribute__((vector_size(VECTOR_BYTES)));
    typedef double Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
};
template <class T> using Register = typename Vectors<T>::Register;

template <class T> inline Register<T> load(const T* from) {
    return *reinterpret_cast<const typename Vectors<T>::Unaligned*>(from);
}
template <class T> inline void store(T* to, Register<T> value) {
    *reinterpret_cast<typename Vectors<T>::Unaligned*>(to) = value;
}

// Keeps a value in its register: the compiler would otherwise read it from memory again at every use.
template <class Value> inline void hold(Value& value) {
#if defined(__x86_64__)
    asm("" : "+x"(value));
#elif defined(__aarch64__)
    asm("" : "+w"(value));
#else
    (void)value;
#endif
}

template <class T> constexpr Index LANES = VECTOR_BYTES / sizeof(T);
template <class T> constexpr Index WIDTH = 2 * LANES<T>;  // columns of a panel
constexpr Index HEIGHT = 6;      // rows of a tile: 6 x 2 accumulators, 2 columns and 1 broadcast fill 16 registers
constexpr Index DEPTH = 256;     // of a panel, so that it stays in the first-level cache while all rows pass by

// A matrix of `depth` x `columns`, as panels of WIDTH columns; the last one is filled up with zeros.
template <class T> struct Panels {
    Index depth = 0, columns = 0;
    std::vector<T> data;

    Index count() const { return (columns + WIDTH<T> - 1) / WIDTH<T>; }
    const T* panel(Index number) const { return data.data() + number * depth * WIDTH<T>; }

    // from(k, j) is source[k * row_stride + j * column_stride]
    void pack(const T* source, Index depth_, Index columns_, Index row_stride, Index column_stride) {
        depth = depth_, columns = columns_;
        data.resize(count() * depth * WIDTH<T>);
        T* to = data.data();
        for (Index start = 0; start < columns; start += WIDTH<T>) {
            const Index width = std::min(WIDTH<T>, columns - start);
            for (Index k = 0; k < depth; ++k, to += WIDTH<T>)
                for (Index j = 0; j < WIDTH<T>; ++j)
                    to[j] = j < width ? source[k * row_stride + (start + j) * column_stride] : T(0);
        }
    }
    // For y = x W^T, as in nn.Linear, and for dx = dy W; W is (outputs, inputs), its rows `stride` apart.
    void pack_forward(const T* W, Index outputs, Index inputs, Index stride) { pack(W, inputs, outputs, 1, stride); }
    void pack_backward(const T* W, Index outputs, Index inputs, Index stride) { pack(W, outputs, inputs, stride, 1); }
};

enum class Start { ZERO, BIAS, ADD };  // what a product is added to: nothing, a row of biases, what is there already

// A tile of ROWS x (PANELS * WIDTH): the inner loop of everything. Element (r, k) of the left side is
// left[r * row_stride + k * step]; panels lie `panel_stride` apart.
template <class T, int ROWS, int PANELS>
inline void tile(Index depth, const T* left, Index row_stride, Index step, const T* panel, Index panel_stride, T* out,
                 Index out_stride, Index width, Start start, const T* bias) {
    constexpr int VECTORS = 2 * PANELS;
    Register<T> sum[ROWS][VECTORS];
    for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECTORS; ++v) sum[r][v] = Register<T>{};
    for (Index k = 0; k < depth; ++k) {
        // Whichever is fewer is held in registers, the other passes by: columns of one panel, or values of few rows.
        if constexpr (PANELS == 1) {
            Register<T> first = load(panel + k * WIDTH<T>), second = load(panel + k * WIDTH<T> + LANES<T>);
            hold(first), hold(second);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) {
                const T value = left[r * row_stride + k * step];
                sum[r][0] += value * first, sum[r][1] += value * second;
            }
        } else {
            Register<T> values[ROWS];
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) values[r] = Register<T>{} + left[r * row_stride + k * step], hold(values[r]);
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v) {
                Register<T> column = load(panel + (v / 2) * panel_stride + k * WIDTH<T> + (v % 2) * LANES<T>);
                if (ROWS > 1) hold(column);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; ++r) sum[r][v] += values[r] * column;
            }
        }
    }
    if (width == PANELS * WIDTH<T>) {
        for (int r = 0; r < ROWS; ++r)
            for (int v = 0; v < VECTORS; ++v) {
                T* to = out + r * out_stride + v * LANES<T>;
                if (start == Start::ADD) sum[r][v] += load(to);
                if (start == Start::BIAS) sum[r][v] += load(bias + v * LANES<T>);
                store(to, sum[r][v]);
            }
        return;
    }
    T row[PANELS * WIDTH<T>];  // the last panel may stand over the matrix's edge
    for (int r = 0; r < ROWS; ++r) {
        for (int v = 0; v < VECTORS; ++v) store(row + v * LANES<T>, sum[r][v]);
        T* to = out + r * out_stride;
        for (Index j = 0; j < width; ++j)
            to[j] = row[j] + (start == Start::ADD ? to[j] : start == Start::BIAS ? bias[j] : T(0));
    }
}

template <int N> using Count = std::integral_constant<int, N>;

// All rows from `row` on, as far as whole tiles go, against one or several neighbouring panels; gives the next row.
template <class T, int ROWS, int PANELS, class... Rest>
inline Index tiles(Index row, Index rows, Index depth, const T* left, Index row_stride, Index step, const T* panel,
                   Index panel_stride, T* out, Index out_stride, Rest... rest) {
    for (; row + ROWS <= rows; row += ROWS)
        tile<T, ROWS, PANELS>(depth, left + row * row_stride, row_stride, step, panel, panel_stride,
                              out + row * out_stride, out_stride, rest...);
    return row;
}

// out (rows x columns) = left (rows x depth) times panels [first, last), started as `start` says.
template <class T>
void multiply(Index rows, const T* left, Index left_stride, const Panels<T>& right, T* out, Index out_stride,
              Start start, const T* bias = nullptr, Index first = 0, Index last = -1) {
    constexpr Index BLOCK = 24 * HEIGHT;  // rows that stay in the second-level cache while the panels pass by
    for (; rows > BLOCK; rows -= BLOCK, left += BLOCK * left_stride, out += BLOCK * out_stride)
        multiply(BLOCK, left, left_stride, right, out, out_stride, start, bias, first, last);
    if (last < 0) last = right.count();
    const Index panel_stride = right.depth * WIDTH<T>;
    // With few rows, several panels at once, or each sum would wait for the one before.
    const Index wanted = rows <= 3 ? (rows == 1 ? 4 : rows == 2 ? 3 : 2) : 1;
    // Tiles of one or two rows are slow: what is over after sixes is better shared out as 4 + 3 or 4 + 4.
    const Index over = rows % HEIGHT, sixes = rows > HEIGHT && (over == 1 || over == 2) ? rows - HEIGHT - over : rows;
    for (Index number = first; number < last;) {
        const Index panels = number + wanted <= last ? wanted : 1;
        const Index column = number * WIDTH<T>, width = std::min(panels * WIDTH<T>, right.columns - column);
        for (Index k = 0; k < right.depth; k += DEPTH) {
            const Index depth = std::min(DEPTH, right.depth - k);
            const T* panel = right.panel(number) + k * WIDTH<T>;
            const Start start_here = k == 0 ? start : Start::ADD;
            Index row = 0;
            auto pass = [&](auto height, auto breadth, Index end) {
                row = tiles<T, height(), breadth()>(row, end, depth, left + k, left_stride, Index(1), panel, panel_stride,
                                                    out + column, out_stride, width, start_here,
                                                    bias ? bias + column : nullptr);
            };
            if (panels == 4) pass(Count<1>{}, Count<4>{}, rows);
            if (panels == 3) pass(Count<2>{}, Count<3>{}, rows);
            if (panels == 2) pass(Count<3>{}, Count<2>{}, rows);
            if (panels > 1) continue;
            pass(Count<6>{}, Count<1>{}, sixes);
            if (rows - row == 5) pass(Count<5>{}, Count<1>{}, rows);
            pass(Count<4>{}, Count<1>{}, rows);
            pass(Count<3>{}, Count<1>{}, rows);
            pass(Count<2>{}, Count<1>{}, rows);
            pass(Count<1>{}, Count<1>{}, rows);
        }
        number += panels;
    }
}

// out (left columns x right columns) += left^T right: the gradient of a weight, from rows that may lie anywhere.
template <class T> class OuterProduct {
    static constexpr Index BLOCK = 16;  // strips of the left side that stay in the second-level cache
    std::vector<T> left_strips, right_panels;

    static void pack(std::vector<T>& to, const T* const* rows, Index depth, Index columns, Index width) {
        const Index count = (columns + width - 1) / width;
        to.resize(std::max<Index>(to.size(), count * width * depth));
        for (Index k = 0; k < depth; ++k) {
            const T* from = rows[k];
            T* strip = to.data() + k * width;
            Index j = 0;
            for (; j + width <= columns; j += width, strip += depth * width)
                for (Index i = 0; i < width; ++i) strip[i] = from[j + i];
            for (Index i = 0; j < columns && i < width; ++i) strip[i] = j + i < columns ? from[j + i] : T(0);
        }
    }

public:
    void add(Index rows, const T* const* left, Index left_columns, const T* const* right, Index right_columns, T* out,
             Index out_stride) {
        for (Index start = 0; start < rows; start += DEPTH) {
            const Index depth = std::min(DEPTH, rows - start);
            pack(left_strips, left + start, depth, left_columns, HEIGHT);
            pack(right_panels, right + start, depth, right_columns, WIDTH<T>);
            for (Index block = 0; block < left_columns; block += BLOCK * HEIGHT)
                for (Index j = 0; j < right_columns; j += WIDTH<T>)
                    for (Index i = block; i < std::min(block + BLOCK * HEIGHT, left_columns); i += HEIGHT)
                        one(depth, i, left_columns, j, right_columns, out, out_stride);
        }
    }

private:
    void one(Index depth, Index i, Index left_columns, Index j, Index right_columns, T* out, Index out_stride) {
        const Index height = std::min(HEIGHT, left_columns - i), width = std::min(WIDTH<T>, right_columns - j);
        const T* strip = left_strips.data() + i * depth;
        const T* panel = right_panels.data() + j * depth;
        T* to = out + i * out_stride + j;
        const T* none = nullptr;
        if (height == HEIGHT) {
            tile<T, HEIGHT, 1>(depth, strip, 1, HEIGHT, panel, 0, to, out_stride, width, Start::ADD, none);
        } else {
            for (Index r = 0; r < height; ++r)
                tile<T, 1, 1>(depth, strip + r, 1, HEIGHT, panel, 0, to + r * out_stride, out_stride, width, Start::ADD,
                              none);
        }
    }
};

}  // namespace om

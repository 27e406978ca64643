"""Products of tiles on tensor cores, as CUDA C++ text for kernels. Sums are in single precision.

A block has its own rows and tiles of other rows in shared memory. A warp has the sums of ROUNDS times 16 of the block's
rows in registers. A lane holds two of these rows and, in each eight columns, two neighbours.

    start_with_rows(c, rows, tile)        c = rows tile'      the block's rows, and the rows of a tile
    start_with_columns(c, w, tile)        c += w tile         weights in registers, whose columns are the rows of a tile
    wait_for_rows<n>(c), ..._columns      until c is ready: all started products except the last n

There are two methods. By warps (devices from 8.0 on): each has its 16 or 32 rows, and operands are loaded from shared
memory into registers. Rows there are padded by eight elements, so that eight of them begin in different banks. By
groups of four warps (devices 9.0): they share 64 rows, and the tensor cores read tiles directly from shared memory.
There each eight rows of 128 bytes are a unit, in which groups of 16 bytes are swizzled by the row's number.
"""

from __future__ import annotations

_COMMON = """
typedef float Sums[BLOCKS][4];
__device__ inline unsigned int pair(float x, float y) { PAIR }
__device__ inline float power_of_two(float x) { POWER }
template <int BYTES> __device__ inline void copy(void* to, const void* from, bool inside) { COPY }
__device__ inline void end_of_copies() { COMMIT }
template <int LATER> __device__ inline void wait_for_copies() { WAIT }
/* Weights as the left operand of a product: step k of round r. */
template <int N> __device__ inline void weights(unsigned int* a, const float (*w)[N / 8][4], int r, int k) {
    #pragma unroll
    for (int e = 0; e < 4; ++e) a[e] = pair(w[r][2 * k + e / 2][e % 2 * 2], w[r][2 * k + e / 2][e % 2 * 2 + 1]);
}
"""

_BY_WARPS = """
enum { SPAN = WIDTH + 8, TOGETHER = OWN };
__device__ inline void mma(float* c, const unsigned int* a, unsigned int b0, unsigned int b1) { MMA }
__device__ inline void transposed(unsigned int* b, const S* at) { TRANSPOSED }
__device__ inline void as_they_lie(unsigned int* b, const S* at) { LDMATRIX }
/* Where an element of some rows lies. */
template <int COUNT> __device__ inline int place(int row, int column) { return row * SPAN + column; }
__device__ inline void show_copies() {}
/* Step k of a warp's rows as the left operand. */
__device__ inline void left(unsigned int (*f)[4], const S* rows, int k) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) as_they_lie(f[r], rows + (r * 16 + lane % 16) * SPAN + k * 16 + lane / 16 * 8);
}
struct InRegisters {
    unsigned int all[STEPS][ROUNDS][4];
    __device__ inline InRegisters(const S* rows) {
        #pragma unroll
        for (int k = 0; k < STEPS; ++k) left(all[k], rows + threadIdx.x / 32 * OWN * SPAN, k);
    }
    __device__ inline void get(unsigned int (*f)[4], int k) const {
        #pragma unroll
        for (int r = 0; r < ROUNDS; ++r) for (int e = 0; e < 4; ++e) f[r][e] = all[k][r][e];
    }
};
struct InMemory {
    const S* rows;
    __device__ inline InMemory(const S* rows) : rows(rows + threadIdx.x / 32 * OWN * SPAN) {}
    __device__ inline void get(unsigned int (*f)[4], int k) const { left(f, rows, k); }
};
typedef LEFT Rows;
__device__ inline void start_with_rows(float (*c)[PART / 8][4], const Rows& rows, const S* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) for (int n = 0; n < PART / 8; ++n) for (int e = 0; e < 4; ++e) c[r][n][e] = 0;
    #pragma unroll
    for (int k = 0; k < STEPS; ++k) {
        unsigned int a[ROUNDS][4];
        rows.get(a, k);
        #pragma unroll
        for (int n = 0; n < PART / 8; n += 2) {
            unsigned int b[4];
            as_they_lie(b, tile + (n * 8 + lane % 8 + lane / 16 * 8) * SPAN + k * 16 + lane / 8 % 2 * 8);
            #pragma unroll
            for (int r = 0; r < ROUNDS; ++r) {
                mma(c[r][n], a[r], b[0], b[1]);
                mma(c[r][n + 1], a[r], b[2], b[3]);
            }
        }
    }
}
template <int LATER> __device__ inline void wait_for_rows(float (*c)[PART / 8][4]) {}
__device__ inline void start_with_columns(Sums* sums, const float (*w)[PART / 8][4], const S* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int k = 0; k < PART / 16; ++k) {
        unsigned int a[ROUNDS][4];
        #pragma unroll
        for (int r = 0; r < ROUNDS; ++r) weights<PART>(a[r], w, r, k);
        #pragma unroll
        for (int n = 0; n < BLOCKS; n += 2) {
            unsigned int b[4];
            transposed(b, tile + (k * 16 + lane % 16) * SPAN + n * 8 + lane / 16 * 8);
            #pragma unroll
            for (int r = 0; r < ROUNDS; ++r) {
                mma(sums[r][n], a[r], b[0], b[1]);
                mma(sums[r][n + 1], a[r], b[2], b[3]);
            }
        }
    }
}
template <int LATER> __device__ inline void wait_for_columns(Sums* sums) {}
"""

_BY_GROUPS = """
enum { SPAN = WIDTH, TOGETHER = 64 };
typedef unsigned long long Tile;  // which the tensor cores read
__device__ inline Tile tile_at(const S* at) { DESCRIBED }
__device__ inline void from_memory(float (*c)[4], Tile a, Tile b, int adds) { FROM_MEMORY }
__device__ inline void from_registers(float (*c)[4], const unsigned int* a, Tile b) { FROM_REGISTERS }
__device__ inline void begin_products(float (*c)[4]) { BEGIN }
__device__ inline void given(unsigned int* a) { GIVEN }
__device__ inline void end_products() { END }
template <int LATER> __device__ inline void wait_for_products(float (*c)[4]) { AWAIT }
template <int COUNT> __device__ inline int place(int row, int column) {
    return column / 64 * COUNT * 64 + row * 64 + (column % 64 / 8 ^ row % 8) * 8;
}
__device__ inline void show_copies() { SHOW }
struct InMemory {
    const S* rows;
    __device__ inline InMemory(const S* rows) : rows(rows + threadIdx.x / 128 * 64 * 64) {}
};
typedef LEFT Rows;
__device__ inline void start_with_rows(float (*c)[PART / 8][4], const Rows& rows, const S* tile) {
    #pragma unroll
    for (int n = 0; n < PART / 8; ++n) for (int e = 0; e < 4; ++e) c[0][n][e] = 0;
    begin_products(c[0]);
    #pragma unroll
    for (int k = 0; k < STEPS; ++k)
        from_memory(c[0], tile_at(rows.rows + k / 4 * ROWS * 64 + k % 4 * 16), tile_at(tile + k / 4 * TILE * 64 + k % 4 * 16), k > 0);
    end_products();
}
template <int LATER> __device__ inline void wait_for_rows(float (*c)[PART / 8][4]) { wait_for_products<LATER>(c[0]); }
__device__ inline void start_with_columns(Sums* sums, const float (*w)[PART / 8][4], const S* tile) {
    unsigned int a[PART / 16][4];
    #pragma unroll
    for (int k = 0; k < PART / 16; ++k) {
        weights<PART>(a[k], w, 0, k);
        given(a[k]);
    }
    #pragma unroll
    for (int n = 0; n < BLOCKS; n += 8) begin_products(sums[0] + n);
    #pragma unroll
    for (int k = 0; k < PART / 16; ++k)
        #pragma unroll
        for (int n = 0; n < BLOCKS; n += 8) from_registers(sums[0] + n, a[k], tile_at(tile + n * 8 * TILE + k * 16 * 64));
    end_products();
}
template <int LATER> __device__ inline void wait_for_columns(Sums* sums) {
    #pragma unroll
    for (int n = 0; n < BLOCKS; n += 8) wait_for_products<LATER>(sums[0] + n);
}
"""

# ----- instructions ---------------------------------------------------------------------------------------------------

_MMA = (
    'asm("mma.sync.aligned.m16n8k16.row.col.f32.KIND.KIND.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, '
    '{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), '
    '"r"(b0), "r"(b1));'
)
_LDMATRIX = (
    'asm volatile("ldmatrix.sync.aligned.m8n8.x4KIND.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(b[0]), "=r"(b[1]), '
    '"=r"(b[2]), "=r"(b[3]) : "r"((unsigned int)__cvta_generic_to_shared(at)) : "memory");'
)
_COPY = (
    'asm volatile("cp.async.KIND.shared.global [%0], [%1], %2, %3;" :: "r"((unsigned int)__cvta_generic_to_shared(to)), '
    '"l"(from), "n"(BYTES), "r"(inside ? BYTES : 0) : "memory");'
)
_SUMS = ", ".join(f'"+f"(c[{i // 4}][{i % 4}])' for i in range(32))
_NAMES = ", ".join(f"%{i}" for i in range(32))
_GROUP_MMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.KIND.KIND"
#: Units of eight rows, 1024 bytes apart, with 16-byte groups swizzled within 128 bytes.
_DESCRIBED = (
    "return (unsigned int)__cvta_generic_to_shared(at) >> 4 & 0x3fffull | 1ull << 16 | 64ull << 32 | 1ull << 62;"
)
_INSTRUCTIONS = {
    "PAIR": 'unsigned int both; asm("cvt.rn.KINDx2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x)); return both;',
    "POWER": 'float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;',
    "COPY": f'if constexpr (BYTES == 16) {_COPY.replace("KIND", "cg")} else {_COPY.replace("KIND", "ca")}',
    "COMMIT": 'asm volatile("cp.async.commit_group;" ::: "memory");',
    "WAIT": 'asm volatile("cp.async.wait_group %0;" :: "n"(LATER) : "memory");',
    "MMA": _MMA,
    "TRANSPOSED": _LDMATRIX.replace("KIND", ".trans"),
    "LDMATRIX": _LDMATRIX.replace("KIND", ""),
    "DESCRIBED": _DESCRIBED,
    "FROM_MEMORY": (
        f'asm volatile("{{ .reg .pred p; setp.ne.b32 p, %34, 0; {_GROUP_MMA} {{{_NAMES}}}, %32, %33, p, 1, 1, 0, 0; }}" : {_SUMS} : '
        '"l"(a), "l"(b), "r"(adds));'
    ),
    "FROM_REGISTERS": (
        f'asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0; {_GROUP_MMA} {{{_NAMES}}}, {{%32, %33, %34, %35}}, %36, p, 1, 1, 1; }}" : {_SUMS} : '
        '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));'
    ),
    "BEGIN": f'asm volatile("wgmma.fence.sync.aligned;" : {_SUMS} :: "memory");',
    "GIVEN": 'asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3]));',
    "END": 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");',
    "AWAIT": f'asm volatile("wgmma.wait_group.sync.aligned %32;" : {_SUMS} : "n"(LATER) : "memory");',
    "SHOW": 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
}  # fmt: skip


def products(char: str, by_groups: bool) -> str:
    """Return the text for halves of a dtype.

    The kernel must define S, WIDTH, STEPS, BLOCKS, ROUNDS, OWN, ROWS, TILE and PART before it, and LEFT: a block's rows
    are InRegisters or InMemory.
    """
    text = _COMMON + (_BY_GROUPS if by_groups else _BY_WARPS)
    for name, instruction in _INSTRUCTIONS.items():
        text = text.replace(f"{{ {name} }}", f"{{ {instruction} }}", 1)
    return text.replace("KIND", "bf16" if char == "E" else "f16")

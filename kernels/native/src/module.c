/* The table of exports. This is a Python extension module in name only, so that building a wheel
   compiles it. It is loaded with ctypes, which releases the interpreter lock during a call, and
   needs no Python header. */

#include "abi.h"
#include "team.h"

void *PyInit__kernels(void) { return 0; } /* for the linker; never called */

void run_calls(const bound_call *calls, int64_t count) {
  for (const bound_call *c = calls; c < calls + count; c++) c->call(c->kernel, c->slots);
}

#define KERNEL(name, arguments) typedef void name##_kernel arguments;
KERNEL(map, MAP_ARGUMENTS)
#include "exported.h"
#undef KERNEL

#define P(k) slots[k].p
#define I(k) slots[k].i
#define F(k) slots[k].f
#define CALLER(name, ...)                                         \
  static void call_##name(any_kernel kernel, const slot *slots) { \
    ((name##_kernel *)kernel)(__VA_ARGS__);                       \
  }
#include "callers.h"
#undef CALLER

typedef struct {
  const char *text; /* kind, name, and the arguments of a kernel as in C */
  union {
    int64_t value; /* of a limit, or size of a struct in bytes */
    caller call;
  };
} export_entry;

#define LIMIT(name) {.text = "limit " #name, .value = name}
#define STRUCT(name) {.text = "struct " #name, .value = sizeof(name)}
#define CALLER(name, ...) {.text = "caller " #name, .call = call_##name},
#define KERNEL(name, arguments) {.text = "kernel " #name " " #arguments},
#define TEXT(arguments) #arguments
#define MAP_ENTRY(name, arguments) {.text = "kernel map_" #name " " TEXT(arguments)},
#define MAP(name, value) MAP_ENTRY(name, MAP_ARGUMENTS)

static const export_entry table[] = {LIMIT(MAX_LANES),
                                     LIMIT(MAX_NR),
                                     LIMIT(BAND),
                                     LIMIT(BASE_IN_TILES),
                                     LIMIT(TILES),
                                     LIMIT(FILTER_TILES),
                                     LIMIT(MAX_TAPS),
                                     LIMIT(MAX_WALKS),
                                     LIMIT(PANEL_PARTS),
                                     LIMIT(DEPTH_BLOCK),
                                     LIMIT(ROW_BLOCK),
                                     LIMIT(BF16_SCRATCH),
                                     LIMIT(TILE_BYTES),
                                     LIMIT(MAX_RANK),
                                     LIMIT(MAX_INPUTS),
                                     LIMIT(MAX_OUTER_AXES),
                                     LIMIT(RECURRENT_ROWS),
                                     LIMIT(RECURRENT_PARTS),
                                     LIMIT(PACKS),
                                     LIMIT(PACKED),
                                     LIMIT(ADDS),
                                     LIMIT(MAX_THREADS),
                                     STRUCT(window_walk),
                                     STRUCT(elementwise_shape),
                                     STRUCT(matmul_shape),
                                     STRUCT(transpose_shape),
                                     STRUCT(recurrent_shape),
                                     STRUCT(integer_lstm_shape),
                                     STRUCT(bound_call),
                                     STRUCT(call_list),
#include "callers.h"
#include "elementwise_maps.h"
#include "exported.h"
                                     {0}};

/* Returns the table; its last entry has no text. */
const export_entry *exports(void) { return table; }

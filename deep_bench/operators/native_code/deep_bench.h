/* What a native kernel gets from deep_bench when it has no signature of its own.
 *
 * Forward: inputs are the operator's, in order; outputs are allocated and to be filled.
 *
 *     #include <deep_bench.h>
 *     DB_EXPORT const char *gelu(const db_tensor *inputs, int64_t n_inputs,
 *                                const db_tensor *outputs, int64_t n_outputs,
 *                                const db_attributes *attributes);
 *
 * Backward: inputs are the gradient of each output, then each input, then each output; outputs are the gradient of each
 * input, to be filled.
 *
 * It returns NULL when all went well, and otherwise a text that says what did not, which must stay valid (a literal).
 * All tensors are contiguous in C order and aligned to their elements; gradients and inputs must not be written to.
 */
#ifndef DEEP_BENCH_H
#define DEEP_BENCH_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define DB_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define DB_EXPORT __attribute__((visibility("default")))
#endif

/* Element types, numbered as in ONNX's TensorProto. Types under eight bits take a byte an element. */
enum {
  DB_FLOAT = 1,
  DB_UINT8 = 2,
  DB_INT8 = 3,
  DB_UINT16 = 4,
  DB_INT16 = 5,
  DB_INT32 = 6,
  DB_INT64 = 7,
  DB_BOOL = 9,
  DB_FLOAT16 = 10,
  DB_DOUBLE = 11,
  DB_UINT32 = 12,
  DB_UINT64 = 13,
  DB_COMPLEX64 = 14,
  DB_COMPLEX128 = 15,
  DB_BFLOAT16 = 16,
  DB_FLOAT8E4M3FN = 17,
  DB_FLOAT8E4M3FNUZ = 18,
  DB_FLOAT8E5M2 = 19,
  DB_FLOAT8E5M2FNUZ = 20,
  DB_UINT4 = 21,
  DB_INT4 = 22,
  DB_FLOAT4E2M1 = 23,
  DB_FLOAT8E8M0 = 24
};

typedef struct {
  void *data;           /* NULL where an input is omitted, or no gradient is there or asked for */
  const int64_t *shape; /* rank numbers */
  int64_t size;         /* the number of elements */
  int32_t rank;
  int32_t type; /* one of the above; 0 where data is NULL because there is no tensor */
} db_tensor;

typedef struct {
  const char *name;
  const char *text;        /* of a string; else NULL */
  const double *floats;    /* of a float, integer or list of them; else NULL */
  const int64_t *integers; /* of an integer or list of them; else NULL */
  int64_t size;            /* how many numbers, or bytes of text */
} db_attribute;

typedef struct {
  const db_attribute *items;
  int64_t size;
} db_attributes;

/* The attribute of a name, or NULL. Those that a case leaves out have ONNX's default, if there is one. */
static inline const db_attribute *db_find(const db_attributes *attributes, const char *name) {
  for (int64_t i = 0; i < attributes->size; ++i)
    if (strcmp(attributes->items[i].name, name) == 0) return &attributes->items[i];
  return NULL;
}

static inline double db_float(const db_attributes *attributes, const char *name, double otherwise) {
  const db_attribute *found = db_find(attributes, name);
  return found && found->floats && found->size ? found->floats[0] : otherwise;
}

static inline int64_t db_integer(const db_attributes *attributes, const char *name, int64_t otherwise) {
  const db_attribute *found = db_find(attributes, name);
  return found && found->integers && found->size ? found->integers[0] : otherwise;
}

static inline const char *db_text(const db_attributes *attributes, const char *name, const char *otherwise) {
  const db_attribute *found = db_find(attributes, name);
  return found && found->text ? found->text : otherwise;
}

#endif

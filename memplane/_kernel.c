/* What memplane does most often, compiled: the costs of chunks, the numbers of tokens, the words in
 * them, which texts of a table a text holds.
 *
 * Each class here has a twin of the same name in Python, which `memplane/kernel.py` puts in its
 * place where this file was not compiled:
 *
 *   ChunkSums     memplane/tokens/__init__.py
 *   TokenNumbers  memplane/index/terms.py
 *   TokenParts    memplane/index/terms.py
 *   AskedSentences memplane/index/terms.py
 *   PostingSums   memplane/index/lexical.py
 *   EventRanking  memplane/index/ranking.py
 *   PhraseCodes   memplane/search/indexing.py
 *   PostingLists  memplane/index/segment.py
 *   Literals      memplane/kernel.py
 *   RecordMaker   memplane/kernel.py
 *
 * The twin is what counts: tests/kernel holds the two equal over any text. What is rare is asked
 * of Python by a callback, and remembered. Nothing here reads a clock, chance, a file or the
 * environment. All but postings and rankings runs under the interpreter's lock; a callback may give
 * that up, so nothing found before one is used behind it. Stable ABI of CPython 3.11 (PEP 384).
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_VERSION 14 /* the same as in memplane/kernel.py; raise both with any change */

typedef uint8_t byte;

static uint32_t word_at(const byte *from, size_t place)
{
    uint32_t found;
    memcpy(&found, from + 4 * place, 4); /* a slice of a file need not be aligned */
    return found;
}

/* ---- texts as UTF-8 ---- */

/* The bytes of a text; a lone surrogate is encoded like any other character. */
static PyObject *encoded(PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "expected a text");
        return NULL;
    }
    PyObject *found = PyUnicode_AsUTF8String(text);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        found = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    }
    return found;
}

/* The bytes of a text, or given bytes, and the object that holds them: the caller lets go of it. */
static PyObject *looked_in(PyObject *given, const byte **at, const byte **end)
{
    PyObject *data = given;
    char *buffer;
    Py_ssize_t length;
    if (PyBytes_Check(given))
        Py_INCREF(data);
    else if ((data = encoded(given)) == NULL)
        return NULL;
    if (PyBytes_AsStringAndSize(data, &buffer, &length) < 0) {
        Py_DECREF(data);
        return NULL;
    }
    *at = (const byte *)buffer;
    *end = *at + length;
    return data;
}

static PyObject *decoded(const byte *from, size_t size)
{
    return PyUnicode_DecodeUTF8((const char *)from, (Py_ssize_t)size, "surrogatepass");
}

static int is_ascii(const byte *text, size_t size)
{
    for (size_t at = 0; at < size; at++)
        if (text[at] >= 0x80)
            return 0;
    return 1;
}

/* How many bytes the white space beyond ASCII has that begins here; 0 where there is none. */
static size_t wide_blank(const byte *at, const byte *end)
{
    if (at[0] == 0xC2)
        return at + 1 < end && (at[1] == 0x85 || at[1] == 0xA0) ? 2 : 0;
    if (at + 2 >= end)
        return 0;
    if (at[0] == 0xE1)
        return at[1] == 0x9A && at[2] == 0x80 ? 3 : 0;
    if (at[0] == 0xE2 && at[1] == 0x80)
        return at[2] <= 0x8A || at[2] == 0xA8 || at[2] == 0xA9 || at[2] == 0xAF ? 3 : 0;
    if (at[0] == 0xE2)
        return at[1] == 0x81 && at[2] == 0x9F ? 3 : 0;
    return at[0] == 0xE3 && at[1] == 0x80 && at[2] == 0x80 ? 3 : 0;
}

static int is_narrow_blank(byte one)
{
    return one == ' ' || one == '\t' || one == '\v' || one == '\f';
}

static int is_newline(byte one)
{
    return one == '\n' || one == '\r';
}

/* How many bytes the blank of a chunk has that begins here: white space but CR and LF. */
static size_t blank(const byte *at, const byte *end)
{
    return at[0] < 0x80 ? (size_t)is_narrow_blank(at[0]) : wide_blank(at, end);
}

/* The same of what `str.split` splits at. */
static size_t split_blank(const byte *at, const byte *end)
{
    if (at[0] < 0x80)
        return (at[0] >= 0x1C && at[0] <= ' ') || (at[0] >= '\t' && at[0] <= '\r');
    return wide_blank(at, end);
}

/* Whether such a blank may begin with a byte. */
static const byte MAY_SPLIT[256] = {
    [0x09] = 1, [0x0A] = 1, [0x0B] = 1, [0x0C] = 1, [0x0D] = 1, [0x1C] = 1, [0x1D] = 1,
    [0x1E] = 1, [0x1F] = 1, [0x20] = 1, [0xC2] = 1, [0xE1] = 1, [0xE2] = 1, [0xE3] = 1,
};

/* ---- a table of texts, each with a number ---- */

#define PROBES_MAX 64 /* places looked at: texts chosen to collide cost no more */
#define SLOTS_FIRST 1024
#define TEXT_MAX 255 /* bytes of a text that is remembered */

typedef struct {
    uint32_t hash, begin, value;
    uint16_t size, used;
} Slot;

typedef struct {
    Slot *slots;
    size_t mask, count;
    byte *texts;
    size_t filled, room;
} Table;

static uint32_t hash_of(const byte *text, size_t size)
{
    uint64_t mixed = 0x9E3779B97F4A7C15u ^ size, part;
    for (; size >= 8; text += 8, size -= 8) {
        memcpy(&part, text, 8);
        mixed = (mixed ^ part) * 0xFF51AFD7ED558CCDu;
        mixed ^= mixed >> 32;
    }
    part = 0;
    memcpy(&part, text, size);
    mixed = (mixed ^ part) * 0xFF51AFD7ED558CCDu;
    mixed ^= mixed >> 29;
    return (uint32_t)(mixed ^ mixed >> 32);
}

/* The slot of a text; NULL where the table does not have it. */
static Slot *slot_of(const Table *table, const byte *text, size_t size, uint32_t hash)
{
    if (table->slots == NULL)
        return NULL;
    for (size_t step = 0; step < PROBES_MAX; step++) {
        Slot *slot = &table->slots[(hash + step) & table->mask];
        if (!slot->used)
            return NULL;
        if (slot->hash == hash && slot->size == size &&
            memcmp(table->texts + slot->begin, text, size) == 0)
            return slot;
    }
    return NULL;
}

/* Have the slot of a text with this hash on its way from memory. */
static void fetch_slot(const Table *table, uint32_t hash)
{
#if defined(__GNUC__)
    if (table->slots != NULL)
        __builtin_prefetch(&table->slots[hash & table->mask]);
#else
    (void)table;
    (void)hash;
#endif
}

/* Put a slot where it belongs; one that finds no place is forgotten. */
static void place_slot(Slot *slots, size_t mask, const Slot *slot)
{
    for (size_t step = 0; step < PROBES_MAX; step++) {
        Slot *free_one = &slots[(slot->hash + step) & mask];
        if (!free_one->used) {
            *free_one = *slot;
            return;
        }
    }
}

static int has_room(Table *table, size_t size)
{
    if (2 * table->count >= table->mask || table->slots == NULL) {
        size_t slots = table->slots == NULL ? SLOTS_FIRST : 2 * (table->mask + 1);
        Slot *wider = calloc(slots, sizeof(Slot));
        if (wider == NULL)
            return 0;
        for (size_t at = 0; table->slots != NULL && at <= table->mask; at++)
            if (table->slots[at].used)
                place_slot(wider, slots - 1, &table->slots[at]);
        free(table->slots);
        table->slots = wider;
        table->mask = slots - 1;
    }
    if (table->filled + size > table->room) {
        size_t room = 2 * (table->room + size) + 4096;
        byte *longer = room > UINT32_MAX ? NULL : realloc(table->texts, room);
        if (longer == NULL)
            return 0;
        table->texts = longer;
        table->room = room;
    }
    return 1;
}

/* Remember a text that the table does not have. Where there is no memory it is not remembered. */
static void put(Table *table, const byte *text, size_t size, uint32_t hash, uint32_t value)
{
    if (size > TEXT_MAX || slot_of(table, text, size, hash) != NULL || !has_room(table, size))
        return;
    Slot slot = {hash, (uint32_t)table->filled, value, (uint16_t)size, 1};
    memcpy(table->texts + table->filled, text, size);
    place_slot(table->slots, table->mask, &slot);
    table->filled += size;
    table->count++;
}

static void empty(Table *table)
{
    free(table->slots);
    free(table->texts);
    memset(table, 0, sizeof(*table));
}

/* ---- byte pair encoding, over the table that `open_ranks` describes ---- */

#define GROUP 16
#define NEVER UINT32_MAX
#define LONGEST_ASCII 128
#define LONGEST_TOKEN 256
#define ASK (-1) /* what only Python knows */

typedef struct {
    Py_buffer text, ranks, starts;
    size_t count, groups;
    int o200k;  /* else cl100k */
    Table seen; /* ranks that were looked up */
} Vocabulary;

/* Compare the token that begins there, up to its FF, with another one. `*at` moves behind it. */
static int compare(const byte **at, const byte *end, const byte *token, size_t size)
{
    const byte *own = *at;
    size_t same = 0;
    while (own + same < end && own[same] != 0xFF && same < size && own[same] == token[same])
        same++;
    int order = 0;
    if (own + same >= end || own[same] == 0xFF)
        order = same == size ? 0 : -1;
    else
        order = same == size || own[same] > token[same] ? 1 : -1;
    for (own += same; own < end && *own != 0xFF;)
        own++;
    *at = own < end ? own + 1 : end;
    return order;
}

static uint32_t found_rank(const Vocabulary *vocabulary, const byte *token, size_t size)
{
    const byte *texts = vocabulary->text.buf, *end = texts + vocabulary->text.len;
    size_t low = 0, high = vocabulary->groups;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const byte *first = texts + word_at(vocabulary->starts.buf, middle);
        if (compare(&first, end, token, size) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NEVER;
    const byte *at = texts + word_at(vocabulary->starts.buf, low - 1);
    for (size_t place = GROUP * (low - 1); place < vocabulary->count && at < end; place++) {
        int order = compare(&at, end, token, size);
        if (order == 0)
            return word_at(vocabulary->ranks.buf, place);
        if (order > 0 || place % GROUP == GROUP - 1)
            break;
    }
    return NEVER;
}

#define SEEN_MAX 100000
#define SEEN_SIZE 16 /* bytes; longer ones seldom come again */

static uint32_t rank_of(Vocabulary *vocabulary, const byte *token, size_t size)
{
    if (size > SEEN_SIZE)
        return found_rank(vocabulary, token, size);
    uint32_t hash = hash_of(token, size);
    const Slot *slot = slot_of(&vocabulary->seen, token, size, hash);
    if (slot != NULL)
        return slot->value;
    uint32_t rank = found_rank(vocabulary, token, size);
    if (vocabulary->seen.count < SEEN_MAX)
        put(&vocabulary->seen, token, size, hash, rank);
    return rank;
}

static long merged_count(Vocabulary *vocabulary, const byte *text, size_t size)
{
    uint32_t joins[LONGEST_ASCII + 1];
    byte cuts[LONGEST_ASCII + 2];
    size_t parts = size;
    for (size_t at = 0; at <= size; at++)
        cuts[at] = (byte)at;
    for (size_t at = 0; at + 1 < size; at++)
        joins[at] = rank_of(vocabulary, text + at, 2);
    while (parts > 1) {
        size_t best = 0;
        for (size_t at = 1; at + 1 < parts; at++)
            if (joins[at] < joins[best])
                best = at;
        if (joins[best] == NEVER)
            break;
        memmove(cuts + best + 1, cuts + best + 2, parts - best - 1);
        memmove(joins + best, joins + best + 1, (parts - best - 2) * sizeof(*joins));
        parts--;
        if (best + 1 < parts)
            joins[best] =
                rank_of(vocabulary, text + cuts[best], (size_t)(cuts[best + 2] - cuts[best]));
        if (best > 0)
            joins[best - 1] = rank_of(
                vocabulary, text + cuts[best - 1], (size_t)(cuts[best + 1] - cuts[best - 1]));
    }
    return (long)parts;
}

static long whole_count(Vocabulary *vocabulary, const byte *text, size_t size)
{
    return rank_of(vocabulary, text, size) != NEVER ? 1 : merged_count(vocabulary, text, size);
}

/* Whether a token begins with these bytes and the newline that ends them, or with one byte more. */
static int goes_on(Vocabulary *vocabulary, const byte *tail, size_t size)
{
    byte longer[LONGEST_ASCII + 1];
    if (rank_of(vocabulary, tail, size) != NEVER)
        return 1;
    memcpy(longer, tail, size);
    for (const char *further = "\n\r/"; *further; further++) {
        longer[size] = (byte)*further;
        if (rank_of(vocabulary, longer, size + 1) != NEVER)
            return 1;
    }
    return 0;
}

static long closing(Vocabulary *vocabulary, const byte *whole, size_t size)
{
    long most = whole_count(vocabulary, whole, size);
    for (size_t end = 1; end < size; end++)
        if (whole[size - 1] != '\n' || goes_on(vocabulary, whole + end, size - end)) {
            long count = whole_count(vocabulary, whole, end);
            most = count > most ? count : most;
        }
    return most;
}

static long pretoken(Vocabulary *vocabulary, const byte *text, size_t size)
{
    if (size > LONGEST_TOKEN)
        return ASK;
    if (size > 1 && is_newline(text[size - 1]))
        return size > LONGEST_ASCII ? ASK : closing(vocabulary, text, size);
    if (rank_of(vocabulary, text, size) != NEVER)
        return 1;
    return size > LONGEST_ASCII ? ASK : merged_count(vocabulary, text, size);
}

/* ---- pretokens of ASCII: the patterns CL100K and O200K ---- */

static int is_upper(byte one) { return one >= 'A' && one <= 'Z'; }
static int is_lower(byte one) { return one >= 'a' && one <= 'z'; }
static int is_letter(byte one) { return is_upper(one) || is_lower(one); }
static int is_digit(byte one) { return one >= '0' && one <= '9'; }
static int is_space(byte one) { return one == ' ' || (one >= '\t' && one <= '\r'); }
static int is_other(byte one) { return !is_letter(one) && !is_digit(one) && !is_space(one); }

static const byte *run(const byte *at, const byte *end, int (*belongs)(byte))
{
    while (at < end && belongs(*at))
        at++;
    return at;
}

/* Where the contraction ends that begins here; `at` where none does. */
static const byte *contraction(const byte *at, const byte *end)
{
    if (at + 1 >= end || *at != '\'')
        return at;
    byte first = at[1] | 0x20;
    if (is_letter(at[1]) && strchr("stmd", first) != NULL)
        return at + 2;
    if (at + 2 >= end || !is_letter(at[1]) || !is_letter(at[2]))
        return at;
    byte second = at[2] | 0x20;
    int is_one = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                 (first == 'l' && second == 'l');
    return is_one ? at + 3 : at;
}

/* Where the letters end that begin here, perhaps behind one other character; `at` for none. */
static const byte *letters(const byte *at, const byte *end, int o200k)
{
    const byte *begin = at;
    if (!is_newline(*at) && !is_letter(*at) && !is_digit(*at))
        begin++;
    if (!o200k) {
        const byte *last = run(begin, end, is_letter);
        return last > begin ? last : at;
    }
    const byte *capitals = run(begin, end, is_upper), *last = run(capitals, end, is_lower);
    return last > begin ? contraction(last, end) : at;
}

static const byte *spaces(const byte *at, const byte *end)
{
    const byte *last = run(at, end, is_space);
    for (const byte *newline = last; newline > at; newline--)
        if (is_newline(newline[-1]))
            return newline;
    return last == end || last == at + 1 ? last : last - 1;
}

static const byte *pretoken_end(const byte *at, const byte *end, int o200k)
{
    const byte *last;
    if (!o200k && (last = contraction(at, end)) > at)
        return last;
    if ((last = letters(at, end, o200k)) > at)
        return last;
    if (is_digit(*at)) {
        last = run(at, end, is_digit);
        return last > at + 3 ? at + 3 : last;
    }
    const byte *begin = *at == ' ' ? at + 1 : at;
    if (begin < end && is_other(*begin)) {
        last = run(begin, end, is_other);
        while (last < end && (is_newline(*last) || (o200k && *last == '/')))
            last++;
        return last;
    }
    return spaces(at, end);
}

static long apart(Vocabulary *vocabulary, const byte *at, const byte *end)
{
    long sum = 0;
    while (at < end) {
        const byte *last = pretoken_end(at, end, vocabulary->o200k);
        long cost = pretoken(vocabulary, at, (size_t)(last - at));
        if (cost < 0)
            return ASK;
        sum += cost;
        at = last;
    }
    return sum;
}

/* ---- ChunkSums ---- */

#define MEMORABLE 128
#define FULL_BYTES (1 << 20)
#define ENCODINGS_MAX 2

typedef struct {
    PyObject_HEAD
    PyObject *cost;
    Py_ssize_t full; /* chunks that are remembered at most */
    int encodings;
    Vocabulary vocabularies[ENCODINGS_MAX];
    Table costs;
} ChunkSums;

static int is_plain(const byte *text, size_t size)
{
    if (size > 0 && *text == ' ')
        text++, size--;
    if (size == 0 || !is_letter(*text) || (size == 1 && is_upper(*text)))
        return 0;
    return run(text + 1, text + size, is_lower) == text + size;
}

static long word_cost(Vocabulary *vocabulary, const byte *text, size_t size)
{
    long cost = apart(vocabulary, text, text + size);
    if (cost < 0 || !vocabulary->o200k || *text != '/')
        return cost;
    size_t slashes = 0;
    while (slashes < size && text[slashes] == '/')
        slashes++;
    long rest = apart(vocabulary, text + slashes, text + size);
    if (rest < 0)
        return ASK;
    return cost > rest + (long)slashes ? cost : rest + (long)slashes;
}

static long plain_cost(Vocabulary *vocabulary, const byte *text, size_t size)
{
    if (rank_of(vocabulary, text, size) != NEVER)
        return 1;
    return size > LONGEST_ASCII ? ASK : merged_count(vocabulary, text, size);
}

/* The cost of a chunk in the dearest encoding; ASK where that is left to Python. */
static long chunk_cost(ChunkSums *self, const byte *chunk, size_t size)
{
    if (self->encodings == 0 || !is_ascii(chunk, size))
        return ASK;
    size_t kept = size;
    int plain = is_plain(chunk, size);
    if (!plain && size > 1 && chunk[size - 1] && strchr(".,:;!?)\"]}*`", chunk[size - 1]) != NULL)
        plain = is_plain(chunk, --kept);
    if (!plain && run(chunk, chunk + size, is_space) == chunk + size)
        return ASK;
    long most = 0;
    for (int place = 0; place < self->encodings; place++) {
        Vocabulary *vocabulary = &self->vocabularies[place];
        long cost = plain ? plain_cost(vocabulary, chunk, kept) : word_cost(vocabulary, chunk, size);
        if (cost < 0)
            return ASK;
        most = cost > most ? cost : most;
    }
    return plain ? most + (long)(size - kept) : most;
}

/* The end of the chunk that begins here: what the pattern `chunks` finds. NULL where it finds none:
 * blanks that end the text. */
static const byte *chunk_end(const byte *at, const byte *end)
{
    size_t wide;
    const byte *last = at, *word = at;
    while (word < end && (wide = blank(word, end)) > 0) {
        last = word;
        word += wide;
    }
    if (word == end)
        return NULL;
    if (is_newline(*word))
        return word + 1;
    if (last > at)
        return last; /* all blanks but the word's own */
    while (word < end && !is_newline(*word) && blank(word, end) == 0)
        word++;
    return word < end && is_newline(*word) ? word + 1 : word;
}

static int asked_cost(ChunkSums *self, const byte *chunk, size_t size, long long *cost)
{
    PyObject *text = decoded(chunk, size);
    PyObject *found = text == NULL ? NULL : PyObject_CallFunctionObjArgs(self->cost, text, NULL);
    Py_XDECREF(text);
    if (found == NULL)
        return 0;
    *cost = PyLong_AsLongLong(found);
    Py_DECREF(found);
    return !(*cost == -1 && PyErr_Occurred());
}

static PyObject *chunk_sums_count(ChunkSums *self, PyObject *text)
{
    const byte *at, *end;
    PyObject *data = looked_in(text, &at, &end);
    if (data == NULL)
        return NULL;
    long long sum = 0;
    for (const byte *last; at < end && (last = chunk_end(at, end)) != NULL; at = last) {
        size_t size = (size_t)(last - at);
        uint32_t hash = size <= MEMORABLE ? hash_of(at, size) : 0;
        Slot *slot = size <= MEMORABLE ? slot_of(&self->costs, at, size, hash) : NULL;
        if (slot != NULL)
            sum += slot->value;
        else {
            long long cost = chunk_cost(self, at, size);
            if (cost < 0 && !asked_cost(self, at, size, &cost)) {
                Py_DECREF(data);
                return NULL;
            }
            sum += cost;
            if (size <= MEMORABLE && cost >= 0 && cost < NEVER) {
                if (self->costs.count >= (size_t)self->full || self->costs.filled >= FULL_BYTES)
                    empty(&self->costs);
                put(&self->costs, at, size, hash, (uint32_t)cost);
            }
        }
    }
    Py_DECREF(data);
    return PyLong_FromLongLong(sum);
}

static void release(Vocabulary *vocabulary)
{
    if (vocabulary->text.obj != NULL)
        PyBuffer_Release(&vocabulary->text);
    if (vocabulary->ranks.obj != NULL)
        PyBuffer_Release(&vocabulary->ranks);
    if (vocabulary->starts.obj != NULL)
        PyBuffer_Release(&vocabulary->starts);
    empty(&vocabulary->seen);
}

static int open_vocabulary(Vocabulary *vocabulary, PyObject *given)
{
    PyObject *text, *ranks, *starts;
    if (!PyArg_ParseTuple(given, "pOOO", &vocabulary->o200k, &text, &ranks, &starts) ||
        PyObject_GetBuffer(text, &vocabulary->text, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(ranks, &vocabulary->ranks, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(starts, &vocabulary->starts, PyBUF_SIMPLE) < 0)
        return 0;
    vocabulary->count = (size_t)vocabulary->ranks.len / 4;
    vocabulary->groups = (size_t)vocabulary->starts.len / 4;
    int whole = vocabulary->groups == (vocabulary->count + GROUP - 1) / GROUP;
    for (size_t at = 0; whole && at < vocabulary->groups; at++)
        whole = word_at(vocabulary->starts.buf, at) < (size_t)vocabulary->text.len;
    if (!whole)
        PyErr_SetString(PyExc_ValueError, "the table of ranks is not whole");
    return whole;
}

static PyObject *chunk_sums_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *cost, *encodings;
    Py_ssize_t full;
    (void)named;
    if (!PyArg_ParseTuple(args, "OO!n", &cost, &PyTuple_Type, &encodings, &full))
        return NULL;
    Py_ssize_t count = PyTuple_Size(encodings);
    if (count > ENCODINGS_MAX) {
        PyErr_SetString(PyExc_ValueError, "expected two encodings at most");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    ChunkSums *self = (ChunkSums *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(cost);
    self->cost = cost;
    self->full = full > 0 ? full : 0;
    for (Py_ssize_t at = 0; at < count; at++)
        if (!open_vocabulary(&self->vocabularies[at], PyTuple_GetItem(encodings, at))) {
            Py_DECREF(self);
            return NULL;
        }
    self->encodings = (int)count;
    return (PyObject *)self;
}

static int chunk_sums_traverse(ChunkSums *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->cost);
    return 0;
}

static int chunk_sums_clear(ChunkSums *self)
{
    Py_CLEAR(self->cost);
    return 0;
}

/* Free an object of a heap type whose own parts are gone. */
static void freed(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release_memory(self);
    Py_DECREF(type);
}

static void chunk_sums_dealloc(ChunkSums *self)
{
    PyObject_GC_UnTrack(self);
    chunk_sums_clear(self);
    for (int at = 0; at < ENCODINGS_MAX; at++)
        release(&self->vocabularies[at]);
    empty(&self->costs);
    freed((PyObject *)self);
}

static Py_ssize_t chunk_sums_length(ChunkSums *self)
{
    return (Py_ssize_t)self->costs.count;
}

static PyObject *chunk_sums_forget(ChunkSums *self, PyObject *unused)
{
    (void)unused;
    empty(&self->costs);
    Py_RETURN_NONE;
}

static PyMethodDef chunk_sums_methods[] = {
    {"clear", (PyCFunction)chunk_sums_forget, METH_NOARGS, "Forget what was remembered."},
    {"count", (PyCFunction)chunk_sums_count, METH_O,
     "Sum the costs of the chunks of a text, without blanks that end it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot chunk_sums_slots[] = {
    {Py_tp_new, chunk_sums_new},           {Py_tp_dealloc, chunk_sums_dealloc},
    {Py_tp_traverse, chunk_sums_traverse}, {Py_tp_clear, chunk_sums_clear},
    {Py_tp_methods, chunk_sums_methods},   {Py_sq_length, chunk_sums_length},
    {0, NULL},
};

static PyType_Spec chunk_sums_spec = {
    "memplane._kernel.ChunkSums",
    sizeof(ChunkSums),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    chunk_sums_slots,
};

/* ---- BLAKE2b (RFC 7693) of eight bytes, without a key: the number of a term ---- */

static const uint64_t BLAKE_START[8] = {
    0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu, 0xA54FF53A5F1D36F1u,
    0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu, 0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u,
};
static const byte BLAKE_ORDER[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};
static const byte BLAKE_MIXED[8][4] = {
    {0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15},
    {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14},
};
#define BLAKE_BLOCK 128
#define BLAKE_SIZE 8

static uint64_t turned(uint64_t one, int bits) { return one >> bits | one << (64 - bits); }

static void blake_block(uint64_t state[8], const byte *block, uint64_t read, int is_last)
{
    uint64_t words[16], own[16];
    for (int at = 0; at < 16; at++) {
        words[at] = 0;
        for (int place = 8; place-- > 0;)
            words[at] = words[at] << 8 | block[8 * at + place];
    }
    memcpy(own, state, 8 * sizeof(*own));
    memcpy(own + 8, BLAKE_START, sizeof(BLAKE_START));
    own[12] ^= read;
    if (is_last)
        own[14] = ~own[14];
    for (int round = 0; round < 12; round++)
        for (int step = 0; step < 8; step++) {
            uint64_t *a = &own[BLAKE_MIXED[step][0]], *b = &own[BLAKE_MIXED[step][1]];
            uint64_t *c = &own[BLAKE_MIXED[step][2]], *d = &own[BLAKE_MIXED[step][3]];
            *a += *b + words[BLAKE_ORDER[round][2 * step]];
            *d = turned(*d ^ *a, 32);
            *c += *d;
            *b = turned(*b ^ *c, 24);
            *a += *b + words[BLAKE_ORDER[round][2 * step + 1]];
            *d = turned(*d ^ *a, 16);
            *c += *d;
            *b = turned(*b ^ *c, 63);
        }
    for (int at = 0; at < 8; at++)
        state[at] ^= own[at] ^ own[at + 8];
}

/* `whole_term` of terms.py: a text of at most TEXT_MAX bytes. */
static uint64_t whole_term(const byte *text, size_t size)
{
    byte data[(TEXT_MAX + 1 + BLAKE_BLOCK) / BLAKE_BLOCK * BLAKE_BLOCK] = {'w'};
    uint64_t state[8];
    memcpy(data + 1, text, size);
    memcpy(state, BLAKE_START, sizeof(state));
    state[0] ^= 0x01010000u ^ BLAKE_SIZE;
    size_t read = 0;
    for (; size + 1 - read > BLAKE_BLOCK; read += BLAKE_BLOCK)
        blake_block(state, data + read, read + BLAKE_BLOCK, 0);
    blake_block(state, data + read, size + 1, 1);
    return state[0] == 0 ? 1 : state[0];
}

/* ---- TokenParts ---- */

#define WORDS_MAX 200000
#define ATOMS_MAX (8 * WORDS_MAX)
#define PARTS_SIZE 2 /* of a word and of a token: its atoms, and its traits */
#define ATOM_SIZE 3
#define DEEPEST 2 /* a word, and a part of it */

typedef struct {
    uint64_t word, prefix;
    byte chained;
} Atom;

/* Atoms as they are found, and the traits of the words that they are of. */
typedef struct {
    Atom *atoms;
    size_t count, room;
    uint32_t traits;
} Parts;

/* Where the parts of a word that is remembered lie. */
typedef struct {
    uint32_t begin, end, traits;
} KnownWord;

typedef struct {
    PyObject_HEAD
    PyObject *word, *other, *endings;
    PyObject *numbered;       /* gives the traits of a word with a digit; NULL when it has */
    uint32_t numbered_traits;
    Parts parts; /* those of all words that are remembered */
    KnownWord *known;
    size_t count, room;
    Table places; /* of each word in `known` */
} TokenParts;

static int is_word(byte one) { return is_letter(one) || is_digit(one) || one == '_'; }
static int is_piece(byte one) { return is_letter(one) || is_digit(one); }
static int is_slash(byte one) { return one == '/' || one == '\\'; }
static int is_joint(byte one) { return is_slash(one) || one == '.' || one == ':' || one == '-'; }
static byte lowered(byte one) { return is_upper(one) ? one | 0x20 : one; }

static int add_atom(Parts *parts, uint64_t word, uint64_t prefix, int chained)
{
    if (parts->count == parts->room) {
        size_t room = 2 * parts->room + 16;
        Atom *longer = realloc(parts->atoms, room * sizeof(*longer));
        if (longer == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        parts->atoms = longer;
        parts->room = room;
    }
    Atom atom = {word, prefix, (byte)chained};
    parts->atoms[parts->count++] = atom;
    return 1;
}

/* Add the atoms and traits that Python gave. */
static int add_given(Parts *parts, PyObject *given)
{
    PyObject *atoms = NULL;
    if (PyTuple_Check(given) && PyTuple_Size(given) == PARTS_SIZE)
        atoms = PyTuple_GetItem(given, 0);
    if (atoms == NULL || !PyTuple_Check(atoms)) {
        PyErr_SetString(PyExc_TypeError, "expected the atoms of a word and its traits");
        return 0;
    }
    for (Py_ssize_t at = 0; at < PyTuple_Size(atoms); at++) {
        PyObject *one = PyTuple_GetItem(atoms, at);
        if (!PyTuple_Check(one) || PyTuple_Size(one) != ATOM_SIZE) {
            PyErr_SetString(PyExc_TypeError, "expected a word, a prefix and whether it is chained");
            return 0;
        }
        unsigned long long word = PyLong_AsUnsignedLongLong(PyTuple_GetItem(one, 0));
        unsigned long long prefix =
            PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GetItem(one, 1));
        int chained = PyErr_Occurred() ? 0 : PyObject_IsTrue(PyTuple_GetItem(one, 2));
        if (chained < 0 || PyErr_Occurred() || !add_atom(parts, word, prefix, chained))
            return 0;
    }
    unsigned long traits = PyLong_AsUnsignedLong(PyTuple_GetItem(given, 1));
    if (traits == (unsigned long)-1 && PyErr_Occurred())
        return 0;
    parts->traits |= (uint32_t)traits;
    return 1;
}

static int add_asked(PyObject *asked, Parts *parts, const byte *word, size_t size)
{
    PyObject *text = decoded(word, size);
    PyObject *found = text == NULL ? NULL : PyObject_CallFunctionObjArgs(asked, text, NULL);
    Py_XDECREF(text);
    int done = found != NULL && add_given(parts, found);
    Py_XDECREF(found);
    return done;
}

/* Remember the parts of a word. Where there is no memory they are not remembered. */
static void remember(TokenParts *self, const Parts *parts, const byte *word, size_t size)
{
    if (self->count >= WORDS_MAX || self->parts.count >= ATOMS_MAX) {
        empty(&self->places);
        self->count = self->parts.count = 0;
    }
    if (self->count == self->room) {
        size_t room = 2 * self->room + 256;
        KnownWord *longer = realloc(self->known, room * sizeof(*longer));
        if (longer == NULL)
            return;
        self->known = longer;
        self->room = room;
    }
    size_t begin = self->parts.count;
    for (size_t at = 0; at < parts->count; at++) {
        const Atom *one = &parts->atoms[at];
        if (begin + parts->count > UINT32_MAX ||
            !add_atom(&self->parts, one->word, one->prefix, one->chained)) {
            PyErr_Clear();
            self->parts.count = begin;
            return;
        }
    }
    KnownWord known = {(uint32_t)begin, (uint32_t)self->parts.count, parts->traits};
    self->known[self->count] = known;
    put(&self->places, word, size, hash_of(word, size), (uint32_t)self->count++);
}

/* Whether a word is read here: one with a digit, cut at each `_` alone. */
static int is_numbered(const byte *word, size_t size)
{
    int digits = 0;
    for (size_t at = 0; at < size; at++) {
        digits |= is_digit(word[at]);
        if (at > 0 && is_upper(word[at]) && (is_lower(word[at - 1]) || is_digit(word[at - 1])))
            return 0;
        if (at > 1 && is_lower(word[at]) && is_upper(word[at - 1]) && is_upper(word[at - 2]))
            return 0;
    }
    return digits;
}

/* Whether a stemmer may change a word that ends so. */
static int is_ending(const TokenParts *self, const byte *word, size_t size)
{
    if (size == 0 || is_digit(word[size - 1]))
        return 0;
    for (Py_ssize_t at = 0; at < PyTuple_Size(self->endings); at++) {
        char *ending;
        Py_ssize_t length;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(self->endings, at), &ending, &length) < 0) {
            PyErr_Clear();
            return 1;
        }
        if ((size_t)length <= size && memcmp(word + size - length, ending, (size_t)length) == 0)
            return 1;
    }
    return 0;
}

static int add_word(TokenParts *self, Parts *parts, const byte *word, size_t size, int depth);

/* Add a part of a numbered word, in small letters. */
static int add_piece(TokenParts *self, Parts *parts, const byte *part, size_t size, int depth)
{
    size_t digits = (size_t)(run(part, part + size, is_digit) - part);
    if (digits == size) /* 05 and 5 are the same day of a month */
        return add_atom(parts, size == 2 && *part == '0' ? whole_term(part + 1, 1)
                                                         : whole_term(part, size), 0, 1);
    int has_digit = 0;
    for (size_t at = 0; at < size; at++)
        has_digit |= is_digit(part[at]);
    if (has_digit && !is_ending(self, part, size))
        return add_atom(parts, whole_term(part, size), 0, 1);
    return has_digit ? add_asked(self->word, parts, part, size)
                     : add_word(self, parts, part, size, depth + 1);
}

/* Find out the traits of a word with a digit, once. */
static int ask_numbered(TokenParts *self)
{
    PyObject *numbered = self->numbered;
    Py_INCREF(numbered);
    PyObject *found = PyObject_CallNoArgs(numbered);
    Py_DECREF(numbered);
    unsigned long traits = found == NULL ? 0 : PyLong_AsUnsignedLong(found);
    Py_XDECREF(found);
    if (PyErr_Occurred())
        return 0;
    self->numbered_traits = (uint32_t)traits;
    Py_CLEAR(self->numbered);
    return 1;
}

static int add_numbered(TokenParts *self, Parts *parts, const byte *word, size_t size, int depth)
{
    byte lower[TEXT_MAX];
    size_t begin = 0, end = size, pieces = 0;
    for (size_t at = 0; at < size; at++)
        lower[at] = lowered(word[at]);
    for (size_t at = 0; at < size;) {
        const byte *last = run(lower + at, lower + size, is_piece);
        size_t length = (size_t)(last - (lower + at));
        if (length > 0 && !add_piece(self, parts, lower + at, length, depth))
            return 0;
        pieces += length > 0;
        at += length + 1;
    }
    while (begin < end && lower[begin] == '_')
        begin++;
    while (end > begin && lower[end - 1] == '_')
        end--;
    if (self->numbered != NULL && !ask_numbered(self))
        return 0;
    parts->traits = self->numbered_traits;
    return pieces < 2 || add_atom(parts, whole_term(lower + begin, end - begin), 0, 0);
}

/* Add the parts of a run of word characters. */
static int add_word(TokenParts *self, Parts *parts, const byte *word, size_t size, int depth)
{
    const Slot *slot = slot_of(&self->places, word, size, hash_of(word, size));
    Parts own = {NULL, 0, 0, 0};
    int done = 1;
    if (slot != NULL) {
        KnownWord known = self->known[slot->value];
        for (size_t at = known.begin; done && at < known.end; at++) {
            Atom one = self->parts.atoms[at];
            done = add_atom(parts, one.word, one.prefix, one.chained);
        }
        parts->traits |= known.traits;
        return done;
    }
    done = depth < DEEPEST && is_numbered(word, size) ? add_numbered(self, &own, word, size, depth)
                                                      : add_asked(self->word, &own, word, size);
    for (size_t at = 0; done && at < own.count; at++)
        done = add_atom(parts, own.atoms[at].word, own.atoms[at].prefix, own.atoms[at].chained);
    if (done)
        remember(self, &own, word, size);
    parts->traits |= own.traits;
    free(own.atoms);
    return done;
}

/* The patterns _FILE and _CODE of terms.py, of ASCII in small letters. */
static int is_file_name(const byte *at, const byte *end)
{
    const byte *dot = end;
    while (dot > at && *--dot != '.')
        ;
    const byte *ending = dot + 1;
    if (dot == at || end - ending < 1 || end - ending > 5 || !is_letter(*ending) ||
        run(ending, end, is_word) != end)
        return 0;
    const byte *name = at;
    while (name < dot && (is_word(*name) || *name == '-'))
        name++;
    if (name - at < 2)
        return 0;
    for (; name < dot; name++)
        if (!is_word(*name) && ((*name != '.' && *name != '-') || !is_word(name[1])))
            return 0;
    return 1;
}

static int is_code(const byte *at, const byte *end)
{
    const byte *number = run(at, end, is_letter);
    if (number == at || number == end)
        return 0;
    while (number < end) {
        const byte *last = *number == '-' ? run(number + 1, end, is_digit) : number;
        if (last <= number + 1)
            return 0;
        number = last;
    }
    return 1;
}

static int add_whole(Parts *parts, const byte *text, size_t size)
{
    return add_atom(parts, whole_term(text, size), 0, 0);
}

/* Add the forms under which a composed surface is also found as one. */
static int add_wholes(Parts *parts, const byte *at, const byte *end)
{
    byte lower[TEXT_MAX];
    size_t size = 0, pieces = 0, last = 0;
    int slashes = 0, colons = 0;
    for (const byte *one = at; one < end; one++) {
        slashes |= is_slash(*one);
        colons |= *one == ':' && one + 1 < end && one[1] == ':';
        if (is_slash(*one) && (size == 0 || lower[size - 1] == '/'))
            continue;
        lower[size++] = is_slash(*one) ? '/' : lowered(*one);
    }
    if (!slashes)
        return (colons || is_code(lower, lower + size) || is_file_name(lower, lower + size))
                   ? add_whole(parts, lower, size)
                   : 1;
    /* A surface begins and ends with a word: no piece is empty. */
    for (size_t place = 0; place < size; place++)
        if (lower[place] == '/') {
            pieces++;
            last = place + 1;
        }
    int named = is_file_name(lower + last, lower + size);
    if ((pieces + 1 > 2 || named) && !add_whole(parts, lower, size))
        return 0;
    return !named || add_whole(parts, lower + last, size - last);
}

static int add_surfaces(TokenParts *self, Parts *parts, const byte *at, const byte *end)
{
    while (at < end) {
        if (!is_word(*at)) {
            at++;
            continue;
        }
        const byte *begin = at, *last;
        for (size_t words = 1;; words++) {
            last = run(at, end, is_word);
            if (!add_word(self, parts, at, (size_t)(last - at), 0))
                return 0;
            at = run(last, end, is_joint);
            if (at == last || at == end || !is_word(*at)) {
                if (words > 1 && !add_wholes(parts, begin, last))
                    return 0;
                break;
            }
        }
    }
    return 1;
}

/* Whether these bytes are read here: short, without a character beyond ASCII, a quote and a comma
 * that may group digits. */
static int is_usual(const byte *at, const byte *end)
{
    if (end - at > TEXT_MAX)
        return 0;
    for (const byte *one = at; one < end; one++)
        if (*one >= 0x80 || *one == '\'' ||
            (*one == ',' && one > at && one + 1 < end && is_digit(one[-1]) && is_digit(one[1])))
            return 0;
    return 1;
}

/* The columns of the parts: words and prefixes, eight bytes each, a byte for whether it is chained,
 * and the traits. */
static PyObject *columns_of_parts(const Parts *parts)
{
    uint64_t *words = malloc(2 * parts->count * sizeof(*words) + 1);
    byte *chained = malloc(parts->count + 1);
    PyObject *made = NULL;
    if (words == NULL || chained == NULL)
        PyErr_NoMemory();
    else {
        Py_ssize_t size = (Py_ssize_t)(parts->count * sizeof(*words));
        for (size_t at = 0; at < parts->count; at++) {
            words[at] = parts->atoms[at].word;
            words[parts->count + at] = parts->atoms[at].prefix;
            chained[at] = parts->atoms[at].chained;
        }
        made = Py_BuildValue("(y#y#y#k)", words, size, words + parts->count, size, chained,
                             (Py_ssize_t)parts->count, (unsigned long)parts->traits);
    }
    free(words);
    free(chained);
    return made;
}

/* Find the parts of a token, the text of these bytes. */
static int find_parts(
    TokenParts *self, Parts *parts, PyObject *token, const byte *at, const byte *end)
{
    if (is_usual(at, end))
        return add_surfaces(self, parts, at, end);
    PyObject *found = PyObject_CallFunctionObjArgs(self->other, token, NULL);
    int done = found != NULL && add_given(parts, found);
    Py_XDECREF(found);
    return done;
}

static PyObject *token_parts_of(TokenParts *self, PyObject *token)
{
    const byte *at, *end;
    PyObject *data = looked_in(token, &at, &end), *made = NULL;
    Parts parts = {NULL, 0, 0, 0};
    if (data == NULL)
        return NULL;
    if (find_parts(self, &parts, token, at, end))
        made = columns_of_parts(&parts);
    free(parts.atoms);
    Py_DECREF(data);
    return made;
}

static PyObject *token_parts_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *word, *other, *endings, *numbered;
    (void)named;
    if (!PyArg_ParseTuple(args, "OOO!O", &word, &other, &PyTuple_Type, &endings, &numbered))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    TokenParts *self = (TokenParts *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(word);
    Py_INCREF(other);
    Py_INCREF(endings);
    Py_INCREF(numbered);
    self->word = word;
    self->other = other;
    self->endings = endings;
    self->numbered = numbered;
    return (PyObject *)self;
}

static int token_parts_traverse(TokenParts *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->word);
    Py_VISIT(self->other);
    Py_VISIT(self->endings);
    Py_VISIT(self->numbered);
    return 0;
}

static int token_parts_clear(TokenParts *self)
{
    Py_CLEAR(self->word);
    Py_CLEAR(self->other);
    Py_CLEAR(self->endings);
    Py_CLEAR(self->numbered);
    return 0;
}

static void token_parts_dealloc(TokenParts *self)
{
    PyObject_GC_UnTrack(self);
    token_parts_clear(self);
    empty(&self->places);
    free(self->parts.atoms);
    free(self->known);
    freed((PyObject *)self);
}

static PyMethodDef token_parts_methods[] = {
    {"of", (PyCFunction)token_parts_of, METH_O,
     "Return the columns of the atoms of a token, and its traits."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot token_parts_slots[] = {
    {Py_tp_new, token_parts_new},           {Py_tp_dealloc, token_parts_dealloc},
    {Py_tp_traverse, token_parts_traverse}, {Py_tp_clear, token_parts_clear},
    {Py_tp_methods, token_parts_methods},   {0, NULL},
};

static PyType_Spec token_parts_spec = {
    "memplane._kernel.TokenParts",
    sizeof(TokenParts),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    token_parts_slots,
};

/* ---- TokenNumbers ---- */

#define TOKENS_MAX (1 << 20)

/* The columns of a vocabulary, in the order in which they are given. */
enum { OWN_WORDS, OWN_PREFIXES, OWN_CHAINED, OWN_TRAITS, OWN_STARTS, COLUMNS_OF_TOKENS };

/* A token that is not in the columns yet: where its atoms end, and its traits. */
typedef struct {
    uint32_t end, traits;
} FreshToken;

typedef struct {
    PyObject_HEAD
    PyObject *pieces;
    size_t longest; /* characters of a token that has a number of its own */
    Table numbers;
    /* Of a vocabulary to which new tokens are added here; else NULL. */
    TokenParts *parts;
    PyObject *columns;
    byte around[256]; /* of each byte whether it is no part of a token that it begins or ends */
    Parts atoms;      /* of the fresh tokens */
    FreshToken *fresh;
    size_t fresh_count, fresh_room;
} TokenNumbers;

/* Numbers as they are found. */
typedef struct {
    uint32_t *numbers;
    size_t count, room;
} Numbers;

static int append(Numbers *found, uint32_t number)
{
    if (found->count == found->room) {
        size_t room = 2 * found->room + 256;
        uint32_t *longer = realloc(found->numbers, room * sizeof(*longer));
        if (longer == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        found->numbers = longer;
        found->room = room;
    }
    found->numbers[found->count++] = number;
    return 1;
}

static int as_number(PyObject *given, uint32_t *number)
{
    unsigned long value = PyLong_AsUnsignedLong(given);
    if (value == (unsigned long)-1 && PyErr_Occurred())
        return 0;
    if (value > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the number of a token is too large");
        return 0;
    }
    *number = (uint32_t)value;
    return 1;
}

/* Append the number that the mapping has for a text. */
static int append_asked(Numbers *found, PyObject *mapping, PyObject *text)
{
    uint32_t number;
    PyObject *given = text == NULL ? NULL : PyObject_GetItem(mapping, text);
    int done = given != NULL && as_number(given, &number) && append(found, number);
    Py_XDECREF(given);
    return done;
}

/* ---- those of a vocabulary: what `TermVocabulary.__missing__` of terms.py does ---- */

static PyObject *column_of(const TokenNumbers *self, int which)
{
    return PyTuple_GetItem(self->columns, which);
}

/* Make the number of a token; its words are put into the columns later. */
static int make_number(
    TokenNumbers *self, PyObject *text, const byte *token, size_t size, uint32_t *number)
{
    Parts parts = {NULL, 0, 0, 0};
    int done = find_parts(self->parts, &parts, text, token, token + size);
    /* From here on no Python runs: another thread finds a number and its words together. */
    if (done && self->fresh_count == self->fresh_room) {
        size_t room = 2 * self->fresh_room + 64;
        FreshToken *longer = realloc(self->fresh, room * sizeof(*longer));
        if (longer == NULL) {
            PyErr_NoMemory();
            done = 0;
        } else {
            self->fresh = longer;
            self->fresh_room = room;
        }
    }
    size_t before = self->atoms.count;
    for (size_t at = 0; done && at < parts.count; at++) {
        const Atom *one = &parts.atoms[at];
        done = add_atom(&self->atoms, one->word, one->prefix, one->chained);
    }
    free(parts.atoms);
    Py_ssize_t starts = done ? PyObject_Size(column_of(self, OWN_STARTS)) : -1;
    if (starts < 1 || (uint64_t)starts + self->fresh_count > UINT32_MAX) {
        if (done && !PyErr_Occurred())
            PyErr_SetString(PyExc_OverflowError, "a vocabulary has no such number of tokens");
        self->atoms.count = before;
        return 0;
    }
    FreshToken fresh = {(uint32_t)self->atoms.count, parts.traits};
    *number = (uint32_t)((size_t)starts - 1 + self->fresh_count);
    self->fresh[self->fresh_count++] = fresh;
    return 1;
}

/* The number of a token; one with other signs around it has that of the token without them. */
static int number_in(TokenNumbers *self, PyObject *vocabulary, const byte *token, size_t size,
                     uint32_t hash, uint32_t *number)
{
    const Slot *slot = slot_of(&self->numbers, token, size, hash);
    if (slot != NULL) {
        *number = slot->value;
        return 1;
    }
    PyObject *text = decoded(token, size);
    PyObject *known = text == NULL ? NULL : PyDict_GetItemWithError(vocabulary, text);
    int done = 0;
    if (known != NULL)
        done = as_number(known, number);
    else if (!PyErr_Occurred()) {
        const byte *at = token, *end = token + size;
        while (at < end && self->around[*at])
            at++;
        while (end > at && self->around[end[-1]])
            end--;
        done = at < end && (size_t)(end - at) < size
                   ? number_in(self, vocabulary, at, (size_t)(end - at),
                               hash_of(at, (size_t)(end - at)), number)
                   : make_number(self, text, token, size, number);
        PyObject *made = done ? PyLong_FromUnsignedLong(*number) : NULL;
        done = made != NULL && PyDict_SetItem(vocabulary, text, made) == 0;
        Py_XDECREF(made);
    }
    Py_XDECREF(text);
    if (done && self->numbers.count < TOKENS_MAX)
        put(&self->numbers, token, size, hash, *number);
    return done;
}

static int extend(const TokenNumbers *self, int which, const void *from, size_t size)
{
    PyObject *column = column_of(self, which);
    PyObject *done = column == Py_None
                         ? Py_NewRef(Py_None)
                         : PyObject_CallMethod(column, "frombytes", "y#", from, (Py_ssize_t)size);
    Py_XDECREF(done);
    return done != NULL;
}

/* Put the words of the fresh tokens into the columns. */
static int fill_columns(TokenNumbers *self)
{
    size_t atoms = self->atoms.count, tokens = self->fresh_count;
    Py_ssize_t before = PyObject_Size(column_of(self, OWN_WORDS));
    uint64_t *words = malloc(2 * atoms * sizeof(*words) + 1);
    uint32_t *starts = malloc(2 * tokens * sizeof(*starts) + 1);
    byte *chained = malloc(atoms + 1);
    int done = 0;
    if (words == NULL || starts == NULL || chained == NULL)
        PyErr_NoMemory();
    else if (before >= 0 && (uint64_t)before + atoms > UINT32_MAX)
        PyErr_SetString(PyExc_OverflowError, "a vocabulary has no room for so many words");
    else if (before >= 0) {
        for (size_t at = 0; at < atoms; at++) {
            words[at] = self->atoms.atoms[at].word;
            words[atoms + at] = self->atoms.atoms[at].prefix;
            chained[at] = self->atoms.atoms[at].chained;
        }
        for (size_t at = 0; at < tokens; at++) {
            starts[at] = (uint32_t)before + self->fresh[at].end;
            starts[tokens + at] = self->fresh[at].traits;
        }
        self->atoms.count = self->fresh_count = 0;
        done = extend(self, OWN_WORDS, words, atoms * sizeof(*words)) &&
               extend(self, OWN_PREFIXES, words + atoms, atoms * sizeof(*words)) &&
               extend(self, OWN_CHAINED, chained, atoms) &&
               extend(self, OWN_TRAITS, starts + tokens, tokens * sizeof(*starts)) &&
               extend(self, OWN_STARTS, starts, tokens * sizeof(*starts));
    }
    free(words);
    free(starts);
    free(chained);
    return done;
}

/* The same, also behind an error, which stays. */
static int filled(TokenNumbers *self, int done)
{
    if (self->fresh_count == 0)
        return done;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!fill_columns(self)) {
        if (done)
            return 0;
        PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
    return done;
}

static int append_found(TokenNumbers *self, Numbers *found, PyObject *mapping, PyObject *text)
{
    if (self->parts == NULL)
        return append_asked(found, mapping, text);
    const byte *at, *end;
    uint32_t number;
    PyObject *data = looked_in(text, &at, &end);
    int done = data != NULL &&
               number_in(self, mapping, at, (size_t)(end - at), hash_of(at, (size_t)(end - at)),
                         &number) &&
               append(found, number);
    Py_XDECREF(data);
    return done;
}

static int append_pieces(TokenNumbers *self, Numbers *found, PyObject *mapping, PyObject *token)
{
    PyObject *made = PyObject_CallFunctionObjArgs(self->pieces, token, NULL);
    PyObject *pieces = made == NULL ? NULL : PySequence_List(made);
    Py_XDECREF(made);
    if (pieces == NULL)
        return 0;
    int done = 1;
    for (Py_ssize_t at = 0; done && at < PyList_Size(pieces); at++)
        done = append_found(self, found, mapping, PyList_GetItem(pieces, at));
    Py_DECREF(pieces);
    return done;
}

static size_t characters_of(const byte *text, size_t size)
{
    size_t found = 0;
    for (size_t at = 0; at < size; at++)
        found += (text[at] & 0xC0) != 0x80;
    return found;
}

/* Append the number of a token, or those of the pieces of a long one. */
static int append_token(TokenNumbers *self, Numbers *found, PyObject *mapping, const byte *token,
                        size_t size, uint32_t hash)
{
    size_t characters = size <= self->longest ? 0 : characters_of(token, size);
    int is_one = characters <= self->longest;
    uint32_t number;
    if (is_one && self->parts != NULL)
        return number_in(self, mapping, token, size, hash, &number) && append(found, number);
    const Slot *slot = is_one ? slot_of(&self->numbers, token, size, hash) : NULL;
    if (slot != NULL)
        return append(found, slot->value);
    PyObject *text = decoded(token, size);
    int done = text != NULL && (is_one ? append_asked(found, mapping, text)
                                       : append_pieces(self, found, mapping, text));
    Py_XDECREF(text);
    if (done && is_one && self->numbers.count < TOKENS_MAX)
        put(&self->numbers, token, size, hash, found->numbers[found->count - 1]);
    return done;
}

/* Tokens that are read before the first of them is looked up: where a table is larger than the
 * processor's cache, their slots are fetched meanwhile. */
#define AHEAD 32

static int append_tokens(
    TokenNumbers *self, Numbers *found, PyObject *mapping, const byte *at, const byte *end)
{
    struct {
        const byte *at;
        size_t size;
        uint32_t hash;
    } tokens[AHEAD];
    while (at < end) {
        size_t count = 0;
        while (at < end && count < AHEAD) {
            size_t wide = MAY_SPLIT[*at] ? split_blank(at, end) : 0;
            if (wide > 0) {
                at += wide;
                continue;
            }
            const byte *token = at;
            while (at < end && (!MAY_SPLIT[*at] || split_blank(at, end) == 0))
                at++;
            tokens[count].at = token;
            tokens[count].size = (size_t)(at - token);
            tokens[count].hash = hash_of(token, tokens[count].size);
            fetch_slot(&self->numbers, tokens[count++].hash);
        }
        for (size_t place = 0; place < count; place++)
            if (!append_token(self, found, mapping, tokens[place].at, tokens[place].size,
                              tokens[place].hash))
                return 0;
    }
    return 1;
}

static PyObject *token_numbers_of(TokenNumbers *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "expected a text and a mapping");
        return NULL;
    }
    if (self->parts != NULL && !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "expected a vocabulary");
        return NULL;
    }
    const byte *at, *end;
    PyObject *data = looked_in(args[0], &at, &end), *made = NULL;
    if (data == NULL)
        return NULL;
    Numbers found = {NULL, 0, 0};
    if (filled(self, append_tokens(self, &found, args[1], at, end)))
        made = PyBytes_FromStringAndSize(
            (const char *)found.numbers, (Py_ssize_t)(found.count * sizeof(uint32_t)));
    free(found.numbers);
    Py_DECREF(data);
    return made;
}

/* Whether an object is a TokenParts: all of them are made by one function. */
static int is_token_parts(PyObject *given)
{
    return PyType_GetSlot(Py_TYPE(given), Py_tp_new) == (void *)token_parts_new;
}

static PyObject *token_numbers_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *pieces, *parts = NULL, *columns = NULL;
    const char *around = NULL;
    Py_ssize_t longest, around_size = 0;
    (void)named;
    if (!PyArg_ParseTuple(args, "On|(y#OO!)", &pieces, &longest, &around, &around_size, &parts,
                          &PyTuple_Type, &columns))
        return NULL;
    if (parts != NULL && (!is_token_parts(parts) || PyTuple_Size(columns) != COLUMNS_OF_TOKENS)) {
        PyErr_SetString(PyExc_TypeError, "expected the parts of tokens and the columns for them");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    TokenNumbers *self = (TokenNumbers *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(pieces);
    Py_XINCREF(parts);
    Py_XINCREF(columns);
    self->pieces = pieces;
    self->longest = longest > 0 ? (size_t)longest : 0;
    self->parts = (TokenParts *)parts;
    self->columns = columns;
    for (Py_ssize_t at = 0; at < around_size; at++)
        self->around[(byte)around[at]] = 1;
    return (PyObject *)self;
}

static int token_numbers_traverse(TokenNumbers *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->pieces);
    Py_VISIT((PyObject *)self->parts);
    Py_VISIT(self->columns);
    return 0;
}

static int token_numbers_clear(TokenNumbers *self)
{
    PyObject *parts = (PyObject *)self->parts;
    self->parts = NULL;
    Py_XDECREF(parts);
    Py_CLEAR(self->pieces);
    Py_CLEAR(self->columns);
    return 0;
}

static void token_numbers_dealloc(TokenNumbers *self)
{
    PyObject_GC_UnTrack(self);
    token_numbers_clear(self);
    empty(&self->numbers);
    free(self->atoms.atoms);
    free(self->fresh);
    freed((PyObject *)self);
}

static PyMethodDef token_numbers_methods[] = {
    {"of", (PyCFunction)(void (*)(void))token_numbers_of, METH_FASTCALL,
     "Return the numbers of the tokens of a text, four bytes each."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot token_numbers_slots[] = {
    {Py_tp_new, token_numbers_new},           {Py_tp_dealloc, token_numbers_dealloc},
    {Py_tp_traverse, token_numbers_traverse}, {Py_tp_clear, token_numbers_clear},
    {Py_tp_methods, token_numbers_methods},   {0, NULL},
};

static PyType_Spec token_numbers_spec = {
    "memplane._kernel.TokenNumbers",
    sizeof(TokenNumbers),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    token_numbers_slots,
};

/* ---- PostingSums ---- */

#define FIELDS 4     /* words, bigrams, prefixes, related */
#define LENGTHS 3    /* the related words are measured by the words */
#define SLICE_SIZE 5 /* block, field, place, begin, end */
#define NORMS 512    /* longer texts are computed one by one */
#define TIMES 256    /* a term stands in a document fewer times than this, as the index counts */
#define TABLED 1024  /* postings from which on a term has a table of what `top_gain` returns */
#define ROW 64       /* sums of which the best are compared */
#define PART 512     /* documents whose sums are added up at a time: the cache holds them */
#define STRIDE 16    /* postings that are passed over at once */
#define LEAP 256     /* so many where the document sought is further away */
#define ROLES 8      /* those from the last on count as one */
#define POINT 1048576.0 /* 2**20: scores are whole numbers of its parts */
#define NOT_RISING "a slice has not rising documents of its block"

typedef struct {
    Py_ssize_t first, size;
    Py_buffer docs, times, lengths[LENGTHS];
} PostingBlock;

typedef struct {
    PyObject_HEAD
    PostingBlock *blocks;
    Py_ssize_t block_count, limit;
    int64_t *rows, row_count; /* the slices, a copy: they are checked once */
    Py_buffer hidden, apart;  /* without an object where there is none */
} PostingSums;

/* What a posting is worth, and what a document's sums are. */
typedef struct {
    const double *strength, *rare;
    double average[FIELDS], k1, b, bigrams, prefixes, related;
} Worth;

/* One term in one block: what is left of it behind the documents that are added up. */
typedef struct {
    const uint16_t *docs, *lengths;
    const byte *times;
    const double *tops; /* what `top_gain` returns by how often a term is there; or NULL */
    double strength, rare;
    int64_t count, left;
    int32_t last;
    int field;
} Cursor;

/* What is worked with: too much for the stack of a thread of some systems. */
typedef struct PartSums {
    double norms[FIELDS][NORMS], sums[FIELDS + 1][PART], words[PART];
    uint16_t places[PART];
    byte seen[PART];
    Cursor *cursors;    /* block by block, of a block in the order of the slices */
    Py_ssize_t *begins; /* where those of each block begin, and where the last end */
    double *tops;       /* tables of frequent terms */
    /* What comes out: of the documents that match those whose words earn no less than the floor
     * of their role; `floor` is the lowest. */
    int32_t *docs;
    double *totals, *coverage, floor, floors[ROLES], mass; /* by which coverage is divided */
    const byte *roles; /* of each document; NULL where there are no floors */
    Py_ssize_t made, matched;
    int covers; /* whether a match has coverage, also one that is not given out */
    /* Called where there is room for less than a part; NULL: there is room for all. */
    int (*make_room)(struct PartSums *part, void *owner);
    void *owner;
    Py_ssize_t room;
} PartSums;

static double length_norm(double length, double average, const Worth *worth)
{
    double share = worth->b * (length / average);
    share = (1.0 - worth->b) + share;
    return worth->k1 * share;
}

/* What a term adds to a document is this divided by (times + norm): see `term_gain` in
 * memplane/index/bm25.py. */
static double top_gain(double strength, double times, const Worth *worth)
{
    double gain = times * (worth->k1 + 1.0);
    return gain * strength;
}

/* Add what a term gives the documents from `begin` to before `end` of its block; 0 where these do
 * not rise. A mapped file may change at any time: each number of it is read once. */
static inline int add_postings(Cursor *cursor, int32_t begin, int32_t end, const Worth *worth,
                               PartSums *part, int tabled, int covers)
{
    const volatile uint16_t *docs = cursor->docs, *lengths = cursor->lengths;
    const volatile byte *times = cursor->times;
    const double *tops = cursor->tops, *norms = part->norms[cursor->field];
    double *own = part->sums[cursor->field], *coverage = part->sums[FIELDS];
    double strength = cursor->strength, rare = cursor->rare;
    int32_t last = cursor->last < begin ? begin - 1 : cursor->last;
    int64_t at = 0, left = cursor->left;
    for (; at < left; at++) {
        int32_t doc = docs[at];
        if (doc >= end)
            break;
        if (doc <= last)
            return 0;
        last = doc;
        unsigned length = lengths[doc], often = times[at];
        double norm = length < NORMS
                          ? norms[length]
                          : length_norm(length, worth->average[cursor->field], worth);
        double top = tabled ? tops[often] : top_gain(strength, often, worth);
        own[doc - begin] += top / ((double)often + norm);
        part->seen[doc - begin] = 1;
        if (covers)
            coverage[doc - begin] += rare;
    }
    cursor->docs += at;
    cursor->times += at;
    cursor->left -= at;
    cursor->last = last;
    return 1;
}

static int add_term(Cursor *cursor, int32_t begin, int32_t end, const Worth *worth, PartSums *part)
{
    if (cursor->field > 0)
        return cursor->tops != NULL ? add_postings(cursor, begin, end, worth, part, 1, 0)
                                    : add_postings(cursor, begin, end, worth, part, 0, 0);
    return cursor->tops != NULL ? add_postings(cursor, begin, end, worth, part, 1, 1)
                                : add_postings(cursor, begin, end, worth, part, 0, 1);
}

/* What the words of a document earn in all: see `combined` in memplane/index/bm25.py. */
static inline double words_of(const PartSums *part, const Worth *worth, int at)
{
    double total = worth->bigrams * part->sums[1][at];
    total += part->sums[0][at];
    total += worth->prefixes * part->sums[2][at];
    total += worth->related * part->sums[3][at];
    return total * POINT;
}

static int counted_role(byte role)
{
    return role < ROLES ? role : ROLES - 1;
}

/* Give out the documents of a part that may be seen, with what their words earn. */
static void give_out(const PostingSums *self, const Worth *worth, PartSums *part,
                     Py_ssize_t first, int count)
{
    const byte *hidden = self->hidden.obj == NULL ? NULL : (byte *)self->hidden.buf + first;
    const byte *apart = self->apart.obj == NULL ? NULL : (byte *)self->apart.buf + first;
    for (int at = 0; hidden != NULL && at < count; at++)
        part->seen[at] &= hidden[at] == 0;
    for (int at = 0; apart != NULL && at < count; at++)
        part->seen[at] &= apart[at] == 0;
    for (int at = 0; at < count; at++)
        part->words[at] = words_of(part, worth, at);
    const byte *seen = part->seen;
    const double *words = part->words;
    double floor = part->floor;
    uint16_t *places = part->places;
    int made = 0, matched = 0;
    for (int at = 0; at < count; at++)
        matched += seen[at];
    for (int at = 0; !part->covers && at < count; at++)
        part->covers = seen[at] & (part->sums[FIELDS][at] != 0.0);
    for (int at = 0; at < count; at++) {
        places[made] = (uint16_t)at;
        made += seen[at] & !(words[at] < floor);
    }
    int above = part->roles == NULL ? made : 0;
    for (int at = 0; part->roles != NULL && at < made; at++) {
        int place = places[at];
        places[above] = (uint16_t)place;
        above += !(words[place] < part->floors[counted_role(part->roles[first + place])]);
    }
    made = above;
    for (int at = 0; at < made; at++) {
        part->docs[part->made + at] = (int32_t)(first + places[at]);
        part->totals[part->made + at] = words[places[at]];
        part->coverage[part->made + at] = part->sums[FIELDS][places[at]] / part->mass;
    }
    part->made += made;
    part->matched += matched;
}

/* Add what all postings give, some documents after the others: to each document in the order of the
 * slices, as the twin does. 0 where the documents of a slice do not rise within its block and below
 * the limit, -1 where there is no room for them. */
static int add_gains(const PostingSums *self, const Worth *worth, PartSums *part)
{
    for (Py_ssize_t at = 0; at < self->block_count; at++) {
        const PostingBlock *block = &self->blocks[at];
        Cursor *from = part->cursors + part->begins[at], *to = part->cursors + part->begins[at + 1];
        Py_ssize_t most = self->limit - block->first;
        most = most < block->size ? most : block->size;
        for (Py_ssize_t begin = 0; from < to && begin < most; begin += PART) {
            Py_ssize_t end = begin + PART < most ? begin + PART : most;
            memset(part->sums, 0, sizeof(part->sums));
            memset(part->seen, 0, sizeof(part->seen));
            for (Cursor *one = from; one < to; one++)
                if (!add_term(one, (int32_t)begin, (int32_t)end, worth, part))
                    return 0;
            if (part->make_room != NULL && part->room - part->made < PART &&
                !part->make_room(part, part->owner))
                return -1;
            give_out(self, worth, part, block->first + begin, (int)(end - begin));
        }
        for (; from < to; from++)
            if (from->left > 0)
                return 0;
    }
    return 1;
}

static const uint16_t *docs_of(const PostingSums *self, const int64_t *row)
{
    return (const uint16_t *)self->blocks[row[0]].docs.buf + row[3];
}

/* Return how many documents of each slice are not apart, eight bytes each. */
static PyObject *posting_sums_counts(PostingSums *self, PyObject *unused)
{
    (void)unused;
    PyObject *made = PyByteArray_FromStringAndSize(NULL, 8 * (Py_ssize_t)self->row_count);
    if (made == NULL)
        return NULL;
    int64_t *counts = (int64_t *)PyByteArray_AsString(made);
    const byte *apart = self->apart.obj == NULL ? NULL : self->apart.buf;
    for (int64_t at = 0; at < self->row_count; at++) {
        const int64_t *row = self->rows + at * SLICE_SIZE;
        const volatile uint16_t *docs = docs_of(self, row);
        Py_ssize_t first = self->blocks[row[0]].first;
        counts[at] = row[4] - row[3];
        for (int64_t one = 0; apart != NULL && one < row[4] - row[3]; one++) {
            Py_ssize_t doc = first + docs[one];
            counts[at] -= doc < self->limit && apart[doc] != 0;
        }
    }
    return made;
}

/* Make room for the tables of the slices that have so many postings. */
static int make_tops(const PostingSums *self, PartSums *part)
{
    int64_t tables = 0;
    for (int64_t at = 0; at < self->row_count; at++) {
        const int64_t *row = self->rows + at * SLICE_SIZE;
        tables += row[4] - row[3] >= TABLED;
    }
    part->tops = malloc(((size_t)tables * TIMES + 1) * sizeof(*part->tops));
    return part->tops != NULL;
}

static void open_cursors(const PostingSums *self, const Worth *worth, PartSums *part)
{
    double *table = part->tops;
    for (int field = 0; field < FIELDS; field++)
        for (int length = 0; length < NORMS; length++)
            part->norms[field][length] = length_norm(length, worth->average[field], worth);
    for (int64_t at = 0; at < self->row_count; at++) {
        const int64_t *row = self->rows + at * SLICE_SIZE;
        const PostingBlock *block = &self->blocks[row[0]];
        Cursor made = {
            .docs = docs_of(self, row),
            .lengths = block->lengths[row[1] % LENGTHS].buf,
            .times = (const byte *)block->times.buf + row[3],
            .strength = worth->strength[row[2]],
            .rare = worth->rare[row[2]],
            .count = row[4] - row[3],
            .left = row[4] - row[3],
            .last = -1,
            .field = (int)row[1],
        };
        if (made.left >= TABLED) {
            made.tops = table;
            for (int often = 0; often < TIMES; often++)
                *table++ = top_gain(made.strength, often, worth);
        }
        part->cursors[part->begins[row[0] + 1]++] = made;
    }
}

/* Make room for the cursors, and say where those of each block begin. */
static int make_cursors(const PostingSums *self, const Worth *worth, PartSums *part)
{
    part->cursors = malloc(((size_t)self->row_count + 1) * sizeof(*part->cursors));
    part->begins = calloc((size_t)self->block_count + 2, sizeof(*part->begins));
    if (part->cursors == NULL || part->begins == NULL || !make_tops(self, part))
        return 0;
    /* A place further on than they belong: to put the cursors in moves each to where it ends. */
    for (int64_t at = 0; at < self->row_count; at++)
        part->begins[self->rows[at * SLICE_SIZE] + 2]++;
    for (Py_ssize_t at = 0; at <= self->block_count; at++)
        part->begins[at + 1] += part->begins[at];
    open_cursors(self, worth, part);
    return 1;
}

/* Documents that are given out at most. */
static Py_ssize_t most_documents(const PostingSums *self)
{
    Py_ssize_t found = 0;
    for (int64_t at = 0; at < self->row_count && found < self->limit; at++) {
        const int64_t *row = self->rows + at * SLICE_SIZE;
        found += (Py_ssize_t)(row[4] - row[3]);
    }
    return found < self->limit ? found : self->limit;
}

static void close_part(PartSums *part)
{
    if (part != NULL) {
        free(part->cursors);
        free(part->begins);
        free(part->tops);
    }
    free(part);
}

/* The documents, what their words earn and their coverage. They are computed without the
 * interpreter's lock: what is read is held by this object, what is written nobody else has yet. */
static PyObject *summed(PostingSums *self, const Worth *worth)
{
    Py_ssize_t most = most_documents(self);
    PartSums *part = calloc(1, sizeof(*part));
    PyObject *docs = PyByteArray_FromStringAndSize(NULL, 4 * most), *made = NULL;
    PyObject *words = PyByteArray_FromStringAndSize(NULL, 8 * most);
    PyObject *coverage = PyByteArray_FromStringAndSize(NULL, 8 * most);
    if (docs != NULL && words != NULL && coverage != NULL) {
        if (part == NULL || !make_cursors(self, worth, part)) {
            PyErr_NoMemory();
        } else {
            part->docs = (int32_t *)PyByteArray_AsString(docs);
            part->totals = (double *)PyByteArray_AsString(words);
            part->coverage = (double *)PyByteArray_AsString(coverage);
            part->floor = -INFINITY;
            part->mass = 1.0;
            PyThreadState *state = PyEval_SaveThread();
            int whole = add_gains(self, worth, part);
            PyEval_RestoreThread(state);
            if (!whole)
                PyErr_SetString(PyExc_ValueError, NOT_RISING);
            else if (PyByteArray_Resize(docs, 4 * part->made) == 0 &&
                     PyByteArray_Resize(words, 8 * part->made) == 0 &&
                     PyByteArray_Resize(coverage, 8 * part->made) == 0)
                made = PyTuple_Pack(3, docs, words, coverage);
        }
    }
    close_part(part);
    Py_XDECREF(docs);
    Py_XDECREF(words);
    Py_XDECREF(coverage);
    return made;
}

/* Whether there is a weight for the place of every slice. */
static int places_fit(const PostingSums *self, Py_ssize_t places)
{
    for (int64_t at = 0; at < self->row_count; at++)
        if (self->rows[at * SLICE_SIZE + 2] >= places)
            return 0;
    return 1;
}

/* Take what postings are worth, which is held by the buffers; 0 after an error. */
static int open_worth(const PostingSums *self, PyObject *given, Worth *worth, Py_buffer held[2])
{
    if (!PyArg_ParseTuple(given, "y*y*(dddd)(dd)(ddd)", &held[0], &held[1], &worth->average[0],
                          &worth->average[1], &worth->average[2], &worth->average[3], &worth->k1,
                          &worth->b, &worth->bigrams, &worth->prefixes, &worth->related))
        return 0;
    worth->strength = held[0].buf;
    worth->rare = held[1].buf;
    Py_ssize_t known = held[0].len < held[1].len ? held[0].len : held[1].len;
    int fits = places_fit(self, known / 8);
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "a slice is of a term without a weight");
    return fits;
}

static void close_worth(Py_buffer held[2])
{
    for (int at = 0; at < 2; at++)
        if (held[at].obj != NULL)
            PyBuffer_Release(&held[at]);
}

static PyObject *posting_sums_of(PostingSums *self, PyObject *args)
{
    Py_buffer held[2] = {{0}, {0}};
    Worth worth;
    PyObject *made = open_worth(self, args, &worth, held) ? summed(self, &worth) : NULL;
    close_worth(held);
    return made;
}

/* Whether a document may be a match. */
static int may_match(const PostingSums *self, int32_t doc)
{
    return doc >= 0 && doc < self->limit &&
           (self->hidden.obj == NULL || ((const byte *)self->hidden.buf)[doc] == 0) &&
           (self->apart.obj == NULL || ((const byte *)self->apart.buf)[doc] == 0);
}

/* The first place from `at` on of a document that is not below this one. */
static int64_t sought(const volatile uint16_t *docs, int64_t at, int64_t count, int32_t own)
{
    while (count - at >= LEAP && docs[at + LEAP - 1] < own)
        at += LEAP;
    while (count - at >= STRIDE && docs[at + STRIDE - 1] < own)
        at += STRIDE;
    if (count - at < STRIDE) {
        while (at < count && docs[at] < own)
            at++;
        return at;
    }
    int below = 0;
    for (int one = 0; one < STRIDE; one++)
        below += docs[at + one] < own;
    return at + below;
}

/* Add what a term gives the documents; all of its postings may have been read already. */
static void add_to_some(const Cursor *cursor, const Worth *worth, PartSums *part,
                        const int32_t *docs, int count, Py_ssize_t first)
{
    int64_t read = cursor->count - cursor->left, at = 0;
    const volatile uint16_t *own = cursor->docs - read, *lengths = cursor->lengths;
    const volatile byte *times = cursor->times - read;
    for (int place = 0; place < count; place++) {
        int32_t doc = docs[place] - (int32_t)first;
        at = sought(own, at, cursor->count, doc);
        if (at == cursor->count)
            break;
        if (own[at] != doc)
            continue;
        unsigned length = lengths[doc], often = times[at];
        double norm = length < NORMS
                          ? part->norms[cursor->field][length]
                          : length_norm(length, worth->average[cursor->field], worth);
        double top = top_gain(cursor->strength, often, worth);
        part->sums[cursor->field][place] += top / ((double)often + norm);
        part->seen[place] = 1;
        if (cursor->field == 0)
            part->sums[FIELDS][place] += cursor->rare;
    }
}

/* What the words of rising documents earn, added up as `add_gains` does. */
static void sums_of_some(const PostingSums *self, const Worth *worth, PartSums *part,
                         const int32_t *docs, Py_ssize_t count, byte *found, double *words,
                         double *coverage)
{
    memset(found, 0, (size_t)count);
    Py_ssize_t from = 0;
    for (Py_ssize_t at = 0; at < self->block_count; at++) {
        const PostingBlock *block = &self->blocks[at];
        while (from < count && docs[from] < block->first)
            from++;
        Py_ssize_t to = from;
        for (; from < count && docs[from] - block->first < block->size; from = to) {
            while (to < count && to - from < PART && docs[to] - block->first < block->size)
                to++;
            memset(part->sums, 0, sizeof(part->sums));
            memset(part->seen, 0, sizeof(part->seen));
            for (Py_ssize_t one = part->begins[at]; one < part->begins[at + 1]; one++)
                add_to_some(&part->cursors[one], worth, part, docs + from, (int)(to - from),
                            block->first);
            for (Py_ssize_t one = from; one < to; one++) {
                found[one] = part->seen[one - from];
                words[one] = words_of(part, worth, (int)(one - from));
                coverage[one] = part->sums[FIELDS][one - from] / part->mass;
            }
        }
    }
}

static int by_falling(const void *one, const void *other)
{
    double left = *(const double *)one, right = *(const double *)other;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* A number that at least `wanted` of some reach, 0 where there are too few: the best of each row of
 * them are so many different ones. */
static double reached_by(const double *words, Py_ssize_t count, Py_ssize_t wanted, double *maxima)
{
    Py_ssize_t rows = 0;
    for (Py_ssize_t from = 0; from < count; from += ROW) {
        double best = words[from];
        for (Py_ssize_t at = from + 1; at < count && at < from + ROW; at++)
            best = words[at] > best ? words[at] : best;
        maxima[rows++] = best;
    }
    qsort(maxima, (size_t)rows, sizeof(*maxima), by_falling);
    return wanted >= 1 && wanted <= rows ? maxima[wanted - 1] : 0.0;
}

/* A bound that at least `wanted` of the numbers reach, and the places of all that reach it. */
static PyObject *posting_sums_highest(PostingSums *self, PyObject *args)
{
    Py_buffer words;
    Py_ssize_t wanted;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*n", &words, &wanted))
        return NULL;
    Py_ssize_t count = words.len / 8, made = 0;
    const double *from = words.buf;
    double *maxima = malloc(((size_t)count / ROW + 1) * sizeof(*maxima)), low = 0.0;
    PyObject *places = maxima == NULL ? PyErr_NoMemory() : NULL;
    if (maxima != NULL) {
        low = reached_by(from, count, wanted, maxima);
        places = PyByteArray_FromStringAndSize(NULL, 4 * count);
    }
    if (places != NULL) {
        int32_t *to = (int32_t *)PyByteArray_AsString(places);
        for (Py_ssize_t at = 0; at < count; at++)
            if (from[at] >= low - 2.0) /* a unit of a score is far more than what rounding hides */
                to[made++] = (int32_t)at;
        if (PyByteArray_Resize(places, 4 * made) < 0)
            Py_CLEAR(places);
    }
    free(maxima);
    PyBuffer_Release(&words);
    return places == NULL ? NULL : Py_BuildValue("dN", low, places);
}

/* Whether each slice is of a block, a field and a term, and of postings that are there. */
static int slices_fit(const PostingSums *self)
{
    for (int64_t at = 0; at < self->row_count; at++) {
        const int64_t *row = self->rows + at * SLICE_SIZE;
        if (row[0] < 0 || row[0] >= self->block_count || row[1] < 0 || row[1] >= FIELDS ||
            row[2] < 0)
            return 0;
        const PostingBlock *block = &self->blocks[row[0]];
        Py_ssize_t known = block->docs.len / 2 < block->times.len ? block->docs.len / 2
                                                                  : block->times.len;
        if (row[3] < 0 || row[4] < row[3] || row[4] > known)
            return 0;
    }
    return 1;
}

static int open_block(PostingBlock *block, PyObject *given)
{
    PyObject *docs, *times, *lengths[LENGTHS];
    if (!PyArg_ParseTuple(given, "nnOOOOO", &block->first, &block->size, &docs, &times,
                          &lengths[0], &lengths[1], &lengths[2]) ||
        PyObject_GetBuffer(docs, &block->docs, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(times, &block->times, PyBUF_SIMPLE) < 0)
        return 0;
    int whole = block->first >= 0 && block->size >= 0;
    for (int at = 0; at < LENGTHS; at++) {
        if (PyObject_GetBuffer(lengths[at], &block->lengths[at], PyBUF_SIMPLE) < 0)
            return 0;
        whole = whole && block->lengths[at].len / 2 >= block->size;
    }
    if (!whole)
        PyErr_SetString(PyExc_ValueError, "a block has not as many lengths as documents");
    return whole;
}

/* Take an array of a byte a document. */
static int open_mask(Py_buffer *mask, PyObject *given, Py_ssize_t limit)
{
    if (given == Py_None)
        return 1;
    if (PyObject_GetBuffer(given, mask, PyBUF_SIMPLE) < 0)
        return 0;
    if (mask->len < limit)
        PyErr_SetString(PyExc_ValueError, "a mask is shorter than the limit");
    return mask->len >= limit;
}

static int open_slices(PostingSums *self, PyObject *given)
{
    Py_buffer slices;
    if (PyObject_GetBuffer(given, &slices, PyBUF_SIMPLE) < 0)
        return 0;
    self->row_count = slices.len / (8 * SLICE_SIZE);
    self->rows = malloc((size_t)slices.len + 1);
    if (self->rows != NULL)
        memcpy(self->rows, slices.buf, (size_t)slices.len);
    else
        PyErr_NoMemory();
    PyBuffer_Release(&slices);
    return self->rows != NULL;
}

static int open_sums(PostingSums *self, PyObject *blocks, PyObject *given, PyObject *masks[2])
{
    self->block_count = PyTuple_Size(blocks);
    self->blocks = calloc((size_t)self->block_count + 1, sizeof(*self->blocks));
    if (self->blocks == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t at = 0; at < self->block_count; at++) {
        PyObject *block = PyTuple_GetItem(blocks, at);
        if (!PyTuple_Check(block)) {
            PyErr_SetString(PyExc_TypeError, "a block is a tuple");
            return 0;
        }
        if (!open_block(&self->blocks[at], block))
            return 0;
        const PostingBlock *one = &self->blocks[at];
        if (one->size > INT32_MAX || (at > 0 && one->first < one[-1].first + one[-1].size)) {
            PyErr_SetString(PyExc_ValueError, "the blocks do not follow each other");
            return 0;
        }
    }
    if (!open_slices(self, given) || !open_mask(&self->hidden, masks[0], self->limit) ||
        !open_mask(&self->apart, masks[1], self->limit))
        return 0;
    if (self->limit < 0 || self->limit > INT32_MAX || !slices_fit(self)) {
        PyErr_SetString(PyExc_ValueError, "a slice is not of a block below the limit");
        return 0;
    }
    return 1;
}

static PyObject *posting_sums_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *blocks, *slices, *masks[2];
    Py_ssize_t limit;
    (void)named;
    if (!PyArg_ParseTuple(
            args, "O!OnOO", &PyTuple_Type, &blocks, &slices, &limit, &masks[0], &masks[1]))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PostingSums *self = (PostingSums *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->limit = limit;
    if (!open_sums(self, blocks, slices, masks))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void let_go(Py_buffer *buffer)
{
    if (buffer->obj != NULL)
        PyBuffer_Release(buffer);
}

static void posting_sums_dealloc(PostingSums *self)
{
    for (Py_ssize_t at = 0; self->blocks != NULL && at < self->block_count; at++) {
        let_go(&self->blocks[at].docs);
        let_go(&self->blocks[at].times);
        for (int field = 0; field < LENGTHS; field++)
            let_go(&self->blocks[at].lengths[field]);
    }
    free(self->blocks);
    free(self->rows);
    let_go(&self->hidden);
    let_go(&self->apart);
    freed((PyObject *)self);
}

static PyMethodDef posting_sums_methods[] = {
    {"counts", (PyCFunction)posting_sums_counts, METH_NOARGS,
     "Return how many documents of each slice are not apart, eight bytes each."},
    {"of", (PyCFunction)posting_sums_of, METH_VARARGS,
     "Return the documents, four bytes each, and eight each of what their words earn and of their "
     "coverage."},
    {"highest", (PyCFunction)posting_sums_highest, METH_VARARGS,
     "Return a bound that at least so many numbers reach, and the places of all that do."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot posting_sums_slots[] = {
    {Py_tp_new, posting_sums_new},
    {Py_tp_dealloc, posting_sums_dealloc},
    {Py_tp_methods, posting_sums_methods},
    {0, NULL},
};

static PyType_Spec posting_sums_spec = {
    "memplane._kernel.PostingSums", sizeof(PostingSums), 0, Py_TPFLAGS_DEFAULT, posting_sums_slots,
};

/* ---- TermTables ---- */

#define RUN_SIZE 4  /* table, place, begin, end */
#define NEAR 8      /* terms that are passed over at first, away from where one is expected */

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    Py_buffer *terms, *starts;
} TermTables;

/* Rows of numbers that grow. */
typedef struct {
    int64_t *rows;
    size_t made, room;
} TermRuns;

static int open_table(TermTables *self, Py_ssize_t at, PyObject *given)
{
    PyObject *terms, *starts;
    if (!PyArg_ParseTuple(given, "OO", &terms, &starts) ||
        PyObject_GetBuffer(terms, &self->terms[at], PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(starts, &self->starts[at], PyBUF_SIMPLE) < 0)
        return 0;
    Py_ssize_t count = self->terms[at].len / 8;
    if (count < UINT32_MAX && (count == 0 || self->starts[at].len / 4 == count + 1))
        return 1;
    PyErr_SetString(PyExc_ValueError, "a table has not a start for each term and one more");
    return 0;
}

static PyObject *term_tables_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *tables;
    (void)named;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &tables))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    TermTables *self = (TermTables *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->count = PyTuple_Size(tables);
    self->terms = calloc((size_t)self->count + 1, sizeof(*self->terms));
    self->starts = calloc((size_t)self->count + 1, sizeof(*self->starts));
    int whole = self->terms != NULL && self->starts != NULL;
    if (!whole)
        PyErr_NoMemory();
    for (Py_ssize_t at = 0; whole && at < self->count; at++)
        whole = open_table(self, at, PyTuple_GetItem(tables, at));
    if (!whole)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void term_tables_dealloc(TermTables *self)
{
    for (Py_ssize_t at = 0; at < self->count; at++) {
        if (self->terms != NULL)
            let_go(&self->terms[at]);
        if (self->starts != NULL)
            let_go(&self->starts[at]);
    }
    free(self->terms);
    free(self->starts);
    freed((PyObject *)self);
}

/* Where a term is expected: terms are hashes, which lie evenly. */
static int64_t expected_place(const volatile uint64_t *terms, int64_t count, uint64_t wanted)
{
    int64_t first = (int64_t)((wanted >> 32) * (uint64_t)count >> 32);
    double apart = (double)(int64_t)(wanted - terms[first]) / 18446744073709551616.0;
    int64_t next = first + (int64_t)(apart * (double)count);
    return next < 0 ? 0 : next < count ? next : count - 1;
}

/* The first place of a term that is not below this one, sought from where it is expected. A mapped
 * file may change at any time: what is found may be wrong then, but it is a place in the table, or
 * its end. */
static int64_t place_of_term(const volatile uint64_t *terms, int64_t count, uint64_t wanted)
{
    if (count == 0)
        return 0;
    int64_t low = expected_place(terms, count, wanted), high = low, step = NEAR;
    if (terms[low] < wanted) {
        for (; high < count && terms[high] < wanted; step *= 2) {
            low = high + 1;
            high = high + step < count ? high + step : count;
        }
    } else {
        for (; low > 0 && terms[low - 1] >= wanted; step *= 2) {
            high = low - 1;
            low = low > step ? low - step : 0;
        }
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (terms[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int add_term_run(TermRuns *to, int64_t table, int64_t place, int64_t begin, int64_t end)
{
    if (to->made == to->room) {
        size_t room = to->room > 0 ? 2 * to->room : 256;
        int64_t *rows = realloc(to->rows, room * RUN_SIZE * sizeof(*rows));
        if (rows == NULL)
            return 0;
        to->rows = rows;
        to->room = room;
    }
    int64_t *row = to->rows + RUN_SIZE * to->made++;
    row[0] = table, row[1] = place, row[2] = begin, row[3] = end;
    return 1;
}

/* Find the terms in all tables; 0 where there is no memory. */
static int find_terms(const TermTables *self, const uint64_t *wanted, Py_ssize_t size, TermRuns *to)
{
    for (Py_ssize_t at = 0; at < self->count; at++) {
        const volatile uint64_t *terms = self->terms[at].buf;
        const volatile uint32_t *starts = self->starts[at].buf;
        int64_t count = self->terms[at].len / 8;
        for (Py_ssize_t place = 0; place < size; place++) {
            int64_t found = place_of_term(terms, count, wanted[place]);
            if (found < count && terms[found] == wanted[place] &&
                !add_term_run(to, at, place, starts[found], starts[found + 1]))
                return 0;
        }
    }
    return 1;
}

static PyObject *term_tables_of(TermTables *self, PyObject *given)
{
    Py_buffer wanted;
    if (PyObject_GetBuffer(given, &wanted, PyBUF_SIMPLE) < 0)
        return NULL;
    TermRuns runs = {0};
    PyObject *made = find_terms(self, wanted.buf, wanted.len / 8, &runs)
                         ? PyByteArray_FromStringAndSize(
                               (const char *)runs.rows,
                               (Py_ssize_t)(runs.made * RUN_SIZE * sizeof(*runs.rows)))
                         : PyErr_NoMemory();
    free(runs.rows);
    PyBuffer_Release(&wanted);
    return made;
}

static PyMethodDef term_tables_methods[] = {
    {"of", (PyCFunction)term_tables_of, METH_O,
     "Return table, place, begin and end of each wanted term that is there, eight bytes each."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot term_tables_slots[] = {
    {Py_tp_new, term_tables_new},
    {Py_tp_dealloc, term_tables_dealloc},
    {Py_tp_methods, term_tables_methods},
    {0, NULL},
};

static PyType_Spec term_tables_spec = {
    "memplane._kernel.TermTables", sizeof(TermTables), 0, Py_TPFLAGS_DEFAULT, term_tables_slots,
};

/* ---- EventRanking ---- */

#define SAME 1000      /* a factor that changes nothing */
#define SCORE_MAX (INT64_MAX / 10000) /* what a factor of ten does not take beyond 64 bits */
#define BUCKETS 4096   /* by which the bar is looked for */
#define DROPPED_FROM 32 /* times so many events as are wanted: of fewer matches none is dropped */
#define DIGITS 11      /* bits that one pass of a sort or a choice looks at */
#define STEP_SIZE 3    /* test, argument, permille */
#define TURN_TOKENS 10 /* what a turn counts beside its words, on the way past it */
#define ASKING_TOKENS 50
#define OPENING_TURNS 5
#define OPENING_DOCUMENTS 60
#define USER 1 /* among the roles */
#define ASKING (1u << 29) /* among the traits */

enum { BY_SPEAKER, BY_ROLE, BY_FLAG, BY_NO_TRAIT, BY_TRAIT, BY_ASKING, BY_OPENING, BY_BEGIN };

/* In the order of `Frame`. */
enum {
    SEQ_AT, TOKENS_AT, GROUP_AT, SPEAKER_AT, IMPORTANCE_AT, FLAGS_AT, ROLE_AT, TRAITS_AT, LINKS_AT,
    STRIDES_AT, COLUMNS,
};
static const Py_ssize_t COLUMN_BYTES[COLUMNS] = {8, 4, 8, 8, 2, 2, 1, 4, 8, 8};

enum { DOCS, WORDS, COVERAGE, MATCH_COLUMNS };

typedef struct {
    PyObject_HEAD
    Py_ssize_t size; /* documents */
    Py_buffer columns[COLUMNS], hidden;
    const int64_t *seq;
    const int32_t *tokens, *links, *strides;
    const uint64_t *group, *speaker;
    const uint16_t *importance, *flags;
    const byte *role, *hides;
    const uint32_t *traits;
} EventRanking;

typedef struct {
    const int64_t *rows;
    Py_ssize_t count;
} Steps;

/* A request: what matches, and the rules. */
typedef struct {
    Py_buffer matches[MATCH_COLUMNS], said_rows, heard_rows, names, share_table, faint_table, table;
    const int32_t *docs;
    const double *fields[MATCH_COLUMNS];
    Steps said, heard;
    const uint64_t *speakers;
    const double *shares;
    const int64_t *faint, *strengths;
    Py_ssize_t count, matched, speaker_count, gaps, sources, most;
    long long coverage, reply, session_best;
    unsigned long long beginning;
    int low, bits, reach, by_role; /* whether a factor heeds the role */
} Question;

/* A document with an amount. */
typedef struct {
    int64_t value;
    int32_t doc;
} Amount;

/* What is worked with, made as large as the request may need. */
typedef struct {
    int64_t *words, *keys, *own;
    Amount *heads, *lent, *spare, *found;
    Py_ssize_t head_count, lent_count, found_count;
} Work;

/* Matches of which those are kept that may be among the best. */
typedef struct {
    const EventRanking *ranking;
    const PostingSums *sums;
    const Worth *worth;
    PartSums *part;
    Question *asked;
    int64_t floors[ROLES]; /* what the words of those that were dropped do not reach */
    int dropped;           /* whether any was */
    double share;  /* the highest that words are multiplied by; 0: nothing is dropped */
    double mass;   /* by which coverage is divided */
    Py_ssize_t room; /* matches from which on some may be dropped; 0: as fits what is wanted */
} Kept;

static int64_t thousandths(int64_t value, int64_t permille)
{
    if (permille == SAME)
        return value;
    value = value < SCORE_MAX ? value : SCORE_MAX;
    int64_t product = (int64_t)((uint64_t)value * (uint64_t)permille), found = product / SAME;
    return found - (product % SAME < 0); /* rounded down, as in Python */
}

static int is_opening(const EventRanking *self, int32_t doc)
{
    if (self->role[doc] != USER || self->group[doc] == 0)
        return 0;
    int turns = 1;
    for (int step = 0; step < OPENING_DOCUMENTS; step++) {
        int32_t before = self->links[2 * (int64_t)doc] >> 1;
        if (before < 0)
            return 1;
        if (before >= self->size)
            return 0;
        turns += self->role[before] == USER && self->seq[before] != self->seq[doc];
        if (turns > OPENING_TURNS)
            return 0;
        doc = before;
    }
    return 0;
}

static int asks(const EventRanking *self, int32_t doc)
{
    return (self->traits[doc] & ASKING) != 0 && self->tokens[doc] <= ASKING_TOKENS;
}

static int passes(const EventRanking *self, const Question *asked, const int64_t *step, int32_t doc)
{
    switch (step[0]) {
    case BY_SPEAKER:
        for (Py_ssize_t at = 0; at < asked->speaker_count; at++)
            if (self->speaker[doc] == asked->speakers[at])
                return 1;
        return 0;
    case BY_ROLE:
        return self->role[doc] == step[1];
    case BY_FLAG:
        return (self->flags[doc] & step[1]) != 0;
    case BY_NO_TRAIT:
        return (self->traits[doc] & step[1]) == 0;
    case BY_TRAIT:
        return (self->traits[doc] & step[1]) != 0;
    case BY_ASKING:
        return asks(self, doc);
    case BY_OPENING:
        return is_opening(self, doc);
    default:
        return self->group[doc] == asked->beginning && is_opening(self, doc);
    }
}

static int64_t stepped(
    const EventRanking *self, const Question *asked, const Steps *steps, int32_t doc, int64_t score)
{
    for (Py_ssize_t at = 0; at < steps->count; at++) {
        const int64_t *step = steps->rows + STEP_SIZE * at;
        if (passes(self, asked, step, doc))
            score = thousandths(score, step[2]);
    }
    return score;
}

/* What so many words earn before the factors: see `relevance` in memplane/index/bm25.py. */
static int64_t relevance(int64_t words, int64_t peak, double coverage, long long permille)
{
    double share = (double)words / (double)peak;
    share = share * sqrt(sqrt(share));
    double part = (double)permille / 1000.0;
    double held = part * coverage;
    held = (1.0 - part) + held;
    return llrint(share * held * POINT);
}

/* The score of each match by words; return the highest. */
static int64_t whole_scores(const EventRanking *self, const Question *asked, int64_t *words)
{
    unsigned mask = (1u << asked->bits) - 1;
    int64_t peak = 0;
    double earned[PART];
    for (Py_ssize_t from = 0; from < asked->count; from += PART) {
        int count = asked->count - from < PART ? (int)(asked->count - from) : PART;
        for (int at = 0; at < count; at++)
            earned[at] = asked->shares[(self->flags[asked->docs[from + at]] >> asked->low) & mask];
        for (int at = 0; at < count; at++)
            earned[at] *= asked->fields[WORDS][from + at];
        for (int at = 0; at < count; at++) {
            words[from + at] = llrint(earned[at]);
            peak = words[from + at] > peak ? words[from + at] : peak;
        }
    }
    return peak;
}

/* What a document's words earn by themselves, with the factors of what was said. */
static int64_t own_by_words(const EventRanking *self, const Question *asked, int32_t doc,
                            int64_t words, double coverage, int64_t peak)
{
    if (peak == 0)
        return 0;
    int64_t earned = relevance(words, peak, coverage, asked->coverage);
    return stepped(self, asked, &asked->said, doc, earned);
}

static int64_t own_of(
    const EventRanking *self, const Question *asked, Py_ssize_t at, int64_t words, int64_t peak)
{
    return own_by_words(self, asked, asked->docs[at], words, asked->fields[COVERAGE][at], peak);
}

/* The k-th highest of some numbers, from 1 on, digit by digit from the top; `keys` is changed. */
static int64_t kth_highest(int64_t *keys, Py_ssize_t count, Py_ssize_t k)
{
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t any = 0, all = ~(uint64_t)0;
    for (Py_ssize_t at = 0; at < count; at++) {
        any |= (uint64_t)keys[at];
        all &= (uint64_t)keys[at];
    }
    int top = 64;
    while (top > 0 && ((any ^ all) >> (top - 1)) == 0)
        top--;
    while (top > 0) {
        int shift = top > DIGITS ? top - DIGITS : 0;
        uint64_t mask = ((uint64_t)1 << (top - shift)) - 1;
        Py_ssize_t counts[1 << DIGITS] = {0}, left = 0;
        for (Py_ssize_t at = 0; at < count; at++)
            counts[(((uint64_t)keys[at] ^ sign) >> shift) & mask]++;
        int64_t digit = (int64_t)mask;
        while (k > counts[digit])
            k -= counts[digit--];
        for (Py_ssize_t at = 0; at < count; at++)
            if ((int64_t)((((uint64_t)keys[at] ^ sign) >> shift) & mask) == digit)
                keys[left++] = keys[at];
        count = left;
        top = shift;
    }
    return keys[0];
}

/* The role by which a document is told from others: none where no factor heeds it. */
static int role_of(const EventRanking *self, const Question *asked, int32_t doc)
{
    return asked->by_role ? counted_role(self->role[doc]) : 0;
}

/* The most that factors make of a score of a document of this role. */
static int64_t most_stepped(const Steps *steps, int role, int64_t score)
{
    int known = role < ROLES - 1;
    for (Py_ssize_t at = 0; at < steps->count; at++) {
        const int64_t *step = steps->rows + STEP_SIZE * at;
        int by_role = step[0] == BY_ROLE;
        if (by_role && step[1] != role && (known || step[1] < role))
            continue;
        if (step[2] > SAME || (by_role && known && step[2] >= 0))
            score = thousandths(score, step[2]);
    }
    return score;
}

/* The most that a match of this role with these words earns: by itself, and in the end. */
static void most_earned(const Question *asked, int role, int64_t words, int64_t peak, int64_t *own,
                        int64_t *final)
{
    int64_t earned = relevance(words, peak > 1 ? peak : 1, 1.0, asked->coverage);
    *own = most_stepped(&asked->said, role, earned);
    *final = most_stepped(&asked->heard, role, *own);
    if (asked->session_best > SAME)
        *final = thousandths(*final, asked->session_best);
}

/* What matches have to reach to count without neighbours: as sources, or in the end. */
typedef struct {
    int64_t own, final;
} Reached;

static int most_reach(const Question *asked, int role, int64_t words, int64_t peak,
                      const Reached *reached)
{
    int64_t own, final;
    most_earned(asked, role, words, peak, &own, &final);
    return own >= reached->own || final >= reached->final;
}

static Py_ssize_t wanted_sources(const Question *asked)
{
    return asked->sources > 1 ? asked->sources : 1;
}

static Py_ssize_t wanted_events(const Question *asked)
{
    return asked->most > 1 ? asked->most : 1;
}

/* What as many events as are sources earn at least by themselves, and as many as are wanted in the
 * end without neighbours, of the matches with so many words or more for their role; 0 where there
 * are fewer such events. */
static int earned_by(const EventRanking *self, const Question *asked, Work *work,
                     const int64_t *lows, int64_t peak, Reached *reached)
{
    const int64_t *words = work->words;
    int64_t *owns = work->keys, *finals = work->own;
    Py_ssize_t found = 0, sources = wanted_sources(asked), events = wanted_events(asked);
    int64_t last = 0;
    for (Py_ssize_t at = 0; at < asked->count; at++) {
        int32_t doc = asked->docs[at];
        if (words[at] < lows[role_of(self, asked, doc)])
            continue;
        int64_t mine = own_of(self, asked, at, words[at], peak);
        int64_t heard = stepped(self, asked, &asked->heard, doc, mine);
        if (found == 0 || self->seq[doc] != last)
            owns[found] = mine, finals[found++] = heard;
        owns[found - 1] = mine > owns[found - 1] ? mine : owns[found - 1];
        finals[found - 1] = heard > finals[found - 1] ? heard : finals[found - 1];
        last = self->seq[doc];
    }
    if (found < sources || found < events)
        return 0;
    reached->own = kth_highest(owns, found, sources);
    reached->final = kth_highest(finals, found, events);
    return 1;
}

/* How words count by what the factors of their role make of them, about: scores rise a little faster
 * than words. */
static double lift_of(const Steps *steps, int role)
{
    double factor = 1.0;
    for (Py_ssize_t at = 0; at < steps->count; at++) {
        const int64_t *step = steps->rows + STEP_SIZE * at;
        if (step[0] == BY_ROLE && step[1] == role)
            factor *= step[2] > 1 ? (double)step[2] / SAME : 1.0 / SAME;
    }
    factor = factor < 1e-6 ? 1e-6 : factor > 1e6 ? 1e6 : factor;
    return factor / sqrt(sqrt(factor));
}

/* Matches by their words with the lifts of their role: by themselves, and in the end. */
typedef struct {
    double lifts[2][ROLES], width; /* what a bucket has */
    uint32_t counts[2][BUCKETS];
} Lifted;

static void count_lifted(const EventRanking *self, const Question *asked, const int64_t *words,
                         int64_t peak, Lifted *to)
{
    double highest = 0.0;
    memset(to->counts, 0, sizeof(to->counts));
    for (int role = 0; role < ROLES; role++) {
        to->lifts[0][role] = lift_of(&asked->said, role);
        to->lifts[1][role] = to->lifts[0][role] * lift_of(&asked->heard, role);
        for (int kind = 0; kind < 2; kind++)
            highest = to->lifts[kind][role] > highest ? to->lifts[kind][role] : highest;
    }
    to->width = highest * (double)(peak > 1 ? peak : 1) / (BUCKETS - 1);
    for (Py_ssize_t at = 0; at < asked->count; at++) {
        double share = words[at] < 0 ? 0.0 : (double)words[at] / to->width;
        int role = role_of(self, asked, asked->docs[at]);
        to->counts[0][(int)(share * to->lifts[0][role])]++;
        if (asked->by_role)
            to->counts[1][(int)(share * to->lifts[1][role])]++;
    }
    if (!asked->by_role)
        memcpy(to->counts[1], to->counts[0], sizeof(to->counts[0]));
}

/* Lower to the words from which on a match of each role is among the first so many. */
static void lower(const Lifted *from, int kind, Py_ssize_t wanted, int64_t *lows)
{
    Py_ssize_t reached = 0;
    int bucket = BUCKETS;
    while (bucket > 0 && reached < wanted)
        reached += from->counts[kind][--bucket];
    for (int role = 0; role < ROLES; role++) {
        double words = bucket * from->width / from->lifts[kind][role];
        if (words < (double)lows[role])
            lows[role] = (int64_t)words;
    }
}

/* The least that words must earn for a match of each role to count without neighbours: see the
 * twin's `_bar`, which knows less of what the best earn, and so has a lower one. */
static void find_bars(const EventRanking *self, const Question *asked, Work *work, int64_t peak,
                      int64_t *bars)
{
    memset(bars, 0, ROLES * sizeof(*bars));
    Py_ssize_t sources = wanted_sources(asked), events = wanted_events(asked);
    Py_ssize_t most = sources > events ? sources : events;
    if ((asked->matched + 3) / 4 <= most || asked->coverage < 0 || asked->coverage > SAME)
        return;
    Lifted lifted;
    Reached reached;
    int found = 0;
    count_lifted(self, asked, work->words, peak, &lifted);
    /* An event may have several documents. */
    for (int wider = 0; wider < 2 && !found; wider++) {
        int64_t lows[ROLES];
        for (int role = 0; role < ROLES; role++)
            lows[role] = INT64_MAX;
        lower(&lifted, 0, wider ? 2 * sources : sources + sources / 4, lows);
        lower(&lifted, 1, wider ? 2 * events : events + events / 4, lows);
        found = earned_by(self, asked, work, lows, peak, &reached);
    }
    for (int role = 0; found && role < ROLES; role++) {
        int64_t below = -1, bar = peak + 1;
        while (bar - below > 1) {
            int64_t middle = below + (bar - below) / 2;
            if (most_reach(asked, role, middle, peak, &reached))
                bar = middle;
            else
                below = middle;
        }
        bars[role] = bar;
    }
}

/* Raise bars to the floors below which matches were dropped; 0 where some of those may count: the
 * bars may lie lower, as they are of what those with the most words earn. */
static int raise_bars(const EventRanking *self, const Question *asked, Work *work, int64_t peak,
                      const int64_t *floors, int64_t *bars)
{
    Reached reached;
    int known = 0;
    for (int role = 0; role < ROLES; role++) {
        if (bars[role] >= floors[role])
            continue;
        if (!known && !earned_by(self, asked, work, floors, peak, &reached))
            return 0;
        known = 1;
        if (most_reach(asked, role, floors[role] - 1, peak, &reached))
            return 0;
        bars[role] = floors[role];
    }
    return 1;
}

/* Keep the best match of each event, the first of equal ones. */
static Py_ssize_t best_of_events(const EventRanking *self, const Amount *from, Py_ssize_t count,
                                 Amount *to)
{
    Py_ssize_t made = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        if (at == 0 || self->seq[from[at].doc] != self->seq[from[at - 1].doc])
            to[made++] = from[at];
        else if (from[at].value > to[made - 1].value)
            to[made - 1] = from[at];
    }
    return made;
}

/* Keep the best so many, in their order; of equal ones the later. */
static Py_ssize_t keep_best(Amount *some, Py_ssize_t count, Py_ssize_t most, int64_t *keys)
{
    if (most <= 0)
        return 0;
    if (count <= most)
        return count;
    for (Py_ssize_t at = 0; at < count; at++)
        keys[at] = some[at].value;
    int64_t least = kth_highest(keys, count, most);
    Py_ssize_t higher = 0, equal = 0, made = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        higher += some[at].value > least;
        equal += some[at].value == least;
    }
    Py_ssize_t skipped = equal - (most - higher);
    for (Py_ssize_t at = 0; at < count; at++)
        if (some[at].value > least || (some[at].value == least && skipped-- <= 0))
            some[made++] = some[at];
    return made;
}

/* Sort by document, in as many passes as the highest number needs. */
static Amount *by_document(Amount *some, Amount *spare, Py_ssize_t count, Py_ssize_t size)
{
    for (int shift = 0; size >> shift > 0; shift += DIGITS) {
        Py_ssize_t begins[(1 << DIGITS) + 1] = {0};
        for (Py_ssize_t at = 0; at < count; at++)
            begins[((some[at].doc >> shift) & ((1 << DIGITS) - 1)) + 1]++;
        for (int digit = 0; digit < 1 << DIGITS; digit++)
            begins[digit + 1] += begins[digit];
        for (Py_ssize_t at = 0; at < count; at++)
            spare[begins[(some[at].doc >> shift) & ((1 << DIGITS) - 1)]++] = some[at];
        Amount *sorted = spare;
        spare = some;
        some = sorted;
    }
    return some;
}

/* The last node of a document's event on one side. */
static int64_t border_of(const EventRanking *self, int64_t node)
{
    for (Py_ssize_t step = 0; step < self->size; step++) { /* no more: a circle has no end */
        uint32_t next = (uint32_t)self->links[node];
        if (next >= (uint64_t)(2 * self->size) || self->seq[next >> 1] != self->seq[node >> 1])
            break;
        node = next;
    }
    return node;
}

/* What a source says of the documents on one side of it. */
static Py_ssize_t
spread_to(const EventRanking *self, const Question *asked, Amount said, int64_t node, Amount *to)
{
    int64_t gap = TURN_TOKENS - self->strides[node];
    Py_ssize_t made = 0;
    for (int step = 0; step < asked->reach; step++) {
        gap += self->strides[node];
        uint32_t next = (uint32_t)self->links[node];
        if (next >= (uint64_t)(2 * self->size) || gap < 0 || gap >= asked->gaps)
            break;
        node = next;
        to[made++] = (Amount){asked->strengths[gap] * said.value >> 20, (int32_t)(next >> 1)};
    }
    return made;
}

/* What the best events lend to the documents around them, and questions to answers. */
static void lend(const EventRanking *self, const Question *asked, Work *work)
{
    Amount *sources = work->spare;
    Py_ssize_t count = best_of_events(self, work->heads, work->head_count, sources);
    count = keep_best(sources, count, asked->sources, work->keys);
    Amount *lent = work->lent;
    Py_ssize_t made = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        int64_t node = 2 * (int64_t)sources[at].doc;
        made += spread_to(self, asked, sources[at], border_of(self, node), lent + made);
        int64_t after = border_of(self, node + 1);
        made += spread_to(self, asked, sources[at], after, lent + made);
        uint32_t next = (uint32_t)self->links[after];
        if (asked->reply == 0 || next >= (uint64_t)(2 * self->size) ||
            !asks(self, sources[at].doc) ||
            self->speaker[next >> 1] == self->speaker[sources[at].doc])
            continue;
        lent[made++] =
            (Amount){thousandths(sources[at].value, asked->reply), (int32_t)(next >> 1)};
    }
    lent = by_document(lent, work->found, made, self->size);
    work->lent_count = 0;
    for (Py_ssize_t at = 0; at < made; at++) {
        if (work->lent_count > 0 && work->lent[work->lent_count - 1].doc == lent[at].doc)
            work->lent[work->lent_count - 1].value += lent[at].value;
        else
            work->lent[work->lent_count++] = lent[at];
    }
    unsigned mask = (1u << asked->bits) - 1;
    for (Py_ssize_t at = 0; at < work->lent_count; at++) {
        Amount *one = &work->lent[at];
        int64_t faint = asked->faint[(self->flags[one->doc] >> asked->low) & mask];
        one->value = thousandths(one->value, faint);
    }
}

/* A score that so many events reach, by the best document of each among the heads. */
static int64_t reached_in_the_end(const EventRanking *self, const Question *asked, Work *work)
{
    Py_ssize_t lent = 0, events = 0;
    if (asked->most <= 0)
        return INT64_MAX;
    for (Py_ssize_t head = 0; head < work->head_count; head++) {
        Amount one = work->heads[head];
        while (lent < work->lent_count && work->lent[lent].doc < one.doc)
            lent++;
        if (lent < work->lent_count && work->lent[lent].doc == one.doc)
            one.value += work->lent[lent].value;
        int64_t value = stepped(self, asked, &asked->heard, one.doc, one.value);
        if (head == 0 || self->seq[one.doc] != self->seq[work->heads[head - 1].doc])
            work->keys[events++] = value;
        else if (value > work->keys[events - 1])
            work->keys[events - 1] = value;
    }
    return events < asked->most ? INT64_MIN : kth_highest(work->keys, events, asked->most);
}

/* Drop what is lent to documents that were not kept and cannot get among the best, whatever their
 * own words earn below the bar: the twin's `_ranked` says why. */
static void drop_faint(
    const EventRanking *self, const Question *asked, Work *work, const int64_t *bars, int64_t peak)
{
    int64_t least = reached_in_the_end(self, asked, work), most_said[ROLES], unused;
    for (int role = 0; role < ROLES; role++)
        most_earned(asked, role, bars[role], peak, &most_said[role], &unused);
    Py_ssize_t head = 0, made = 0;
    for (Py_ssize_t at = 0; at < work->lent_count; at++) {
        Amount one = work->lent[at];
        while (head < work->head_count && work->heads[head].doc < one.doc)
            head++;
        int64_t most = one.value + most_said[role_of(self, asked, one.doc)];
        int64_t heard = stepped(self, asked, &asked->heard, one.doc, most);
        if ((head < work->head_count && work->heads[head].doc == one.doc) || heard >= least ||
            thousandths(heard, asked->session_best) >= least)
            work->lent[made++] = one;
    }
    work->lent_count = made;
}

/* What those documents earn by themselves that are lent to and were not kept as matches. */
typedef struct {
    int32_t *docs;
    int64_t *own;
    Py_ssize_t count;
} Dropped;

/* Which documents are lent to and are no match that is known. */
static void find_dropped(const Question *asked, const Work *work, const Kept *kept, Dropped *to)
{
    Py_ssize_t match = 0;
    for (Py_ssize_t at = 0; at < work->lent_count; at++) {
        int32_t doc = work->lent[at].doc;
        while (match < asked->count && asked->docs[match] < doc)
            match++;
        if ((match == asked->count || asked->docs[match] != doc) && may_match(kept->sums, doc))
            to->docs[to->count++] = doc;
    }
}

/* The same with what they earn; 0 where there is no memory. */
static int add_dropped(const EventRanking *self, const Question *asked, const Work *work,
                       const Kept *kept, int64_t peak, Dropped *to)
{
    size_t room = (size_t)work->lent_count + 1;
    double *words = malloc(room * sizeof(*words)), *coverage = malloc(room * sizeof(*coverage));
    byte *found = malloc(room);
    to->docs = malloc(room * sizeof(*to->docs));
    to->own = malloc(room * sizeof(*to->own));
    int made = words != NULL && coverage != NULL && found != NULL && to->docs != NULL &&
               to->own != NULL;
    if (made) {
        unsigned mask = (1u << asked->bits) - 1;
        find_dropped(asked, work, kept, to);
        sums_of_some(kept->sums, kept->worth, kept->part, to->docs, to->count, found, words,
                     coverage);
        for (Py_ssize_t at = 0; at < to->count; at++) {
            int32_t doc = to->docs[at];
            double earned = asked->shares[(self->flags[doc] >> asked->low) & mask];
            earned *= words[at];
            to->own[at] = !found[at] ? 0
                                     : own_by_words(self, asked, doc, llrint(earned), coverage[at],
                                                    peak);
        }
    }
    free(words);
    free(coverage);
    free(found);
    return made;
}

/* Score what matches well enough and what is lent to; `own` gets what of it is the document's. */
static void score(const EventRanking *self, const Question *asked, Work *work,
                  const Dropped *dropped, int64_t peak)
{
    Py_ssize_t match = 0, head = 0, next = 0, made = 0;
    for (Py_ssize_t at = 0; at <= work->lent_count; at++) {
        int last = at == work->lent_count;
        int32_t doc = last ? INT32_MAX : work->lent[at].doc;
        for (; head < work->head_count && work->heads[head].doc < doc; head++)
            work->found[made] = work->heads[head], work->own[made++] = work->heads[head].value;
        if (last)
            break;
        int64_t own = 0;
        while (match < asked->count && asked->docs[match] < doc)
            match++;
        if (head < work->head_count && work->heads[head].doc == doc)
            own = work->heads[head++].value;
        else if (match < asked->count && asked->docs[match] == doc)
            own = own_of(self, asked, match, work->words[match], peak);
        else if (next < dropped->count && dropped->docs[next] == doc)
            own = dropped->own[next++];
        work->own[made] = own;
        work->found[made++] = (Amount){work->lent[at].value + own, doc};
    }
    work->found_count = 0;
    for (Py_ssize_t at = 0; at < made; at++) {
        Amount one = work->found[at];
        if (one.value <= 0 || (self->hides != NULL && self->hides[one.doc]))
            continue;
        one.value = stepped(self, asked, &asked->heard, one.doc, one.value);
        work->own[work->found_count] = work->own[at];
        work->found[work->found_count++] = one;
    }
}

/* An event among the best, with what orders it. */
typedef struct {
    int64_t score, seq, own;
    uint64_t group;
    int32_t doc;
    uint16_t importance;
} RankedEvent;

static int by_rank(const void *one, const void *other)
{
    const RankedEvent *left = one, *right = other;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    if (left->importance != right->importance)
        return left->importance < right->importance ? 1 : -1;
    if (left->seq != right->seq)
        return left->seq < right->seq ? 1 : -1;
    return left->doc < right->doc ? -1 : left->doc > right->doc;
}

/* By group, the best of each first, the newest of equal ones. */
static int by_group(const void *one, const void *other)
{
    const RankedEvent *left = one, *right = other;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return left->doc < right->doc ? 1 : left->doc > right->doc ? -1 : 0;
}

/* The best document of each event, with what is its own. */
static void keep_events(const EventRanking *self, Work *work)
{
    Py_ssize_t made = 0;
    for (Py_ssize_t at = 0; at < work->found_count; at++) {
        Amount one = work->found[at];
        int first = at == 0 || self->seq[one.doc] != self->seq[work->found[made - 1].doc];
        if (!first && one.value <= work->found[made - 1].value)
            continue;
        made += first;
        work->found[made - 1] = one;
        work->own[made - 1] = work->own[at];
    }
    work->found_count = made;
}

/* Fill in those that may be among the best so many, `extra` permille added; return how many. */
static Py_ssize_t candidates(
    const EventRanking *self, const Work *work, Py_ssize_t most, long long extra, RankedEvent *to)
{
    int64_t least = INT64_MIN;
    if (most < work->found_count) {
        for (Py_ssize_t at = 0; at < work->found_count; at++)
            work->keys[at] = work->found[at].value;
        least = kth_highest(work->keys, work->found_count, most);
    }
    Py_ssize_t made = 0;
    for (Py_ssize_t at = 0; at < work->found_count; at++) {
        int32_t doc = work->found[at].doc;
        int64_t value = work->found[at].value;
        if (value >= least || thousandths(value, extra) >= least)
            to[made++] = (RankedEvent){.score = value,
                                       .seq = self->seq[doc],
                                       .own = work->own[at],
                                       .group = self->group[doc],
                                       .doc = doc,
                                       .importance = self->importance[doc]};
    }
    return made;
}

static Py_ssize_t best_events(
    const EventRanking *self, const Question *asked, Work *work, RankedEvent *to)
{
    if (asked->most <= 0 || work->found_count == 0)
        return 0;
    keep_events(self, work);
    Py_ssize_t count = candidates(self, work, asked->most, asked->session_best, to);
    if (asked->session_best != SAME) {
        qsort(to, (size_t)count, sizeof(*to), by_group);
        for (Py_ssize_t at = 0; at < count; at++)
            if (to[at].group != 0 && (at == 0 || to[at].group != to[at - 1].group))
                to[at].score = thousandths(to[at].score, asked->session_best);
    }
    qsort(to, (size_t)count, sizeof(*to), by_rank);
    return count < asked->most ? count : asked->most;
}

static void free_work(Work *work)
{
    free(work->words);
    free(work->keys);
    free(work->own);
    free(work->heads);
    free(work->lent);
    free(work->spare);
    free(work->found);
}

static int make_work(const Question *asked, Work *work)
{
    /* Each source lends on two sides, and to what answers it. */
    Py_ssize_t sources = asked->count < asked->sources ? asked->count : asked->sources;
    size_t lent = (size_t)(sources > 0 ? sources : 0) * (2 * (size_t)asked->reach + 1) + 1;
    size_t matches = (size_t)asked->count + 1, every = matches + lent;
    work->words = malloc(matches * sizeof(*work->words));
    work->keys = malloc(every * sizeof(*work->keys));
    work->own = malloc(every * sizeof(*work->own));
    work->heads = malloc(matches * sizeof(*work->heads));
    work->lent = malloc(lent * sizeof(*work->lent));
    work->spare = malloc(matches * sizeof(*work->spare));
    work->found = malloc(every * sizeof(*work->found));
    return work->words != NULL && work->keys != NULL && work->own != NULL && work->heads != NULL &&
           work->lent != NULL && work->spare != NULL && work->found != NULL;
}

/* The documents, scores and own parts of the best events, as three arrays of bytes. */
static PyObject *packed(const RankedEvent *best, Py_ssize_t count)
{
    PyObject *docs = PyByteArray_FromStringAndSize(NULL, 4 * count);
    PyObject *scores = PyByteArray_FromStringAndSize(NULL, 8 * count);
    PyObject *own = PyByteArray_FromStringAndSize(NULL, 8 * count), *made = NULL;
    if (docs != NULL && scores != NULL && own != NULL) {
        int32_t *doc_at = (int32_t *)PyByteArray_AsString(docs);
        int64_t *score_at = (int64_t *)PyByteArray_AsString(scores);
        int64_t *own_at = (int64_t *)PyByteArray_AsString(own);
        for (Py_ssize_t at = 0; at < count; at++) {
            doc_at[at] = best[at].doc;
            score_at[at] = best[at].score;
            own_at[at] = best[at].own < best[at].score ? best[at].own : best[at].score;
        }
        made = PyTuple_Pack(3, docs, scores, own);
    }
    Py_XDECREF(docs);
    Py_XDECREF(scores);
    Py_XDECREF(own);
    return made;
}

/* All steps of `of`, without the interpreter's lock: what is read is held by the question and this
 * object, what is written nobody else has yet. -1 where there is no memory, -2 where matches were
 * dropped that count. */
static Py_ssize_t answered(const EventRanking *self, const Question *asked, Work *work,
                           const Kept *kept, RankedEvent **best)
{
    int64_t peak = whole_scores(self, asked, work->words);
    int64_t bars[ROLES];
    find_bars(self, asked, work, peak, bars);
    if (kept != NULL && !raise_bars(self, asked, work, peak, kept->floors, bars))
        return -2;
    for (Py_ssize_t at = 0; at < asked->count; at++)
        if (work->words[at] >= bars[role_of(self, asked, asked->docs[at])])
            work->heads[work->head_count++] =
                (Amount){own_of(self, asked, at, work->words[at], peak), asked->docs[at]};
    lend(self, asked, work);
    Dropped dropped = {0};
    int made = 1;
    if (kept != NULL) {
        drop_faint(self, asked, work, bars, peak);
        made = add_dropped(self, asked, work, kept, peak, &dropped);
    }
    if (made)
        score(self, asked, work, &dropped, peak);
    free(dropped.docs);
    free(dropped.own);
    *best = made ? malloc(((size_t)work->found_count + 1) * sizeof(**best)) : NULL;
    return *best == NULL ? -1 : best_events(self, asked, work, *best);
}

static int rows_of(PyObject *given, Py_buffer *buffer, Steps *steps)
{
    if (PyObject_GetBuffer(given, buffer, PyBUF_SIMPLE) < 0)
        return 0;
    steps->rows = buffer->buf;
    steps->count = buffer->len / (8 * STEP_SIZE);
    return 1;
}

/* Take what matches: rising documents of the frame, with as many numbers of each kind. */
static int open_matches(const EventRanking *self, Question *asked, PyObject *given)
{
    PyObject *columns[MATCH_COLUMNS];
    if (!PyArg_ParseTuple(given, "OOO", &columns[0], &columns[1], &columns[2]))
        return 0;
    for (int at = 0; at < MATCH_COLUMNS; at++) {
        if (PyObject_GetBuffer(columns[at], &asked->matches[at], PyBUF_SIMPLE) < 0)
            return 0;
        asked->fields[at] = asked->matches[at].buf;
    }
    asked->docs = asked->matches[DOCS].buf;
    asked->count = asked->matched = asked->matches[DOCS].len / 4;
    int fits = 1;
    for (int at = WORDS; at < MATCH_COLUMNS; at++)
        fits = fits && asked->matches[at].len / 8 == asked->count;
    for (Py_ssize_t at = 1; at < asked->count; at++)
        fits &= asked->docs[at] > asked->docs[at - 1];
    if (asked->count > 0)
        fits = fits && asked->docs[0] >= 0 && asked->docs[asked->count - 1] < self->size;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the matches are not rising documents of the frame");
    return fits;
}

static int heeds_roles(const Steps *steps)
{
    for (Py_ssize_t at = 0; at < steps->count; at++)
        if (steps->rows[STEP_SIZE * at] == BY_ROLE)
            return 1;
    return 0;
}

static int open_rules(Question *asked, PyObject *given)
{
    PyObject *said, *heard, *names, *shares, *faint, *table;
    if (!PyArg_ParseTuple(given, "LOOOK(ii)OOOinLL", &asked->coverage, &said, &heard, &names,
                          &asked->beginning, &asked->low, &asked->bits, &shares, &faint, &table,
                          &asked->reach, &asked->sources, &asked->reply, &asked->session_best) ||
        !rows_of(said, &asked->said_rows, &asked->said) ||
        !rows_of(heard, &asked->heard_rows, &asked->heard) ||
        PyObject_GetBuffer(names, &asked->names, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(shares, &asked->share_table, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(faint, &asked->faint_table, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(table, &asked->table, PyBUF_SIMPLE) < 0)
        return 0;
    asked->speakers = asked->names.buf;
    asked->speaker_count = asked->names.len / 8;
    asked->shares = asked->share_table.buf;
    asked->faint = asked->faint_table.buf;
    asked->strengths = asked->table.buf;
    asked->gaps = asked->table.len / 8;
    asked->by_role = heeds_roles(&asked->said) || heeds_roles(&asked->heard);
    int fits = asked->low >= 0 && asked->bits >= 0 && asked->low <= 16 &&
               asked->bits <= 16 - asked->low &&
               asked->share_table.len / 8 >= 1 << asked->bits &&
               asked->faint_table.len / 8 >= 1 << asked->bits && asked->reach >= 0 &&
               asked->reach <= UINT16_MAX;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the rules do not fit the flags, or reach too far");
    return fits;
}

static void close_question(Question *asked)
{
    for (int at = 0; at < MATCH_COLUMNS; at++)
        let_go(&asked->matches[at]);
    let_go(&asked->said_rows);
    let_go(&asked->heard_rows);
    let_go(&asked->names);
    let_go(&asked->share_table);
    let_go(&asked->faint_table);
    let_go(&asked->table);
}

static PyObject *event_ranking_of(EventRanking *self, PyObject *args)
{
    PyObject *matches, *rules, *made = NULL;
    Question asked = {0};
    Work work = {0};
    if (!PyArg_ParseTuple(args, "O!O!n", &PyTuple_Type, &matches, &PyTuple_Type, &rules,
                          &asked.most))
        return NULL;
    if (open_matches(self, &asked, matches) && open_rules(&asked, rules)) {
        RankedEvent *best = NULL;
        Py_ssize_t count = -1;
        PyThreadState *state = PyEval_SaveThread();
        if (make_work(&asked, &work))
            count = answered(self, &asked, &work, NULL, &best);
        PyEval_RestoreThread(state);
        made = count < 0 ? PyErr_NoMemory() : packed(best, count);
        free(best);
    }
    free_work(&work);
    close_question(&asked);
    return made;
}

/* Take what was kept as what matches. */
static void take_kept(Kept *kept)
{
    Question *asked = kept->asked;
    asked->docs = kept->part->docs;
    asked->fields[WORDS] = kept->part->totals;
    asked->fields[COVERAGE] = kept->part->coverage;
    asked->count = kept->part->made;
}

/* Room for so many matches; 0 where there is none, and then what was there stays. */
static int grow(PartSums *part, Py_ssize_t room)
{
    int32_t *docs = realloc(part->docs, (size_t)room * sizeof(*docs));
    if (docs != NULL)
        part->docs = docs;
    double *totals = realloc(part->totals, (size_t)room * sizeof(*totals));
    if (totals != NULL)
        part->totals = totals;
    double *coverage = realloc(part->coverage, (size_t)room * sizeof(*coverage));
    if (coverage != NULL)
        part->coverage = coverage;
    if (docs == NULL || totals == NULL || coverage == NULL)
        return 0;
    part->room = room;
    return 1;
}

/* Drop from now on what is so far below the bars that rounding cannot lift it. */
static void raise_floors(Kept *kept, const int64_t *bars)
{
    PartSums *part = kept->part;
    for (int role = 0; role < ROLES; role++) {
        int64_t bar = bars[role] - bars[role] / 256;
        if (bar > 0 && bar > kept->floors[role]) {
            kept->floors[role] = bar;
            kept->dropped = 1;
            part->floors[role] = ((double)bar - 1.0) / kept->share;
        }
    }
    part->floor = part->floors[0];
    for (int role = 1; kept->asked->by_role && role < ROLES; role++)
        part->floor = part->floors[role] < part->floor ? part->floors[role] : part->floor;
}

/* Drop the matches that get nowhere, by the bars of those that are known: what is below it stays so,
 * but for what rounding hides once a match with more words is known. */
static int drop_matches(Kept *kept)
{
    const EventRanking *self = kept->ranking;
    PartSums *part = kept->part;
    size_t room = ((size_t)part->made + 1) * sizeof(int64_t);
    Work work = {.words = malloc(room), .keys = malloc(room), .own = malloc(room)};
    take_kept(kept);
    kept->asked->matched = PY_SSIZE_T_MAX / 2;
    int made = work.words != NULL && work.keys != NULL && work.own != NULL;
    if (made) {
        int64_t peak = whole_scores(self, kept->asked, work.words);
        int64_t bars[ROLES];
        find_bars(self, kept->asked, &work, peak, bars);
        raise_floors(kept, bars);
        Py_ssize_t left = 0;
        for (Py_ssize_t at = 0; at < part->made; at++) {
            if (work.words[at] < kept->floors[role_of(self, kept->asked, part->docs[at])])
                continue;
            part->docs[left] = part->docs[at];
            part->totals[left] = part->totals[at];
            part->coverage[left++] = part->coverage[at];
        }
        part->made = left;
    }
    free_work(&work);
    return made;
}

/* Where dropping frees less than half of the room there is four times as much from then on. */
static int make_room(PartSums *part, void *owner)
{
    Kept *kept = owner;
    if (kept->share > 0.0 && !drop_matches(kept))
        return 0;
    return part->made <= part->room / 2 - PART || grow(part, 4 * part->room);
}

/* Rank the matches of the sums, all of them or those that may be among the best; see `answered`.
 * -3 where documents of a slice do not rise. */
static Py_ssize_t best_of_sums(Kept *kept, Work *work, int dropping, RankedEvent **best)
{
    const EventRanking *self = kept->ranking;
    PartSums *part = kept->part;
    Question *asked = kept->asked;
    Py_ssize_t most = asked->sources > asked->most ? asked->sources : asked->most;
    Py_ssize_t every = most_documents(kept->sums) + PART, room = kept->room;
    if (room <= 0) /* a few times as many as are wanted */
        room = DROPPED_FROM * (most < PART ? PART : most < every ? most : every);
    room = room < PART ? PART : room;
    if (!make_cursors(kept->sums, kept->worth, part) || !grow(part, room < every ? room : every))
        return -1;
    part->floor = -INFINITY;
    for (int role = 0; role < ROLES; role++)
        part->floors[role] = -INFINITY;
    part->roles = asked->by_role ? self->role : NULL;
    part->make_room = make_room;
    part->owner = kept;
    kept->share = 0.0;
    for (int at = 0; dropping && at < 1 << asked->bits; at++)
        kept->share = asked->shares[at] > kept->share ? asked->shares[at] : kept->share;
    int whole = add_gains(kept->sums, kept->worth, part);
    if (whole <= 0)
        return whole < 0 ? -1 : -3;
    take_kept(kept);
    asked->matched = part->matched;
    if (!make_work(asked, work))
        return -1;
    return answered(self, asked, work, kept->dropped ? kept : NULL, best);
}

/* Try with fewer matches first; what that takes too much away from is done again with all. */
static Py_ssize_t best_of_kept(Kept *kept, RankedEvent **best, int *covered)
{
    Py_ssize_t count = -2;
    for (int dropping = 1; count == -2 && dropping >= 0; dropping--) {
        Work work = {0};
        PartSums *part = kept->part = calloc(1, sizeof(*part));
        if (part == NULL)
            return -1;
        part->mass = kept->mass;
        for (int role = 0; role < ROLES; role++)
            kept->floors[role] = INT64_MIN;
        kept->dropped = 0;
        count = best_of_sums(kept, &work, dropping, best);
        *covered = part->covers;
        kept->asked->matched = part->matched;
        free_work(&work);
        free(part->docs);
        free(part->totals);
        free(part->coverage);
        close_part(part);
    }
    return count;
}

static PyObject *best_packed(Py_ssize_t count, const Question *asked, RankedEvent *best, int covered)
{
    if (count == -3)
        PyErr_SetString(PyExc_ValueError, NOT_RISING);
    else if (count < 0)
        PyErr_NoMemory();
    PyObject *made = count < 0 ? NULL : packed(best, count);
    return made == NULL
               ? NULL
               : Py_BuildValue("NnO", made, asked->matched, covered ? Py_True : Py_False);
}

static PyObject *event_ranking_best(EventRanking *self, PyObject *args)
{
    PyObject *sums, *weights, *rules, *made = NULL;
    Question asked = {0};
    Worth worth = {0};
    Py_buffer held[2] = {{0}, {0}};
    Kept kept = {.ranking = self, .worth = &worth, .asked = &asked};
    if (!PyArg_ParseTuple(args, "OO!dO!n|n", &sums, &PyTuple_Type, &weights,
                          &kept.mass, &PyTuple_Type, &rules, &asked.most, &kept.room))
        return NULL;
    /* No type of this module can be derived from: what frees an object says what it is. */
    if (PyType_GetSlot(Py_TYPE(sums), Py_tp_dealloc) != (void *)posting_sums_dealloc) {
        PyErr_SetString(PyExc_TypeError, "best takes the PostingSums of this kernel");
        return NULL;
    }
    kept.sums = (const PostingSums *)sums;
    if (kept.sums->limit > self->size) {
        PyErr_SetString(PyExc_ValueError, "the matches are not documents of the frame");
        return NULL;
    }
    if (open_worth(kept.sums, weights, &worth, held) && open_rules(&asked, rules)) {
        RankedEvent *best = NULL;
        int covered = 0;
        PyThreadState *state = PyEval_SaveThread();
        Py_ssize_t count = best_of_kept(&kept, &best, &covered);
        PyEval_RestoreThread(state);
        made = best_packed(count, &asked, best, covered);
        free(best);
    }
    close_worth(held);
    close_question(&asked);
    return made;
}

static int open_frame(EventRanking *self, PyObject *frame, PyObject *hidden)
{
    PyObject *given[COLUMNS];
    if (!PyArg_ParseTuple(frame, "nOOOOOOOOOO", &self->size, &given[0], &given[1], &given[2],
                          &given[3], &given[4], &given[5], &given[6], &given[7], &given[8],
                          &given[9]))
        return 0;
    if (self->size < 0 || self->size > INT32_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "a frame has too many documents");
        return 0;
    }
    for (int at = 0; at < COLUMNS; at++) {
        if (PyObject_GetBuffer(given[at], &self->columns[at], PyBUF_SIMPLE) < 0)
            return 0;
        if (self->columns[at].len < self->size * COLUMN_BYTES[at]) {
            PyErr_SetString(PyExc_ValueError, "a column is shorter than the frame");
            return 0;
        }
    }
    self->seq = self->columns[SEQ_AT].buf;
    self->tokens = self->columns[TOKENS_AT].buf;
    self->group = self->columns[GROUP_AT].buf;
    self->speaker = self->columns[SPEAKER_AT].buf;
    self->importance = self->columns[IMPORTANCE_AT].buf;
    self->flags = self->columns[FLAGS_AT].buf;
    self->role = self->columns[ROLE_AT].buf;
    self->traits = self->columns[TRAITS_AT].buf;
    self->links = self->columns[LINKS_AT].buf;
    self->strides = self->columns[STRIDES_AT].buf;
    if (!open_mask(&self->hidden, hidden, self->size))
        return 0;
    self->hides = self->hidden.obj == NULL ? NULL : self->hidden.buf;
    return 1;
}

static PyObject *event_ranking_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *frame, *hidden;
    (void)named;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &frame, &hidden))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    EventRanking *self = (EventRanking *)allocate(type, 0);
    if (self != NULL && !open_frame(self, frame, hidden))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void event_ranking_dealloc(EventRanking *self)
{
    for (int at = 0; at < COLUMNS; at++)
        let_go(&self->columns[at]);
    let_go(&self->hidden);
    freed((PyObject *)self);
}

static PyMethodDef event_ranking_methods[] = {
    {"best", (PyCFunction)event_ranking_best, METH_VARARGS,
     "Return what `of` does of the matches of sums, how many there are, and whether one has "
     "coverage."},
    {"of", (PyCFunction)event_ranking_of, METH_VARARGS,
     "Return the documents of the best events, four bytes each, and eight of each score and of "
     "what is own of it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot event_ranking_slots[] = {
    {Py_tp_new, event_ranking_new},
    {Py_tp_dealloc, event_ranking_dealloc},
    {Py_tp_methods, event_ranking_methods},
    {0, NULL},
};

static PyType_Spec event_ranking_spec = {
    "memplane._kernel.EventRanking", sizeof(EventRanking), 0, Py_TPFLAGS_DEFAULT,
    event_ranking_slots,
};

/* ---- PostingLists ---- */

#define READ_FIELDS 3 /* words, bigrams, prefixes: what is read from a text */
#define MIX 0x9E3779B97F4A7C15u
#define TIMES_MAX 255
#define FEW 24 /* terms that are sorted one by one */

/* Occurrences of one kind, in the order of documents. */
typedef struct {
    uint64_t *terms;
    uint32_t *docs;
    size_t count;
} Occurrences;

/* The distinct terms, each with how often it occurs. */
typedef struct {
    uint64_t *terms;
    uint32_t *counts;
    uint32_t *slots; /* of a term its place and one; 0: none */
    size_t count, room, mask;
} Distinct;

typedef struct {
    uint64_t term;
    uint32_t place;
} Ranked;

static uint64_t pair_term(uint64_t left, uint64_t right)
{
    return left <= right ? left * MIX + right : right * MIX + left;
}

static size_t slot_of_term(const Distinct *known, uint64_t term)
{
    size_t slot = (size_t)((term * MIX) >> 32) & known->mask;
    while (known->slots[slot] && known->terms[known->slots[slot] - 1] != term)
        slot = (slot + 1) & known->mask;
    return slot;
}

static int widened(Distinct *known)
{
    size_t room = 2 * known->room + 4096;
    uint64_t *terms = realloc(known->terms, room * sizeof(*terms));
    if (terms != NULL)
        known->terms = terms;
    uint32_t *counts = realloc(known->counts, room * sizeof(*counts));
    if (counts != NULL)
        known->counts = counts;
    size_t slots = 1;
    while (slots < 2 * room)
        slots *= 2;
    uint32_t *wider = calloc(slots, sizeof(*wider));
    if (terms == NULL || counts == NULL || wider == NULL) {
        free(wider);
        return 0;
    }
    free(known->slots);
    known->slots = wider;
    known->mask = slots - 1;
    known->room = room;
    for (size_t at = 0; at < known->count; at++)
        wider[slot_of_term(known, known->terms[at])] = (uint32_t)at + 1;
    return 1;
}

/* Find the place of each occurrence's term, and count it there. */
static int count_terms(Distinct *known, const uint64_t *terms, size_t count, uint32_t *places)
{
    for (size_t at = 0; at < count; at++) {
        if (known->count == known->room && !widened(known))
            return 0;
        size_t slot = slot_of_term(known, terms[at]);
        if (!known->slots[slot]) {
            known->terms[known->count] = terms[at];
            known->counts[known->count++] = 0;
            known->slots[slot] = (uint32_t)known->count;
        }
        places[at] = known->slots[slot] - 1;
        known->counts[places[at]]++;
    }
    return 1;
}

static int by_term(const void *left, const void *right)
{
    uint64_t one = ((const Ranked *)left)->term, two = ((const Ranked *)right)->term;
    return (one > two) - (one < two);
}

static void sort_few(Ranked *ranked, size_t count)
{
    if (count > FEW) {
        qsort(ranked, count, sizeof(*ranked), by_term);
        return;
    }
    for (size_t at = 1; at < count; at++) {
        Ranked one = ranked[at];
        size_t place = at;
        for (; place > 0 && ranked[place - 1].term > one.term; place--)
            ranked[place] = ranked[place - 1];
        ranked[place] = one;
    }
}

/* The distinct terms in rising order: by their highest bits, as they are spread evenly, then each
 * group. NULL where there is no memory. */
static Ranked *ranked_terms(const Distinct *known)
{
    int bits = 1;
    while (bits < 16 && (size_t)1 << bits < known->count)
        bits++;
    size_t groups = (size_t)1 << bits;
    Ranked *ranked = malloc((known->count + 1) * sizeof(*ranked));
    uint32_t *ends = calloc(groups + 1, sizeof(*ends));
    if (ranked == NULL || ends == NULL) {
        free(ranked);
        free(ends);
        return NULL;
    }
    for (size_t at = 0; at < known->count; at++)
        ends[(known->terms[at] >> (64 - bits)) + 1]++;
    for (size_t group = 0; group < groups; group++)
        ends[group + 1] += ends[group];
    for (size_t at = 0; at < known->count; at++) {
        Ranked one = {known->terms[at], (uint32_t)at};
        ranked[ends[known->terms[at] >> (64 - bits)]++] = one;
    }
    for (size_t group = 0, begin = 0; group < groups; begin = ends[group++])
        sort_few(ranked + begin, ends[group] - begin);
    free(ends);
    return ranked;
}

/* Group the documents by term, in the order of occurrence; `made` gets them, and `next` where those
 * of each place begin: then where they end. */
static void place_docs(const Occurrences *kinds, size_t kind_count, const uint32_t *places,
                       uint32_t *next, uint32_t *made)
{
    for (size_t kind = 0; kind < kind_count; kind++)
        for (size_t at = 0; at < kinds[kind].count; at++)
            made[next[*places++]++] = kinds[kind].docs[at];
}

static PyObject *made_lists(const Distinct *known, const Ranked *ranked, const uint32_t *ends,
                            const uint32_t *docs, size_t count)
{
    uint64_t *terms = malloc((known->count + 1) * sizeof(*terms));
    uint32_t *starts = malloc((known->count + 1) * sizeof(*starts));
    uint16_t *found = malloc((count + 1) * sizeof(*found));
    byte *times = malloc(count + 1);
    PyObject *made = NULL;
    if (terms == NULL || starts == NULL || found == NULL || times == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    size_t filled = 0, at = 0;
    for (size_t one = 0; one < known->count; one++) {
        terms[one] = ranked[one].term;
        starts[one] = (uint32_t)filled;
        for (size_t begin = at, end = ends[ranked[one].place]; at < end; at++)
            if (at > begin && docs[at] == docs[at - 1])
                times[filled - 1] += times[filled - 1] < TIMES_MAX;
            else {
                found[filled] = (uint16_t)docs[at];
                times[filled++] = 1;
            }
    }
    starts[known->count] = (uint32_t)filled;
    made = Py_BuildValue("(y#y#y#y#)", terms, (Py_ssize_t)(known->count * sizeof(*terms)), starts,
                         (Py_ssize_t)((known->count + 1) * sizeof(*starts)), found,
                         (Py_ssize_t)(filled * sizeof(*found)), times, (Py_ssize_t)filled);
done:
    free(terms);
    free(starts);
    free(found);
    free(times);
    return made;
}

static PyObject *grouped(const Occurrences *kinds, size_t kind_count)
{
    size_t count = 0, read = 0;
    for (size_t kind = 0; kind < kind_count; kind++)
        count += kinds[kind].count;
    Distinct known = {NULL, NULL, NULL, 0, 0, 0};
    uint32_t *places = malloc((count + 1) * sizeof(*places));
    uint32_t *docs = malloc((count + 1) * sizeof(*docs));
    Ranked *ranked = NULL;
    PyObject *made = NULL;
    int done = places != NULL && docs != NULL && count < UINT32_MAX;
    for (size_t kind = 0; done && kind < kind_count; read += kinds[kind++].count)
        done = count_terms(&known, kinds[kind].terms, kinds[kind].count, places + read);
    if (done && (ranked = ranked_terms(&known)) != NULL) {
        uint32_t begin = 0;
        for (size_t one = 0; one < known.count; one++) {
            uint32_t own = known.counts[ranked[one].place];
            known.counts[ranked[one].place] = begin;
            begin += own;
        }
        place_docs(kinds, kind_count, places, known.counts, docs);
        made = made_lists(&known, ranked, known.counts, docs, count);
    } else
        PyErr_NoMemory();
    free(known.terms);
    free(known.counts);
    free(known.slots);
    free(places);
    free(docs);
    free(ranked);
    return made;
}

/* The columns of a vocabulary, and what its numbers say of runs of words. */
typedef struct {
    Py_buffer numbers, lengths, starts, words, prefixes, chained, labels, label_docs;
} Given;

/* Whether every number is one of the columns; `atoms` becomes how many words they stand for. */
static int fits_columns(const Given *given, size_t *atoms)
{
    size_t count = (size_t)given->numbers.len / 4, starts = (size_t)given->starts.len / 4;
    size_t words = (size_t)given->chained.len, in_runs = 0;
    int fits = given->words.len / 8 == (Py_ssize_t)words && given->lengths.len / 4 % 2 == 0;
    fits = fits && given->prefixes.len / 8 == (Py_ssize_t)words;
    fits = fits && given->labels.len / 8 == given->label_docs.len / 4;
    *atoms = 0;
    for (size_t at = 0; fits && at < (size_t)given->lengths.len / 4; at++)
        in_runs += word_at(given->lengths.buf, at);
    fits = fits && in_runs == count;
    for (size_t at = 0; fits && at < count; at++) {
        size_t number = word_at(given->numbers.buf, at);
        fits = number + 1 < starts;
        if (fits) {
            size_t begin = word_at(given->starts.buf, number);
            size_t end = word_at(given->starts.buf, number + 1);
            fits = begin <= end && end <= words;
            *atoms += end - begin;
        }
    }
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "a number is none of the columns");
    return fits;
}

static void occur(Occurrences *kind, uint64_t term, uint32_t doc)
{
    kind->terms[kind->count] = term;
    kind->docs[kind->count++] = doc;
}

/* Take the words, pairs and prefixes of every run; two runs belong to one document. */
static void read_runs(const Given *given, Occurrences *kinds)
{
    const uint64_t *words = given->words.buf, *prefixes = given->prefixes.buf;
    const byte *chained = given->chained.buf;
    size_t place = 0;
    for (size_t run = 0; run < (size_t)given->lengths.len / 4; run++) {
        uint32_t doc = (uint32_t)(run >> 1);
        uint64_t last = 0;
        int linked = 0;
        for (size_t left = word_at(given->lengths.buf, run); left > 0; left--) {
            size_t number = word_at(given->numbers.buf, place++);
            size_t end = word_at(given->starts.buf, number + 1);
            for (size_t at = word_at(given->starts.buf, number); at < end; at++) {
                occur(&kinds[0], words[at], doc);
                if (prefixes[at])
                    occur(&kinds[2], prefixes[at], doc);
                if (!chained[at])
                    continue;
                if (linked)
                    occur(&kinds[1], pair_term(last, words[at]), doc);
                last = words[at];
                linked = 1;
            }
        }
    }
}

/* How many occurrences of each kind that is read each document has. */
static PyObject *lengths_of(const Given *given, const Occurrences *kinds)
{
    size_t count = (size_t)given->lengths.len / 8;
    PyObject *made = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(4 * READ_FIELDS * count));
    if (made == NULL)
        return NULL;
    uint32_t *lengths = (uint32_t *)PyByteArray_AsString(made);
    memset(lengths, 0, 4 * READ_FIELDS * count);
    for (size_t kind = 0; kind < READ_FIELDS; kind++)
        for (size_t at = 0; at < kinds[kind].count; at++)
            lengths[kind * count + kinds[kind].docs[at]]++;
    return made;
}

static PyObject *lists_of(const Given *given)
{
    size_t atoms;
    if (!fits_columns(given, &atoms))
        return NULL;
    Occurrences kinds[READ_FIELDS + 1];
    memset(kinds, 0, sizeof(kinds));
    uint64_t *terms = malloc((READ_FIELDS * atoms + 1) * sizeof(*terms));
    uint32_t *docs = malloc((READ_FIELDS * atoms + 1) * sizeof(*docs));
    PyObject *lists = NULL, *lengths = NULL, *made = NULL;
    if (terms == NULL || docs == NULL)
        PyErr_NoMemory();
    else {
        for (size_t kind = 0; kind < READ_FIELDS; kind++) {
            kinds[kind].terms = terms + kind * atoms;
            kinds[kind].docs = docs + kind * atoms;
        }
        kinds[READ_FIELDS].terms = given->labels.buf;
        kinds[READ_FIELDS].docs = given->label_docs.buf;
        kinds[READ_FIELDS].count = (size_t)given->labels.len / 8;
        read_runs(given, kinds);
        lists = grouped(kinds, READ_FIELDS + 1);
        lengths = lists == NULL ? NULL : lengths_of(given, kinds);
        made = lengths == NULL ? NULL : PyTuple_Pack(2, lists, lengths);
    }
    Py_XDECREF(lists);
    Py_XDECREF(lengths);
    free(terms);
    free(docs);
    return made;
}

static PyObject *posting_lists_of(PyObject *self, PyObject *args)
{
    Given given;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*(y*y*y*y*)y*y*", &given.numbers, &given.lengths, &given.starts,
                          &given.words, &given.prefixes, &given.chained, &given.labels,
                          &given.label_docs))
        return NULL;
    PyObject *made = lists_of(&given);
    PyBuffer_Release(&given.numbers);
    PyBuffer_Release(&given.lengths);
    PyBuffer_Release(&given.starts);
    PyBuffer_Release(&given.words);
    PyBuffer_Release(&given.prefixes);
    PyBuffer_Release(&given.chained);
    PyBuffer_Release(&given.labels);
    PyBuffer_Release(&given.label_docs);
    return made;
}

static PyMethodDef posting_lists_methods[] = {
    {"of", (PyCFunction)posting_lists_of, METH_VARARGS,
     "Return the postings of documents in four columns, and their lengths."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot posting_lists_slots[] = {
    {Py_tp_methods, posting_lists_methods},
    {0, NULL},
};

static PyType_Spec posting_lists_spec = {
    "memplane._kernel.PostingLists", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, posting_lists_slots,
};

/* ---- PhraseCodes ---- */

#define PHRASES_MAX 32 /* a code is a control character */

typedef struct {
    PyObject_HEAD
    PyObject *phrases;
    struct {
        const byte *text;
        size_t size;
        uint32_t head, mask; /* its first bytes, as `head_of` has them, and which of these it has */
    } sorted[PHRASES_MAX]; /* by their first byte, the longest first */
    byte codes[PHRASES_MAX];
    byte begins[256 + 1]; /* where those of each first byte begin */
} PhraseCodes;

/* Up to four bytes as a number, on any machine in the same order. */
static uint32_t head_of(const byte *at, size_t size)
{
    uint32_t found = 0;
    for (size_t place = 0; place < 4; place++)
        found = found << 8 | (place < size ? at[place] : 0);
    return found;
}

/* Pack the bytes to where there is room for as many; return where they end. */
static byte *pack_text(const PhraseCodes *self, const byte *at, const byte *end, byte *next)
{
    for (const byte *one = at; one < end; one++)
        if (*one < PHRASES_MAX) /* which would be read as a code */
            end = at;
    while (at < end) {
        size_t place = self->begins[*at], last = self->begins[*at + 1];
        uint32_t head = place < last ? head_of(at, (size_t)(end - at)) : 0;
        while (place < last && ((head & self->sorted[place].mask) != self->sorted[place].head ||
                                (size_t)(end - at) < self->sorted[place].size ||
                                memcmp(at, self->sorted[place].text, self->sorted[place].size)))
            place++;
        *next++ = place < last ? self->codes[place] : *at;
        at += place < last ? self->sorted[place].size : 1;
    }
    return next;
}

static PyObject *packed_text(const PhraseCodes *self, const byte *at, const byte *end)
{
    byte *made = malloc((size_t)(end - at) + 1);
    if (made == NULL)
        return PyErr_NoMemory();
    byte *next = pack_text(self, at, end, made);
    PyObject *found = PyBytes_FromStringAndSize((const char *)made, next - made);
    free(made);
    return found;
}

static PyObject *phrase_codes_packed(PhraseCodes *self, PyObject *given)
{
    char *buffer;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(given, &buffer, &length) < 0)
        return NULL;
    return packed_text(self, (const byte *)buffer, (const byte *)buffer + length);
}

#define NOWHERE UINT32_MAX
static const byte TEXT_NAME[] = "\"text\":\"";
#define TEXT_NAME_SIZE (sizeof(TEXT_NAME) - 1)

/* Where a text ends that begins here as JSON has it, behind the quote that closes it; NULL where
 * another one stands here. */
static const byte *text_end(const byte *at, const byte *end, const byte *said, const byte *said_end)
{
    static const char HEX[] = "0123456789abcdef";
    for (; said < said_end; said++) {
        byte escape[6] = {'\\', *said}, one = *said;
        size_t size = 2;
        if (one >= ' ' && one != '"' && one != '\\') {
            if (at == end || *at++ != one)
                return NULL;
            continue;
        }
        if (one < ' ') {
            const char *named = one == 0 ? NULL : strchr("\bb\ff\nn\rr\tt", one);
            if (named != NULL)
                escape[1] = (byte)named[1];
            else {
                memcpy(escape + 1, "u00", 3);
                escape[4] = (byte)HEX[one >> 4];
                escape[5] = (byte)HEX[one & 15];
                size = 6;
            }
        }
        if ((size_t)(end - at) < size || memcmp(at, escape, size) != 0)
            return NULL;
        at += size;
    }
    return at < end && *at == '"' ? at + 1 : NULL;
}

/* Find a text in a line: where its name begins, and in `last` where it ends; NULL: not there. */
static const byte *find_text(const byte *at, const byte *end, const byte *said,
                             const byte *said_end, const byte **last)
{
    while (end - at > (ptrdiff_t)TEXT_NAME_SIZE) {
        at = memchr(at, '"', (size_t)(end - at));
        if (at == NULL || end - at <= (ptrdiff_t)TEXT_NAME_SIZE)
            return NULL;
        if (memcmp(at, TEXT_NAME, TEXT_NAME_SIZE) == 0 &&
            (*last = text_end(at + TEXT_NAME_SIZE, end, said, said_end)) != NULL)
            return at;
        at++;
    }
    return NULL;
}

/* Pack a line without a text behind `lead` bytes of a block that the caller frees; NULL: an error.
 * `hole` is where the text was, `size` the bytes of the block. */
static byte *packed_without(const PhraseCodes *self, const byte *line, const byte *end,
                            PyObject *said, Py_ssize_t most, size_t lead, uint32_t *hole,
                            size_t *size)
{
    const byte *at = NULL, *last = end;
    if (said != Py_None) {
        const byte *text, *text_last;
        PyObject *data = looked_in(said, &text, &text_last);
        if (data == NULL)
            return NULL;
        at = find_text(line, end, text, text_last, &last);
        Py_DECREF(data);
    }
    size_t before = (size_t)((at == NULL ? end : at) - line);
    size_t behind = at == NULL ? 0 : (size_t)(end - last);
    size_t room = most < 0 || before + behind > (size_t)most ? 0 : before + behind;
    byte *made = malloc(lead + 2 * room + 1);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    byte *rest = made + lead + room, *next = made + lead;
    if (room > 0) {
        memcpy(rest, line, before);
        memcpy(rest + before, last, behind);
        next = pack_text(self, rest, rest + room, next);
    }
    *hole = at == NULL ? NOWHERE : (uint32_t)before;
    *size = (size_t)(next - made);
    return made;
}

static PyObject *phrase_codes_without(PhraseCodes *self, PyObject *args)
{
    const char *raw;
    PyObject *said;
    Py_ssize_t length, most;
    uint32_t hole;
    size_t size;
    if (!PyArg_ParseTuple(args, "y#On", &raw, &length, &said, &most))
        return NULL;
    byte *packed = packed_without(self, (const byte *)raw, (const byte *)raw + length, said, most,
                                  0, &hole, &size);
    if (packed == NULL)
        return NULL;
    PyObject *made =
        Py_BuildValue("(ky#)", (unsigned long)hole, (const char *)packed, (Py_ssize_t)size);
    free(packed);
    return made;
}

#define HASH_DIGITS 16
#define PLACES 3 /* of a line: its segment, its first byte there and its bytes */
#define KEPT_HEAD (HASH_DIGITS / 2 + 4 * (PLACES + 1))

static byte *put_number(byte *at, uint32_t number)
{
    for (int place = 0; place < 4; place++)
        *at++ = (byte)(number >> 8 * place);
    return at;
}

/* Read a hash of small hexadecimal digits; 0 where these bytes are none. */
static int read_hash(const byte *at, Py_ssize_t size, byte *hash)
{
    if (size != HASH_DIGITS)
        return 0;
    memset(hash, 0, HASH_DIGITS / 2);
    for (size_t place = 0; place < HASH_DIGITS; place++) {
        byte one = at[place];
        if (!is_digit(one) && (one < 'a' || one > 'f'))
            return 0;
        hash[place / 2] = (byte)(hash[place / 2] << 4 | (is_digit(one) ? one - '0' : one - 'a' + 10));
    }
    return 1;
}

static PyObject *phrase_codes_kept(PhraseCodes *self, PyObject *const *args, Py_ssize_t count)
{
    char *before, *raw;
    Py_ssize_t digits, length, most;
    uint32_t places[PLACES], hole;
    byte hash[HASH_DIGITS / 2];
    size_t size;
    if (count != PLACES + 4) {
        PyErr_SetString(PyExc_TypeError, "expected a hash, a line, a text, a place and a bound");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &before, &digits) < 0 ||
        PyBytes_AsStringAndSize(args[1], &raw, &length) < 0)
        return NULL;
    for (size_t at = 0; at < PLACES; at++)
        if (!as_number(args[at + 3], &places[at]))
            return NULL;
    most = PyLong_AsSsize_t(args[PLACES + 3]);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    if (!read_hash((const byte *)before, digits, hash))
        return PyBytes_FromStringAndSize("", 0);
    byte *kept = packed_without(self, (const byte *)raw, (const byte *)raw + length, args[2], most,
                                KEPT_HEAD, &hole, &size);
    if (kept == NULL)
        return NULL;
    memcpy(kept, hash, sizeof(hash));
    byte *at = kept + sizeof(hash);
    for (size_t place = 0; place < PLACES; place++)
        at = put_number(at, places[place]);
    put_number(at, hole);
    PyObject *made = PyBytes_FromStringAndSize((const char *)kept, (Py_ssize_t)size);
    free(kept);
    return made;
}

static int open_phrases(PhraseCodes *self)
{
    size_t count = (size_t)PyTuple_Size(self->phrases), place = 0;
    for (int first = 0; first < 256; first++) {
        self->begins[first] = (byte)place;
        for (size_t code = 0; code < count; code++) {
            char *text;
            Py_ssize_t size;
            PyObject *one = PyTuple_GetItem(self->phrases, (Py_ssize_t)code);
            if (PyBytes_AsStringAndSize(one, &text, &size) < 0)
                return 0;
            if (size == 0 || (byte)text[0] != first)
                continue;
            size_t at = place++;
            for (; at > self->begins[first] && self->sorted[at - 1].size < (size_t)size; at--) {
                self->sorted[at] = self->sorted[at - 1];
                self->codes[at] = self->codes[at - 1];
            }
            self->sorted[at].text = (const byte *)text;
            self->sorted[at].size = (size_t)size;
            self->sorted[at].head = head_of((const byte *)text, (size_t)size);
            self->sorted[at].mask = size >= 4 ? UINT32_MAX : ~(UINT32_MAX >> 8 * size);
            self->codes[at] = (byte)code;
        }
    }
    self->begins[256] = (byte)place;
    return 1;
}

static PyObject *phrase_codes_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *phrases;
    (void)named;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &phrases))
        return NULL;
    if (PyTuple_Size(phrases) > PHRASES_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many phrases");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PhraseCodes *self = (PhraseCodes *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(phrases);
    self->phrases = phrases;
    if (!open_phrases(self))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void phrase_codes_dealloc(PhraseCodes *self)
{
    Py_CLEAR(self->phrases);
    freed((PyObject *)self);
}

static PyMethodDef phrase_codes_methods[] = {
    {"without", (PyCFunction)phrase_codes_without, METH_VARARGS,
     "Return where a line has a text, and the rest of it with codes."},
    {"kept", (PyCFunction)(void (*)(void))phrase_codes_kept, METH_FASTCALL,
     "Return the hash before a line, its place, where it has a text, and the rest with codes."},
    {"packed", (PyCFunction)phrase_codes_packed, METH_O,
     "Return the bytes with a code for each phrase; of what holds a code nothing."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot phrase_codes_slots[] = {
    {Py_tp_new, phrase_codes_new},
    {Py_tp_dealloc, phrase_codes_dealloc},
    {Py_tp_methods, phrase_codes_methods},
    {0, NULL},
};

static PyType_Spec phrase_codes_spec = {
    "memplane._kernel.PhraseCodes", sizeof(PhraseCodes), 0, Py_TPFLAGS_DEFAULT, phrase_codes_slots,
};

/* ---- Literals ---- */

#define LITERALS_MAX 1024

typedef struct {
    const byte *text;
    size_t size;
} Literal;

typedef struct {
    PyObject *texts, *encoded; /* the texts, and the bytes that `literals` point into */
    Literal *literals;
    uint16_t *order;            /* by their first byte */
    uint16_t begins[256 + 1];   /* where the literals of each first byte begin in `order` */
    byte pairs[(1 << 16) / 8];  /* a bit for each two bytes that a literal may begin with */
    byte is_word[256];          /* of which words are made */
    int words;                  /* literals are words */
    size_t count;
} LiteralTable;

typedef struct {
    PyObject_HEAD
    LiteralTable table;
} Literals;

static size_t pair_of(byte one, byte two) { return (size_t)one << 8 | two; }

static void mark_pair(LiteralTable *self, byte one, byte two)
{
    self->pairs[pair_of(one, two) >> 3] |= (byte)(1 << (two & 7));
}

/* Whether the literal begins at this place, as a word where it is to be one. */
static int stands(const LiteralTable *self, const Literal *one, const byte *from, const byte *at,
                  const byte *end)
{
    if ((size_t)(end - at) < one->size || memcmp(at, one->text, one->size) != 0)
        return 0;
    if (!self->words)
        return 1;
    return (at == from || !self->is_word[at[-1]]) &&
           (at + one->size == end || !self->is_word[at[one->size]]);
}

/* Mark what the text holds; return how many. */
static size_t mark_found(const LiteralTable *self, const byte *from, const byte *end, byte *found)
{
    size_t left = self->count;
    for (size_t at = 0; at < self->count; at++)
        if (self->literals[at].size == 0) {
            found[at] = !self->words;
            left--;
        }
    for (const byte *at = from; at < end && left > 0; at++) {
        byte two = at + 1 < end ? at[1] : 0;
        if (!(self->pairs[pair_of(*at, two) >> 3] & 1 << (two & 7)))
            continue;
        for (size_t place = self->begins[*at]; place < self->begins[*at + 1]; place++) {
            size_t one = self->order[place];
            if (found[one] || !stands(self, &self->literals[one], from, at, end))
                continue;
            found[one] = 1;
            left--;
        }
    }
    size_t count = 0;
    for (size_t at = 0; at < self->count; at++)
        count += found[at];
    return count;
}

/* As `looked_in`, without a copy where there need be none: a text may have many megabytes. */
static PyObject *looked_at(PyObject *given, const byte **at, const byte **end)
{
    if (PyUnicode_Check(given)) {
        Py_ssize_t length = 0;
        *at = (const byte *)PyUnicode_AsUTF8AndSize(given, &length);
        if (*at != NULL) {
            *end = *at + length;
            return Py_NewRef(given);
        }
        PyErr_Clear(); /* it has a lone surrogate */
    }
    return looked_in(given, at, end);
}

static PyObject *literals_among(Literals *object, PyObject *given)
{
    const LiteralTable *self = &object->table;
    const byte *from, *end;
    byte found[LITERALS_MAX];
    PyObject *data = looked_at(given, &from, &end);
    if (data == NULL)
        return NULL;
    memset(found, 0, self->count);
    size_t count = mark_found(self, from, end, found);
    Py_DECREF(data);
    PyObject *made = PyTuple_New((Py_ssize_t)count);
    Py_ssize_t place = 0;
    for (size_t at = 0; made != NULL && at < self->count; at++)
        if (found[at]) {
            PyObject *one = PyTuple_GetItem(self->texts, (Py_ssize_t)at);
            Py_INCREF(one);
            PyTuple_SetItem(made, place++, one);
        }
    return made;
}

/* Append each place, in characters, at which a literal begins. */
static int append_places(const LiteralTable *self, const byte *from, const byte *end, PyObject *found)
{
    Py_ssize_t characters = 0;
    for (const byte *at = from; at < end; at++) {
        byte two = at + 1 < end ? at[1] : 0;
        int begins = 0;
        if (self->pairs[pair_of(*at, two) >> 3] & 1 << (two & 7))
            for (size_t place = self->begins[*at]; !begins && place < self->begins[*at + 1]; place++)
                begins = stands(self, &self->literals[self->order[place]], from, at, end);
        if (begins) {
            PyObject *number = PyLong_FromSsize_t(characters);
            int done = number != NULL && PyList_Append(found, number) == 0;
            Py_XDECREF(number);
            if (!done)
                return 0;
        }
        characters += at + 1 == end || (at[1] & 0xC0) != 0x80;
    }
    return 1;
}

static PyObject *literals_places(Literals *object, PyObject *text)
{
    const byte *from, *end;
    PyObject *data = looked_at(text, &from, &end);
    PyObject *found = data == NULL ? NULL : PyList_New(0);
    if (found != NULL && !object->table.words && !append_places(&object->table, from, end, found))
        Py_CLEAR(found);
    Py_XDECREF(data);
    return found;
}

/* Put the literals in the order of their first bytes. */
static void sort_literals(LiteralTable *self)
{
    size_t place = 0;
    for (int first = 0; first < 256; first++) {
        self->begins[first] = (uint16_t)place;
        for (size_t at = 0; at < self->count; at++) {
            const Literal *one = &self->literals[at];
            if (one->size == 0 || one->text[0] != first)
                continue;
            self->order[place++] = (uint16_t)at;
            for (int two = 0; two < 256; two++)
                if (one->size == 1 || one->text[1] == two)
                    mark_pair(self, one->text[0], (byte)two);
        }
    }
    self->begins[256] = (uint16_t)place;
}

static int open_literals(
    LiteralTable *self, PyObject *texts, const char *letters, Py_ssize_t letter_count)
{
    Py_INCREF(texts);
    self->texts = texts;
    self->count = (size_t)PyTuple_Size(self->texts);
    self->words = letter_count > 0;
    for (Py_ssize_t at = 0; at < letter_count; at++)
        self->is_word[(byte)letters[at]] = 1;
    if (self->count > LITERALS_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many texts");
        return 0;
    }
    self->encoded = PyTuple_New((Py_ssize_t)self->count);
    self->literals = calloc(self->count + 1, sizeof(*self->literals));
    self->order = calloc(self->count + 1, sizeof(*self->order));
    if (self->literals == NULL || self->order == NULL)
        PyErr_NoMemory();
    if (self->encoded == NULL || self->literals == NULL || self->order == NULL)
        return 0;
    for (size_t at = 0; at < self->count; at++) {
        const byte *end;
        PyObject *text = PyTuple_GetItem(self->texts, (Py_ssize_t)at);
        PyObject *data = looked_in(text, &self->literals[at].text, &end);
        if (data == NULL)
            return 0;
        self->literals[at].size = (size_t)(end - self->literals[at].text);
        PyTuple_SetItem(self->encoded, (Py_ssize_t)at, data);
    }
    sort_literals(self);
    return 1;
}

static PyObject *literals_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *texts;
    const char *letters = NULL;
    Py_ssize_t letter_count = 0;
    (void)named;
    if (!PyArg_ParseTuple(args, "O!|y#", &PyTuple_Type, &texts, &letters, &letter_count))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Literals *self = (Literals *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    if (!open_literals(&self->table, texts, letters, letter_count))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void close_literals(LiteralTable *self)
{
    free(self->literals);
    free(self->order);
    Py_CLEAR(self->texts);
    Py_CLEAR(self->encoded);
}

static void literals_dealloc(Literals *self)
{
    close_literals(&self->table);
    freed((PyObject *)self);
}

static PyMethodDef literals_methods[] = {
    {"among", (PyCFunction)literals_among, METH_O, "Return which of them the text holds."},
    {"places", (PyCFunction)literals_places, METH_O, "Return where in a text one of them begins."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot literals_slots[] = {
    {Py_tp_new, literals_new},
    {Py_tp_dealloc, literals_dealloc},
    {Py_tp_methods, literals_methods},
    {0, NULL},
};

static PyType_Spec literals_spec = {
    "memplane._kernel.Literals", sizeof(Literals), 0, Py_TPFLAGS_DEFAULT, literals_slots,
};

/* ---- LongRuns ---- */

typedef struct {
    PyObject_HEAD
    byte is_run[256], is_word[256];
    size_t least;
} LongRuns;

typedef struct {
    const byte *at;
    size_t size;
    uint32_t hash;
    int half; /* it may be half of a token */
} FoundRun;

typedef struct {
    FoundRun *runs;
    size_t count, room, bytes;
} FoundRuns;

static int add_run(FoundRuns *found, const FoundRun *run)
{
    if (found->count == found->room) {
        size_t room = 2 * found->room + 16;
        FoundRun *longer = realloc(found->runs, room * sizeof(*longer));
        if (longer == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        found->runs = longer;
        found->room = room;
    }
    found->runs[found->count++] = *run;
    found->bytes += run->size + 1;
    return 1;
}

static int find_runs(const LongRuns *self, const byte *from, const byte *end, FoundRuns *found)
{
    /* No byte of a run stands before `at`: of most words the last byte that a run would have is
     * looked at, and no other. */
    for (const byte *at = from; (size_t)(end - at) >= self->least;) {
        const byte *last = at + self->least;
        while (last > at && self->is_run[last[-1]])
            last--;
        if (last > at) {
            at = last;
            continue;
        }
        FoundRun run = {at, 0, 0, 0};
        for (; at < end && self->is_run[*at]; at++)
            run.half |= is_digit(*at) || *at == '\\';
        run.size = (size_t)(at - run.at);
        run.hash = hash_of(run.at, run.size);
        if (!add_run(found, &run))
            return 0;
    }
    return 1;
}

static size_t longest_word(const LongRuns *self, const FoundRun *run)
{
    size_t longest = 0, size = 0;
    for (size_t at = 0; at < run->size; at++) {
        size = self->is_word[run->at[at]] ? size + 1 : 0;
        longest = size > longest ? size : longest;
    }
    return longest;
}

/* Each run once, a blank before it; `longest` is the longest word of all. */
static PyObject *joined_runs(const LongRuns *self, const FoundRuns *found, size_t *longest)
{
    size_t slots = 16, mask;
    while (slots < 2 * found->count)
        slots *= 2;
    mask = slots - 1;
    uint32_t *places = calloc(slots, sizeof(*places));
    byte *made = malloc(found->bytes + 1), *next = made;
    PyObject *joined = NULL;
    if (places == NULL || made == NULL || found->count >= UINT32_MAX)
        PyErr_NoMemory();
    else {
        for (size_t at = 0; at < found->count; at++) {
            const FoundRun *run = &found->runs[at], *other = NULL;
            size_t place = run->hash & mask;
            for (; places[place] > 0; place = (place + 1) & mask) {
                other = &found->runs[places[place] - 1];
                if (other->hash == run->hash && other->size == run->size &&
                    memcmp(other->at, run->at, run->size) == 0)
                    break;
            }
            if (places[place] > 0)
                continue;
            places[place] = (uint32_t)at + 1;
            size_t size = longest_word(self, run);
            *longest = size > *longest ? size : *longest;
            *next++ = ' ';
            memcpy(next, run->at, run->size);
            next += run->size;
        }
        joined = PyBytes_FromStringAndSize((const char *)made, next - made);
    }
    free(places);
    free(made);
    return joined;
}

static PyObject *halves_of(const FoundRuns *found, const byte *from)
{
    PyObject *halves = PyList_New(0);
    for (size_t at = 0; halves != NULL && at < found->count; at++) {
        const FoundRun *run = &found->runs[at];
        if (!run->half)
            continue;
        Py_ssize_t begin = run->at - from;
        PyObject *span = Py_BuildValue("(nn)", begin, begin + (Py_ssize_t)run->size);
        int done = span != NULL && PyList_Append(halves, span) == 0;
        Py_XDECREF(span);
        if (!done)
            Py_CLEAR(halves);
    }
    return halves;
}

static PyObject *long_runs_of(LongRuns *self, PyObject *given)
{
    char *text;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(given, &text, &length) < 0)
        return NULL;
    FoundRuns found = {NULL, 0, 0, 0};
    size_t longest = 0;
    PyObject *made = NULL, *joined = NULL, *halves = NULL;
    const byte *from = (const byte *)text;
    if (find_runs(self, from, from + length, &found) &&
        (joined = joined_runs(self, &found, &longest)) != NULL &&
        (halves = halves_of(&found, from)) != NULL)
        made = Py_BuildValue("(OOn)", joined, halves, (Py_ssize_t)longest);
    Py_XDECREF(joined);
    Py_XDECREF(halves);
    free(found.runs);
    return made;
}

static PyObject *long_runs_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    const char *runs, *words;
    Py_ssize_t run_count, word_count, least;
    (void)named;
    if (!PyArg_ParseTuple(args, "y#y#n", &runs, &run_count, &words, &word_count, &least))
        return NULL;
    if (least < 1) {
        PyErr_SetString(PyExc_ValueError, "a run has a byte at least");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    LongRuns *self = (LongRuns *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at < run_count; at++)
        self->is_run[(byte)runs[at]] = 1;
    for (Py_ssize_t at = 0; at < word_count; at++)
        self->is_word[(byte)words[at]] = 1;
    self->least = (size_t)least;
    return (PyObject *)self;
}

static void long_runs_dealloc(LongRuns *self) { freed((PyObject *)self); }

static PyMethodDef long_runs_methods[] = {
    {"of", (PyCFunction)long_runs_of, METH_O,
     "Return the runs of a text, where those lie that may be halves, and how long a word is."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot long_runs_slots[] = {
    {Py_tp_new, long_runs_new},
    {Py_tp_dealloc, long_runs_dealloc},
    {Py_tp_methods, long_runs_methods},
    {0, NULL},
};

static PyType_Spec long_runs_spec = {
    "memplane._kernel.LongRuns", sizeof(LongRuns), 0, Py_TPFLAGS_DEFAULT, long_runs_slots,
};

/* ---- AskedSentences ---- */

#define SENTENCE_MAX 300 /* characters; a longer one is cut between words */

typedef struct {
    TokenNumbers tokens;
    LiteralTable openings;
    int digits;
} AskedSentences;

/* Whether any of the literals begins between the two places and ends there. */
static int holds_any(const LiteralTable *self, const byte *from, const byte *end)
{
    for (size_t at = 0; at < self->count; at++)
        if (self->literals[at].size == 0)
            return 1;
    for (const byte *at = from; at < end; at++) {
        byte two = at + 1 < end ? at[1] : 0;
        if (!(self->pairs[pair_of(*at, two) >> 3] & 1 << (two & 7)))
            continue;
        for (size_t place = self->begins[*at]; place < self->begins[*at + 1]; place++)
            if (stands(self, &self->literals[self->order[place]], from, at, end))
                return 1;
    }
    return 0;
}

/* Whether the token, in small letters, may hold what is asked for. */
static int may_hold(const AskedSentences *self, const byte *from, const byte *end)
{
    for (const byte *at = from; self->digits && at < end; at++)
        if (is_digit(*at))
            return 1;
    return holds_any(&self->openings, from, end);
}

/* Whether a comma stands between groups of digits: the pattern _DIGIT_GROUPS of terms.py. */
static int is_grouping(const byte *from, const byte *at, const byte *end)
{
    return *at == ',' && at > from && is_digit(at[-1]) && end - at > 3 && is_digit(at[1]) &&
           is_digit(at[2]) && is_digit(at[3]) && (end - at == 4 || !is_digit(at[4]));
}

/* Copy a token without what groups its digits; return where the copy ends. */
static byte *ungrouped(byte *to, const byte *from, const byte *end)
{
    for (const byte *at = from; at < end; at++)
        if (!is_grouping(from, at, end))
            *to++ = *at;
    return to;
}

/* What is read of a text: the same in small letters, room for a token, and what is found. */
typedef struct {
    byte *lower, *token;
    Numbers numbers, ends, rows;
} Reading;

/* Append a row for each number of a token but 0: the sentence and the number. */
static int append_rows(
    AskedSentences *self, Reading *reading, PyObject *mapping, const byte *token, size_t size)
{
    reading->numbers.count = 0;
    if (!append_token(&self->tokens, &reading->numbers, mapping, token, size, hash_of(token, size)))
        return 0;
    for (size_t at = 0; at < reading->numbers.count; at++)
        if (reading->numbers.numbers[at] != 0 &&
            !(append(&reading->rows, (uint32_t)reading->ends.count) &&
              append(&reading->rows, reading->numbers.numbers[at])))
            return 0;
    return 1;
}

/* Append the rows of a sentence: of its tokens that may hold what is asked for. */
static int append_sentence(AskedSentences *self, Reading *reading, PyObject *mapping,
                           const byte *text, size_t begin, size_t end)
{
    for (size_t at = begin; at < end;) {
        if (split_blank(text + at, text + end)) {
            at++;
            continue;
        }
        size_t from = at;
        int commas = 0;
        for (; at < end && !split_blank(text + at, text + end); at++)
            commas |= text[at] == ',';
        const byte *token = text + from, *token_end = text + at;
        if (commas) {
            token_end = ungrouped(reading->token, token, token_end);
            token = reading->token;
        }
        size_t size = (size_t)(token_end - token);
        int whole = size == at - from; /* else what was apart may stand together now */
        if (whole && !may_hold(self, reading->lower + from, reading->lower + at))
            continue;
        if (!append_rows(self, reading, mapping, token, size))
            return 0;
    }
    return 1;
}

/* Where the sentence or line ends that begins or goes on here. */
static size_t sentence_end(const byte *text, size_t at, size_t size)
{
    for (; at < size; at++) {
        if (text[at] == '\n') {
            for (at++; at < size && split_blank(text + at, text + size); at++)
                ;
            return at;
        }
        if ((text[at] != '.' && text[at] != '!' && text[at] != '?') || at + 1 == size ||
            (text[at + 1] != ' ' && text[at + 1] != '\t'))
            continue;
        for (at++; at < size && (text[at] == ' ' || text[at] == '\t'); at++)
            ;
        return at;
    }
    return size;
}

/* Where a sentence is cut that is too long. */
static size_t sentence_cut(const byte *text, size_t begin)
{
    for (size_t at = begin + SENTENCE_MAX; at > begin + SENTENCE_MAX / 2; at--)
        if (text[at - 1] == ' ')
            return at;
    return begin + SENTENCE_MAX;
}

/* Read a text of ASCII. */
static int read_sentences(
    AskedSentences *self, Reading *reading, PyObject *mapping, const byte *text, size_t size)
{
    for (size_t at = 0; at < size; at++)
        reading->lower[at] = lowered(text[at]);
    for (size_t begin = 0, goes_on = 0; begin < size;) {
        size_t end = goes_on > begin ? goes_on : sentence_end(text, begin, size);
        goes_on = end;
        if (end - begin > SENTENCE_MAX)
            end = sentence_cut(text, begin);
        if (!append_sentence(self, reading, mapping, text, begin, end) ||
            !append(&reading->ends, (uint32_t)end))
            return 0;
        begin = end;
    }
    return 1;
}

static PyObject *bytes_of_numbers(const Numbers *found)
{
    return PyBytes_FromStringAndSize((const char *)found->numbers,
                                     (Py_ssize_t)(found->count * sizeof(*found->numbers)));
}

static PyObject *asked_sentences_of(AskedSentences *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "expected a text and a mapping");
        return NULL;
    }
    Py_ssize_t length = 0;
    const byte *text = (const byte *)PyUnicode_AsUTF8AndSize(args[0], &length);
    if (text == NULL)
        return NULL;
    size_t size = (size_t)length;
    if (!is_ascii(text, size) || size > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "expected a text of ASCII");
        return NULL;
    }
    Reading reading = {.lower = malloc(2 * size + 1)};
    if (reading.lower == NULL)
        return PyErr_NoMemory();
    reading.token = reading.lower + size;
    PyObject *made = NULL;
    if (read_sentences(self, &reading, args[1], text, size)) {
        PyObject *ends = bytes_of_numbers(&reading.ends), *rows = bytes_of_numbers(&reading.rows);
        made = ends == NULL || rows == NULL ? NULL : PyTuple_Pack(2, ends, rows);
        Py_XDECREF(ends);
        Py_XDECREF(rows);
    }
    free(reading.lower);
    free(reading.numbers.numbers);
    free(reading.ends.numbers);
    free(reading.rows.numbers);
    return made;
}

static PyObject *asked_sentences_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *openings, *pieces;
    int digits;
    Py_ssize_t longest;
    (void)named;
    if (!PyArg_ParseTuple(args, "O!pOn", &PyTuple_Type, &openings, &digits, &pieces, &longest))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    AskedSentences *self = (AskedSentences *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(pieces);
    self->tokens.pieces = pieces;
    self->tokens.longest = longest > 0 ? (size_t)longest : 0;
    self->digits = digits;
    if (!open_literals(&self->openings, openings, NULL, 0))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int asked_sentences_traverse(AskedSentences *self, visitproc visit, void *arg)
{
    return token_numbers_traverse(&self->tokens, visit, arg);
}

static int asked_sentences_clear(AskedSentences *self)
{
    return token_numbers_clear(&self->tokens);
}

static void asked_sentences_dealloc(AskedSentences *self)
{
    close_literals(&self->openings);
    token_numbers_dealloc(&self->tokens);
}

static PyMethodDef asked_sentences_methods[] = {
    {"of", (PyCFunction)(void (*)(void))asked_sentences_of, METH_FASTCALL,
     "Return where each sentence of a text ends, and a row for each number that its tokens have."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot asked_sentences_slots[] = {
    {Py_tp_new, asked_sentences_new},           {Py_tp_dealloc, asked_sentences_dealloc},
    {Py_tp_traverse, asked_sentences_traverse}, {Py_tp_clear, asked_sentences_clear},
    {Py_tp_methods, asked_sentences_methods},   {0, NULL},
};

static PyType_Spec asked_sentences_spec = {
    "memplane._kernel.AskedSentences",
    sizeof(AskedSentences),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    asked_sentences_slots,
};

/* ---- RecordMaker ---- */

typedef struct {
    PyObject_HEAD
    PyObject *fields, *defaults, *other; /* defaults are those of the last fields */
    Py_ssize_t count, first;             /* how many fields; the first that has a default */
} RecordMaker;

static PyObject *record_maker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *fields, *defaults, *other;
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "RecordMaker takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O", &PyTuple_Type, &fields, &PyTuple_Type, &defaults, &other))
        return NULL;
    if (PyTuple_Size(defaults) > PyTuple_Size(fields)) {
        PyErr_SetString(PyExc_ValueError, "more defaults than fields");
        return NULL;
    }
    RecordMaker *self = (RecordMaker *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->fields = Py_NewRef(fields);
    self->defaults = Py_NewRef(defaults);
    self->other = Py_NewRef(other);
    self->count = PyTuple_Size(fields);
    self->first = self->count - PyTuple_Size(defaults);
    return (PyObject *)self;
}

static void record_maker_dealloc(RecordMaker *self)
{
    Py_CLEAR(self->fields);
    Py_CLEAR(self->defaults);
    Py_CLEAR(self->other);
    freed((PyObject *)self);
}

/* The place of the field of a name from `start` on; -1: there is none. */
static Py_ssize_t field_of(RecordMaker *self, PyObject *name, Py_ssize_t start)
{
    for (Py_ssize_t at = start; at < self->count; at++)
        if (PyTuple_GetItem(self->fields, at) == name)
            return at; /* both are interned, as names in code are */
    for (Py_ssize_t at = start; at < self->count; at++)
        if (PyUnicode_Compare(PyTuple_GetItem(self->fields, at), name) == 0)
            return at;
    return -1;
}

/* Put the arguments and the defaults in their places; 0 where they do not fit the fields. */
static int record_filled(RecordMaker *self, PyObject *made, PyObject *const *args,
                         Py_ssize_t given, PyObject *names)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    for (Py_ssize_t at = 0; at < given; at++)
        PyTuple_SetItem(made, at, Py_NewRef(args[at]));
    for (Py_ssize_t at = 0; at < named; at++) {
        Py_ssize_t place = field_of(self, PyTuple_GetItem(names, at), given);
        if (place < 0) /* a name that is no field, or one of a value given before; none comes twice */
            return 0;
        PyTuple_SetItem(made, place, Py_NewRef(args[given + at]));
    }
    for (Py_ssize_t at = given; at < self->count; at++) {
        if (PyTuple_GetItem(made, at) != NULL)
            continue;
        if (at < self->first)
            return 0;
        PyTuple_SetItem(made, at, Py_NewRef(PyTuple_GetItem(self->defaults, at - self->first)));
    }
    return 1;
}

/* What `other` makes of the same arguments: the error of a call that does not fit. */
static PyObject *record_of_other(RecordMaker *self, PyObject *const *args, Py_ssize_t given,
                                 PyObject *names)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    PyObject *made = NULL, *kept = PyDict_New(), *values = PyTuple_New(given);
    if (kept == NULL || values == NULL)
        goto done;
    for (Py_ssize_t at = 0; at < given; at++)
        PyTuple_SetItem(values, at, Py_NewRef(args[at]));
    for (Py_ssize_t at = 0; at < named; at++)
        if (PyDict_SetItem(kept, PyTuple_GetItem(names, at), args[given + at]) < 0)
            goto done;
    made = PyObject_Call(self->other, values, kept);
done:
    Py_XDECREF(kept);
    Py_XDECREF(values);
    return made;
}

static PyObject *record_maker_make(RecordMaker *self, PyObject *const *args, Py_ssize_t given,
                                   PyObject *names)
{
    if (given < 1 || given - 1 > self->count || !PyType_Check(args[0]) ||
        !PyType_IsSubtype((PyTypeObject *)args[0], &PyTuple_Type) ||
        args[0] == (PyObject *)&PyTuple_Type)
        return record_of_other(self, args, given, names);
    PyObject *made = PyType_GenericAlloc((PyTypeObject *)args[0], self->count);
    if (made == NULL)
        return NULL;
    if (record_filled(self, made, args + 1, given - 1, names))
        return made;
    Py_DECREF(made);
    return PyErr_Occurred() ? NULL : record_of_other(self, args, given, names);
}

static PyMethodDef record_maker_methods[] = {
    {"make", (PyCFunction)(void (*)(void))record_maker_make, METH_FASTCALL | METH_KEYWORDS,
     "Make an object of the class that is given first."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot record_maker_slots[] = {
    {Py_tp_new, record_maker_new},
    {Py_tp_dealloc, record_maker_dealloc},
    {Py_tp_methods, record_maker_methods},
    {0, NULL},
};

static PyType_Spec record_maker_spec = {
    "memplane._kernel.RecordMaker", sizeof(RecordMaker), 0, Py_TPFLAGS_DEFAULT,
    record_maker_slots,
};

/* ---- the module ---- */

static int fill_module(PyObject *module)
{
    PyType_Spec *specs[] = {
        &chunk_sums_spec, &token_numbers_spec, &token_parts_spec, &posting_sums_spec,
        &event_ranking_spec, &phrase_codes_spec, &posting_lists_spec, &literals_spec,
        &asked_sentences_spec, &record_maker_spec, &long_runs_spec, &term_tables_spec,
    };
    for (size_t at = 0; at < sizeof(specs) / sizeof(*specs); at++) {
        PyObject *type = PyType_FromModuleAndSpec(module, specs[at], NULL);
        if (type == NULL)
            return -1;
        int failed = PyModule_AddType(module, (PyTypeObject *)type);
        Py_DECREF(type);
        if (failed < 0)
            return -1;
    }
    return PyModule_AddIntConstant(module, "VERSION", KERNEL_VERSION);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_kernel", "The compiled kernel: see memplane/kernel.py.", 0, NULL,
    module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&module);
}

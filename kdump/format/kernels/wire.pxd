# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled half of `wire.py`: every function is inlined into the kernels that name it. `wire.py` has the contract.

The two halves give the same results for all input; tests/format/test_kernels.py holds them together. Arithmetic that can
leave 64 bits is done unsigned, so nothing here depends on what a compiler makes of a signed overflow.
"""

from libc.string cimport memchr, memcmp, memcpy

cdef extern from *:
    """
    static const char kdump_pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    static const char kdump_base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char kdump_url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    """
    const char *PAIRS "kdump_pairs"
    const char *BASE64 "kdump_base64"
    const char *URL_SAFE "kdump_url_safe"

cdef enum:
    NO_END = -1
    TOO_WIDE = -2
    WIDEST_INT = 5
    WIDEST_LONG = 10


# --- numbers of fixed size -----------------------------------------------------------------------------------
cdef inline long long u16(const unsigned char *b, Py_ssize_t at) noexcept nogil:
    return (<long long>b[at] << 8) | b[at + 1]


cdef inline long long u32(const unsigned char *b, Py_ssize_t at) noexcept nogil:
    return (<long long>b[at] << 24) | (<long long>b[at + 1] << 16) | (<long long>b[at + 2] << 8) | b[at + 3]


cdef inline long long i16(const unsigned char *b, Py_ssize_t at) noexcept nogil:
    cdef long long value = u16(b, at)
    return value - 0x10000 if value > 0x7FFF else value


cdef inline long long i32(const unsigned char *b, Py_ssize_t at) noexcept nogil:
    return int32(u32(b, at))


cdef inline long long i64(const unsigned char *b, Py_ssize_t at) noexcept nogil:
    return <long long>((<unsigned long long>u32(b, at) << 32) | <unsigned long long>u32(b, at + 4))


cdef inline Py_ssize_t put_number(unsigned char *out, Py_ssize_t at, Py_ssize_t n, long long value) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[at + i] = (<unsigned long long>value >> (8 * (n - 1 - i))) & 0xFF
    return at + n


# --- sums as Java has them -----------------------------------------------------------------------------------
cdef inline long long add(long long a, long long b) noexcept nogil:
    return <long long>(<unsigned long long>a + <unsigned long long>b)


cdef inline long long subtract(long long a, long long b) noexcept nogil:
    return <long long>(<unsigned long long>a - <unsigned long long>b)


cdef inline long long int32(long long value) noexcept nogil:
    value &= 0xFFFFFFFFLL
    return value - 0x100000000LL if value > 0x7FFFFFFF else value


cdef inline long long sequence(long long base, long long delta) noexcept nogil:
    if base > int32(0x7FFFFFFF - delta):
        return int32(delta - (0x7FFFFFFF - base) - 1)
    return int32(base + delta)


cdef inline long long last_sequence(long long base, long long delta) noexcept nogil:
    return -1 if base == -1 else sequence(base, delta)


# --- varints -------------------------------------------------------------------------------------------------
cdef inline Py_ssize_t varint_end(
    const unsigned char *b, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t most
) noexcept nogil:
    cdef Py_ssize_t n = 0
    if at < stop and b[at] < 0x80:
        return at + 1  # nearly all have one byte
    while at < stop:
        n += 1
        if b[at] < 0x80:
            return at + 1
        if n == most:
            return TOO_WIDE
        at += 1
    return NO_END


cdef inline long long varint(const unsigned char *b, Py_ssize_t at, Py_ssize_t after) noexcept nogil:
    cdef unsigned long long value = 0
    cdef int shift = 0
    if at + 1 == after:
        value = b[at]
    else:
        while at < after and shift < 35:
            value |= <unsigned long long>(b[at] & 0x7F) << shift
            shift += 7
            at += 1
        value &= 0xFFFFFFFFULL
    return -1 - <long long>(value >> 1) if value & 1 else <long long>(value >> 1)


cdef inline long long varlong(const unsigned char *b, Py_ssize_t at, Py_ssize_t after) noexcept nogil:
    cdef unsigned long long value = 0
    cdef int shift = 0
    while at < after and shift < 70:
        value |= <unsigned long long>(b[at] & 0x7F) << shift
        shift += 7
        at += 1
    return -1 - <long long>(value >> 1) if value & 1 else <long long>(value >> 1)


cdef inline long long uvarint(const unsigned char *b, Py_ssize_t at, Py_ssize_t after) noexcept nogil:
    cdef long long value = 0
    cdef int shift = 0
    while at < after and shift < 35:
        value |= <long long>(b[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value


cdef inline Py_ssize_t after_varint(const unsigned char *b, Py_ssize_t at, Py_ssize_t stop) noexcept nogil:
    if at < stop and b[at] < 0x80:
        return at + 1
    while at < stop:
        at += 1
        if b[at - 1] < 0x80:
            break
    return at


cdef inline long long size_within(
    const unsigned char *b, Py_ssize_t at, Py_ssize_t after, Py_ssize_t stop
) noexcept nogil:
    cdef long long size = varint(b, at, after)
    return size if size <= stop - after else stop - after


cdef inline unsigned long long zigzag(long long value) noexcept nogil:
    return (<unsigned long long>value << 1) ^ <unsigned long long>(value >> 63)


cdef inline Py_ssize_t varint_size(long long value) noexcept nogil:
    cdef unsigned long long left = zigzag(value)
    cdef Py_ssize_t n = 1
    while left > 0x7F:
        left >>= 7
        n += 1
    return n


cdef inline Py_ssize_t put_varint(unsigned char *out, Py_ssize_t at, long long value) noexcept nogil:
    cdef unsigned long long left = zigzag(value)
    while left > 0x7F:
        out[at] = <unsigned char>(left & 0x7F | 0x80)
        left >>= 7
        at += 1
    out[at] = <unsigned char>left
    return at + 1


# --- bytes ---------------------------------------------------------------------------------------------------
cdef inline Py_ssize_t put(unsigned char *out, Py_ssize_t at, const char *text, Py_ssize_t n) noexcept nogil:
    memcpy(out + at, text, n)
    return at + n


cdef inline Py_ssize_t copy(
    unsigned char *out, Py_ssize_t at, const unsigned char *b, Py_ssize_t start, Py_ssize_t n
) noexcept nogil:
    memcpy(out + at, b + start, n)
    return at + n


cdef inline bint same(
    const unsigned char *a, Py_ssize_t at, const unsigned char *b, Py_ssize_t start, Py_ssize_t n
) noexcept nogil:
    return memcmp(a + at, b + start, n) == 0


cdef inline bint has(
    const unsigned char *a, Py_ssize_t at, Py_ssize_t last, const unsigned char *b, Py_ssize_t n
) noexcept nogil:
    cdef const void *found
    if n == 0:
        return True
    while at <= last:
        found = memchr(a + at, b[0], last - at + 1)
        if found is NULL:
            return False
        at = <const unsigned char *>found - a
        if memcmp(a + at, b, n) == 0:
            return True
        at += 1
    return False


# --- text ----------------------------------------------------------------------------------------------------
cdef inline Py_ssize_t put_pair(unsigned char *out, Py_ssize_t at, Py_ssize_t value) noexcept nogil:
    out[at] = PAIRS[2 * value]
    out[at + 1] = PAIRS[2 * value + 1]
    return at + 2


cdef inline Py_ssize_t put_unsigned(unsigned char *out, Py_ssize_t at, unsigned long long rest) noexcept nogil:
    cdef unsigned int low
    cdef unsigned int power
    cdef Py_ssize_t i
    cdef Py_ssize_t end
    if rest >= 100000000:
        at = put_unsigned(out, at, rest // 100000000)
        low = <unsigned int>(rest % 100000000)
        at = put_pair(out, at, low // 1000000)
        at = put_pair(out, at, low // 10000 % 100)
        at = put_pair(out, at, low // 100 % 100)
        return put_pair(out, at, low % 100)
    low = <unsigned int>rest
    end = at + 1
    power = 10
    while low >= power:
        end += 1
        power *= 10
    i = end
    while low >= 10:
        i -= 2
        put_pair(out, i, low % 100)
        low //= 100
    if i > at:
        out[at] = 48 + low
    return end


cdef inline Py_ssize_t put_int(unsigned char *out, Py_ssize_t at, long long value) noexcept nogil:
    if value < 0:
        out[at] = 45
        return put_unsigned(out, at + 1, 0 - <unsigned long long>value)
    return put_unsigned(out, at, <unsigned long long>value)


cdef inline Py_ssize_t utf8_size(const unsigned char *b, Py_ssize_t at, Py_ssize_t stop) noexcept nogil:
    cdef unsigned int lead = b[at]
    cdef unsigned int low = 0x80
    cdef unsigned int high = 0xBF
    cdef Py_ssize_t n
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    if lead < 0xE0:
        n = 2
    elif lead < 0xF0:
        n = 3
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    else:
        n = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    if n > stop - at:
        return 0
    if b[at + 1] < low or b[at + 1] > high:
        return 0
    if n > 2 and b[at + 2] & 0xC0 != 0x80:
        return 0
    if n > 3 and b[at + 3] & 0xC0 != 0x80:
        return 0
    return n


cdef inline Py_ssize_t put_base64(
    unsigned char *out, Py_ssize_t to, const unsigned char *b, Py_ssize_t at, Py_ssize_t n,
    const char *letters, bint padded
) noexcept nogil:
    cdef unsigned int group
    while n > 2:
        group = (<unsigned int>b[at] << 16) | (<unsigned int>b[at + 1] << 8) | b[at + 2]
        out[to] = letters[group >> 18]
        out[to + 1] = letters[(group >> 12) & 63]
        out[to + 2] = letters[(group >> 6) & 63]
        out[to + 3] = letters[group & 63]
        to += 4
        at += 3
        n -= 3
    if n > 0:
        group = <unsigned int>b[at] << 16
        if n > 1:
            group |= <unsigned int>b[at + 1] << 8
        out[to] = letters[group >> 18]
        out[to + 1] = letters[(group >> 12) & 63]
        to += 2
        if n > 1:
            out[to] = letters[(group >> 6) & 63]
            to += 1
        while padded and n < 3:
            out[to] = 61
            to += 1
            n += 1
    return to

"""Every number of the batch and record formats, in wire order, and the columns that the kernels fill.

A position is a byte position. Positions within a batch are counted from its first byte. All integers in Kafka's
files are big-endian.
"""

from __future__ import annotations

from kdump.format.java_values import MAX_INT as MAX_INT
from kdump.format.java_values import MAX_LONG, MIN_LONG

# --- what all magics share: Records -------------------------------------------------------------------------
OFFSET_AT = 0  # i64
SIZE_AT = 8  # i32, bytes after this field
LOG_OVERHEAD = 12  # offset and size
MAGIC_AT = 16  # i8
HEADER_UP_TO_MAGIC = 17  # FileLogInputStream reads no batch at a position with this many bytes left, or fewer

# --- magic 2: DefaultRecordBatch ----------------------------------------------------------------------------
LEADER_EPOCH_AT = 12  # i32
CRC_AT = 17  # u32: CRC-32C over [ATTRIBUTES_AT, end)
ATTRIBUTES_AT = 21  # i16, the low byte is used
LAST_OFFSET_DELTA_AT = 23  # i32
BASE_TIMESTAMP_AT = 27  # i64
MAX_TIMESTAMP_AT = 35  # i64
PRODUCER_ID_AT = 43  # i64
PRODUCER_EPOCH_AT = 51  # i16
BASE_SEQUENCE_AT = 53  # i32
COUNT_AT = 57  # i32
RECORDS_AT = 61
MIN_SIZE_V2 = RECORDS_AT - LOG_OVERHEAD  # 49
SMALLEST_RECORD = 7  # bytes of a record: none of its numbers has fewer than one

CODEC_MASK = 0x07
CODEC_ZSTD = 4
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
ATTRIBUTES_UNUSED_V2 = 0xFF80

# --- magic 0 and 1: LegacyRecord ----------------------------------------------------------------------------
LEGACY_CRC_AT = 12  # u32: CRC-32 over [MAGIC_AT, end)
LEGACY_ATTRIBUTES_AT = 17  # i8
LEGACY_TIMESTAMP_AT = 18  # i64, magic 1 only
MIN_SIZE_V0 = 14
MIN_SIZE_V1 = 22
ATTRIBUTES_UNUSED_LEGACY = 0xF0

MAGIC_V2 = 2
LARGEST_OFFSET = MAX_LONG - 1  # that a batch can have: the log end, one above it, is a long too
LONGEST_VARINT = 5
CONTROL_KEY_SIZE = 4  # version and type, i16 each
MARKER_SIZE = 6  # version i16, coordinator epoch i32
NO_OFFSET = -1
NO_EPOCH = -1

# --- columns of a batch row ---------------------------------------------------------------------------------
# One row is BATCH_WIDTH int64 values in one flat array. Kafka's names; what a legacy batch does not have is -1.
POSITION = 0  # file position of the first byte
SIZE = 1  # bytes, the 12 of offset and size included
BASE_OFFSET = 2  # a legacy wrapper: -1, its first offset is known only after decompression
LAST_OFFSET = 3
MAGIC = 4
ATTRIBUTES = 5  # unsigned
CRC = 6  # as stored, unsigned
BASE_TIMESTAMP = 7
MAX_TIMESTAMP = 8  # magic 0: -1
PRODUCER_ID = 9
PRODUCER_EPOCH = 10
BASE_SEQUENCE = 11
LAST_OFFSET_DELTA = 12
COUNT = 13
LEADER_EPOCH = 14
COMPUTED_CRC = 15  # filled by the reader
SUSPICION = 16  # bit mask of the rules below
SEEN_MAX_TIMESTAMP = 17  # largest timestamp of the records read so far, as stored; UNKNOWN before the first
SEEN_DELTA = 18  # offset delta of the last record read so far, -1 before the first
BATCH_WIDTH = 19

# Suspicions: cheap rules that one look at a header and the header before can test. A row without any, and with
# the right CRC, needs no second look.
NOT_ABOVE = 1  # base offset not above the last offset before
GAP = 2  # base offset not the one after the last offset before
EPOCH_CHANGES = 4
ODD_MAGIC = 8
ODD_CODEC = 16
ODD_ATTRIBUTES = 32
ODD_DELTA = 64
ODD_COUNT = 128
OUT_OF_RANGE = 256  # no offset at all, below the segment's base offset, or more than 2^31-1 above it
ODD_FLAGS = 512
HAS_PRODUCER = 1024  # no fault: the producer fold wants to see it
# Set by the record kernel.
TIMES_VARY = 2048  # no fault: the records' timestamps are not all the same
ODD_ORDER = 4096  # offset deltas do not rise, or exceed lastOffsetDelta
ODD_FIELDS = 8192  # a record with attributes, or a length below -1

FAULTS = 13305  # those that are something wrong with the batch: of no gap before it, and no change of epochs

# What the scan ended with.
END = 0  # nothing more that is a batch by Kafka's rules
MORE = 1  # the next batch is not all in the window
FULL = 2  # no room for another row
TOO_SMALL = 3  # size field below 14
PAST_END = 4  # size field reaches past the end
SHORT_V2 = 5  # magic 2 or above, and size field below 49

# The border between two windows: what the next one must know of the one before.
BORDER_LAST_OFFSET = 0
BORDER_EPOCH = 1
BORDER_WIDTH = 2
UNKNOWN = MIN_LONG  # in a border: there is nothing before

# --- what the indexes of a segment get -----------------------------------------------------------------------
# State: position after which a batch gets an entry, offset of the last entry, the largest timestamp with its offset,
# the last time entry. Entry: offset, position, whether a time entry comes with it, timestamp and offset of that.
INDEX_STATE = 6
INDEX_ENTRY = 5

# --- columns of a record row --------------------------------------------------------------------------------
# Positions are in the buffer that the batch's records were read from.
R_BATCH = 0  # row number of its batch
R_OFFSET = 1
R_TIMESTAMP = 2
R_SEQUENCE = 3
R_KEY_AT = 4
R_KEY_SIZE = 5  # below 0: null
R_VALUE_AT = 6
R_VALUE_SIZE = 7  # below 0: null
R_HEADERS_AT = 8
R_HEADER_COUNT = 9
R_CRC = 10  # legacy messages only: as stored
R_FLAGS = 11  # bits, see below
R_AT = 12  # first byte of the record
R_DELTA = 13  # offset delta
R_ATTRIBUTES = 14  # one byte, as stored
R_END = 15  # first byte after the record
R_CLAIMED_SIZE = 16  # with VALUE_OVERRUNS only: the size that the value claims
R_TIME_DELTA = 17  # ms, as stored; 0 in a legacy message, which has none
RECORD_WIDTH = 18

# Flags of a record row.
CRC_HOLDS = 1  # legacy messages only: the CRC is right
ODD_HEADER_KEY = 2  # a header key is not UTF-8
VALUE_OVERRUNS = 4  # legacy messages only: the value claims more bytes than there are; its row has no value
DISORDERED = 8  # its offset delta is not above the one before, or above lastOffsetDelta
HAS_ATTRIBUTES = 16  # its attributes are not 0
ODD_LENGTH = 32  # a length below -1

# How reading the records of one batch went.
R_DONE = 0  # all records of the batch are there
R_FULL = 1  # no room for another row: call again
R_MORE = 2  # the next record is not all in the buffer
R_LENGTH_VARINT = 3  # its length does not end, or has too many bytes
R_LENGTH_NEGATIVE = 4
R_FIELD_VARINT = 5
R_BODY = 6  # its fields end before or after its length
R_KEY_LENGTH = 7
R_HEADER_COUNT_BAD = 8
R_HEADER_KEY = 9
R_VALUE_LENGTH = 10
R_HEADER_VALUE = 11
R_COUNT_NEGATIVE = 12
R_LEFT_OVER = 13  # all records of the batch are there, and bytes follow them
R_NO_MESSAGE = 14  # a legacy message too short for the sizes of its key and value

# --- one record in pieces -------------------------------------------------------------------------------------
# State of a record that is read in pieces: P_WIDTH int64 values, all 0 before its first byte.
P_STAGE = 0  # what comes next, AT_LENGTH ...
P_LEFT = 1  # bytes of the record that are not read yet
P_FIELD_LEFT = 2  # bytes of the field in hand that are not handed out yet
P_HEADERS_LEFT = 3
P_ATTRIBUTES = 4
P_TIME_DELTA = 5
P_DELTA = 6
P_KEY_SIZE = 7  # below 0: null, as the next
P_VALUE_SIZE = 8
P_HEADER_COUNT = 9
P_WIDTH = 10

AT_LENGTH = 0
AT_ATTRIBUTES = 1
AT_TIME_DELTA = 2
AT_DELTA = 3
AT_KEY_SIZE = 4
AT_KEY = 5
AT_VALUE_SIZE = 6
AT_VALUE = 7
AT_HEADER_COUNT = 8
AT_HEADER_KEY_SIZE = 9
AT_HEADER_KEY = 10
AT_HEADER_VALUE_SIZE = 11
AT_HEADER_VALUE = 12
AT_END = 13

# A piece of a field: PIECE_WIDTH int64 values.
PIECE_OF = 0  # AT_KEY, AT_VALUE, AT_HEADER_KEY or AT_HEADER_VALUE
PIECE_AT = 1  # place in the buffer
PIECE_SIZE = 2  # bytes; -1: the field is null
PIECE_LEFT = 3  # bytes of the field that follow in later pieces
PIECE_WIDTH = 4

# --- what the cleaner decides ---------------------------------------------------------------------------------
# Of a batch, before its records are looked at.
DROP_RECORDS = 1
KEEP_RECORDS = 2
KEEP_EMPTY = 4  # the batch stays, with no record if need be
NEEDS_HORIZON = 8  # an end marker of a transaction of which nothing is left
DROP_TOMBSTONES = 16

# Of a batch, once its records were looked at: S_WIDTH int64 values.
S_SEEN = 0
S_KEPT = 1
S_TOMBSTONES = 2  # that are kept
S_FIRST_OFFSET = 3  # of those that are kept, as the next three
S_LAST_OFFSET = 4
S_FIRST_TIME = 5
S_MAX_TIME = 6
S_WIDTH = 7

# A batch that is written: M_WIDTH int64 values.
M_BASE = 0
M_LAST = 1
M_COUNT = 2
M_HORIZON = 3  # delete horizon, -1 for none
M_AT = 4  # where it begins in the output; -1 when it is there as it was
M_CONTROL = 5  # not 0 for a control batch
M_WIDTH = 6

# What comes of a batch.
GONE = 0
ITSELF = 1
ANOTHER = 2
EMPTY = 3
IMPOSSIBLE = 4  # it must stay without records, which magic 0 and 1 cannot

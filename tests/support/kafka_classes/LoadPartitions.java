import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Loads partition directories as a broker does at its start, one for each line of stdin: path, clock in ms, whether it
 * was shut down well, log start offset, recovery point, then settings of the topic as name=value, with tabs between; pass=WATERMARK,CHECKPOINT,BYTES
 * lets the cleaner make a pass too, from the checkpoint on (-1 for none); read=yes reads all records of the log;
 * committed=yes tells, before a pass, the last stable offset and the offsets that a read_committed consumer gets;
 * places=OFFSET:EPOCH,... tells of each commit what a fetch and a question for the end of its leader epoch answer.
 * tiered=WATERMARK,HIGHEST has remote storage, with offsets up to the highest (-1 for none), and lets retention delete what
 * it would. Prints for each "loaded", log start and end offset, or "failed", class and message, with tabs between. Of what
 * was read how many records that were, and the CRC-32 of their offsets, keys and values, in this order, each with its length;
 * of a tiered one the local log start offset, base offsets that are left, bytes only here before, and base offsets that may
 * be copied.
 */
public class LoadPartitions {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) out.println(answer(line.split("\t")));
    }

    static String answer(String[] asked) {
        try {
            StringBuilder told = new StringBuilder("loaded"), more = new StringBuilder();
            for (long one : load(asked, more)) told.append('\t').append(one);
            return told.append(more).toString();
        } catch (Throwable thrown) {
            Throwable one = thrown;
            while (one instanceof InvocationTargetException && one.getCause() != null) one = one.getCause();
            if (one instanceof KafkaStorageException && one.getCause() instanceof java.io.IOException) one = one.getCause();
            String message = String.valueOf(one.getMessage()).replaceAll("[\t\r\n]", " ");
            return "failed\t" + one.getClass().getName() + "\t" + message;
        }
    }

    static long[] load(String[] asked, StringBuilder more) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int i = 5; i < asked.length; i++) settings.put(asked[i].split("=", 2)[0], asked[i].split("=", 2)[1]);
        String pass = settings.remove("pass"), reads = settings.remove("read"), tiered = settings.remove("tiered");
        String committed = settings.remove("committed"), places = settings.remove("places");
        Time time = clock(Long.parseLong(asked[1]));
        Object log = create(
            new File(asked[0]), new LogConfig(settings), Long.parseLong(asked[3]), Long.parseLong(asked[4]),
            time, Boolean.parseBoolean(asked[2]), tiered != null);
        if (tiered != null) {
            String[] numbers = tiered.split(",");
            more.append(retain(log, time, Long.parseLong(numbers[0]), Long.parseLong(numbers[1])));
        }
        if (committed != null || places != null)
            log.getClass().getMethod("updateHighWatermark", long.class)
                .invoke(log, log.getClass().getMethod("logEndOffset").invoke(log));
        if (committed != null)
            more.append('\t').append(log.getClass().getMethod("lastStableOffset").invoke(log)).append('\t').append(committed(log));
        if (places != null) more.append('\t').append(places(log, places.split(",")));
        if (pass != null) {
            String[] numbers = pass.split(",");
            clean(log, time, Long.parseLong(numbers[0]), Long.parseLong(numbers[1]), Integer.parseInt(numbers[2]));
        }
        long start = (long) log.getClass().getMethod("logStartOffset").invoke(log);
        long end = (long) log.getClass().getMethod("logEndOffset").invoke(log);
        long[] read = reads == null ? new long[0] : read(log, start, end);
        for (Object one : (Iterable<?>) log.getClass().getMethod("logSegments").invoke(log)) {
            LogSegment segment = (LogSegment) one;
            segment.offsetIndex().trimToValidSize();
            segment.timeIndex().trimToValidSize();
        }
        try {
            log.getClass().getMethod("closeHandlers").invoke(log);
        } catch (NoSuchMethodException later) {   // 4.4; close() would take a snapshot of the producers
            for (Object one : (Iterable<?>) log.getClass().getMethod("logSegments").invoke(log)) ((LogSegment) one).close();
        }
        long[] found = java.util.Arrays.copyOf(new long[] {start, end}, 2 + read.length);
        System.arraycopy(read, 0, found, 2, read.length);
        return found;
    }

    /** All records as a fetch returns them: how many, and the CRC-32 of their offsets, keys and values. */
    static long[] read(Object log, long start, long end) throws Exception {
        Class<?> isolations = Class.forName("org.apache.kafka.server.storage.log.FetchIsolation");
        Object isolation = isolations.getField("LOG_END").get(null);
        Method fetch = log.getClass().getMethod("read", long.class, int.class, isolations, boolean.class);
        java.util.zip.CRC32 crc = new java.util.zip.CRC32();
        long count = 0;
        for (long at = start; at < end; ) {
            Object info = fetch.invoke(log, at, 1 << 16, isolation, true);
            Object records = info.getClass().getField("records").get(info);
            Method batches = of("Records", "batches"), last = of("RecordBatch", "lastOffset");
            Method offset = of("Record", "offset"), key = of("Record", "key"), value = of("Record", "value");
            long next = at;
            for (Object batch : (Iterable<?>) batches.invoke(records)) {
                for (Object one : (Iterable<?>) batch) {
                    if ((long) offset.invoke(one) < next) continue;   // as a consumer passes over them
                    count++;
                    add(crc, ByteBuffer.allocate(8).putLong(0, (long) offset.invoke(one)));
                    add(crc, (ByteBuffer) key.invoke(one));
                    add(crc, (ByteBuffer) value.invoke(one));
                }
                next = Math.max(next, (long) last.invoke(batch) + 1);
            }
            if (next == at) throw new IllegalStateException("nothing is read from offset " + at + " on");
            at = next;
        }
        return new long[] {count, crc.getValue()};
    }

    static Object fetched(Object log, long at, String isolation) throws Exception {
        Class<?> isolations = Class.forName("org.apache.kafka.server.storage.log.FetchIsolation");
        return log.getClass().getMethod("read", long.class, int.class, isolations, boolean.class)
            .invoke(log, at, 1 << 16, isolations.getField(isolation).get(null), true);
    }

    /** The offsets that a read_committed consumer gets; it passes over aborted batches as CompletedFetch does. */
    static String committed(Object log) throws Exception {
        StringBuilder found = new StringBuilder();
        long at = (long) log.getClass().getMethod("logStartOffset").invoke(log);
        Method batches = of("Records", "batches"), last = of("RecordBatch", "lastOffset"), offset = of("Record", "offset");
        Method producer = of("RecordBatch", "producerId"), control = of("RecordBatch", "isControlBatch");
        Method transactional = of("RecordBatch", "isTransactional"), key = of("Record", "key");
        java.util.Set<Long> aborting = new java.util.HashSet<>();
        for (long next; ; at = next) {
            next = at;
            Object info = fetched(log, at, "TXN_COMMITTED");
            java.util.PriorityQueue<long[]> aborted = new java.util.PriorityQueue<>((one, other) -> Long.compare(one[0], other[0]));
            Optional<?> some = (Optional<?>) info.getClass().getField("abortedTransactions").get(info);
            if (some.isPresent()) for (Object one : (Iterable<?>) some.get())
                aborted.add(new long[] {(long) one.getClass().getMethod("firstOffset").invoke(one),
                    (long) one.getClass().getMethod("producerId").invoke(one)});
            aborting.clear();
            for (Object batch : (Iterable<?>) batches.invoke(info.getClass().getField("records").get(info))) {
                long end = (long) last.invoke(batch), of = (long) producer.invoke(batch);
                while (!aborted.isEmpty() && aborted.peek()[0] <= end) aborting.add(aborted.poll()[1]);
                boolean passed = (boolean) control.invoke(batch);
                if (passed)
                    for (Object one : (Iterable<?>) batch)
                        if (((ByteBuffer) key.invoke(one)).getShort(2) == 0) aborting.remove(of);
                passed |= (boolean) transactional.invoke(batch) && aborting.contains(of);
                for (Object one : (Iterable<?>) batch) {
                    long its = (long) offset.invoke(one);
                    if (!passed && its >= next) found.append(found.length() == 0 ? "" : ",").append(its);
                }
                next = Math.max(next, end + 1);
            }
            if (next == at) return found.toString();
        }
    }

    /** Of each commit: whether a fetch is in range, the first offset of a record behind it, and the end of its epoch. */
    static String places(Object log, String[] asked) throws Exception {
        StringBuilder found = new StringBuilder();
        Method batches = of("Records", "batches"), last = of("RecordBatch", "lastOffset"), offset = of("Record", "offset");
        Method control = of("RecordBatch", "isControlBatch");
        long stable = (long) log.getClass().getMethod("lastStableOffset").invoke(log);
        for (String one : asked) {
            long at = Long.parseLong(one.split(":")[0]);
            int epoch = Integer.parseInt(one.split(":")[1]);
            String range = "in";
            long data = -1;
            try {
                for (long next; data < 0; at = next) {
                    next = at;
                    Object info = fetched(log, at, "LOG_END");
                    for (Object batch : (Iterable<?>) batches.invoke(info.getClass().getField("records").get(info))) {
                        if (!(boolean) control.invoke(batch))
                            for (Object record : (Iterable<?>) batch)
                                if (data < 0 && (long) offset.invoke(record) >= at) data = (long) offset.invoke(record);
                        next = Math.max(next, (long) last.invoke(batch) + 1);
                    }
                    if (next == at) break;
                }
            } catch (InvocationTargetException thrown) {
                range = thrown.getCause().getClass().getSimpleName();
            }
            Optional<?> end = (Optional<?>) log.getClass().getMethod("endOffsetForEpoch", int.class).invoke(log, epoch);
            long ended = end.isPresent() ? (long) end.get().getClass().getMethod("offset").invoke(end.get()) : -1;
            found.append(found.length() == 0 ? "" : ",").append(range).append(':').append(data).append(':').append(ended);
        }
        return stable + "\t" + found;
    }

    /** A method of a type of records; the package of these is another one from 4.3 on. */
    static Method of(String type, String name) throws Exception {
        try {
            return Class.forName("org.apache.kafka.common.record.internal." + type).getMethod(name);
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.record." + type).getMethod(name);
        }
    }

    static void add(java.util.zip.CRC32 crc, ByteBuffer bytes) {
        int size = bytes == null ? -1 : bytes.remaining();
        crc.update(ByteBuffer.allocate(4).putInt(0, size));
        if (bytes != null) crc.update(bytes.duplicate());
    }

    /** What retention deletes of a log that goes on in remote storage, and what may be copied there. */
    static String retain(Object log, Time time, long watermark, long highest) throws Exception {
        Class<?> type = log.getClass();
        type.getMethod("updateHighWatermark", long.class).invoke(log, watermark);
        StringBuilder copies = new StringBuilder();
        long stable = (long) type.getMethod("lastStableOffset").invoke(log);
        long from = highest + 1;
        if (highest >= 0) type.getMethod("updateHighestOffsetInRemoteStorage", long.class).invoke(log, highest);
        for (Object one : (java.util.List<?>) candidates(log, time, from, stable)) {
            java.lang.reflect.Field field = one.getClass().getDeclaredField("logSegment");
            field.setAccessible(true);
            copies.append(copies.length() == 0 ? "" : ",").append(((LogSegment) field.get(one)).baseOffset());
        }
        long only = (long) type.getMethod("onlyLocalLogSegmentsSize").invoke(log);
        type.getMethod("deleteOldSegments").invoke(log);
        StringBuilder left = new StringBuilder();
        for (Object one : (Iterable<?>) type.getMethod("logSegments").invoke(log))
            left.append(left.length() == 0 ? "" : ",").append(((LogSegment) one).baseOffset());
        return "\t" + type.getMethod("localLogStartOffset").invoke(log) + "\t" + left + "\t" + only + "\t" + copies;
    }

    /** What a copy task takes, of a manager that is made without its threads. */
    static Object candidates(Object log, Time time, long from, long stable) throws Exception {
        String manager = "org.apache.kafka.server.log.remote.storage.RemoteLogManager";
        Class<?> type, task;
        try {
            type = Class.forName(manager);
            task = Class.forName(manager + "$RLMCopyTask");
        } catch (ClassNotFoundException older) {
            type = Class.forName("kafka.log.remote.RemoteLogManager");
            task = Class.forName("kafka.log.remote.RemoteLogManager$RLMCopyTask");
        }
        java.lang.reflect.Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) field.get(null);
        Object of = unsafe.allocateInstance(type), made = unsafe.allocateInstance(task);
        put(unsafe, of, type, Time.class, time);
        put(unsafe, made, task, type, of);
        put(unsafe, made, task, org.slf4j.Logger.class, org.slf4j.LoggerFactory.getLogger("copy"));
        for (Method method : task.getDeclaredMethods())
            if (method.getName().equals("candidateLogSegments")) {
                method.setAccessible(true);
                return method.invoke(made, log, from, stable);
            }
        throw new IllegalStateException("no copy task in this release");
    }

    static void put(sun.misc.Unsafe unsafe, Object in, Class<?> type, Class<?> kind, Object value) {
        for (java.lang.reflect.Field one : type.getDeclaredFields())
            if (one.getType() == kind && !java.lang.reflect.Modifier.isStatic(one.getModifiers()))
                unsafe.putObject(in, unsafe.objectFieldOffset(one), value);
    }

    /** One pass of the cleaner, from an offset on, with a high watermark and so many bytes of an offset map. */
    static void clean(Object log, Time time, long watermark, long checkpoint, int bytes) throws Exception {
        String internals = "org.apache.kafka.storage.internals.";
        log.getClass().getMethod("updateHighWatermark", long.class).invoke(log, watermark);
        Class<?> manager = Class.forName(internals + "log.LogCleanerManager");
        Object range = null;
        for (Method method : manager.getDeclaredMethods())
            if (method.getName().equals("cleanableOffsets")) {
                method.setAccessible(true);
                Optional<Long> last = checkpoint < 0 ? Optional.empty() : Optional.of(checkpoint);
                range = method.invoke(null, log, last, time.milliseconds());
            }
        long dirty = number(range, "firstDirtyOffset"), until = number(range, "firstUncleanableDirtyOffset");
        Object task = Class.forName(internals + "log.LogToClean").getConstructors()[0].newInstance(log, dirty, until, false);
        Object map = Class.forName(internals + "log.SkimpyOffsetMap").getConstructor(int.class).newInstance(bytes);
        Object throttler = Class.forName(internals + "utils.Throttler").getConstructors()[0]
            .newInstance(Double.MAX_VALUE, 300L, "cleaner", "entries", time);
        java.util.function.Consumer<Object> check = partition -> { };
        Object cleaner = Class.forName(internals + "log.Cleaner").getConstructors()[0]
            .newInstance(0, map, 1 << 20, 1 << 26, 0.9, throttler, time, check);
        cleaner.getClass().getMethod("clean", task.getClass()).invoke(cleaner, task);
    }

    static long number(Object range, String name) throws Exception {
        for (Method method : range.getClass().getDeclaredMethods())
            if (method.getName().equals(name) && method.getParameterCount() == 0) {
                method.setAccessible(true);
                return (long) method.invoke(range);
            }
        java.lang.reflect.Field field = range.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return (long) field.get(range);
    }

    static Object create(File dir, LogConfig config, long start, long recovery, Time time, boolean clean,
            boolean tiered) throws Exception {
        boolean scala = false;
        Class<?> type;
        try {
            type = Class.forName("org.apache.kafka.storage.internals.log.UnifiedLog");
            type.getMethod("logEndOffset");
        } catch (ReflectiveOperationException absent) {
            type = Class.forName("kafka.log.UnifiedLog");
            scala = true;
        }
        ProducerStateManagerConfig producers = new ProducerStateManagerConfig(86400000, false);
        LogDirFailureChannel failures = new LogDirFailureChannel(10);
        ConcurrentHashMap<String, Object> remaining = new ConcurrentHashMap<>();
        Object[] given;
        if (scala) {
            Object none = Class.forName("scala.Option").getMethod("empty").invoke(null);
            given = new Object[] {dir, config, start, recovery, scheduler(), stats(), time, 300000, producers, 600000,
                failures, clean, none, true, remaining, tiered, LogOffsetsListener.NO_OP_OFFSETS_LISTENER};
        } else {
            given = new Object[] {dir, config, start, recovery, scheduler(), stats(), time, 300000, producers, 600000,
                failures, clean, Optional.empty(), remaining, tiered, LogOffsetsListener.NO_OP_OFFSETS_LISTENER};
        }
        for (Method method : type.getMethods())
            if (method.getName().equals(scala ? "apply" : "create") && method.getParameterCount() == given.length
                && java.lang.reflect.Modifier.isStatic(method.getModifiers()))
                return method.invoke(null, given);
        if (!scala) {   // releases in which it has fewer parameters
            Object[] fewer = java.util.Arrays.copyOf(given, 13);
            for (Method method : type.getMethods())
                if (method.getName().equals("create") && method.getParameterCount() == 13) return method.invoke(null, fewer);
        }
        throw new IllegalStateException("no way to load with this release");
    }


    static Object stats() throws Exception {
        Class<?> type;
        try {
            type = Class.forName("org.apache.kafka.storage.log.metrics.BrokerTopicStats");
        } catch (ClassNotFoundException older) {
            type = Class.forName("kafka.server.BrokerTopicStats");
        }
        for (Constructor<?> made : type.getConstructors())
            if (made.getParameterCount() == 1 && made.getParameterTypes()[0] == boolean.class) return made.newInstance(false);
        return type.getConstructor().newInstance();
    }

    static Time clock(long now) {
        return (Time) proxy(Time.class, (self, method, given) -> switch (method.getName()) {
            case "milliseconds", "hiResClockMs" -> now;
            case "nanoseconds" -> now * 1_000_000L;
            default -> method.isDefault() ? InvocationHandler.invokeDefault(self, method, given) : null;
        });
    }

    static Scheduler scheduler() {
        return (Scheduler) proxy(Scheduler.class, (self, method, given) -> {
            if (method.isDefault()) return InvocationHandler.invokeDefault(self, method, given);
            if (method.getName().equals("schedule") && (long) given[2] == 0 && (long) given[3] < 0) ((Runnable) given[1]).run();
            return null;
        });
    }

    static Object proxy(Class<?> type, InvocationHandler handler) {
        return Proxy.newProxyInstance(LoadPartitions.class.getClassLoader(), new Class<?>[] {type}, handler);
    }
}

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.FileInputStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.function.Function;
import kafka.log.LogManager;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer$;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicsImage;
import org.apache.kafka.metadata.ConfigRepository;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.FileQuorumStateStore;
import org.apache.kafka.raft.MetadataLogConfig;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.raft.internals.KafkaRaftLog;
import org.apache.kafka.raft.internals.KafkaRaftMetrics;
import org.apache.kafka.server.util.FileLock;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.slf4j.LoggerFactory;

/**
 * Starts a node of Kafka 4.3.1 as far as its disks are concerned, one for each line of stdin: the path of a
 * server.properties, and the clock in ms, with a tab between. The directories are changed.
 * meta.properties of all directories, the metadata log and its records, then all other logs, as KafkaRaftServer,
 * KafkaRaftClient and BrokerServer do it. With a third field, "image", the records of the metadata log tell which
 * topics there are, as BrokerMetadataPublisher asks for them; else only a log without a topic id is a stray.
 * Prints "ends", class and message where the process ends; else "starts", and for each log its path, start and end
 * offset, for each stray the path of its directory, for each directory that goes offline "offline" and its path.
 */
public class StartNode {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) out.println(answer(line.split("\t")));
        System.exit(0);
    }

    static String answer(String[] asked) {
        List<AutoCloseable> open = new ArrayList<>();
        try {
            return start(asked[0], Long.parseLong(asked[1]), asked.length > 2, open);
        } catch (Throwable thrown) {
            String message = String.valueOf(thrown.getMessage()).replaceAll("[\t\r\n]", " ");
            return "ends\t" + thrown.getClass().getName() + "\t" + message;
        } finally {
            Collections.reverse(open);
            for (AutoCloseable one : open)
                try { one.close(); } catch (Exception ignored) { }
        }
    }

    static String start(String path, long now, boolean hasImage, List<AutoCloseable> open) throws Exception {
        Properties given = new Properties();
        try (FileInputStream file = new FileInputStream(path)) { given.load(file); }
        KafkaConfig config = new KafkaConfig(given, false);
        Time time = clock(now);
        Scheduler scheduler = scheduler();
        java.util.Set<String> unreadable =
            KafkaRaftServer$.MODULE$.initializeLogDirs(config, LoggerFactory.getLogger("node"), "")._1().errorLogDirs();
        File metadata = new File(config.metadataLogDir(), "__cluster_metadata-0");
        java.nio.file.Files.createDirectories(metadata.toPath());
        KafkaRaftLog log = KafkaRaftLog.createLog(
            new TopicPartition("__cluster_metadata", 0), Uuid.METADATA_TOPIC_ID, metadata, time, scheduler,
            new MetadataLogConfig(config), config.nodeId());
        open.add(log::close);
        Metrics metrics = new Metrics();
        open.add(metrics);
        new KRaftControlRecordStateMachine(
            VoterSet.empty(), log, MetadataRecordSerde.INSTANCE, BufferSupplier.create(), 8 << 20, new LogContext(),
            new KafkaRaftMetrics(metrics, "raft"), ignored -> { }).updateState();
        new FileQuorumStateStore(new File(metadata, "quorum-state")).readElectionState();
        String told = metadata.getPath() + "\t" + log.startOffset() + "\t" + log.endOffset().offset();

        LogDirFailureChannel failures = new LogDirFailureChannel(10);
        scala.collection.Seq<String> none = scala.jdk.javaapi.CollectionConverters.asScala(new ArrayList<>(unreadable)).toSeq();
        ConfigRepository settings = resource -> new Properties();
        LogManager manager = LogManager.apply(
            config, none, settings, scheduler, time, new BrokerTopicStats(false), failures);
        open.add(() -> {
            scala.collection.Iterator<FileLock> locks = manager.dirLocks().iterator();
            while (locks.hasNext()) locks.next().destroy();
        });
        TopicsImage topics = hasImage ? topics(metadata) : null;
        List<String> strays = new ArrayList<>();
        scala.Function1<UnifiedLog, Object> isStray = one -> {
            boolean stray = one.topicId().isEmpty();
            if (!stray && topics != null)
                stray = org.apache.kafka.storage.internals.log.LogManager.isStrayReplica(
                    topics.partitionReplicas(one.topicId().get(), one.topicPartition().partition()), config.nodeId(), one);
            synchronized (strays) { if (stray) strays.add(one.dir().getPath()); }
            return stray;
        };
        open.add(() -> {
            scala.collection.Iterator<UnifiedLog> logs = manager.allLogs().iterator();
            while (logs.hasNext()) logs.next().close();
        });
        manager.loadLogs(manager.currentDefaultConfig(), scala.collection.immutable.Map$.MODULE$.empty(), isStray);
        StringBuilder said = new StringBuilder("starts\t").append(told);
        scala.collection.Iterator<UnifiedLog> logs = manager.allLogs().iterator();
        while (logs.hasNext()) {
            UnifiedLog one = logs.next();
            said.append("\t").append(one.dir().getPath()).append("\t").append(one.logStartOffset()).append("\t")
                .append(one.logEndOffset());
        }
        for (String stray : strays) said.append("\tstray\t").append(stray);
        for (String dir : given.getProperty("log.dirs").split(","))
            if (!manager.isLogDirOnline(new File(dir).getAbsolutePath())) said.append("\toffline\t").append(dir);
        serve(manager, strays, failures);
        String failed = failed(failures);
        return said.append(failed).toString();
    }

    /** What a broker does as soon as it makes a replica a leader or a follower: it asks for the high watermark. */
    static void serve(LogManager manager, List<String> strays, LogDirFailureChannel failures) throws Exception {
        scala.collection.Iterator<UnifiedLog> logs = manager.allLogs().iterator();
        while (logs.hasNext()) {
            UnifiedLog one = logs.next();
            if (strays.contains(one.dir().getPath())) continue;
            try {
                new OffsetCheckpointFile(new File(one.parentDir(), "replication-offset-checkpoint"), failures).read();
            } catch (KafkaStorageException offline) {
                continue; // the channel has the directory
            }
        }
    }

    /** The topics by the records of a metadata log, which has no snapshot. */
    static TopicsImage topics(File directory) throws Exception {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY)
            .setSupportedConfigChecker(SupportedConfigChecker.TRUE).build();
        String[] names = directory.list();
        java.util.Arrays.sort(names);
        for (String name : names) {
            if (!name.endsWith(".log")) continue;
            try (FileRecords records = FileRecords.open(new File(directory, name), false)) {
                for (RecordBatch batch : records.batches()) {
                    if (batch.isControlBatch()) continue;
                    for (Record one : batch)
                        delta.replay(MetadataRecordSerde.INSTANCE.read(
                            new ByteBufferAccessor(one.value()), one.valueSize()).message());
                }
            }
        }
        return delta.apply(new MetadataProvenance(0, 0, 0, true)).topics();
    }

    /** The directories in which a log met an IOException, which the broker takes offline now. */
    static String failed(LogDirFailureChannel failures) throws Exception {
        StringBuilder said = new StringBuilder();
        java.lang.reflect.Field queue = LogDirFailureChannel.class.getDeclaredField("offlineLogDirQueue");
        queue.setAccessible(true);
        for (Object dir : (Iterable<?>) queue.get(failures)) said.append("\toffline\t").append(dir);
        return said.toString();
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
        return Proxy.newProxyInstance(StartNode.class.getClassLoader(), new Class<?>[] {type}, handler);
    }
}

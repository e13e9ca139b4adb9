import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Replays metadata logs, one for each line of stdin: the path of a directory of the metadata log.
 * All records of the newest snapshot and of the log behind it are read first; then those of the snapshot are replayed
 * into one image, those of the log into the next. Prints class and message of the first that is thrown, with the file
 * and the offset; else "replayed" and how many brokers and topics there are.
 */
public class ReplayMetadata {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) out.println(answer(new File(line)));
        System.exit(0);
    }

    static String where;

    static String answer(File directory) {
        try {
            return replayed(directory);
        } catch (Throwable thrown) {
            String message = String.valueOf(thrown.getMessage()).replaceAll("[\t\r\n]", " ");
            return "ends\t" + thrown.getClass().getName() + "\t" + message + "\t" + where;
        }
    }

    static String replayed(File directory) throws Exception {
        String newest = "";
        for (String name : directory.list())
            if (name.endsWith(".checkpoint") && name.compareTo(newest) > 0) newest = name;
        long begin = newest.isEmpty() ? 0 : Long.parseLong(newest.substring(0, 20));
        List<Batch<ApiMessageAndVersion>> snapshot = new ArrayList<>(), log = new ArrayList<>();
        if (!newest.isEmpty()) read(new File(directory, newest), 0, snapshot);
        List<String> logs = new ArrayList<>();
        for (String name : directory.list()) if (name.endsWith(".log")) logs.add(name);
        java.util.Collections.sort(logs);
        for (String name : logs) read(new File(directory, name), begin, log);

        MetadataImage image = MetadataImage.EMPTY;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image)
            .setSupportedConfigChecker(SupportedConfigChecker.TRUE).build();
        for (Batch<ApiMessageAndVersion> batch : snapshot) {
            long offset = batch.baseOffset();
            for (ApiMessageAndVersion one : batch.records()) {
                where = newest + "\t" + offset++;
                delta.replay(one.message());
            }
        }
        if (!newest.isEmpty()) delta.finishSnapshot();
        image = delta.apply(new MetadataProvenance(begin - 1, 0, 0, true));
        MetadataImage[] published = {image};
        Throwable[] fault = {null};
        MetadataBatchLoader loader = new MetadataBatchLoader(new LogContext(), Time.SYSTEM, (message, cause) -> {
            if (fault[0] == null) { fault[0] = cause; where = message; }
            return new RuntimeException(cause);
        }, (changed, made, manifest) -> published[0] = made,
            SupportedConfigChecker.TRUE);
        loader.resetToImage(image);
        LeaderAndEpoch nobody = LeaderAndEpoch.UNKNOWN;
        for (Batch<ApiMessageAndVersion> batch : log) {
            loader.loadBatch(batch, nobody);
            if (fault[0] != null) throw fault[0] instanceof Exception known ? known : new Exception(fault[0]);
        }
        loader.maybeFlushBatches(nobody, true);
        if (fault[0] != null) throw fault[0] instanceof Exception known ? known : new Exception(fault[0]);
        return "replayed\t" + published[0].cluster().brokers().size() + "\t" + published[0].topics().topicsById().size();
    }

    static void read(File file, long begin, List<Batch<ApiMessageAndVersion>> into) throws Exception {
        try (FileRecords records = FileRecords.open(file, false)) {
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                if (batch.isControlBatch() || batch.lastOffset() < begin) continue;
                List<ApiMessageAndVersion> made = new ArrayList<>();
                for (Record one : batch) {
                    where = file.getName() + "\t" + one.offset();
                    made.add(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(one.value()), one.valueSize()));
                }
                into.add(Batch.data(batch.baseOffset(), batch.partitionLeaderEpoch(), batch.maxTimestamp(), batch.sizeInBytes(), made));
            }
        }
    }
}

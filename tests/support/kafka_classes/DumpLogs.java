import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Base64;

/**
 * Runs DumpLogSegments many times in one JVM: the arguments of a run on each line of stdin, with tabs between. Prints
 * what it wrote to stdout and to stderr, and the exception that ended it as class and message, each in Base64.
 */
public class DumpLogs {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        Method execute = Class.forName("org.apache.kafka.tools.DumpLogSegments").getDeclaredMethod("main", String[].class);
        execute.setAccessible(true);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = in.readLine()) != null; ) {
            ByteArrayOutputStream text = new ByteArrayOutputStream(), complaints = new ByteArrayOutputStream();
            System.setOut(new PrintStream(text, false, "UTF-8"));
            System.setErr(new PrintStream(complaints, false, "UTF-8"));
            String ended = "";
            try {
                execute.invoke(null, (Object) line.split("\t"));
            } catch (InvocationTargetException thrown) {
                ended = String.valueOf(thrown.getCause());
            }
            System.out.flush();
            System.err.flush();
            Base64.Encoder encoder = Base64.getEncoder();
            out.println(encoder.encodeToString(text.toByteArray()) + "\t" + encoder.encodeToString(complaints.toByteArray())
                + "\t" + encoder.encodeToString(ended.getBytes("UTF-8")));
        }
    }
}

// A wait for a monitor of Java, with the output of ready.h. Java does not tell the ids of its threads; Linux has their
// names.
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;

public class Waits {
    static final Object monitor = new Object();
    static final CountDownLatch held = new CountDownLatch(1);
    static int entered;

    static void holdsMonitor() {
        synchronized (monitor) {
            held.countDown();
            sleepForEver();
        }
    }

    static void entersMonitor() {
        synchronized (monitor) {
            entered++;
        }
    }

    static void sleepForEver() {
        while (true) {
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    static Thread start(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static String part(String role, String function) throws IOException {
        try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
            for (Path task : (Iterable<Path>) tasks::iterator) {
                if (Files.readString(task.resolve("comm")).strip().equals(role)) {
                    return String.format("{\"role\": \"%s\", \"tid\": %s, \"pid\": %d, \"function\": \"%s\"}", role,
                            task.getFileName(), ProcessHandle.current().pid(), function);
                }
            }
        }
        throw new IOException("no thread " + role);
    }

    public static void main(String[] arguments) throws Exception {
        start("limit", () -> {
            try {
                Thread.sleep(600_000);
            } catch (InterruptedException e) {
                return;
            }
            Runtime.getRuntime().halt(0);
        });
        start("holder", Waits::holdsMonitor);
        held.await();
        Thread waiter = start("waiter", Waits::entersMonitor);
        while (waiter.getState() != Thread.State.BLOCKED) Thread.sleep(1);
        List<String> threads = new ArrayList<>(List.of(part("holder", "holdsMonitor"), part("waiter", "entersMonitor")));
        System.out.printf("{\"case\": \"java-monitor\", \"pid\": %d, \"object\": \"0x0\", \"threads\": [%s]}%n",
                ProcessHandle.current().pid(), String.join(", ", threads));
        sleepForEver();
    }
}

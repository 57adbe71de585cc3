// Java threads under contention: synchronized with wait and notify, ReentrantLock, ConcurrentHashMap, a blocking queue, and
// garbage collections meanwhile. Java's own locks are made in the virtual machine, which parks threads on pthread mutexes
// and condition variables, as do its compiler and collector threads. Arguments: threads, operations in all. Prints "ok".
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

public class Contention {
    static final Object monitor = new Object();
    static final ReentrantLock lock = new ReentrantLock(true);
    static final ConcurrentHashMap<Integer, Long> map = new ConcurrentHashMap<>();
    static final ArrayBlockingQueue<Integer> queue = new ArrayBlockingQueue<>(4);
    static final int ringRounds = 20;
    static long underMonitor, underLock, turn;

    static void work(int me, int threads, int each) throws InterruptedException {
        List<byte[]> garbage = new ArrayList<>();
        for (int i = 0; i < each; i++) {
            synchronized (monitor) {
                underMonitor++;
            }
            lock.lock();
            try {
                underLock++;
            } finally {
                lock.unlock();
            }
            map.merge(i % 13, 1L, Long::sum);
            garbage.add(new byte[1000]);
            if (garbage.size() > 100) garbage.clear();
            if (i % 10 == 0) queue.put(i);
            if (me == 0 && i % (each / 2 + 1) == each / 2) System.gc();
        }
        for (int round = 0; round < ringRounds; round++) {
            synchronized (monitor) {
                while (turn != (long) round * threads + me) monitor.wait();
                turn++;
                monitor.notifyAll();
            }
        }
    }

    static void expect(String what, long found, long expected) {
        if (found != expected) {
            System.err.println("wrong " + what + ": " + found + ", expected " + expected);
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]), each = Integer.parseInt(arguments[1]) / threads;
        CountDownLatch done = new CountDownLatch(threads);
        List<Thread> team = new ArrayList<>();
        for (int n = 0; n < threads; n++) {
            int me = n;
            Thread t = new Thread(() -> {
                try {
                    work(me, threads, each);
                } catch (InterruptedException e) {
                    throw new RuntimeException(e);
                }
                done.countDown();
            });
            team.add(t);
            t.start();
        }
        long letters = (long) threads * ((each + 9) / 10), sum = 0, expectedSum = 0;
        for (long i = 0; i < letters; i++) sum += queue.take();
        for (int i = 0; i < each; i += 10) expectedSum += (long) i * threads;
        done.await();
        for (Thread t : team) t.join();
        expect("count under the monitor", underMonitor, (long) threads * each);
        expect("count under the lock", underLock, (long) threads * each);
        expect("count in the map", map.values().stream().mapToLong(Long::longValue).sum(), (long) threads * each);
        expect("sum through the queue", sum, expectedSum);
        expect("turn of the ring", turn, (long) ringRounds * threads);
        System.out.println("ok");
    }
}

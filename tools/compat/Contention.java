// Java threads under contention: synchronized with wait and notify, ReentrantLock with conditions, Semaphore,
// executors, parallel streams, ConcurrentHashMap, a blocking queue, waits with time limits and interrupts, all during
// garbage collections. The virtual machine implements Java's locks itself, and parks threads on pthread mutexes and
// condition variables, as its compiler and collector threads do. Arguments: number of threads, number of operations in
// all. Prints "ok".
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.IntStream;

public class Contention {
    static final Object monitor = new Object();
    static final ReentrantLock lock = new ReentrantLock(true);
    static final ConcurrentHashMap<Integer, Long> map = new ConcurrentHashMap<>();
    static final ArrayBlockingQueue<Integer> queue = new ArrayBlockingQueue<>(4);
    static final int ringRounds = 20;
    static final Condition turned = lock.newCondition();
    static final Semaphore permits = new Semaphore(2);
    static final AtomicInteger inside = new AtomicInteger(), crowded = new AtomicInteger();
    static long underMonitor, underLock, turn, conditionTurn;

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
            if (i % 20 == 0) {
                permits.acquire();
                if (inside.incrementAndGet() > 2) crowded.incrementAndGet();
                inside.decrementAndGet();
                permits.release();
            }
            if (me == 0 && i % (each / 2 + 1) == each / 2) System.gc();
        }
        for (int round = 0; round < ringRounds; round++) {
            synchronized (monitor) {
                while (turn != (long) round * threads + me) monitor.wait();
                turn++;
                monitor.notifyAll();
            }
        }
        for (int round = 0; round < ringRounds; round++) {
            lock.lock();
            try {
                while (conditionTurn != (long) round * threads + me) turned.await();
                conditionTurn++;
                turned.signalAll();
            } finally {
                lock.unlock();
            }
        }
    }

    /** Waits for nothing, which end at their limits and not before, and one that an interrupt ends. */
    static void limits() throws Exception {
        long start = System.nanoTime();
        synchronized (monitor) {
            monitor.wait(5);
        }
        lock.lock();
        try {
            expect("wait for a condition in vain", turned.await(5, TimeUnit.MILLISECONDS) ? 1 : 0, 0);
        } finally {
            lock.unlock();
        }
        expect("wait for a permit in vain", new Semaphore(0).tryAcquire(5, TimeUnit.MILLISECONDS) ? 1 : 0, 0);
        LockSupport.parkNanos(1_000_000);
        expect("waits that ended too early", System.nanoTime() - start < 10_000_000 ? 1 : 0, 0);
        AtomicInteger interrupted = new AtomicInteger();
        Thread sleeper = new Thread(() -> {
            try {
                new Semaphore(0).acquire();
            } catch (InterruptedException e) {
                interrupted.incrementAndGet();
            }
        });
        sleeper.start();
        sleeper.interrupt();
        sleeper.join();
        expect("interrupts", interrupted.get(), 1);
    }

    static void pools(int threads) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        CyclicBarrier barrier = new CyclicBarrier(threads);
        List<Future<Integer>> futures = new ArrayList<>();
        for (int n = 0; n < threads; n++) {
            int me = n;
            futures.add(pool.submit(() -> {
                for (int i = 0; i < 5; i++) barrier.await();
                return me;
            }));
        }
        long sum = 0;
        for (Future<Integer> f : futures) sum += f.get();
        expect("sum of the futures", sum, (long) threads * (threads - 1) / 2);
        CompletableFuture<Long> chain = CompletableFuture.completedFuture(0L);
        for (int i = 0; i < 200; i++) chain = chain.thenApplyAsync(x -> x + 1, pool);
        expect("chain of futures", chain.get(), 200);
        pool.shutdown();
        expect("end of the pool", pool.awaitTermination(60, TimeUnit.SECONDS) ? 1 : 0, 1);
        expect("parallel sum", IntStream.range(0, 10000).parallel().sum(), 49995000);
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
        expect("turn of the ring with a condition", conditionTurn, (long) ringRounds * threads);
        expect("times when more than two had a permit", crowded.get(), 0);
        limits();
        pools(threads);
        System.out.println("ok");
    }
}

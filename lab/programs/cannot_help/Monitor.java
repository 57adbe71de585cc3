/** A Java monitor: the virtual machine's own lock, whose waiters it parks on a pthread mutex and condition variable each. */
class Monitor {
    private static final Object monitor = new Object();
    private static long count;

    public static void main(String[] words) throws InterruptedException {
        final long each = words.length > 0 ? Long.parseLong(words[0]) : 250000;
        final Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                for (long j = 0; j < each; j++) {
                    synchronized (monitor) {
                        count++;
                    }
                }
            });
            threads[i].start();
        }
        for (final Thread thread : threads) thread.join();
        System.out.println(count);
    }
}

// The server of attach_server.c in Java: `AttachServer WORKERS`, with the same lines.
//
// Exact: the counted workers call System.currentTimeMillis between begin and end only. It reads CLOCK_REALTIME, which
// the JVM itself reads only when it starts and ends. The other workers read CLOCK_MONOTONIC by System.nanoTime all the
// time.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantReadWriteLock;

public class AttachServer {
    enum Phase { FREE, COUNTED, LEAVING }

    static volatile Phase phase = Phase.FREE;
    static final LongAdder backwards = new LongAdder(), reads = new LongAdder(), freeReads = new LongAdder();
    static final ReentrantReadWriteLock gate = new ReentrantReadWriteLock(true);
    static volatile Object garbage;
    static volatile long read;

    static void burst() {
        gate.readLock().lock();
        try {
            if (phase != Phase.COUNTED) return;
            // This clock may go back, because an administrator may set the time.
            for (int i = 0; i < 97; i++) read = System.currentTimeMillis();
            reads.add(97);
        } finally {
            gate.readLock().unlock();
        }
    }

    static void countedWorker() {
        while (phase != Phase.LEAVING) {
            burst();
            garbage = new byte[512]; // the collector has something to do
        }
    }

    static void freeWorker() {
        long last = Long.MIN_VALUE;
        while (phase != Phase.LEAVING) {
            for (int i = 0; i < 61; i++) {
                long now = System.nanoTime();
                if (now < last) backwards.increment();
                last = now;
            }
            freeReads.add(61);
        }
    }

    static long checksum(long seed) {
        long mixed = -3750763034362895579L; // 14695981039346656037 without a sign
        for (int i = 0; i < 1000; i++) mixed = (mixed ^ (seed + i)) * 1099511628211L;
        return mixed;
    }

    static void enter(Phase next) {
        gate.writeLock().lock();
        phase = next;
        gate.writeLock().unlock();
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static String health() {
        return "backwards " + backwards.sum() + " wrong 0";
    }

    static void answer(BufferedReader lines) throws IOException {
        long before = 0, freeBefore = 0;
        for (String line; (line = lines.readLine()) != null;) {
            if (line.equals("begin")) {
                before = reads.sum();
                freeBefore = freeReads.sum();
                enter(Phase.COUNTED);
                say("begun");
            } else if (line.equals("end")) {
                long least = freeReads.sum() - freeBefore;
                enter(Phase.FREE);
                say("vdso clock_gettime CLOCK_REALTIME " + (reads.sum() - before));
                say("at-least clock_gettime CLOCK_MONOTONIC " + least + "\ndone");
            } else if (line.startsWith("sum ")) {
                long number = Long.parseUnsignedLong(line.substring(4));
                say("sum " + line.substring(4) + " " + Long.toUnsignedString(checksum(number)));
            } else if (line.equals("health")) {
                say("health " + health());
            } else {
                say("what is " + line);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        int workers = Integer.parseInt(arguments[0]);
        Thread[] threads = new Thread[workers];
        for (int i = 0; i < workers; i++) {
            threads[i] = new Thread(i % 2 == 0 ? AttachServer::countedWorker : AttachServer::freeWorker);
            threads[i].start();
        }
        say("ready");
        answer(new BufferedReader(new InputStreamReader(System.in)));
        phase = Phase.LEAVING;
        for (Thread thread : threads) thread.join();
        say("result ended well " + health());
        System.exit(7);
    }
}

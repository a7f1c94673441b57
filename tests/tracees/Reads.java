// Java: `java ... Reads N`; N times System.currentTimeMillis and System.nanoTime.
//
// CLOCK_REALTIME is exact by difference: the JVM reads it twice at start. CLOCK_MONOTONIC is at
// least: its background threads read it about 90 times in a short run, one more or less.
public class Reads {
    public static void main(String[] arguments) {
        int calls = Integer.parseInt(arguments[0]);
        long sum = 0;
        for (int i = 0; i < calls; i++) sum += System.currentTimeMillis();
        for (int i = 0; i < calls; i++) sum += System.nanoTime();
        System.out.println("by-difference clock_gettime CLOCK_REALTIME " + calls);
        System.out.println("at-least clock_gettime CLOCK_MONOTONIC " + calls);
        if (sum == 0) System.exit(1);
    }
}

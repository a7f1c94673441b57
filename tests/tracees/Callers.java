// Methods that read the clock in known shares: `java Callers ROUNDS [virtual]`.
//
// Exact: each method prints how often it called System.nanoTime, which reads CLOCK_MONOTONIC once. The JVM's own
// threads read this clock too.
public class Callers {
    static long orders, prices, stamps;
    static volatile long last;

    interface Part { void serve(); }

    static class Orders implements Part {
        public void serve() {
            for (int i = 0; i < 6; i++) {
                last = System.nanoTime();
                orders++;
            }
        }
    }

    static class Prices implements Part {
        public void serve() {
            for (int i = 0; i < 3; i++) {
                last = System.nanoTime();
                prices++;
            }
        }
    }

    static class Stamps implements Part {
        public void serve() {
            last = System.nanoTime();
            stamps++;
        }
    }

    static void serve(Part[] parts, long rounds) {
        for (long i = 0; i < rounds; i++) {
            for (Part part : parts) part.serve();
        }
    }

    public static void main(String[] words) throws Exception {
        long rounds = Long.parseLong(words[0]);
        Part[] parts = {new Orders(), new Prices(), new Stamps()};
        Runnable work = () -> serve(parts, rounds);
        if (words.length > 1) {
            Thread thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                .invoke(null, work);
            thread.join();
        } else {
            work.run();
        }
        String end = ".serve;Callers.serve clock_gettime CLOCK_MONOTONIC ";
        System.out.println("path Callers$Orders" + end + orders);
        System.out.println("path Callers$Prices" + end + prices);
        System.out.println("path Callers$Stamps" + end + stamps);
    }
}

public class Read {
    public static void main(String[] arguments) {
        long end = System.nanoTime() + 500000000L, last = 0;
        while (System.nanoTime() < end) {
            long now = System.nanoTime();
            if (now < last)
                throw new RuntimeException("back");
            last = now;
        }
        System.out.println(System.currentTimeMillis());
        System.out.println(System.currentTimeMillis());
    }
}

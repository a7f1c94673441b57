//! Reads the clock at the end of a chain of functions with known names, once it is told to.

use std::hint::black_box;
use std::io::Read;

unsafe extern "C" {
    safe fn raise(signal: i32) -> i32;
}

mod queue {
    use std::hint::black_box;
    use std::time::Instant;

    pub struct Queue(pub u64);

    impl Queue {
        #[inline(never)]
        pub fn post(&mut self) -> u64 {
            let before = Instant::now();
            self.0 += black_box(1);
            black_box(before.elapsed().as_nanos() as u64) + self.0
        }
    }
}

#[inline(never)]
fn serve(queue: &mut queue::Queue) -> u64 {
    queue.post() + black_box(2)
}

fn main() {
    let mut word = [0];
    if std::io::stdin().read(&mut word).is_ok_and(|read| read == 1) {
        raise(19);
    }
    black_box(serve(&mut queue::Queue(3)));
}

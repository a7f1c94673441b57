//! Combines several watchers.

use std::time::{Duration, Instant};

use super::observers::{Watcher, Wish};
use super::processes::Processes;

/// Watchers, each with its own interval.
#[derive(Default)]
pub struct Watchers<'a> {
    all: Vec<Entry<'a>>,
}

struct Entry<'a> {
    watcher: &'a mut dyn Watcher,
    /// Time of the watcher's next tick.
    due: Instant,
}

impl<'a> Watchers<'a> {
    /// Adds a watcher.
    pub fn add(&mut self, watcher: &'a mut dyn Watcher) {
        let due = Instant::now() + watcher.interval();
        self.all.push(Entry { watcher, due });
    }

    /// All watchers as one; `None` if there are none, so that no timer is needed.
    pub fn watcher(&mut self) -> Option<&mut dyn Watcher> {
        if self.all.is_empty() { None } else { Some(self) }
    }

    fn tick_at(&mut self, now: Instant, processes: &Processes) -> Wish {
        // A tick that comes a little early is better than one that comes a whole tick late.
        let early = self.interval() / 2;
        let mut wish = Wish::GoOn;
        for entry in self.all.iter_mut().filter(|entry| entry.due <= now + early) {
            if entry.watcher.tick(processes) == Wish::Leave {
                wish = Wish::Leave;
            }
            // Counted from the due time, so that the rate holds. A watcher that is late starts anew.
            let interval = entry.watcher.interval();
            let next = entry.due + interval;
            entry.due = if next > now { next } else { now + interval };
        }
        wish
    }
}

impl Watcher for Watchers<'_> {
    fn wants_images(&self) -> bool {
        self.all.iter().any(|entry| entry.watcher.wants_images())
    }

    fn mapped(&mut self, process: i32, image: u64) {
        self.all.iter_mut().for_each(|entry| entry.watcher.mapped(process, image));
    }

    fn loses_breakpoints(&mut self, process: i32) {
        self.all.iter_mut().for_each(|entry| entry.watcher.loses_breakpoints(process));
    }

    fn gone(&mut self, process: i32) {
        self.all.iter_mut().for_each(|entry| entry.watcher.gone(process));
    }

    fn tick(&mut self, processes: &Processes) -> Wish {
        self.tick_at(Instant::now(), processes)
    }

    fn interval(&self) -> Duration {
        let shortest = self.all.iter().map(|entry| entry.watcher.interval()).min();
        shortest.unwrap_or(Duration::from_secs(3600))
    }

    fn stopping(&mut self) {
        self.all.iter_mut().for_each(|entry| entry.watcher.stopping());
    }

    fn continued(&mut self) {
        self.all.iter_mut().for_each(|entry| entry.watcher.continued());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting {
        every: Duration,
        ticks: u64,
        heard: Vec<String>,
        leaves_at: u64,
    }

    impl Counting {
        fn new(milliseconds: u64, leaves_at: u64) -> Self {
            let every = Duration::from_millis(milliseconds);
            Self { every, ticks: 0, heard: Vec::new(), leaves_at }
        }
    }

    impl Watcher for Counting {
        fn mapped(&mut self, process: i32, image: u64) {
            self.heard.push(format!("mapped {process} {image:#x}"));
        }

        fn loses_breakpoints(&mut self, process: i32) {
            self.heard.push(format!("loses breakpoints {process}"));
        }

        fn gone(&mut self, process: i32) {
            self.heard.push(format!("gone {process}"));
        }

        fn tick(&mut self, _: &Processes) -> Wish {
            self.ticks += 1;
            if self.ticks == self.leaves_at { Wish::Leave } else { Wish::GoOn }
        }

        fn interval(&self) -> Duration {
            self.every
        }
    }

    #[test]
    fn each_ticks_in_its_own_interval_and_hears_everything() {
        let (mut fast, mut slow) = (Counting::new(10, 0), Counting::new(1_000, 2));
        let mut both = Watchers::default();
        both.add(&mut fast);
        both.add(&mut slow);
        assert_eq!(both.interval(), Duration::from_millis(10));
        both.mapped(7, 0x1000);
        both.loses_breakpoints(7);
        both.gone(7);
        let (start, nobody) = (Instant::now(), Processes::default());
        // Ticks every ten milliseconds, every second one four milliseconds late.
        let wishes: Vec<Wish> = (1..=205_u64)
            .map(|n| start + Duration::from_millis(n * 10 + n % 2 * 4))
            .map(|now| both.tick_at(now, &nobody))
            .collect();
        assert_eq!(wishes.iter().filter(|wish| **wish == Wish::Leave).count(), 1);
        assert_eq!((fast.ticks, slow.ticks), (205, 2));
        assert_eq!(fast.heard, ["mapped 7 0x1000", "loses breakpoints 7", "gone 7"]);
        assert_eq!(slow.heard, fast.heard);
    }
}

//! The instructions of the programs that read the CPU's counter and are counted, each in a word of its own while there
//! are words.

use std::fs::File;

use clockscope_sites::{COUNTERS, Calls, PLACES, Site, functions_at};

use super::site_files::{Executed, open};
use super::site_words::SiteWords;

/// A file's instructions that have words of their own.
#[derive(Debug)]
struct OfFile {
    path: String,
    /// To find the names of its functions.
    file: Option<File>,
    /// Address in the file's own numbers, ascending, whether it is `rdtscp`, and its word.
    places: Vec<(u64, bool, usize)>,
}

/// The files of a session.
#[derive(Debug, Default)]
pub(crate) struct CountedPlaces(Vec<OfFile>);

/// Reads of the CPU's counter by one function, or one instruction without a known function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedReads {
    /// Path of the file, in the mount namespace of the program; empty for the reads of all further places together.
    pub path: String,
    /// The function's name, as the linker knows it, or the instruction's address in the file's own numbers.
    pub function: Result<String, u64>,
    /// Whether they are by `rdtscp`, and not by `rdtsc`.
    pub is_ordered: bool,
    /// How many.
    pub reads: u64,
}

impl CountedPlaces {
    /// Gives words to the places of a file, in ascending order of addresses, until none is left.
    pub(crate) fn add(&mut self, pid: i32, mapping: &Executed, sites: &mut [Site]) {
        let taken: usize = self.0.iter().map(|file| file.places.len()).sum();
        let reads = sites.iter_mut().filter_map(|site| match &mut site.calls {
            Calls::Counter(read) => Some((site.window + u64::from(read.at), read)),
            _ => None,
        });
        let places = reads.zip(PLACES.skip(taken)).map(|((address, read), word)| {
            read.word = word;
            (address, read.is_ordered, word)
        });
        let places: Vec<_> = places.collect();
        if !places.is_empty() {
            let file = open(pid, mapping).map(|(file, _)| file);
            self.0.push(OfFile { path: mapping.name.clone(), file, places });
        }
    }

    /// The reads that were counted: the most by one function first, and behind all those of the places without a word.
    pub(crate) fn reads(&self, words: &SiteWords) -> Vec<CountedReads> {
        let mut all: Vec<CountedReads> = Vec::new();
        let mut add = |new: CountedReads| {
            let same = all.iter_mut().find(|row| {
                (&row.path, &row.function, row.is_ordered)
                    == (&new.path, &new.function, new.is_ordered)
            });
            match same {
                Some(row) => row.reads += new.reads,
                None if new.reads > 0 => all.push(new),
                None => {}
            }
        };
        for OfFile { path, file, places } in &self.0 {
            let addresses: Vec<u64> = places.iter().map(|place| place.0).collect();
            let names = file.as_ref().map(|file| functions_at(file, &addresses));
            let names = names.unwrap_or_else(|| vec![None; places.len()]);
            for ((address, is_ordered, word), name) in places.iter().zip(names) {
                let (path, function) = (path.clone(), name.ok_or(*address));
                let reads = words.counter_reads(*word);
                add(CountedReads { path, function, is_ordered: *is_ordered, reads });
            }
        }
        for (word, is_ordered) in COUNTERS.into_iter().zip([false, true]) {
            let (path, reads) = (String::new(), words.counter_reads(word));
            add(CountedReads { path, function: Err(0), is_ordered, reads });
        }
        all.sort_by_key(|row| (row.path.is_empty(), std::cmp::Reverse(row.reads)));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use clockscope_sites::{Read, SEEN, UNSEEN};
    use clockscope_sys::shm::Segment;
    use vdso_image::layout::{SHARED_SIZE, SITE_SHARDS, Shared};

    use super::super::site_files::executed;
    use super::*;

    /// Two files that cannot be opened have more places than there are words, each place one read more than the one before.
    #[test]
    fn places_have_words_of_their_own_until_none_is_left() {
        let site = |at: u64| Site {
            window: 16 * at,
            displaced: vec![0x90, 0x90, 0x90, 0x0f, 0x31],
            is_several: true,
            calls: Calls::Counter(Read::new(3, at % 2 == 1)),
            behind: None,
            is_of_loader: false,
        };
        let (mut all, mut places) = (Vec::new(), CountedPlaces::default());
        for (file, sites) in [("a", 0..5), ("b", 5..PLACES.len() as u64 + 4)] {
            let line = format!("1000-2000 r-xp 0 00:00 1 /absent/{file}");
            let mapping = executed(&line).expect("an executable mapping");
            let mut sites: Vec<Site> = sites.map(site).collect();
            places.add(std::process::id().cast_signed(), &mapping, &mut sites);
            all.extend(sites);
        }
        let pages = Segment::<Shared>::new(SHARED_SIZE, 0o600).expect("shared memory");
        let table = &pages.get().sites;
        for ((site, reads), shard) in all.iter().zip(2..).zip((0..SITE_SHARDS).cycle()) {
            let Calls::Counter(read) = site.calls else { panic!("{site:?}") };
            table[UNSEEN][shard][read.word].fetch_add(reads, Relaxed);
            // The tracer has noted one of them twice.
            table[SEEN][0][read.word].fetch_add(1, Relaxed);
        }
        let mut words = SiteWords::default();
        words.add(pages.get());
        let reads = places.reads(&words);
        let named = PLACES.len() as u64;
        assert_eq!(reads.len() as u64, named + 2);
        for (row, place) in reads.iter().zip((5..named).rev()) {
            let wanted = CountedReads {
                path: "/absent/b".to_owned(),
                function: Err(16 * place + 3),
                is_ordered: place % 2 == 1,
                reads: place + 1,
            };
            assert_eq!(*row, wanted);
        }
        let rest = |is_ordered: bool| {
            let of = (named..named + 4).filter(|place| (place % 2 == 1) == is_ordered);
            of.map(|place| place + 1).sum::<u64>()
        };
        let others = &reads[PLACES.len()..];
        assert!(others.iter().all(|row| row.path.is_empty()), "{others:?}");
        let told: Vec<u64> = others.iter().map(|row| row.reads).collect();
        assert_eq!(told, [rest(true), rest(false)]);
    }
}

//! Prints how many `syscall` instructions of each file can be counted, where several instructions are displaced, and why
//! the rest cannot be counted.
#![allow(clippy::print_stdout, reason = "what it is for")]

use std::collections::BTreeMap;

fn main() {
    for path in std::env::args().skip(1) {
        let file = std::fs::read(&path).expect("read the file");
        let begun = std::time::Instant::now();
        match clockscope_sites::find(&file, clockscope_sites::Wanted::CallsAndCounters) {
            Ok(found) => {
                let known = found.sites.iter().filter(|site| site.number().is_some()).count();
                let several = found.sites.iter().filter(|site| site.is_several);
                let several: Vec<u64> = several.map(|site| site.window).collect();
                let errors = found.sites.iter().filter(|site| site.behind.is_some()).count();
                let (sites, left) = (found.sites.len(), found.left.len());
                println!(
                    "{path}: {sites} sites, {known} with a number, {errors} with errors, {left} left, {:?}",
                    begun.elapsed()
                );
                println!("  {}: several instructions {several:x?}", several.len());
                let mut reasons: BTreeMap<_, Vec<u64>> = BTreeMap::new();
                for left in &found.left {
                    reasons.entry(left.why).or_default().push(left.at);
                }
                for (why, at) in reasons {
                    println!("  {}: {why} {:x?}", at.len(), &at[..at.len().min(8)]);
                }
            }
            Err(why) => println!("{path}: {why}"),
        }
    }
}

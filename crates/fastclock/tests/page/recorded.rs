//! The discipline on readings recorded from a real machine (`examples/record.rs`).

use fastclock::discipline::{Discipline, Estimate, Reading, Settings, Step};
use fastclock::keeper::{Pace, content};
use fastclock::page::PageClock;
use fastclock::{Line, Nanos, Offsets, Ticks};

pub(crate) const PACE: Pace = Pace {
    horizon: Nanos(1_000_000_000),
    valid: Nanos(3_000_000_000),
    grace: Nanos::ZERO,
    lead: Nanos(20_000),
    steepest_ppm: 500,
};

fn readings(text: &str) -> Vec<Reading> {
    let mut rows = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').map(|word| word.parse::<i64>().unwrap()).collect::<Vec<_>>());
    let first = rows.next().unwrap();
    let (mut ticks, mut mono) = (first[0].unsigned_abs(), first[1]);
    rows.map(|row| {
        ticks += row[0].unsigned_abs();
        mono += row[2];
        let real = Nanos(first[2] + row[3]);
        Reading {
            ticks: Ticks(ticks),
            half_width: Ticks(row[1].unsigned_abs()),
            mono: Nanos(mono),
            offsets: Offsets { real, boot: Nanos(row[5]), tai: Nanos(real.0 + row[7]) },
            offsets_half_width: row[4].unsigned_abs(),
            boot_half_width: row[6].unsigned_abs(),
        }
    })
    .collect()
}

/// The error and bound of each line at the next reading.
fn errors(readings: &[Reading]) -> Vec<(i64, i64)> {
    let mut discipline = Discipline::new(Settings::default());
    let mut line: Option<Line> = None;
    let mut errors = Vec::new();
    for pair in readings.windows(2) {
        assert_eq!(discipline.observe(&pair[0]), Step::Steady);
        let Some(estimate) = discipline.estimate() else { continue };
        assert_eq!(estimate.offsets, exact(&estimate));
        let begin = Ticks(estimate.at.0 + 50_000);
        let content = content(&estimate, &PACE, line.as_ref(), begin);
        let time = content.time(pair[1].ticks, PageClock::Monotonic).unwrap();
        errors.push((time.0 - pair[1].mono.0, content.bound_at(pair[1].ticks).0));
        line = Some(content.line);
    }
    errors
}

/// The recorded machine was never suspended and was not told about leap seconds.
fn exact(estimate: &Estimate) -> Offsets {
    Offsets { boot: Nanos::ZERO, tai: estimate.offsets.real, ..estimate.offsets }
}

#[test]
fn a_real_machine_is_followed_to_50_ns() {
    for (text, widest) in [
        (include_str!("data/readings-10-hz.txt"), 200),
        (include_str!("data/readings-1-hz.txt"), 1_000),
    ] {
        let readings = readings(text);
        assert_eq!(readings.len(), 300);
        let errors = errors(&readings);
        assert!(errors.len() > 290);
        let worst = errors.iter().map(|(error, _)| error.abs()).max();
        assert!(worst.is_some_and(|worst| worst <= 50), "{worst:?}");
        assert!(errors.iter().all(|(error, bound)| error.abs() <= *bound), "{errors:?}");
        let settled = &errors[20..];
        assert!(settled.iter().all(|(_, bound)| *bound < widest), "{settled:?}");
    }
}

#[test]
fn one_bad_reading_among_real_ones_carries_no_weight() {
    let mut readings = readings(include_str!("data/readings-10-hz.txt"));
    // The thread loses its CPU for 3 ms between the two reads of the counter.
    readings[100].ticks.0 += 3_000_000;
    readings[100].half_width.0 += 3_900_000;
    let errors = errors(&readings);
    let sizes = errors.iter().map(|(error, _)| error.abs());
    let worst = sizes.clone().filter(|size| *size < 500_000).max();
    assert!(worst.is_some_and(|worst| worst <= 50), "{worst:?}");
    // Only the comparison with the bad reading itself is off.
    assert_eq!(sizes.filter(|size| *size > 50).count(), 1);
}

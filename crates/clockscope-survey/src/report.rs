//! Report from samples: processes, units and containers, the most costly first. Pure.

use clockscope_stats::order;
use std::collections::{BTreeMap, HashMap};

use fastclock::ClockId;

use crate::estimate::{Cost, estimate, visible_from};
use crate::reads::{Code, Kind, Read};
use clockscope_containers::place::Place;
use clockscope_model::survey::{
    Certainty, ClockRow, Elsewhere, Estimate, ReadCost, Route, SCHEMA, SurveyGroup, SurveyReport,
    SurveyRow,
};
use clockscope_syscalls::sampling::PlaceSamples;
use clockscope_trace::clock_reads::{TYPICAL_ACPI_PM_NS, TYPICAL_HPET_NS};

/// Cost of a read on a host with the TSC as clocksource, in nanoseconds: the result of `bench` on most machines.
const TYPICAL_TSC_NS: u64 = 25;

/// The cost of reads on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// A read of the clocksource, through the vDSO.
    pub clocksource: Cost,
    /// A read by system call: its part in the kernel, which samples see.
    pub by_syscall: Option<Cost>,
    /// A read of CPU time.
    pub cpu_time: Option<Cost>,
    /// The complete cost of a read of the clocksource by system call, in nanoseconds.
    pub whole_syscall_ns: f64,
    /// Whether the vDSO makes a system call for each read on this host.
    pub has_fallen_back: bool,
}

impl Costs {
    fn of(&self, kind: Kind, fell_back: bool) -> Option<Cost> {
        match kind {
            // Only this process's vDSO cannot answer by itself.
            Kind::Clocksource if fell_back && !self.has_fallen_back => self.by_syscall,
            Kind::Clocksource => Some(self.clocksource),
            Kind::ClocksourceBySyscall => self.by_syscall,
            Kind::CpuTime => self.cpu_time,
            Kind::Coarse | Kind::Shared => None,
        }
    }
}

/// A sampled process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Process id.
    pub pid: i32,
    /// The process's name.
    pub command: String,
    /// The process's container, pod and unit.
    pub place: Place,
    /// Whether the process still ran at the end.
    pub is_running: bool,
}

/// The result of a survey.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Duration of the survey.
    pub elapsed_ns: u64,
    /// Sampling frequency of each CPU, in Hz.
    pub frequency_hz: u32,
    /// Number of CPUs.
    pub cpus: u64,
    /// Number of samples, and number of lost ones.
    pub samples: (u64, u64),
    /// CPU time of clockscope itself.
    pub own_cpu_ns: u64,
    /// Samples of all processes except this one.
    pub places: Vec<PlaceSamples>,
    /// The sampled processes.
    pub processes: Vec<Known>,
    /// The cost of reads.
    pub costs: Costs,
}

/// Key of a row of reads: kind, function, clock, and whether the program made the system call.
type RowKey = (Kind, &'static str, Option<ClockId>, bool);

/// The samples in the reads of one row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InReads {
    pub(crate) samples: u64,
    pub(crate) time_ns: u64,
    /// Samples in a system call that the vDSO made.
    fell_back: u64,
}

impl InReads {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.time_ns += other.time_ns;
        self.fell_back += other.fell_back;
    }

    fn sum<'a>(all: impl Iterator<Item = (&'a RowKey, &'a Self)>) -> Self {
        let mut sum = Self::default();
        all.for_each(|(_, reads)| sum.add(*reads));
        sum
    }

    /// Whether the vDSO made system calls, which take longer than its own reads.
    pub(crate) fn has_fallen_back(&self) -> bool {
        self.fell_back > self.samples / 2
    }
}

/// The samples of one or several processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    processes: u64,
    samples: u64,
    cpu_ns: u64,
    reads: BTreeMap<RowKey, InReads>,
}

impl Tally {
    /// The samples of one process.
    pub(crate) fn of<'a>(samples: impl IntoIterator<Item = &'a PlaceSamples>, code: &Code) -> Self {
        let mut tally = Self { processes: 1, ..Self::default() };
        for one in samples {
            tally.samples += one.samples;
            tally.cpu_ns += one.time_ns;
            let Some(Read { function, clock, route, kind }) = code.read(one.place) else {
                continue;
            };
            let fell_back = if route == Route::FellBack { one.samples } else { 0 };
            let key = (kind, function, clock, route == Route::Syscall);
            let reads = InReads { samples: one.samples, time_ns: one.time_ns, fell_back };
            tally.reads.entry(key).or_default().add(reads);
        }
        tally.share_out();
        tally
    }

    /// Distributes samples in shared code among the kinds that share it, in proportion to the process's other samples
    /// in the vDSO.
    fn share_out(&mut self) {
        let is_shared = |key: &RowKey| key.0 == Kind::Shared;
        let shared = InReads::sum(self.reads.iter().filter(|(key, _)| is_shared(key)));
        self.reads.retain(|key, _| !is_shared(key));
        let takes = |key: &RowKey| key.1 == "clock_gettime" && !key.3;
        let told = self.reads.iter().filter(|(key, _)| takes(key));
        let mut weights: BTreeMap<Kind, u64> = BTreeMap::new();
        for (key, reads) in told {
            *weights.entry(key.0).or_default() += reads.samples - reads.fell_back;
        }
        weights.retain(|_, weight| *weight > 0);
        if weights.is_empty() {
            weights.insert(Kind::Clocksource, 1);
        }
        let (mut left, mut whole) = (shared, weights.values().sum::<u64>());
        for (kind, weight) in weights {
            let part = |of: u64| {
                let part = u128::from(of) * u128::from(weight) / u128::from(whole);
                u64::try_from(part).unwrap_or(of)
            };
            let given =
                InReads { samples: part(left.samples), time_ns: part(left.time_ns), fell_back: 0 };
            left.samples -= given.samples;
            left.time_ns -= given.time_ns;
            whole -= weight;
            if given.samples > 0 {
                self.reads.entry((kind, "clock_gettime", None, false)).or_default().add(given);
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.processes += other.processes;
        self.samples += other.samples;
        self.cpu_ns += other.cpu_ns;
        for (key, reads) in &other.reads {
            self.reads.entry(*key).or_default().add(*reads);
        }
    }

    /// The samples in reads of one kind; only reads of [`Kind::ClocksourceBySyscall`] are system calls of the program.
    pub(crate) fn of_kind(&self, kind: Kind) -> InReads {
        let is_syscall = kind == Kind::ClocksourceBySyscall;
        InReads::sum(self.reads.iter().filter(|(key, _)| key.0 == kind && key.3 == is_syscall))
    }

    /// All reads except coarse ones.
    fn costly(&self) -> impl Iterator<Item = (&RowKey, &InReads)> {
        self.reads.iter().filter(|(key, _)| key.0 != Kind::Coarse)
    }

    /// Reads per second of the kinds wanted. Each kind is estimated as a whole, because the random error depends on its
    /// samples together.
    fn estimate(&self, survey: &Observed, is_wanted: impl Fn(Kind) -> bool) -> Option<Estimate> {
        let mut kinds: BTreeMap<(Kind, bool), (u64, u64)> = BTreeMap::new();
        for ((kind, ..), reads) in self.costly().filter(|(key, _)| is_wanted(key.0)) {
            let sums = kinds.entry((*kind, reads.has_fallen_back())).or_default();
            *sums = (sums.0 + reads.samples, sums.1 + reads.time_ns);
        }
        Estimate::sum(kinds.into_iter().filter_map(|((kind, fell_back), (samples, time_ns))| {
            let cost = survey.costs.of(kind, fell_back)?;
            Some(estimate(samples, time_ns, survey.elapsed_ns, &cost))
        }))
    }

    fn clocks(&self, survey: &Observed) -> Vec<ClockRow> {
        let mut rows: Vec<ClockRow> =
            self.reads
                .iter()
                .map(|((kind, function, clock, is_syscall), reads)| ClockRow {
                    function: (*function).to_owned(),
                    clock: clock.map(|clock| clock.name().to_owned()),
                    route: match (is_syscall, reads.fell_back > 0) {
                        (true, _) => Route::Syscall,
                        (false, true) => Route::FellBack,
                        (false, false) => Route::Vdso,
                    },
                    samples: reads.samples,
                    time_ns: reads.time_ns,
                    reads: survey.costs.of(*kind, reads.has_fallen_back()).map(|cost| {
                        estimate(reads.samples, reads.time_ns, survey.elapsed_ns, &cost)
                    }),
                })
                .collect();
        order::by_key(&mut rows, |row| (row.reads.is_none(), std::cmp::Reverse(row.time_ns)));
        rows
    }

    fn row(&self, survey: &Observed, known: &Known) -> SurveyRow {
        let InReads { samples: read_samples, time_ns: read_ns, .. } = InReads::sum(self.costly());
        SurveyRow {
            pid: known.is_running.then_some(known.pid),
            processes: self.processes,
            command: known.command.as_str().into(),
            place: known.place.clone(),
            samples: self.samples,
            cpu_ns: self.cpu_ns,
            read_samples,
            read_ns,
            cores: share(read_ns, survey.elapsed_ns),
            share: share(read_ns, self.cpu_ns),
            certainty: Certainty::of(read_samples),
            reads: self.estimate(survey, |_| true),
            clocksource_reads: self.estimate(survey, Kind::is_clocksource),
            has_coarse_reads: self.reads.keys().any(|key| key.0 == Kind::Coarse),
            clocks: self.clocks(survey),
        }
    }

    fn group(&self, survey: &Observed, kind: &str, name: String) -> SurveyGroup {
        let SurveyRow { processes, cpu_ns, read_samples, cores, share, certainty, reads, .. } =
            self.row(survey, &Known::default());
        let kind = kind.to_owned();
        SurveyGroup { kind, name, processes, cpu_ns, read_samples, cores, share, certainty, reads }
    }
}

/// The report. Processes without a sample in a read are left out.
pub fn report(survey: &Observed, code: &Code) -> SurveyReport {
    let mut samples: HashMap<i32, Vec<&PlaceSamples>> = HashMap::new();
    for one in &survey.places {
        samples.entry(one.process).or_default().push(one);
    }
    let tallies = samples.into_iter().map(|(pid, samples)| (pid, Tally::of(samples, code)));
    let mut by_process: HashMap<i32, Tally> = tallies.collect();
    by_process.retain(|_, tally| !tally.reads.is_empty());
    let known: HashMap<i32, &Known> = survey.processes.iter().map(|one| (one.pid, one)).collect();
    let nobody = Known::default();
    let (mut all, mut rows) = (Tally::default(), Vec::new());
    let mut ended: BTreeMap<(String, String), (Known, Tally)> = BTreeMap::new();
    let mut groups: BTreeMap<(&str, String), Tally> = BTreeMap::new();
    for (pid, tally) in &by_process {
        let known = known.get(pid).copied().unwrap_or(&nobody);
        all.add(tally);
        for group in groups_of(&known.place) {
            groups.entry(group).or_default().add(tally);
        }
        if known.is_running {
            rows.push(tally.row(survey, known));
        } else {
            let key = (known.command.clone(), known.place.to_string());
            let together = ended.entry(key).or_insert_with(|| (known.clone(), Tally::default()));
            together.1.add(tally);
        }
    }
    rows.extend(ended.values().map(|(known, tally)| tally.row(survey, known)));
    order::by_key(&mut rows, |row| (std::cmp::Reverse((row.read_ns, row.samples)), row.pid));
    let mut groups: Vec<SurveyGroup> =
        groups.into_iter().map(|((kind, name), tally)| tally.group(survey, kind, name)).collect();
    order::by(&mut groups, |a, b| b.cores.total_cmp(&a.cores).then_with(|| a.name.cmp(&b.name)));
    let reads = all.estimate(survey, Kind::is_clocksource);
    SurveyReport {
        schema: SCHEMA,
        elapsed_ns: survey.elapsed_ns,
        frequency_hz: survey.frequency_hz,
        cpus: survey.cpus,
        samples: survey.samples.0,
        lost_samples: survey.samples.1,
        costs: costs(&survey.costs),
        has_fallen_back: survey.costs.has_fallen_back,
        reads,
        cores: share(InReads::sum(all.costly()).time_ns, survey.elapsed_ns),
        elsewhere: elsewhere(survey, &all, reads.unwrap_or_default()),
        visible_from_per_second: visible_from(
            f64::from(survey.frequency_hz),
            survey.elapsed_ns,
            &survey.costs.clocksource,
        ),
        own_cpu_ns: survey.own_cpu_ns,
        processes: rows,
        groups,
        ..SurveyReport::default()
    }
}

/// The unit and the container of a process, as group kinds and names.
fn groups_of(place: &Place) -> impl Iterator<Item = (&'static str, String)> {
    let unit = place.unit.as_ref().map(|unit| ("unit", unit.verbatim().to_owned()));
    let container = place.container_name().map(|name| ("container", name));
    unit.into_iter().chain(container)
}

fn costs(costs: &Costs) -> Vec<ReadCost> {
    let row = |of: &str, cost: Cost| ReadCost {
        of: of.to_owned(),
        read_ps: picos(cost.read_ns),
        samples: cost.samples,
    };
    let by_syscall = costs.by_syscall.map(|cost| row("clocksource by system call", cost));
    let cpu_time = costs.cpu_time.map(|cost| row("cpu time", cost));
    [Some(row("clocksource", costs.clocksource)), by_syscall, cpu_time]
        .into_iter()
        .flatten()
        .collect()
}

/// The CPU time that the reads of the clocksource would take with other clocksources.
fn elsewhere(survey: &Observed, all: &Tally, reads: Estimate) -> Vec<Elsewhere> {
    let now = InReads::sum(all.costly().filter(|(key, _)| key.0.is_clocksource()));
    let row = |name: &str, read_ns: f64, is_measured| {
        let cores = reads.per_second * read_ns / 1e9;
        Elsewhere {
            clocksource: name.to_owned(),
            read_ps: picos(read_ns),
            is_measured,
            cores,
            more_cores: cores - share(now.time_ns, survey.elapsed_ns),
        }
    };
    if survey.costs.has_fallen_back {
        return vec![row("tsc", TYPICAL_TSC_NS as f64, false)];
    }
    vec![
        row("any that needs a system call", survey.costs.whole_syscall_ns, true),
        row("hpet", TYPICAL_HPET_NS as f64, false),
        row("acpi_pm", TYPICAL_ACPI_PM_NS as f64, false),
    ]
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time of some microseconds"
)]
fn picos(ns: f64) -> u64 {
    (ns * 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_syscalls::names;
    use clockscope_syscalls::sampling::Place as At;

    const PERIOD: u64 = 3_344_482;

    fn samples(process: i32, place: At, samples: u64) -> PlaceSamples {
        PlaceSamples { process, place, samples, time_ns: samples * PERIOD }
    }

    fn vdso(clock: u8) -> At {
        At::Vdso { offset: 0x140, clock: Some(clock) }
    }

    fn known(pid: i32, command: &str, unit: &str, is_running: bool) -> Known {
        let place = Place { unit: Some(unit.into()), ..Place::default() };
        Known { pid, command: command.to_owned(), place, is_running }
    }

    fn code() -> Code {
        Code::new([("__vdso_clock_gettime", 0x100..0x200), ("__vdso_time", 0x200..0x240)], &[])
    }

    fn observed(places: Vec<PlaceSamples>, processes: Vec<Known>) -> Observed {
        let cost = |read_ns| Cost { read_ns, samples: 150 };
        let costs = Costs {
            clocksource: cost(20.0),
            by_syscall: Some(cost(150.0)),
            cpu_time: Some(cost(500.0)),
            whole_syscall_ns: 200.0,
            has_fallen_back: false,
        };
        Observed {
            elapsed_ns: 10_000_000_000,
            frequency_hz: 299,
            cpus: 2,
            places,
            processes,
            costs,
            ..Observed::default()
        }
    }

    /// The report of one process.
    fn of_one(places: Vec<PlaceSamples>) -> SurveyReport {
        report(&observed(places, vec![known(10, "one", "a.service", true)]), &code())
    }

    fn two() -> Observed {
        observed(
            vec![
                samples(10, vdso(1), 30),
                samples(10, At::User, 70),
                samples(20, vdso(0), 50),
                samples(20, vdso(1), 50),
                samples(20, At::Kernel, 100),
                samples(30, At::User, 500),
            ],
            vec![
                known(10, "small", "a.service", true),
                known(20, "large", "b.service", true),
                known(30, "reads nothing", "b.service", true),
            ],
        )
    }

    #[test]
    fn the_most_costly_process_is_first_and_who_reads_nothing_is_missing() {
        let report = report(&two(), &code());
        let names: Vec<&str> = report.processes.iter().map(|row| row.command.verbatim()).collect();
        assert_eq!(names, ["large", "small"]);
        let large = &report.processes[0];
        assert_eq!((large.read_samples, large.samples, large.pid), (100, 200, Some(20)));
        assert!((large.share - 0.5).abs() < 1e-9);
        let rate = large.reads.unwrap().per_second;
        assert!((rate - 100.0 * 3_344_482.0 / 20.0 / 10.0).abs() < 1.0, "{rate}");
        assert_eq!(large.clocks.len(), 2);
        assert_eq!(large.certainty, Certainty::Estimated);
        assert_eq!(report.groups[0].name, "b.service");
    }

    #[test]
    fn processes_that_have_ended_are_one_row_by_name_and_unit() {
        let mut places: Vec<PlaceSamples> =
            (100..120).map(|pid| samples(pid, vdso(1), 1)).collect();
        places.push(samples(200, vdso(1), 3));
        let mut processes: Vec<Known> =
            (100..120).map(|pid| known(pid, "short", "cron.service", false)).collect();
        processes.push(known(200, "long", "cron.service", true));
        let report = report(&observed(places, processes), &code());
        let [short, long] = &report.processes[..] else { panic!("{:?}", report.processes) };
        assert_eq!((short.pid, short.processes, short.read_samples), (None, 20, 20));
        assert_eq!((long.pid, long.certainty), (Some(200), Certainty::About));
        assert_eq!((report.groups[0].processes, report.groups[0].read_samples), (21, 23));
    }

    #[test]
    fn coarse_reads_are_seen_and_have_no_rate() {
        let places = vec![samples(10, At::Vdso { offset: 0x210, clock: None }, 40)];
        let report = of_one(places);
        let row = &report.processes[0];
        assert_eq!((row.reads, row.has_coarse_reads, row.read_ns), (None, true, 0));
        assert_eq!((row.clocks[0].reads, row.clocks[0].samples), (None, 40));
        assert_eq!((report.reads, report.cores), (None, 0.0));
    }

    #[test]
    fn samples_in_shared_code_go_where_the_others_are() {
        let nameless = At::Vdso { offset: 0x140, clock: None };
        let mixed = [samples(10, vdso(1), 30), samples(10, vdso(6), 10), samples(10, nameless, 8)];
        let tally = Tally::of(&mixed, &code());
        assert_eq!(tally.of_kind(Kind::Clocksource).samples, 36);
        assert_eq!(tally.of_kind(Kind::Coarse).samples, 12);
        let tally = Tally::of(&[samples(10, vdso(6), 10), samples(10, nameless, 8)], &code());
        let costly = InReads::sum(tally.costly()).samples;
        assert_eq!((tally.of_kind(Kind::Coarse).samples, costly), (18, 0));
        let tally = Tally::of(&[samples(10, nameless, 8)], &code());
        assert_eq!(tally.of_kind(Kind::Clocksource).samples, 8, "nothing else is known");
    }

    #[test]
    fn each_kind_of_read_has_its_own_cost() {
        let number = names::number("clock_gettime").unwrap();
        let call = |from_vdso, clock| At::Call { from_vdso, number, clock: Some(clock) };
        let places = vec![
            samples(10, call(false, 1), 15),
            samples(10, call(true, 2), 50),
            samples(10, vdso(2), 5),
        ];
        let report = of_one(places);
        let rates: Vec<(Route, u64)> = report.processes[0]
            .clocks
            .iter()
            .map(|row| (row.route, picos(row.reads.unwrap().per_second / 1e3)))
            .collect();
        let rate = |samples: u64, ns: f64| picos((samples * PERIOD) as f64 / ns / 10.0 / 1e3);
        assert_eq!(rates, [(Route::FellBack, rate(55, 500.0)), (Route::Syscall, rate(15, 150.0))]);
        let clocksource = report.processes[0].clocksource_reads.unwrap().per_second;
        assert!((clocksource - report.reads.unwrap().per_second).abs() < 1e-6);
    }

    #[test]
    fn a_fall_back_costs_cores_and_the_way_back_wins_them() {
        let mut survey = two();
        let gained = report(&survey, &code());
        let reads = gained.reads.unwrap().per_second;
        let names: Vec<&str> =
            gained.elsewhere.iter().map(|row| row.clocksource.as_str()).collect();
        assert_eq!(names, ["any that needs a system call", "hpet", "acpi_pm"]);
        let hpet = &gained.elsewhere[1];
        assert!((hpet.cores - reads * 1226e-9).abs() < 1e-6 && hpet.more_cores > 0.0);
        survey.costs.has_fallen_back = true;
        survey.costs.clocksource.read_ns = 1_500.0;
        let lost = report(&survey, &code());
        let [tsc] = &lost.elsewhere[..] else { panic!("{:?}", lost.elsewhere) };
        assert_eq!(tsc.clocksource, "tsc");
        assert!((tsc.more_cores / lost.cores + 1.0 - 25.0 / 1_500.0).abs() < 1e-9, "{tsc:?}");
    }
}

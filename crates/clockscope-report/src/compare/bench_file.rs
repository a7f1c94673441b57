//! What `clockscope bench` saved, as `compare` needs it: JSON, or a record a line.

use clockscope_text::foreign::{Foreign, printable};
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

use clock_doctor::state::HostState;
use clockscope_model::bench::{BenchReport, PathName, PathRow, Record, SCHEMA};
use clockscope_stats::gated;
use clockscope_stats::median::median;
use clockscope_text::lines::cut_middle;

/// Columns of the longest label; those of clockscope have 45.
const LABEL_MAX: usize = 100;

/// A saved measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BenchFile {
    /// The machine.
    pub host: HostState,
    /// Whether the empty loop was subtracted.
    pub net: bool,
    /// The CPU that was measured on.
    pub cpu: Option<u32>,
    /// Launches made; 0 if the file does not say.
    pub launches: u32,
    /// The shortest control loop, in nanoseconds; 0 if the file does not say.
    pub control_ns: u64,
    /// The paths, in the order of the file.
    pub paths: Vec<BenchPath>,
}

/// One path of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BenchPath {
    /// Which.
    pub name: PathName,
    /// Cost of each accepted batch, in picoseconds a call.
    pub samples_ps: Vec<f64>,
    /// Median of the accepted batches of each launch, in picoseconds a call.
    pub launches_ps: Vec<f64>,
    /// `quiet`, `noisy` or `unusable`; empty if the file does not say.
    pub grade: Foreign,
    /// Named if the launches fall into groups.
    pub regimes: Option<Foreign>,
    /// The median as `bench` prints it, with its interval of 95 %, in picoseconds a call; `None` if
    /// the file does not say.
    pub median_ps: Option<(f64, f64, f64)>,
    /// The cheapest batch, in picoseconds a call.
    pub cheapest_ps: Option<f64>,
    /// Part of the batches that was accepted, 0 to 1; 1 if the file does not say.
    pub kept: f64,
}

/// Why a file is not a saved measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BenchFileError {
    /// The text ends in the middle: line and column.
    CutOff(usize, usize),
    /// Not JSON: line, column and what is wrong.
    NotJson(usize, usize, String),
    /// JSON of something else.
    NotBench,
    /// JSON of bench, but a field is missing or of the wrong kind.
    Malformed(usize, String),
    /// Of a schema that is not known.
    Schema(String),
    /// Nothing was measured.
    NoPaths,
}

impl fmt::Display for BenchFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff(line, column) => write!(
                f,
                "the JSON ends in the middle, at line {line} column {column}; the file may be cut \
                 off: save it again"
            ),
            Self::NotJson(line, column, what) => {
                write!(f, "not JSON at line {line} column {column}: {what}")
            }
            Self::NotBench => f.write_str(
                "JSON, but not of clockscope bench or trace; save one with clockscope bench --save FILE, \
                 or with clockscope trace --format json -o FILE",
            ),
            Self::Malformed(line, what) => {
                write!(f, "not as clockscope bench saves it, at line {line}: {what}")
            }
            Self::Schema(schema) => write!(
                f,
                "it has schema {schema}, and this clockscope understands schema {SCHEMA} only; \
                 update clockscope, or measure again with this one"
            ),
            Self::NoPaths => f.write_str("no path was measured; see its \"declines\""),
        }
    }
}

impl std::error::Error for BenchFileError {}

impl BenchFileError {
    /// Translates an error of the parser about `bytes`, which begin at line `first` (from 1).
    fn of(error: &serde_json::Error, bytes: &[u8], first: usize) -> Self {
        let line = first - 1 + error.line();
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        // A number cut after its point is no number, rather than an end, to the parser.
        let mut rest = bytes.split(|byte| *byte == b'\n').skip(error.line().saturating_sub(1));
        let at_end =
            rest.next().is_none_or(|last| error.column() >= last.len()) && rest.next().is_none();
        match error.classify() {
            serde_json::error::Category::Syntax if at_end => Self::CutOff(line, error.column()),
            serde_json::error::Category::Eof => Self::CutOff(line, error.column()),
            serde_json::error::Category::Data => Self::Malformed(line, what),
            _ => Self::NotJson(line, error.column(), what),
        }
    }
}

/// Whether the bytes begin as JSON does.
pub fn is_json(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    matches!(text.first(), Some(b'{' | b'['))
}

/// What tells which file it is.
#[derive(Deserialize)]
struct Head {
    schema: Option<serde_json::Value>,
    record: Option<IgnoredAny>,
    paths: Option<IgnoredAny>,
}

impl Head {
    fn check_schema(&self) -> Result<(), BenchFileError> {
        match &self.schema {
            None => Err(BenchFileError::NotBench),
            Some(schema) if schema.as_u64() == Some(u64::from(SCHEMA)) => Ok(()),
            Some(schema) => Err(BenchFileError::Schema(schema.to_string())),
        }
    }
}

/// Reads a file of `clockscope bench --save`, or of its `--format json` or `ndjson`.
///
/// # Errors
///
/// One that says what to do.
pub fn parse(bytes: &[u8]) -> Result<BenchFile, BenchFileError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let first_line = bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or(b"");
    let is_records = serde_json::from_slice::<Head>(first_line).is_ok_and(|h| h.record.is_some());
    let file = if is_records { parse_records(bytes)? } else { parse_document(bytes)? };
    if file.paths.is_empty() { Err(BenchFileError::NoPaths) } else { Ok(file) }
}

fn parse_document(bytes: &[u8]) -> Result<BenchFile, BenchFileError> {
    let head: Head = match serde_json::from_slice(bytes) {
        Ok(head) => head,
        Err(error) if error.is_data() => return Err(BenchFileError::NotBench),
        Err(error) => return Err(BenchFileError::of(&error, bytes, 1)),
    };
    head.check_schema()?;
    if head.paths.is_none() {
        return Err(BenchFileError::NotBench);
    }
    let report: BenchReport =
        serde_json::from_slice(bytes).map_err(|error| BenchFileError::of(&error, bytes, 1))?;
    let paths = report.paths.into_iter().map(of_row).collect();
    let method = report.method;
    Ok(BenchFile {
        host: report.host,
        net: method.net,
        cpu: method.cpu,
        control_ns: method.control_ns_min,
        launches: method.launches,
        paths,
    })
}

fn of_row(row: PathRow) -> BenchPath {
    // Where hardly any batch was accepted, the medians are of all.
    let all = row.grade == "unusable";
    let launches = row.launches.iter().filter(|launch| launch.accepted > 0 || all);
    BenchPath {
        name: row.name,
        samples_ps: row.samples_ps.iter().map(|ps| *ps as f64).collect(),
        launches_ps: launches.map(|launch| launch.cost_ps_median as f64).collect(),
        grade: row.grade.into(),
        regimes: row.regimes.map(Foreign::from),
        median_ps: Some((row.cost_ps_median, row.cost_ps_ci_low, row.cost_ps_ci_high))
            .filter(|(median, ..)| *median > 0)
            .map(|(median, low, high)| (median as f64, low as f64, high as f64)),
        cheapest_ps: Some(row.cost_ps_min as f64).filter(|cheapest| *cheapest > 0.0),
        kept: if row.batches > 0 { row.accepted as f64 / row.batches as f64 } else { 1.0 },
    }
}

fn parse_records(bytes: &[u8]) -> Result<BenchFile, BenchFileError> {
    let mut file = BenchFile::default();
    let mut empty_loop_ps = 0.0;
    // For each path the batches of each launch.
    let mut batches: BTreeMap<PathName, BTreeMap<u32, Vec<(f64, bool)>>> = BTreeMap::new();
    let mut order = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let error = |error: serde_json::Error| BenchFileError::of(&error, line, index + 1);
        let head: Head = serde_json::from_slice(line).map_err(error)?;
        if head.schema.is_some() {
            head.check_schema()?;
        }
        match serde_json::from_slice(line).map_err(error)? {
            Record::Host { host, method, .. } => {
                file.host = *host;
                file.net = method.net;
                file.cpu = method.cpu;
                file.control_ns = method.control_ns_min;
                file.launches = method.launches;
                empty_loop_ps = method.empty_loop_ps as f64;
            }
            Record::Decline(_) => {}
            Record::Batch(batch) => {
                let launches = batches.entry(batch.name.clone()).or_insert_with(|| {
                    order.push(batch.name);
                    BTreeMap::new()
                });
                if batch.calls > 0 {
                    let cost = batch.ns as f64 * 1000.0 / batch.calls as f64;
                    let cost = if file.net { cost - empty_loop_ps } else { cost };
                    launches.entry(batch.launch).or_default().push((cost, batch.accepted));
                }
            }
        }
    }
    for name in order {
        let launches = batches.remove(&name).unwrap_or_default();
        file.paths.push(of_batches(name, launches.into_values().collect()));
    }
    Ok(file)
}

/// A path from the cost of each batch of each launch, and whether it was accepted. As in `bench`, all
/// count if hardly any was accepted.
fn of_batches(name: PathName, launches: Vec<Vec<(f64, bool)>>) -> BenchPath {
    let all = || launches.iter().flatten();
    let accepted = all().filter(|(_, accepted)| *accepted).count();
    let kept = accepted as f64 / all().count().max(1) as f64;
    // A handful of batches, as somebody may have picked them out, is no measurement to be graded.
    let is_unusable =
        all().count() >= gated::USABLE_MIN && gated::is_unusable(accepted, all().count());
    let counting = |launch: &Vec<(f64, bool)>| -> Vec<f64> {
        let batches = launch.iter().filter(|(_, accepted)| *accepted || is_unusable);
        batches.map(|(cost, _)| *cost).collect()
    };
    let by_launch: Vec<Vec<f64>> = launches.iter().map(counting).collect();
    BenchPath {
        name,
        launches_ps: by_launch.iter().filter_map(|costs| median(costs)).collect(),
        samples_ps: by_launch.into_iter().flatten().collect(),
        grade: if is_unusable { "unusable".into() } else { Foreign::default() },
        cheapest_ps: all().map(|(cost, _)| *cost).min_by(f64::total_cmp),
        kept,
        ..BenchPath::default()
    }
}

/// `CLOCK_MONOTONIC by vdso`, `read by syscall`; printable, and in at most `LABEL_MAX` columns.
pub fn label(name: &PathName) -> String {
    let what = name.clock.as_deref().or(name.call.as_deref()).unwrap_or("?");
    cut_middle(&printable(&format!("{what} by {}", name.route)), LABEL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockscope_model::bench::{BatchRecord, LaunchRow, Method};

    fn name(clock: &str) -> PathName {
        PathName { clock: Some(clock.to_owned()), route: "vdso".to_owned(), ..PathName::default() }
    }

    fn report() -> BenchReport {
        let launch = |cost_ps_median, accepted| LaunchRow {
            cost_ps_median,
            accepted,
            ..LaunchRow::default()
        };
        BenchReport {
            schema: SCHEMA,
            paths: vec![PathRow {
                name: name("CLOCK_TAI"),
                grade: "quiet".to_owned(),
                launches: vec![launch(21_000, 9), launch(22_000, 8), launch(0, 0)],
                samples_ps: vec![21_000, 22_000],
                ..PathRow::default()
            }],
            ..BenchReport::default()
        }
    }

    fn said(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_document_gives_samples_and_launches_that_accepted_some() {
        let text = serde_json::to_vec_pretty(&report()).unwrap();
        let file = parse(&text).unwrap();
        assert_eq!(file.paths[0].samples_ps, [21_000.0, 22_000.0]);
        assert_eq!(file.paths[0].launches_ps, [21_000.0, 22_000.0]);
        assert_eq!(label(&file.paths[0].name), "CLOCK_TAI by vdso");
        assert_eq!(
            parse(&[b"\xef\xbb\xbf", &text[..]].concat()),
            Ok(file),
            "with a byte order mark"
        );
    }

    #[test]
    fn records_give_the_accepted_batches_of_each_launch() {
        let batch = |launch, ns, accepted| {
            Record::Batch(BatchRecord {
                name: name("CLOCK_TAI"),
                launch,
                calls: 1000,
                ns,
                accepted,
                ..BatchRecord::default()
            })
        };
        let method = Method { net: true, empty_loop_ps: 300, ..Method::default() };
        let records = [
            Record::Host { schema: SCHEMA, host: Box::default(), method: Box::new(method) },
            batch(0, 20_000, true),
            batch(0, 99_000, false),
            batch(0, 22_000, true),
            batch(1, 23_000, true),
        ];
        let text: String =
            records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
        let file = parse(text.as_bytes()).unwrap();
        assert_eq!(file.paths[0].samples_ps, [19_700.0, 21_700.0, 22_700.0]);
        assert_eq!(file.paths[0].launches_ps, [20_700.0, 22_700.0]);
        let cut = said(text.trim_end().trim_end_matches('}'));
        assert!(cut.starts_with("the JSON ends in the middle, at line 5 column "), "{cut}");
        let newer = text.replace("\"schema\":2", "\"schema\":9");
        assert!(said(&newer).contains("schema 9"), "{newer}");
    }

    #[test]
    fn every_cut_document_is_called_cut_off() {
        let text = serde_json::to_string(&report()).unwrap();
        for end in 1..text.len() {
            let said = said(&text[..end]);
            assert!(said.contains("the file may be cut off"), "{end}: {said}");
        }
    }

    #[test]
    fn what_is_not_of_bench_is_refused() {
        assert!(said("{\"schema\": 9, \"paths\": []}").starts_with("it has schema 9, and this"));
        assert!(said("{\"schema\": \"x\", \"paths\": []}").starts_with("it has schema \"x\""));
        for text in
            ["{}", "[1, 2]", "{\"schema\": 2}", "{\"results\": []}", "{\"benchmarks\": [1]}"]
        {
            assert!(said(text).starts_with("JSON, but not of clockscope bench"), "{text}");
        }
        assert!(said("{\"schema\": 2,\n \"host\": {}, \"paths\": [7]}").contains("at line 2: "));
        assert!(said("{\"schema\": 2, \"host\": {}, \"paths\": []}").starts_with("no path"));
        assert!(said("{\"schema\": 2,\n}\n").starts_with("not JSON at line 2 column 1: "));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
            let _ = parse(&[b"{\"record\":1}\n", &bytes[..]].concat());
        }
    }
}

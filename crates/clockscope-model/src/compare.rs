//! The comparison as data. This is the JSON schema (`"schema": 2`): fields are added, never
//! renamed; see docs/measuring.md.

use serde::{Deserialize, Serialize};

/// Version of the schema.
pub const SCHEMA: u32 = 2;

/// The result of one `clockscope compare`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// Version of this schema: 2.
    pub schema: u32,
    /// Name of the first file, `-` for standard input.
    pub before: String,
    /// Name of the second file.
    pub after: String,
    /// The smallest change that matters, in percent of the first.
    pub min_effect_percent: f64,
    /// Paths or functions that are in both files, in the order of the first.
    pub rows: Vec<CompareRow>,
    /// Paths or functions that are in one file only: file and name.
    pub unmatched: Vec<(String, String)>,
    /// Differences between the hosts, one clause each.
    pub host_changes: Vec<String>,
    /// Limits of the comparison, one sentence each.
    pub notes: Vec<String>,
    /// The conclusion, in one sentence.
    pub conclusion: String,
}

/// The cost of one path, or of one function's calls, in both files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// `MONOTONIC by vdso`, `clock_gettime(MONOTONIC)`.
    pub name: String,
    /// Cost in the first file; `null` if too few calls were measured.
    pub before: Option<Cost>,
    /// Cost in the second file.
    pub after: Option<Cost>,
    /// The change and the interval that decides, in percent of the first cost; `null` if the first cost is
    /// zero or a cost is unknown.
    pub change_percent: Option<(f64, f64, f64)>,
    /// Probability that chance alone makes a change so far beyond the smallest that matters, with Holm's
    /// correction for all rows. A change is proven below 0.05.
    pub p_holm: f64,
    /// The conclusion from both files for this row.
    pub verdict: Verdict,
}

impl CompareRow {
    /// The change in percent; 0 if unknown.
    pub fn change(&self) -> f64 {
        self.change_percent.map_or(0.0, |(change, _, _)| change)
    }
}

/// The cost of a call with its interval of 95 %, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The median of batches, or the average of calls.
    pub ps: u64,
    /// Lower end of the interval.
    pub low_ps: u64,
    /// Upper end of the interval.
    pub high_ps: u64,
}

/// The conclusion from both files for a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Cheaper by more than the smallest change that matters.
    Faster,
    /// Dearer by more than the smallest change that matters.
    Slower,
    /// Any change is smaller than the smallest that matters.
    Same,
    /// Neither a change that matters nor the absence of one is proven.
    #[default]
    NotProven,
    /// Too few calls were measured.
    TooFew,
}

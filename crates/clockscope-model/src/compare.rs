//! The comparison as data. This is the JSON schema (`"schema": 1`): fields are added, never
//! renamed; see docs/compare.md.

use serde::{Deserialize, Serialize};

use crate::trace::null_is_no_number;

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// The result of one `clockscope compare`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// Version of this schema: 1.
    pub schema: u32,
    /// Unit of all values: `ps` for bench files; as given, or empty, for plain ones.
    pub unit: String,
    /// Larger values are better.
    pub higher_is_better: bool,
    /// Confidence of the intervals, in percent.
    #[serde(deserialize_with = "null_is_no_number")]
    pub confidence_percent: f64,
    /// The smallest change that matters, in percent of the first set.
    #[serde(deserialize_with = "null_is_no_number")]
    pub min_effect_percent: f64,
    /// All sets: of each file, or of each path of each file.
    pub sets: Vec<SetRow>,
    /// Each other set against the first of its path.
    pub comparisons: Vec<Comparison>,
    /// Paths that are in one file only: file and path.
    pub unmatched: Vec<(String, String)>,
    /// What differs between the hosts of bench files, one clause each.
    pub host_changes: Vec<String>,
    /// What to bear in mind: constant sets, single launches; one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What changed, in one sentence.
    pub conclusion: String,
}

/// One set of values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetRow {
    /// File it is from, `-` for standard input.
    pub file: String,
    /// The path (`CLOCK_MONOTONIC by vdso`), for bench files.
    pub path: Option<String>,
    /// Number of values.
    pub n: u64,
    /// Least value.
    #[serde(deserialize_with = "null_is_no_number")]
    pub min: f64,
    /// Median: the middle one, or the mean of the two in the middle.
    #[serde(deserialize_with = "null_is_no_number")]
    pub median: f64,
    /// Lower end of the median's interval.
    #[serde(deserialize_with = "null_is_no_number")]
    pub median_ci_low: f64,
    /// Upper end of the median's interval.
    #[serde(deserialize_with = "null_is_no_number")]
    pub median_ci_high: f64,
    /// Greatest value.
    #[serde(deserialize_with = "null_is_no_number")]
    pub max: f64,
    /// Arithmetic mean.
    #[serde(deserialize_with = "null_is_no_number")]
    pub mean: f64,
    /// Standard deviation.
    #[serde(deserialize_with = "null_is_no_number")]
    pub sd: f64,
    /// The confidence that the median's interval has, in percent; less than asked for if there are
    /// too few values.
    #[serde(default)]
    #[serde(deserialize_with = "null_is_no_number")]
    pub median_ci_percent: f64,
    /// Values more than 1.5 times the distance of the quartiles beyond the nearer one (Tukey).
    #[serde(default)]
    pub outliers: u64,
    /// The cheapest batch, undisturbed or not, for bench files that say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheapest: Option<f64>,
    /// Launches made, for bench files that say it; those that were disturbed throughout are not in
    /// `launch_medians`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<u32>,
    /// Median of each launch, for bench files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launch_medians: Vec<f64>,
    /// `quiet`, `noisy` or `unusable`, for bench files that say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<String>,
    /// Values for pictures, at most 1,000, evenly chosen from the sorted set.
    pub values: Vec<f64>,
}

/// What the values of one set say beside those of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better beyond the smallest effect that matters.
    Faster,
    /// Worse beyond it.
    Slower,
    /// A difference is proven, and it is smaller than what matters; or none is and the interval
    /// excludes one that matters.
    Same,
    /// No difference is proven, and one that matters is not excluded.
    #[default]
    NotProven,
    /// There are too few values to say anything.
    TooFew,
}

impl Comparison {
    /// The change in percent, as it is printed, and its own interval.
    pub fn change_with_interval(&self) -> Option<(f64, f64, f64)> {
        self.change_percent.or(self.shift_percent)
    }

    /// The change in percent, as it is printed.
    pub fn change(&self) -> Option<f64> {
        self.change_with_interval().map(|(change, _, _)| change)
    }
}

/// One set against the first of its path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The path, for bench files.
    pub path: Option<String>,
    /// Index in `sets` of the first.
    pub base: usize,
    /// Index in `sets` of the other.
    pub other: usize,
    /// What follows.
    pub verdict: Verdict,
    /// From the base's median to the other's and its interval, in percent of the base's; `null` if that
    /// is zero. For plain sets it is `shift_percent`, which uses every pair of values.
    #[serde(default)]
    pub change_percent: Option<(f64, f64, f64)>,
    /// How probable a change beyond the smallest that matters is by chance, with Holm's correction for
    /// all comparisons of the report: by the launches of bench files, by the ranks of plain ones. A
    /// change is proven below 1 - confidence.
    #[serde(default)]
    #[serde(deserialize_with = "null_is_no_number")]
    pub p_holm: f64,
    /// Hodges-Lehmann shift: median of all differences other - base.
    #[serde(deserialize_with = "null_is_no_number")]
    pub shift: f64,
    /// Lower end of its interval.
    #[serde(deserialize_with = "null_is_no_number")]
    pub shift_ci_low: f64,
    /// Upper end of its interval.
    #[serde(deserialize_with = "null_is_no_number")]
    pub shift_ci_high: f64,
    /// `shift` and its interval in percent of the base's median; `null` if that is zero.
    pub shift_percent: Option<(f64, f64, f64)>,
    /// The interval that the verdict rests on, in percent of the base's median: that of the shift;
    /// for bench files that of the medians, widened to the change of the cheapest batch and to those
    /// between any launch of one and any of the other.
    #[serde(default)]
    pub decision_percent: Option<(f64, f64)>,
    /// Mann-Whitney U of the other set.
    #[serde(deserialize_with = "null_is_no_number")]
    pub u: f64,
    /// Its two-sided p.
    #[serde(deserialize_with = "null_is_no_number")]
    pub u_p: f64,
    /// True if that is exact, false if by the normal approximation.
    pub u_exact: bool,
    /// Welch's t; `null` where both variances are zero.
    pub welch_t: Option<f64>,
    /// Welch's degrees of freedom.
    pub welch_df: Option<f64>,
    /// Its two-sided p.
    pub welch_p: Option<f64>,
    /// Interval of the difference of means.
    pub welch_ci: Option<(f64, f64)>,
    /// Cliff's delta, -1 to 1.
    #[serde(deserialize_with = "null_is_no_number")]
    pub cliff_delta: f64,
    /// About how many values more each set needs; `null` if it has enough.
    pub more_needed: Option<u64>,
    /// The verdict in one sentence.
    pub sentence: String,
}

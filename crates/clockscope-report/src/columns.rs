//! The columns of the table, and the names that choose them.

use std::str::FromStr;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Share of the time of all calls, in percent.
    TimePercent,
    /// Time of all calls, in seconds.
    Seconds,
    /// Average time of one call, in microseconds.
    Average,
    /// Number of calls.
    Calls,
    /// Number of calls that returned an error.
    Errors,
    /// How the call got its answer: `vdso` or `syscall`.
    Via,
    /// Name of the system call, or of the vDSO function and its clock.
    Name,
    /// Median time of one call.
    P50,
    /// 90th percentile of the time of one call.
    P90,
    /// 99th percentile of the time of one call.
    P99,
    /// The longest call.
    Max,
}

/// The columns shown by default.
pub const DEFAULT: [Column; 7] = [
    Column::TimePercent,
    Column::Seconds,
    Column::Average,
    Column::Calls,
    Column::Errors,
    Column::Via,
    Column::Name,
];

/// Each column with its head and its names: clockscope's own first, then the words of `strace -U` and the
/// heads of strace's table.
const NAMES: [(Column, &str, &[&str]); 11] = [
    (Column::TimePercent, "% time", &["time-percent", "time", "% time"]),
    (Column::Seconds, "seconds", &["seconds", "total-time", "time-total"]),
    (Column::Average, "usecs/call", &["avg", "avg-time", "time-avg", "usecs/call"]),
    (Column::Calls, "calls", &["calls", "count"]),
    (Column::Errors, "errors", &["errors", "error"]),
    (Column::Via, "via", &["via"]),
    (Column::Name, "name", &["name", "syscall", "syscall-name"]),
    (Column::P50, "p50", &["p50"]),
    (Column::P90, "p90", &["p90"]),
    (Column::P99, "p99", &["p99"]),
    (Column::Max, "max", &["max", "max-time", "time-max", "longest"]),
];

impl Column {
    /// The head of the column.
    pub fn head(self) -> &'static str {
        NAMES.iter().find(|(column, ..)| *column == self).map_or("", |(_, head, _)| head)
    }

    /// The columns that the words of `-U` choose; none means [`DEFAULT`].
    ///
    /// # Errors
    ///
    /// When a word is unknown, or a column is named twice.
    pub fn parse_list(words: &[String]) -> Result<Vec<Column>, ColumnError> {
        if words.is_empty() {
            return Ok(DEFAULT.to_vec());
        }
        let mut columns = Vec::with_capacity(words.len());
        for word in words {
            let column = word.parse()?;
            if columns.contains(&column) {
                return Err(ColumnError::Repeated(word.clone()));
            }
            columns.push(column);
        }
        Ok(columns)
    }
}

impl FromStr for Column {
    type Err = ColumnError;

    fn from_str(word: &str) -> Result<Column, ColumnError> {
        let wanted = word.trim().to_ascii_lowercase().replace('_', "-");
        NAMES
            .iter()
            .find(|(.., names)| names.contains(&wanted.as_str()))
            .map(|(column, ..)| *column)
            .ok_or_else(|| ColumnError::Unknown(word.to_owned()))
    }
}

/// The reason why a list of columns cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// No column has this name.
    #[error("no column is called {0:?}; the columns are {all}", all = NAMES.map(|(.., names)| names[0]).join(","))]
    Unknown(String),
    /// This column was named before.
    #[error("column {0:?} is named twice; name each column once")]
    Repeated(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &str) -> Vec<String> {
        list.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn every_name_gives_its_column_and_no_name_is_given_twice() {
        let mut seen = Vec::new();
        for (column, _, names) in NAMES {
            for name in names {
                assert_eq!(name.parse(), Ok(column));
                assert!(!seen.contains(name), "{name} is ambiguous");
                seen.push(name);
            }
            assert_eq!(column.head().parse(), Ok(column), "a head is a name too");
        }
    }

    #[test]
    fn straces_default_list_is_understood_in_either_spelling() {
        let ours = Column::parse_list(&words("time-percent,seconds,avg,calls,errors,name"));
        for list in [
            "time-percent,total-time,avg-time,calls,errors,name",
            "time_percent,time_total,time_avg,calls,errors,syscall",
            "Time,Total_Time,usecs/call,count,error,syscall-name",
        ] {
            assert_eq!(Column::parse_list(&words(list)), ours, "{list}");
        }
    }

    #[test]
    fn no_list_means_the_default() {
        assert_eq!(Column::parse_list(&[]).unwrap(), DEFAULT);
    }

    #[test]
    fn an_unknown_column_is_answered_with_the_list() {
        let error = "min-time".parse::<Column>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no column is called \"min-time\"; the columns are \
             time-percent,seconds,avg,calls,errors,via,name,p50,p90,p99,max"
        );
        assert!("".parse::<Column>().is_err());
    }

    #[test]
    fn a_column_named_twice_is_refused() {
        let error = Column::parse_list(&words("calls,name,count")).unwrap_err();
        assert_eq!(error.to_string(), "column \"count\" is named twice; name each column once");
    }
}

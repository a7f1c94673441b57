//! Dates without a library: Unix seconds as RFC 3339.

const SECONDS_A_DAY: i64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const DAYS_OF_ERA: i64 = 146_097;
/// From 1 March of year 0 to 1 January 1970.
const DAYS_TO_1970: i64 = 719_468;

/// Seconds since 1970, UTC, as `2026-11-21T12:17:31Z`.
pub fn rfc3339(unix_seconds: i64) -> String {
    let (year, month, day) = civil_from_days(unix_seconds.div_euclid(SECONDS_A_DAY));
    let second = unix_seconds.rem_euclid(SECONDS_A_DAY);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
///
/// Counts years from 1 March, so that the leap day is the last day of its year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(DAYS_TO_1970);
    let (era, of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let leap_days = of_era / 1_460 - of_era / 36_524 + of_era / (DAYS_OF_ERA - 1);
    let year_of_era = (of_era - leap_days) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March have 31 30 31 30 31 days twice, then the rest.
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_are_known() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_000_000_000), "2001-09-09T01:46:40Z");
        assert_eq!(rfc3339(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn each_day_of_800_years_follows_the_one_before() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days_of = |year: i64, month: i64| match month {
            2 => 28 + i64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut date = civil_from_days(-DAYS_OF_ERA);
        assert_eq!(date, (1570, 1, 1));
        for day in -DAYS_OF_ERA + 1..DAYS_OF_ERA {
            let (year, month, of_month) = date;
            date = if of_month < days_of(year, month) {
                (year, month, of_month + 1)
            } else if month < 12 {
                (year, month + 1, 1)
            } else {
                (year + 1, 1, 1)
            };
            assert_eq!(civil_from_days(day), date);
        }
    }
}

//! Numbers in readable form.

/// `0.12 s`, `12.3 s`, `3m20s`, `11h30m`.
pub fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        _ if seconds.is_nan() || seconds < 0.0005 => "0 s".into(),
        _ if seconds < 0.1 => format!("{:.0} ms", seconds * 1000.0),
        _ if seconds < 9.95 => format!("{seconds:.2} s"),
        _ if seconds < 59.95 => format!("{seconds:.1} s"),
        _ if whole < 3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
    }
}

/// Decimal multiples, as disks are sold.
pub fn bytes(bytes: u64) -> String {
    const NAMES: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut at = 0;
    while value >= 999.5 && at + 1 < NAMES.len() {
        value /= 1000.0;
        at += 1;
    }
    match at {
        0 => format!("{bytes} B"),
        _ if value < 9.95 => format!("{value:.1} {}", NAMES[at]),
        _ => format!("{value:.0} {}", NAMES[at]),
    }
}

/// With a comma at every thousand.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// With three or four significant digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if !value.is_finite() => return "–".into(),
        _ if size == 0.0 => return "0".into(),
        _ if !(1e-4..1e7).contains(&size) => return format!("{value:.2e}"),
        _ if size < 0.01 => 6,
        _ if size < 1.0 => 4,
        _ if size < 10.0 => 3,
        _ if size < 100.0 => 2,
        _ if size < 1000.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A percentage of many digits with one decimal. Short ones, small ones and other texts stay as they
/// are.
pub fn percent(text: &str) -> String {
    const SHORT: usize = "12.25%".len();
    match text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok()) {
        Some(number) if text.len() > SHORT && number.abs() >= 0.05 => format!("{number:.1}%"),
        _ => text.to_owned(),
    }
}

/// A number with its noun: `1 object`, `2 objects`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// `1 item`, `2 items`.
pub fn items(number: u64) -> String {
    counted(number, "item")
}

/// Seconds since 1970 as a date and time in UTC.
pub fn date(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// The date of a day counted from 1970-01-01, in years that begin in March, so that the leap day is
/// the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_precision_that_matters() {
        let shown: Vec<String> =
            [0.0, 0.0123, 0.5, 12.34, 59.99, 200.0, 41_400.0].map(seconds).to_vec();
        assert_eq!(shown, ["0 s", "12 ms", "0.50 s", "12.3 s", "1m00s", "3m20s", "11h30m"]);
    }

    #[test]
    fn sizes_and_counts_are_short() {
        assert_eq!(
            [0, 999, 1_500, 64_000_000, 9_960_000_000].map(bytes).join(" "),
            "0 B 999 B 1.5 kB 64 MB 10 GB"
        );
        assert_eq!([7, 999, 1_000, 1_234_567].map(count).join(" "), "7 999 1,000 1,234,567");
    }

    #[test]
    fn percentages_of_many_digits_have_one_decimal() {
        let texts = ["11.111111111%", "33.333333333%", "12.25%", "5%", "0.001234567%", "\"x%\""];
        let expected = ["11.1%", "33.3%", "12.25%", "5%", "0.001234567%", "\"x%\""];
        assert_eq!(texts.map(percent), expected);
    }

    #[test]
    fn figures_have_the_digits_that_count() {
        let shown = [0.0, 7.7350, 0.00021, 1e-9, 16_000.0, -23.456, f64::NAN].map(number);
        assert_eq!(shown, ["0", "7.735", "0.00021", "1.00e-9", "16000", "-23.46", "–"]);
    }

    #[test]
    fn dates_are_right_at_the_edges() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(-60), "1969-12-31 23:59 UTC");
        assert_eq!(date(951_825_600), "2000-02-29 12:00 UTC");
        assert_eq!(date(4_102_444_800), "2100-01-01 00:00 UTC");
    }
}

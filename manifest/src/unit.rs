//! Numbers with units, as people write them.

use stage_core::Unit;

const DURATIONS: &[(&str, f64)] =
    &[("ms", 0.001), ("s", 1.0), ("min", 60.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1_024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

const HERTZ: &[(&str, f64)] = &[("Hz", 1.0), ("kHz", 1_000.0), ("MHz", 1_000_000.0)];
const DECIBEL: &[(&str, f64)] = &[("dB", 1.0)];
const LUFS: &[(&str, f64)] = &[("LUFS", 1.0), ("LU", 1.0)];
const PERCENT: &[(&str, f64)] = &[("%", 1.0)];

/// The longest duration that a manifest may have, in seconds: 10,000 days.
pub const LONGEST: f64 = 864_000_000.0;

/// Seconds of `"90s"`, `"1.5h"`, `"11h30m"`, `"250ms"`.
pub fn duration(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    let mut smallest = f64::INFINITY;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest)?;
        let end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let factor = factor(&after[..end], DURATIONS)?;
        // "30m1h" and "1h1h" are typing errors.
        if number < 0.0 || factor >= smallest {
            return None;
        }
        smallest = factor;
        seconds += number * factor;
        rest = after[end..].trim_start();
    }
    (smallest.is_finite() && seconds.is_finite()).then_some(seconds)
}

/// Bytes of `"64MB"` (powers of 1000) and `"12GiB"` (powers of 1024).
pub fn size(text: &str) -> Option<u64> {
    let bytes = with_unit(text, SIZES)?;
    let fits = (0.0..9.0e18).contains(&bytes);
    fits.then_some(bytes.round() as u64)
}

/// The number, converted to the unit of a parameter: `"16kHz"`, `"-23 LUFS"`, `"5%"`.
pub fn number(text: &str, unit: Unit) -> Option<f64> {
    match unit {
        Unit::Hertz => with_unit(text, HERTZ),
        Unit::Decibel => with_unit(text, DECIBEL),
        Unit::Lufs => with_unit(text, LUFS),
        Unit::Percent => with_unit(text, PERCENT),
        Unit::Seconds => duration(text),
        Unit::None | Unit::Count => None,
    }
}

/// Tests if a number is a share, from 0 to 1, that may also be written in percent.
pub fn is_share(unit: Unit, min: f64, max: f64) -> bool {
    unit == Unit::None && min == 0.0 && max == 1.0
}

/// The description of a count that may be a share, and its notation.
pub const COUNT_OR_SHARE: &str = "an integer, or a share of all steps";
pub const SHARES: &str = "`200` or `\"5%\"`";

/// An example of a value in this unit, for messages.
pub fn example(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::None | Unit::Count => None,
        Unit::Hertz => Some("`16000` or `\"16kHz\"`"),
        Unit::Decibel => Some("`-3` or `\"-3dB\"`"),
        Unit::Lufs => Some("`-23` or `\"-23LUFS\"`"),
        Unit::Seconds => Some("`1.5` or `\"1.5s\"`"),
        Unit::Percent => Some("`5` or `\"5%\"`"),
    }
}

/// The unit in words.
pub fn name(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "",
        Unit::Hertz => "hertz",
        Unit::Decibel => "decibels",
        Unit::Lufs => "LUFS",
        Unit::Seconds => "seconds",
        Unit::Percent => "percent",
        Unit::Count => "a count",
    }
}

fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, rest) = leading_number(text.trim())?;
    let number = number * factor(rest, units)?;
    number.is_finite().then_some(number)
}

fn factor(unit: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// The number at the start, and the text after it without spaces between.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let numeric = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-' | '+' | '_');
    let end = text.find(|letter| !numeric(letter)).unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_go_from_large_to_small_units() {
        assert_eq!(duration("90s"), Some(90.0));
        assert_eq!(duration("11h30m"), Some(41_400.0));
        assert_eq!(duration(" 1 h 30 min "), Some(5_400.0));
        assert_eq!(duration("1.5h"), Some(5_400.0));
        assert_eq!(duration("250ms"), Some(0.25));
        for wrong in ["", "90", "s", "30m1h", "1h1h", "-5s", "1 week", "1e3s", "1h 5", "..s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1000_or_of_1024_as_their_units_say() {
        assert_eq!(size("64MB"), Some(64_000_000));
        assert_eq!(size("1.5 GiB"), Some(1_610_612_736));
        assert_eq!(size("0B"), Some(0));
        for wrong in ["64", "64M", "-1B", "64mb", "1e9B", "99999999999TiB"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_take_the_unit_of_their_parameter_and_no_other() {
        assert_eq!(number("44.1kHz", Unit::Hertz), Some(44_100.0));
        assert_eq!(number("-3 dB", Unit::Decibel), Some(-3.0));
        assert_eq!(number("-23LUFS", Unit::Lufs), Some(-23.0));
        assert_eq!(number("5%", Unit::Percent), Some(5.0));
        assert_eq!(number("250ms", Unit::Seconds), Some(0.25));
        assert_eq!(number("16000", Unit::Hertz), None);
        assert_eq!(number("-3dB", Unit::Lufs), None);
        assert_eq!(number("7", Unit::Count), None);
    }
}

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

/// Seconds of `"90s"`, `"1.5h"`, `"11h30m"`, `"250ms"`.
pub fn duration(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    let mut smallest = f64::INFINITY;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest)?;
        let end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let factor = factor(&after[..end], DURATIONS)?;
        // "30m1h" and "1h1h" are slips of the pen.
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

/// The number in the unit of a parameter, of `"16kHz"`, `"-23 LUFS"`, `"5%"`.
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

/// How a value in this unit is written, for messages.
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

/// The number at the start, and what follows it without the space between.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let numeric = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-' | '+' | '_');
    let end = text.find(|letter| !numeric(letter)).unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim_start()))
}

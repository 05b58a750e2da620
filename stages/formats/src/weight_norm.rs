//! Weight norm: a weight stored as a length and a direction, and the names of the two.
//!
//! The weight is `length * direction / |direction|`, the norm taken over all axes but the first.
//! Releases of the library that made the files name the pair in two ways.

/// The last part of the name of a length, of shape [outputs, 1, …].
pub const LENGTH: &str = "weight_g";
/// The last part of the name of a direction, which has the shape of the weight.
pub const DIRECTION: &str = "weight_v";
/// The last part of the name of a weight that is stored whole.
pub const WHOLE: &str = "weight";

/// The name in the older of the two spellings, which this project uses; other names stay.
pub fn plain(name: &str) -> String {
    name.replace("parametrizations.weight.original0", LENGTH)
        .replace("parametrizations.weight.original1", DIRECTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_become_one() {
        let names = ["a.parametrizations.weight.original0", "a.parametrizations.weight.original1"];
        assert_eq!(names.map(plain), ["a.weight_g", "a.weight_v"]);
        assert_eq!(plain("a.weight"), "a.weight");
    }
}

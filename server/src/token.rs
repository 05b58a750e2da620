//! Tokens that clients from other machines have to know.

use rand::TryRngCore;
use rand::rngs::OsRng;

/// A new token of 128 random bits.
///
/// # Errors
///
/// If the system has no random numbers.
pub fn new_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    OsRng.try_fill_bytes(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not depend on the place of the first difference.
pub(crate) fn is_same(given: &str, token: &str) -> bool {
    let differ = given.bytes().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    given.len() == token.len() && differ == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, two) = (new_token().unwrap(), new_token().unwrap());
        assert_eq!((one.len(), two.len()), (32, 32));
        assert_ne!(one, two);
        assert!(is_same(&one, &one) && !is_same(&one, &two));
        assert!(!is_same("", &one) && !is_same(&one[..31], &one));
    }
}

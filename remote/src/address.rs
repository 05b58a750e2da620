//! The address of a remote: its kind of place, and the path there. It holds no credentials, so that
//! it can be shown.

use std::fmt;
use std::str::FromStr;

use camino::Utf8PathBuf;

/// A checked URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    url: String,
    scheme: &'static str,
}

/// The reason why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It begins with none of the known schemes.
    #[error("it should begin with {}", SCHEMES.map(|scheme| format!("`{scheme}://`")).join(", "))]
    Scheme,
    /// The path of a folder is relative.
    #[error("the path after `file://` must begin with `/`, such as `file:///shared/cache`")]
    RelativePath,
    /// It names the root of the file system.
    #[error("it is the root of the file system: use a folder inside it")]
    Root,
    /// It names no bucket or server.
    #[error("it has no bucket or server")]
    NoHost,
    /// A part of its path is `..`.
    #[error("`..` is not allowed in it")]
    Upwards,
    /// The URL itself is not shown.
    #[error(
        "it contains a user name, a password or a query: credentials belong in the environment"
    )]
    Credentials,
    /// It contains a character that no URL has.
    #[error("it contains a space or a control character")]
    Blank,
}

const SCHEMES: [&str; 6] = ["file", "s3", "az", "gs", "https", "http"];

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let scheme = SCHEMES.into_iter().find(|known| *known == scheme);
        let scheme = scheme.ok_or(AddressError::Scheme)?;
        let is_file = scheme == "file";
        if !is_file && rest.contains(['@', '?', '#']) {
            return Err(AddressError::Credentials);
        }
        if rest.chars().any(|letter| letter.is_control() || (!is_file && letter.is_whitespace())) {
            return Err(AddressError::Blank);
        }
        if rest.split('/').any(|part| part == "..") {
            return Err(AddressError::Upwards);
        }
        if is_file && !rest.starts_with('/') {
            return Err(AddressError::RelativePath);
        }
        if !is_file && rest.split('/').next().is_none_or(str::is_empty) {
            return Err(AddressError::NoHost);
        }
        if is_file && rest.split('/').all(|part| matches!(part, "" | ".")) {
            return Err(AddressError::Root);
        }
        Ok(Address { url: canonical(scheme, rest), scheme })
    }
}

/// The same for all spellings of a place: what is known about it is recorded under its URL.
fn canonical(scheme: &str, rest: &str) -> String {
    let mut parts = rest.split('/').filter(|part| !matches!(*part, "" | "."));
    if scheme == "file" {
        return parts.fold("file://".to_owned(), |url, part| format!("{url}/{part}"));
    }
    let host = parts.next().unwrap_or_default();
    // Names of buckets are case-sensitive in some services, names of servers in none.
    let host = match scheme {
        "https" => host.to_ascii_lowercase().trim_end_matches(":443").to_owned(),
        "http" => host.to_ascii_lowercase().trim_end_matches(":80").to_owned(),
        _ => host.to_owned(),
    };
    parts.fold(format!("{scheme}://{host}"), |url, part| format!("{url}/{part}"))
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url)
    }
}

impl Address {
    /// The kind of place, such as `s3`.
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// False if it needs a client that this program was built without.
    pub fn is_supported(&self) -> bool {
        self.scheme == "file" || cfg!(feature = "cloud")
    }

    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// The folder that it names, if it names one.
    pub fn folder(&self) -> Option<Utf8PathBuf> {
        let path = self.url.strip_prefix("file://")?;
        Some(Utf8PathBuf::from(path))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_known_kinds_of_places_are_understood() {
        for (text, scheme) in [
            ("file:///shared/cache", "file"),
            ("s3://bucket/team", "s3"),
            ("az://container", "az"),
            ("gs://bucket/a/b/", "gs"),
            ("https://example.org/cache", "https"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.scheme(), scheme);
            assert_eq!(address.to_string(), text.trim_end_matches('/'));
        }
        let address: Address = "file:///shared/my cache/".parse().unwrap();
        assert_eq!(address.folder().unwrap(), "/shared/my cache");
    }

    #[test]
    fn spellings_of_one_place_are_one_address() {
        for (text, canonical) in [
            ("file:///shared//cache/./", "file:///shared/cache"),
            ("s3://Bucket//team/", "s3://Bucket/team"),
            ("https://Example.org:443/Cache/", "https://example.org/Cache"),
            ("http://example.org:8080", "http://example.org:8080"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().as_str(), canonical, "{text}");
        }
    }

    #[test]
    fn credentials_are_refused_and_never_repeated() {
        for text in ["https://me:secret@example.org", "s3://key:secret@b", "az://c?sig=secret"] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error, AddressError::Credentials, "{text}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn an_address_that_is_no_place_is_refused() {
        for (text, why) in [
            ("/shared", AddressError::Scheme),
            ("ftp://example.org", AddressError::Scheme),
            ("file://shared", AddressError::RelativePath),
            ("file:///shared/../etc", AddressError::Upwards),
            ("file:///", AddressError::Root),
            ("file://", AddressError::RelativePath),
            ("file:////.//", AddressError::Root),
            ("s3:///key", AddressError::NoHost),
            ("https://a b", AddressError::Blank),
        ] {
            assert_eq!(text.parse::<Address>().unwrap_err(), why, "{text}");
        }
    }
}

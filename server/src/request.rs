//! A complete request that the rules allow.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// Plain ASCII that begins with `/`, without empty, `.` or `..` parts and without escapes.
    pub path: String,
    /// JSON as the client declares; empty for GET.
    pub body: Vec<u8>,
}

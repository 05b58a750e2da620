//! TOML values with their positions in the text, in written order.

use super::problem::Span;

#[derive(Clone, Debug, Default)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub span: Span,
    /// The position of the use, if a parameter of the pipeline was substituted.
    pub used: Option<Span>,
    /// The value as written on the command line, where the shell removes quotes: a text if a text
    /// is wanted.
    pub bare: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
    /// A date or time, which no key takes.
    Date,
    List(Vec<Node>),
    Table(Table),
}

#[derive(Clone, Debug, Default)]
pub struct Table(pub Vec<Entry>);

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Spanned<String>,
    pub node: Node,
}

impl Node {
    pub fn new(value: Value, span: Span) -> Node {
        Node { value, span, used: None, bare: None }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => self.bare.as_deref(),
        }
    }

    /// A single value if one is enough, else the elements of the list.
    pub fn elements(&self) -> &[Node] {
        match &self.value {
            Value::List(nodes) => nodes,
            _ => std::slice::from_ref(self),
        }
    }

    /// The kind of value in words, for messages.
    pub fn describe(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a text",
            Value::Integer(_) => "an integer",
            Value::Number(_) => "a number",
            Value::Flag(true) => "`true`",
            Value::Flag(false) => "`false`",
            Value::Date => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key.value == key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.key.value.as_str())
    }
}

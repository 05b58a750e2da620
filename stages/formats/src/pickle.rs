//! A restricted reader of Python pickles, which builds a description and runs nothing.
//!
//! A pickle is a program for a small stack machine with opcodes that can import and call anything.
//! Here an import stays a name, a call stays a callee with its arguments, and the result is a graph
//! of [`Node`]s in one arena: a pickle may refer to one value many times, or to a value from within
//! itself, and neither costs memory or recursion here. Code that walks the graph bounds its own
//! walk.
//!
//! Protocols 2 to 5 are supported, without the opcodes that only older ones used. The program is
//! interpreted while it is read, so that only the beginning of an invalid one is read.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use crate::error::FormatError;

pub(crate) const FORMAT: &str = "pickle";

/// The largest number of values in one pickle; far more than any checkpoint has.
const MAX_NODES: usize = 2 << 20;
/// Limit on the entries of all lists, tuples, sets and dictionaries together.
const MAX_HELD: usize = 4 * MAX_NODES;
/// The largest number of open marks; real pickles have a handful.
const MAX_MARKS: usize = 10_000;
/// Limit on the bytes in the name of a module or of an import.
const MAX_LINE: u64 = 4096;

/// The index of a value in its [`Pickle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(u32);

/// A value, or a description of the way to make it.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<NodeId>),
    Tuple(Vec<NodeId>),
    Set(Vec<NodeId>),
    Dict(Vec<(NodeId, NodeId)>),
    /// An import that was not executed.
    Global {
        module: NodeId,
        name: NodeId,
    },
    /// A call that was not executed; `state` has what was later put into its result.
    Call {
        callee: NodeId,
        arguments: NodeId,
        state: Vec<NodeId>,
    },
    /// A reference to something outside the pickle, such as a storage.
    Persistent(NodeId),
    /// An integer of more than 64 bits.
    Huge,
}

/// The graph of a pickle.
#[derive(Clone, Debug)]
pub struct Pickle {
    nodes: Vec<Node>,
    root: NodeId,
}

impl Pickle {
    /// Reads one pickle; bytes after its end are ignored.
    pub fn read(mut bytes: &[u8]) -> Result<Pickle, FormatError> {
        Pickle::read_from(&mut bytes)
    }

    /// The same for a pickle that arrives in pieces.
    pub fn read_from(program: &mut dyn BufRead) -> Result<Pickle, FormatError> {
        let mut machine = Machine::new(program);
        let root = machine.run()?;
        Ok(Pickle { nodes: machine.nodes, root })
    }

    /// The value of the pickle.
    pub fn root_id(&self) -> NodeId {
        self.root
    }

    pub fn root(&self) -> &Node {
        self.node(self.root)
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Module and name of a global.
    pub fn global(&self, id: NodeId) -> Option<(&str, &str)> {
        match self.node(id) {
            Node::Global { module, name } => Some((self.text(*module)?, self.text(*name)?)),
            _ => None,
        }
    }

    pub fn tuple(&self, id: NodeId) -> Option<&[NodeId]> {
        match self.node(id) {
            Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    pub fn text(&self, id: NodeId) -> Option<&str> {
        match self.node(id) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A non-negative integer.
    pub fn size(&self, id: NodeId) -> Option<usize> {
        match self.node(id) {
            Node::Int(number) => usize::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A tuple or list of non-negative integers.
    pub fn sizes(&self, id: NodeId) -> Option<Vec<usize>> {
        match self.node(id) {
            Node::Tuple(items) | Node::List(items) => {
                items.iter().map(|item| self.size(*item)).collect()
            }
            _ => None,
        }
    }
}

/// The stack machine. An opcode adds one or two nodes and an entry to the stack, and copies no
/// existing one, so that memory is proportional to the bytes read.
struct Machine<'a> {
    program: &'a mut dyn BufRead,
    at: u64,
    nodes: Vec<Node>,
    /// The number of entries of all nodes together.
    held: usize,
    stack: Vec<NodeId>,
    /// Heights of the stack at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, NodeId>,
}

/// Values that need no node of their own.
const NONE: NodeId = NodeId(0);
const TRUE: NodeId = NodeId(1);
const FALSE: NodeId = NodeId(2);
const EMPTY: NodeId = NodeId(3);

type Outcome<T> = Result<T, FormatError>;

fn unreadable(source: io::Error) -> FormatError {
    FormatError::Read { format: FORMAT, source }
}

impl<'a> Machine<'a> {
    fn new(program: &'a mut dyn BufRead) -> Machine<'a> {
        let nodes = vec![Node::None, Node::Bool(true), Node::Bool(false), Node::Tuple(Vec::new())];
        let (stack, marks) = (Vec::new(), Vec::new());
        Machine { program, at: 0, nodes, held: 0, stack, marks, memo: HashMap::new() }
    }

    /// Runs to the end of the program, and returns the value on top of the stack.
    fn run(&mut self) -> Outcome<NodeId> {
        loop {
            let opcode = self.byte()?;
            if opcode == b'.' {
                return self.pop();
            }
            self.step(opcode)?;
        }
    }

    fn step(&mut self, opcode: u8) -> Outcome<()> {
        match opcode {
            0x80 => self.protocol(),
            // The length of a frame only helps readers of a pipe.
            0x95 => self.take(8).map(drop),
            b'(' => self.mark(),
            b'0' => self.pop().map(drop),
            b'1' => self.pop_to_mark().map(drop),
            b'2' => self.top().and_then(|top| self.known(top)),
            b'N' => self.known(NONE),
            0x88 => self.known(TRUE),
            0x89 => self.known(FALSE),
            b')' => self.known(EMPTY),
            b'J' | b'K' | b'M' | 0x8a | 0x8b | b'G' => self.number(opcode),
            b'X' | 0x8c | 0x8d | b'T' | b'U' => self.text(opcode),
            b'B' | b'C' | 0x8e | 0x96 => self.blob(opcode),
            b']' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            0x8f => self.push(Node::Set(Vec::new())),
            b't' | 0x85 | 0x86 | 0x87 | 0x91 => self.collect(opcode),
            b'a' | b'e' | 0x90 => self.append(opcode),
            b's' | b'u' => self.set_items(opcode),
            b'c' | 0x93 => self.import(opcode),
            b'R' | 0x81 | 0x92 => self.call(opcode),
            b'b' => self.build(),
            b'Q' => self.persistent(),
            b'q' | b'r' | 0x94 => self.memoize(opcode),
            b'h' | b'j' => self.recall(opcode),
            _ => Err(self.damaged(format!("the opcode 0x{opcode:02x} is not supported"))),
        }
    }

    fn damaged(&self, message: impl Into<String>) -> FormatError {
        let message = message.into();
        FormatError::damaged(FORMAT, format!("{message} (at byte {})", self.at))
    }

    // Reading.

    fn ends(&self) -> FormatError {
        self.damaged("it ends in the middle")
    }

    /// This number of bytes. The memory grows with the bytes that arrive.
    fn take(&mut self, length: usize) -> Outcome<Vec<u8>> {
        let mut taken = Vec::new();
        let mut rest = (&mut *self.program).take(length as u64);
        rest.read_to_end(&mut taken).map_err(unreadable)?;
        if taken.len() == length {
            self.at += length as u64;
            Ok(taken)
        } else {
            Err(self.ends())
        }
    }

    fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let mut array = [0; N];
        match self.program.read_exact(&mut array) {
            Ok(()) => {
                self.at += N as u64;
                Ok(array)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.ends()),
            Err(error) => Err(unreadable(error)),
        }
    }

    fn byte(&mut self) -> Outcome<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A little-endian length of this width in bytes.
    fn length(&mut self, width: usize) -> Outcome<usize> {
        let mut wide = [0; 8];
        for byte in &mut wide[..width] {
            *byte = self.byte()?;
        }
        usize::try_from(u64::from_le_bytes(wide))
            .map_err(|_| self.damaged("a length is larger than any memory"))
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = Vec::new();
        let mut rest = (&mut *self.program).take(MAX_LINE);
        let length = rest.read_until(b'\n', &mut line).map_err(unreadable)?;
        match line.pop() {
            Some(b'\n') => {
                self.at += length as u64;
                self.utf8(line)
            }
            _ => Err(self.damaged("it ends in the middle of a name")),
        }
    }

    fn utf8(&self, bytes: Vec<u8>) -> Outcome<String> {
        String::from_utf8(bytes).map_err(|_| self.damaged("a text is not UTF-8"))
    }

    // The stack.

    fn add(&mut self, node: Node) -> Outcome<NodeId> {
        if self.nodes.len() >= MAX_NODES {
            return Err(FormatError::too_much(FORMAT, format!("more than {MAX_NODES} values")));
        }
        self.nodes.push(node);
        Ok(NodeId(self.nodes.len() as u32 - 1))
    }

    fn push(&mut self, node: Node) -> Outcome<()> {
        let id = self.add(node)?;
        self.known(id)
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    fn is_text(&self, id: NodeId, wanted: &str) -> bool {
        matches!(self.node(id), Node::Text(text) if text == wanted)
    }

    fn known(&mut self, id: NodeId) -> Outcome<()> {
        if self.stack.len() >= MAX_NODES {
            let message = format!("more than {MAX_NODES} values on its stack");
            return Err(FormatError::too_much(FORMAT, message));
        }
        self.stack.push(id);
        Ok(())
    }

    /// Counts the entries that a node takes over.
    fn hold(&mut self, count: usize) -> Outcome<()> {
        self.held = self.held.saturating_add(count);
        if self.held > MAX_HELD {
            Err(FormatError::too_much(FORMAT, format!("more than {MAX_HELD} members")))
        } else {
            Ok(())
        }
    }

    /// The lowest position of the stack that may be popped: values below a mark are out of reach.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Outcome<NodeId> {
        if self.stack.len() > self.floor()
            && let Some(top) = self.stack.pop()
        {
            return Ok(top);
        }
        Err(self.damaged("it pops more values than the stack has"))
    }

    fn top(&self) -> Outcome<NodeId> {
        match self.stack[self.floor()..].last() {
            Some(top) => Ok(*top),
            None => Err(self.damaged("it reads an empty stack")),
        }
    }

    fn mark(&mut self) -> Outcome<()> {
        if self.marks.len() >= MAX_MARKS {
            return Err(FormatError::too_much(FORMAT, "it is nested too deeply"));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop_to_mark(&mut self) -> Outcome<Vec<NodeId>> {
        match self.marks.pop() {
            Some(mark) => {
                let items = self.stack.split_off(mark);
                self.hold(items.len())?;
                Ok(items)
            }
            None => Err(self.damaged("it uses a mark that is missing")),
        }
    }

    // Opcodes.

    fn protocol(&mut self) -> Outcome<()> {
        match self.byte()? {
            2..=5 => Ok(()),
            other => Err(self.damaged(format!("the protocol {other} is not supported"))),
        }
    }

    fn number(&mut self, opcode: u8) -> Outcome<()> {
        let node = match opcode {
            b'J' => Node::Int(i64::from(i32::from_le_bytes(self.array()?))),
            b'K' => Node::Int(i64::from(self.byte()?)),
            b'M' => Node::Int(i64::from(u16::from_le_bytes(self.array()?))),
            b'G' => Node::Float(f64::from_be_bytes(self.array()?)),
            _ => {
                let length = self.length(if opcode == 0x8a { 1 } else { 4 })?;
                long(&self.take(length)?)
            }
        };
        self.push(node)
    }

    fn text(&mut self, opcode: u8) -> Outcome<()> {
        let width = match opcode {
            0x8c | b'U' => 1,
            0x8d => 8,
            _ => 4,
        };
        let length = self.length(width)?;
        let bytes = self.take(length)?;
        // Strings of Python 2 may be any bytes.
        let node = match (opcode, String::from_utf8(bytes)) {
            (_, Ok(text)) => Node::Text(text),
            (b'T' | b'U', Err(error)) => Node::Bytes(error.into_bytes()),
            // Python writes half of a surrogate pair, which no Rust string can contain, in this
            // form.
            (_, Err(_)) => return Err(self.damaged("a text is not UTF-8")),
        };
        self.push(node)
    }

    fn blob(&mut self, opcode: u8) -> Outcome<()> {
        let width = match opcode {
            b'C' => 1,
            b'B' => 4,
            _ => 8,
        };
        let length = self.length(width)?;
        let bytes = self.take(length)?;
        self.push(Node::Bytes(bytes))
    }

    fn collect(&mut self, opcode: u8) -> Outcome<()> {
        let count = match opcode {
            0x85 => 1,
            0x86 => 2,
            0x87 => 3,
            0x91 => {
                let items = self.pop_to_mark()?;
                return self.push(Node::Set(items));
            }
            _ => {
                let items = self.pop_to_mark()?;
                return self.push(Node::Tuple(items));
            }
        };
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.push(Node::Tuple(items))
    }

    fn append(&mut self, opcode: u8) -> Outcome<()> {
        let items = match opcode {
            b'a' => {
                self.hold(1)?;
                vec![self.pop()?]
            }
            _ => self.pop_to_mark()?,
        };
        let target = self.top()?;
        match &mut self.nodes[target.0 as usize] {
            Node::List(list) | Node::Set(list) => list.extend(items),
            Node::Call { state, .. } => state.extend(items),
            _ => return Err(self.damaged("it appends to a value that is not a list")),
        }
        Ok(())
    }

    fn set_items(&mut self, opcode: u8) -> Outcome<()> {
        let items = match opcode {
            b's' => {
                self.hold(2)?;
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_to_mark()?,
        };
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(self.damaged("a key has no value"));
        };
        let target = self.top()?;
        match &mut self.nodes[target.0 as usize] {
            Node::Dict(dict) => dict.extend(pairs.iter().map(|[key, value]| (*key, *value))),
            Node::Call { state, .. } => state.extend(&items),
            _ => return Err(self.damaged("it sets keys of a value that is not a dictionary")),
        }
        Ok(())
    }

    fn import(&mut self, opcode: u8) -> Outcome<()> {
        let (module, name) = match opcode {
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                (self.add(Node::Text(module))?, self.add(Node::Text(name))?)
            }
            _ => {
                let name = self.pop()?;
                (self.pop()?, name)
            }
        };
        match (self.node(module), self.node(name)) {
            (Node::Text(_), Node::Text(_)) => self.push(Node::Global { module, name }),
            _ => Err(self.damaged("an import has no name")),
        }
    }

    /// Records a call. An ordered dictionary becomes a dictionary, which is filled afterwards.
    fn call(&mut self, opcode: u8) -> Outcome<()> {
        if opcode == 0x92 {
            // Keyword arguments.
            self.pop()?;
        }
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let is_ordered = match self.node(callee) {
            Node::Global { module, name } => {
                self.is_text(*module, "collections") && self.is_text(*name, "OrderedDict")
            }
            _ => false,
        };
        let is_empty = matches!(self.node(arguments), Node::Tuple(items) if items.is_empty());
        self.push(if is_ordered && is_empty {
            Node::Dict(Vec::new())
        } else {
            Node::Call { callee, arguments, state: Vec::new() }
        })
    }

    /// The attributes of an object. Those of dictionaries say nothing about their content.
    fn build(&mut self) -> Outcome<()> {
        self.hold(1)?;
        let given = self.pop()?;
        let target = self.top()?;
        if let Node::Call { state, .. } = &mut self.nodes[target.0 as usize] {
            state.push(given);
        }
        Ok(())
    }

    fn persistent(&mut self) -> Outcome<()> {
        let name = self.pop()?;
        self.push(Node::Persistent(name))
    }

    fn memoize(&mut self, opcode: u8) -> Outcome<()> {
        let place = match opcode {
            b'q' => u32::from(self.byte()?),
            b'r' => u32::from_le_bytes(self.array()?),
            _ => self.memo.len() as u32,
        };
        let top = self.top()?;
        self.memo.insert(place, top);
        if self.memo.len() <= MAX_NODES {
            Ok(())
        } else {
            Err(FormatError::too_much(FORMAT, "its memo has too many values"))
        }
    }

    fn recall(&mut self, opcode: u8) -> Outcome<()> {
        let place = match opcode {
            b'h' => u32::from(self.byte()?),
            _ => u32::from_le_bytes(self.array()?),
        };
        match self.memo.get(&place) {
            Some(id) => self.known(*id),
            None => Err(self.damaged(format!("the memo has no entry {place}"))),
        }
    }
}

/// An integer of any width, two's complement, little-endian.
fn long(bytes: &[u8]) -> Node {
    let Some(last) = bytes.last() else { return Node::Int(0) };
    let sign = if last & 0x80 == 0 { 0x00 } else { 0xff };
    let mut wide = [sign; 8];
    for (at, byte) in bytes.iter().enumerate() {
        match wide.get_mut(at) {
            Some(place) => *place = *byte,
            None if *byte == sign => {}
            None => return Node::Huge,
        }
    }
    // More than eight bytes fit only if the ninth agrees with the sign of the eighth.
    if bytes.len() > 8 && (wide[7] & 0x80 == 0) != (sign == 0) {
        Node::Huge
    } else {
        Node::Int(i64::from_le_bytes(wide))
    }
}

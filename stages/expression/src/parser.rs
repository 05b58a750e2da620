//! The grammar of expressions: `or`, `and`, `not`, comparisons, sums, products, from the weakest to
//! the strongest.

use std::ops::Range;

use super::lexer::{Token, tokens};
use super::{Fault, Operator, Relation};

/// An expression with its position.
#[derive(Clone, Debug)]
pub struct Node {
    pub what: What,
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum What {
    Number(f64),
    Text(String),
    Name(String),
    Call(String, Box<Node>),
    Negative(Box<Node>),
    Not(Box<Node>),
    Arithmetic(Operator, Box<Node>, Box<Node>),
    Compare(Relation, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

/// Deeper expressions are refused, so that none exhausts the stack.
const DEEPEST: usize = 64;
const LONGEST: usize = 1_000;

pub fn parse(text: &str) -> Result<Node, Fault> {
    if text.len() > LONGEST {
        let message = format!("the expression has {} bytes, at most {LONGEST}", text.len());
        return Err(Fault::new(0..text.len(), message));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let node = parser.either()?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("an operator, or the end")),
    }
}

struct Parser {
    /// Ends with [`Token::End`].
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn span(&self) -> Range<usize> {
        let last = self.tokens.last().map(|(_, span)| span.clone()).unwrap_or_default();
        self.tokens.get(self.at).map_or(last, |(_, span)| span.clone())
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(name) if name == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_next = self.is_word(word);
        self.at += usize::from(is_next);
        is_next
    }

    fn take_sign(&mut self, wanted: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Sign(sign) if *sign == wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        let found = match self.peek() {
            Token::Number(number) => format!("`{number}`"),
            Token::Text(text) => format!("the text `{}`", text.escape_debug()),
            Token::Name(name) => format!("`{}`", name.escape_debug()),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end".to_owned(),
        };
        Fault::new(self.span(), format!("expected {wanted}, found {found}"))
    }

    fn either(&mut self) -> Result<Node, Fault> {
        self.deeper(|parser| {
            let mut left = parser.both()?;
            while parser.take_word("or") {
                left = join(left, parser.both()?, What::Or);
            }
            Ok(left)
        })
    }

    fn both(&mut self) -> Result<Node, Fault> {
        let mut left = self.negated()?;
        while self.take_word("and") {
            left = join(left, self.negated()?, What::And);
        }
        Ok(left)
    }

    fn negated(&mut self) -> Result<Node, Fault> {
        let start = self.span().start;
        if self.take_word("not") {
            let inner = self.deeper(Parser::negated)?;
            let span = start..inner.span.end;
            Ok(Node { what: What::Not(Box::new(inner)), span })
        } else {
            self.comparison()
        }
    }

    fn comparison(&mut self) -> Result<Node, Fault> {
        let left = self.sum()?;
        let Some(relation) = self.take_relation() else { return Ok(left) };
        let right = self.sum()?;
        let start = self.at;
        if self.take_relation().is_some() {
            self.at = start;
            return Err(self.unexpected("one comparison").help("join two comparisons with `and`"));
        }
        Ok(join(left, right, |left, right| What::Compare(relation, left, right)))
    }

    fn take_relation(&mut self) -> Option<Relation> {
        let relation = match self.peek() {
            Token::Sign("<") => Relation::Less,
            Token::Sign("<=") => Relation::LessOrEqual,
            Token::Sign(">") => Relation::Greater,
            Token::Sign(">=") => Relation::GreaterOrEqual,
            Token::Sign("==") => Relation::Equal,
            Token::Sign("!=") => Relation::NotEqual,
            _ => return None,
        };
        self.at += 1;
        Some(relation)
    }

    fn sum(&mut self) -> Result<Node, Fault> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Token::Sign("+") => Operator::Add,
                Token::Sign("-") => Operator::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            left =
                join(left, self.product()?, |left, right| What::Arithmetic(operator, left, right));
        }
    }

    fn product(&mut self) -> Result<Node, Fault> {
        let mut left = self.negative()?;
        loop {
            let operator = match self.peek() {
                Token::Sign("*") => Operator::Multiply,
                Token::Sign("/") => Operator::Divide,
                _ => return Ok(left),
            };
            self.at += 1;
            left =
                join(left, self.negative()?, |left, right| What::Arithmetic(operator, left, right));
        }
    }

    fn negative(&mut self) -> Result<Node, Fault> {
        let start = self.span().start;
        if self.take_sign("-") {
            let inner = self.deeper(Parser::negative)?;
            let span = start..inner.span.end;
            Ok(Node { what: What::Negative(Box::new(inner)), span })
        } else {
            self.single()
        }
    }

    fn single(&mut self) -> Result<Node, Fault> {
        const WANTED: &str = "a number, a field, or a function such as `mean(cer)`";
        let (token, span) = (self.peek().clone(), self.span());
        if self.take_sign("(") {
            let inner = self.either()?;
            let end = self.close()?;
            return Ok(Node { span: span.start..end, ..inner });
        }
        let what = match token {
            Token::Number(number) => What::Number(number),
            Token::Text(text) => What::Text(text),
            Token::Name(name) if !matches!(&*name, "and" | "or" | "not") => What::Name(name),
            _ => return Err(self.unexpected(WANTED)),
        };
        self.at += 1;
        match what {
            What::Name(name) if self.take_sign("(") => {
                let inner = self.either()?;
                let end = self.close()?;
                Ok(Node { what: What::Call(name, Box::new(inner)), span: span.start..end })
            }
            what => Ok(Node { what, span }),
        }
    }

    /// Takes the closing bracket; returns its end.
    fn close(&mut self) -> Result<usize, Fault> {
        let end = self.span().end;
        if self.take_sign(")") { Ok(end) } else { Err(self.unexpected("`)`")) }
    }

    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Parser) -> Result<Node, Fault>,
    ) -> Result<Node, Fault> {
        if self.depth >= DEEPEST {
            let message = format!("the expression is deeper than {DEEPEST} levels");
            return Err(Fault::new(self.span(), message));
        }
        self.depth += 1;
        let node = read(self);
        self.depth -= 1;
        node
    }
}

fn join(left: Node, right: Node, what: impl FnOnce(Box<Node>, Box<Node>) -> What) -> Node {
    let span = left.span.start..right.span.end;
    Node { what: what(Box::new(left), Box::new(right)), span }
}

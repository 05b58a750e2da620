//! The meaning of a parsed expression.

/// The order of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Relation {
    /// The relation that holds where this one does not.
    pub fn negated(self) -> Relation {
        match self {
            Relation::Less => Relation::GreaterOrEqual,
            Relation::LessOrEqual => Relation::Greater,
            Relation::Greater => Relation::LessOrEqual,
            Relation::GreaterOrEqual => Relation::Less,
            Relation::Equal => Relation::NotEqual,
            Relation::NotEqual => Relation::Equal,
        }
    }

    pub fn holds<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterOrEqual => left >= right,
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    pub fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
        }
    }
}

/// A number of one sentence.
#[derive(Clone, Debug, PartialEq)]
pub enum Each {
    Number(f64),
    Field(String),
    Negative(Box<Each>),
    Binary(Operator, Box<Each>, Box<Each>),
}

/// Something that is true or false of one sentence.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Compare(Each, Relation, Each),
    /// A text is, or is not, this one.
    Text {
        field: String,
        text: String,
        is: bool,
    },
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Not(Box<Test>),
}

/// One number of all sentences.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregate {
    Mean(Each),
    Median(Each),
    /// The ninth decile.
    P90(Each),
    Min(Each),
    Max(Each),
    /// The share of sentences for which this is true.
    Share(Test),
    /// Their number.
    Count(Test),
}

/// A number of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Whole {
    Number(f64),
    Aggregate(Aggregate),
    /// The other side of the comparison, for the base.
    Base,
    Negative(Box<Whole>),
    Binary(Operator, Box<Whole>, Box<Whole>),
}

impl Whole {
    pub fn has_base(&self) -> bool {
        self.any(&|whole| *whole == Whole::Base)
    }

    fn is_measured(&self) -> bool {
        self.any(&|whole| matches!(whole, Whole::Aggregate(_)))
    }

    fn any(&self, is_it: &dyn Fn(&Whole) -> bool) -> bool {
        let inside = match self {
            Whole::Number(_) | Whole::Aggregate(_) | Whole::Base => false,
            Whole::Negative(inner) => inner.any(is_it),
            Whole::Binary(_, left, right) => left.any(is_it) || right.any(is_it),
        };
        inside || is_it(self)
    }
}

/// `left` is below or above `right`; never equal, since no interval shows that.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub left: Whole,
    pub relation: Relation,
    pub right: Whole,
    /// All of it, and its two sides, as they were written.
    pub text: String,
    pub sides: [String; 2],
}

impl Comparison {
    /// The side that is measured, beside which the other is a bound: with its text.
    pub fn measure(&self) -> (&Whole, &str) {
        if self.left.is_measured() && !self.left.has_base() {
            (&self.left, &self.sides[0])
        } else {
            (&self.right, &self.sides[1])
        }
    }
}

/// A requirement without `not`, which has been moved into its comparisons: `not a > b` is the claim
/// `a <= b`, and has to be shown like it.
#[derive(Clone, Debug, PartialEq)]
pub enum Requirement {
    Compare(Box<Comparison>),
    And(Box<Requirement>, Box<Requirement>),
    Or(Box<Requirement>, Box<Requirement>),
}

//! The types of expressions: of one sentence or of all, a number, a test or a text.

use std::collections::BTreeMap;

use super::parser::{Node, What};
use super::{Aggregate, Comparison, Each, Fault, Relation, Requirement, Test, Whole};
use stage_core::FieldType;

const BASE: &str = "base";
const NUMBERS: [&str; 5] = ["mean", "median", "p90", "min", "max"];
const TESTS: [&str; 2] = ["share", "count"];

pub fn requirement(text: &str, node: &Node) -> Result<Requirement, Fault> {
    fields(node)?;
    required(text, node, true)
}

pub fn measure(node: &Node) -> Result<Whole, Fault> {
    fields(node)?;
    if let Some(base) = find_base(node) {
        return Err(Fault::new(base.span.clone(), "a measure cannot refer to `base`")
            .help("the report shows each measure beside that of the base"));
    }
    let whole = whole(node)?;
    if has_aggregate(node) { Ok(whole) } else { Err(needs_aggregate(node)) }
}

/// `is` is false inside an odd number of `not`.
fn required(text: &str, node: &Node, is: bool) -> Result<Requirement, Fault> {
    let both = |left: &Node, right: &Node| {
        Ok((Box::new(required(text, left, is)?), Box::new(required(text, right, is)?)))
    };
    match &node.what {
        What::Not(inner) => required(text, inner, !is),
        What::And(left, right) => both(left, right).map(|(left, right)| {
            if is { Requirement::And(left, right) } else { Requirement::Or(left, right) }
        }),
        What::Or(left, right) => both(left, right).map(|(left, right)| {
            if is { Requirement::Or(left, right) } else { Requirement::And(left, right) }
        }),
        What::Compare(relation, left, right) => {
            let relation = if is { *relation } else { relation.negated() };
            comparison(text, node, (left, relation, right))
                .map(|found| Requirement::Compare(Box::new(found)))
        }
        _ => Err(Fault::new(node.span.clone(), "expected a comparison")
            .help("write `mean(cer) <= base + 0.01`, for example")),
    }
}

fn comparison(
    text: &str,
    node: &Node,
    (left, relation, right): (&Node, Relation, &Node),
) -> Result<Comparison, Fault> {
    let written = |node: &Node| text.get(node.span.clone()).unwrap_or(text).to_owned();
    let comparison = Comparison {
        left: whole(left)?,
        relation,
        right: whole(right)?,
        text: written(node),
        sides: [written(left), written(right)],
    };
    if matches!(relation, Relation::Equal | Relation::NotEqual) {
        return Err(Fault::new(
            node.span.clone(),
            "measured numbers cannot be compared for equality",
        )
        .help("compare with `<=` or `>=` and a margin"));
    }
    for (own, other) in [(left, right), (right, left)] {
        let Some(base) = find_base(own) else { continue };
        if find_base(other).is_some() {
            let message = "`base` is on both sides of the comparison";
            return Err(Fault::new(base.span.clone(), message)
                .help("it stands for the value of the other side for the untuned model"));
        }
        if !has_aggregate(other) {
            let message = "`base` needs a measure on the other side, such as `mean(cer)`";
            return Err(Fault::new(base.span.clone(), message)
                .help("write `mean(cer) <= base + 0.01`, for example"));
        }
    }
    if !has_aggregate(left) && !has_aggregate(right) {
        return Err(needs_aggregate(node));
    }
    Ok(comparison)
}

fn whole(node: &Node) -> Result<Whole, Fault> {
    let boxed = |node: &Node| whole(node).map(Box::new);
    match &node.what {
        What::Number(number) => Ok(Whole::Number(*number)),
        What::Name(name) if name == BASE => Ok(Whole::Base),
        What::Name(name) => {
            let message =
                format!("`{name}` has a value for each sentence, but this needs one value");
            Err(Fault::new(node.span.clone(), message)
                .help(format!("write `mean({name})`, `median({name})` or `p90({name})`")))
        }
        What::Call(name, inner) => aggregate(node, name, inner).map(Whole::Aggregate),
        What::Negative(inner) => boxed(inner).map(Whole::Negative),
        What::Arithmetic(operator, left, right) => {
            Ok(Whole::Binary(*operator, boxed(left)?, boxed(right)?))
        }
        What::Text(_) => Err(Fault::new(node.span.clone(), "expected a number, found a text")),
        What::Not(_) | What::Compare(..) | What::And(..) | What::Or(..) => {
            Err(Fault::new(node.span.clone(), "expected a number, found a comparison")
                .help("`share(cer > 0.3)` is the share of sentences for which it is true"))
        }
    }
}

fn aggregate(node: &Node, name: &str, inner: &Node) -> Result<Aggregate, Fault> {
    match name {
        "mean" => each(inner).map(Aggregate::Mean),
        "median" => each(inner).map(Aggregate::Median),
        "p90" => each(inner).map(Aggregate::P90),
        "min" => each(inner).map(Aggregate::Min),
        "max" => each(inner).map(Aggregate::Max),
        "share" => test(inner).map(Aggregate::Share),
        "count" => test(inner).map(Aggregate::Count),
        _ => Err(Fault::new(
            node.span.start..node.span.start + name.len(),
            format!("there is no function `{}`", name.escape_debug()),
        )
        .help(format!("functions: `{}`, `{}`", NUMBERS.join("`, `"), TESTS.join("`, `")))),
    }
}

fn each(node: &Node) -> Result<Each, Fault> {
    let boxed = |node: &Node| each(node).map(Box::new);
    let wrong = |what: &str| {
        let message = format!("expected a number of each sentence, found {what}");
        Fault::new(node.span.clone(), message)
    };
    match &node.what {
        What::Number(number) => Ok(Each::Number(*number)),
        What::Name(name) if name == BASE => Err(wrong("`base`")
            .help("compare with it outside of the function: `mean(cer) <= base + 0.01`")),
        What::Name(name) => Ok(Each::Field(name.clone())),
        What::Negative(inner) => boxed(inner).map(Each::Negative),
        What::Arithmetic(operator, left, right) => {
            Ok(Each::Binary(*operator, boxed(left)?, boxed(right)?))
        }
        What::Call(name, _) => {
            Err(wrong(&format!("`{name}(…)`, which is one number for all sentences")))
        }
        What::Text(_) => Err(wrong("a text")),
        What::Not(_) | What::Compare(..) | What::And(..) | What::Or(..) => {
            Err(wrong("a comparison").help("`share` and `count` take comparisons"))
        }
    }
}

fn test(node: &Node) -> Result<Test, Fault> {
    let boxed = |node: &Node| test(node).map(Box::new);
    match &node.what {
        What::Not(inner) => boxed(inner).map(Test::Not),
        What::And(left, right) => Ok(Test::And(boxed(left)?, boxed(right)?)),
        What::Or(left, right) => Ok(Test::Or(boxed(left)?, boxed(right)?)),
        What::Compare(relation, left, right) => match (&left.what, &right.what) {
            (What::Name(name), What::Text(text)) | (What::Text(text), What::Name(name)) => {
                let is = match relation {
                    Relation::Equal => true,
                    Relation::NotEqual => false,
                    _ => {
                        let message = "texts can only be compared with `==` and `!=`";
                        return Err(Fault::new(node.span.clone(), message));
                    }
                };
                Ok(Test::Text { field: name.clone(), text: text.clone(), is })
            }
            _ => Ok(Test::Compare(each(left)?, *relation, each(right)?)),
        },
        _ => Err(Fault::new(node.span.clone(), "expected a comparison of each sentence")
            .help("write `share(cer > 0.3)`, for example")),
    }
}

fn needs_aggregate(node: &Node) -> Fault {
    Fault::new(node.span.clone(), "expected a measure")
        .help("write a function of a field, such as `mean(cer)` or `share(cer > 0.3)`")
}

fn children(node: &Node) -> Vec<&Node> {
    match &node.what {
        What::Number(_) | What::Text(_) | What::Name(_) => Vec::new(),
        What::Call(_, inner) | What::Negative(inner) | What::Not(inner) => vec![inner],
        What::Arithmetic(_, left, right)
        | What::Compare(_, left, right)
        | What::And(left, right)
        | What::Or(left, right) => vec![left, right],
    }
}

fn has_aggregate(node: &Node) -> bool {
    matches!(node.what, What::Call(..)) || children(node).into_iter().any(has_aggregate)
}

fn find_base(node: &Node) -> Option<&Node> {
    match &node.what {
        What::Name(name) if name == BASE => Some(node),
        _ => children(node).into_iter().find_map(find_base),
    }
}

/// The fields with their types; an error if one is used both as a number and as a text.
pub fn fields(node: &Node) -> Result<BTreeMap<String, FieldType>, Fault> {
    let mut found = BTreeMap::new();
    collect(node, &mut found)?;
    Ok(found)
}

fn collect(node: &Node, found: &mut BTreeMap<String, FieldType>) -> Result<(), Fault> {
    if let What::Compare(_, left, right) = &node.what
        && let (What::Name(_), What::Text(_)) | (What::Text(_), What::Name(_)) =
            (&left.what, &right.what)
    {
        for side in [left, right] {
            add(side, FieldType::Text, found)?;
        }
        return Ok(());
    }
    add(node, FieldType::Number, found)?;
    children(node).into_iter().try_for_each(|child| collect(child, found))
}

fn add(
    node: &Node,
    field_type: FieldType,
    found: &mut BTreeMap<String, FieldType>,
) -> Result<(), Fault> {
    let What::Name(name) = &node.what else { return Ok(()) };
    if name == BASE {
        return Ok(());
    }
    if *found.entry(name.clone()).or_insert(field_type) == field_type {
        Ok(())
    } else {
        let message = format!("`{name}` is compared with a text and used as a number");
        Err(Fault::new(node.span.clone(), message))
    }
}

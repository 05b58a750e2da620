#![allow(clippy::unwrap_used)]

use super::*;

fn field(name: &str) -> Each {
    Each::Field(name.to_owned())
}

fn mean(name: &str) -> Whole {
    Whole::Aggregate(Aggregate::Mean(field(name)))
}

/// The marked part of the text, and the message.
fn fault(form: ExpressionForm, text: &str) -> (String, String) {
    let fault = check(form, text).unwrap_err();
    (text.get(fault.span).unwrap().to_owned(), fault.message)
}

#[test]
fn a_margin_above_the_base_is_a_sum() {
    let Requirement::Compare(found) = requirement("mean(cer) <= base + 0.01").unwrap() else {
        panic!("not a comparison");
    };
    let sum = Whole::Binary(Operator::Add, Box::new(Whole::Base), Box::new(Whole::Number(0.01)));
    assert_eq!(
        (found.left, found.relation, found.right),
        (mean("cer"), Relation::LessOrEqual, sum)
    );
    assert_eq!(found.text, "mean(cer) <= base + 0.01");
}

#[test]
fn products_come_before_sums_and_brackets_before_both() {
    let binary = |operator, left, right| Whole::Binary(operator, Box::new(left), Box::new(right));
    let (one, two) = (Whole::Number(1.0), Whole::Number(2.0));
    let product = binary(Operator::Multiply, two.clone(), mean("a"));
    assert_eq!(
        measure("1 - 2 * mean(a)").unwrap(),
        binary(Operator::Subtract, one.clone(), product)
    );
    let sum = binary(Operator::Subtract, one, two);
    assert_eq!(measure("(1 - 2) * mean(a)").unwrap(), binary(Operator::Multiply, sum, mean("a")));
}

#[test]
fn and_binds_more_than_or_and_not_more_than_both() {
    let test =
        |name: &str| Box::new(Test::Compare(field(name), Relation::Greater, Each::Number(0.0)));
    let whole = measure("share(a > 0 or not b > 0 and c > 0)").unwrap();
    let and = Test::And(Box::new(Test::Not(test("b"))), test("c"));
    assert_eq!(whole, Whole::Aggregate(Aggregate::Share(Test::Or(test("a"), Box::new(and)))));
}

/// "Not worse" by a failure to show it would let everything pass on few sentences.
#[test]
fn a_negated_requirement_is_the_opposite_claim() {
    let text = "not (mean(a) > base or mean(b) < 1)";
    let Requirement::And(left, right) = requirement(text).unwrap() else { panic!("no `and`") };
    let relation = |requirement: &Requirement| match requirement {
        Requirement::Compare(comparison) => comparison.relation,
        other => panic!("{other:?}"),
    };
    assert_eq!(relation(&left), Relation::LessOrEqual);
    assert_eq!(relation(&right), Relation::GreaterOrEqual);
}

#[test]
fn texts_fields_with_other_signs_and_exponents_are_read() {
    let broken = measure("share(cer > 3e-1 or stop != 'end')").unwrap();
    let test = Test::Or(
        Box::new(Test::Compare(field("cer"), Relation::Greater, Each::Number(0.3))),
        Box::new(Test::Text { field: "stop".into(), text: "end".into(), is: false }),
    );
    assert_eq!(broken, Whole::Aggregate(Aggregate::Share(test)));
    assert_eq!(measure("mean(`a-b c`)").unwrap(), mean("a-b c"));
}

#[test]
fn the_fields_have_the_types_that_their_use_gives_them() {
    let found = fields("mean(cer) < base and share(stop == \"end\" and -x / 2 > 1) >= 0.9");
    let found: Vec<(&str, FieldType)> =
        found.iter().map(|(name, field_type)| (name.as_str(), *field_type)).collect();
    let (number, text) = (FieldType::Number, FieldType::Text);
    assert_eq!(found, [("cer", number), ("stop", text), ("x", number)]);
    assert!(fields("mean(").is_empty());
}

#[test]
fn mistakes_are_marked_where_they_are() {
    let requirement = |text: &str| fault(ExpressionForm::Requirement, text);
    for (text, part, message) in [
        ("mean(cer) <= ", "", "expected a number"),
        ("mean(cer <= 1", "", "expected `)`, found the end"),
        ("mean(cer) = base", "=", "unexpected"),
        ("mean(cer) < 1x", "1x", "`1x` is not a number"),
        ("mean(cer) < 1 < 2", "<", "expected one comparison"),
        ("cer <= base", "cer", "`cer` has a value for each sentence"),
        ("maen(cer) <= base", "maen", "no function `maen`"),
        ("mean(mean(cer)) <= base", "mean(cer)", "one number for all sentences"),
        ("mean(cer > 1) <= base", "cer > 1", "found a comparison"),
        ("share(cer) <= base", "cer", "expected a comparison"),
        ("mean(cer - base) <= 0", "base", "found `base`"),
        ("base <= base", "base", "both sides"),
        ("0.5 <= base", "base", "needs a measure on the other side"),
        ("1 <= 2", "1 <= 2", "expected a measure"),
        ("mean(cer) == base", "mean(cer) == base", "equal"),
        ("not mean(cer) != base", "mean(cer) != base", "equal"),
        ("mean(cer)", "mean(cer)", "expected a comparison"),
        ("share(stop > 'end') < 1", "stop > 'end'", "`==` and `!=`"),
        ("share(a == 'x' or a > 1) < 1", "a", "with a text and used as a number"),
        ("mean(a) < 'x", "'", "the closing"),
    ] {
        let (marked, told) = requirement(text);
        assert_eq!(marked, part, "{text}: {told}");
        assert!(told.contains(message), "{text}: {told}");
    }
    assert_eq!(fault(ExpressionForm::Measure, "mean(a) - base").0, "base");
    assert!(fault(ExpressionForm::Measure, "2 + 3").1.contains("expected a measure"));
}

/// Manifests come from others: none may exhaust the stack or the memory.
#[test]
fn deep_and_long_expressions_are_refused() {
    for nested in ["(", "-", "not ", "mean("] {
        let message = fault(ExpressionForm::Requirement, &nested.repeat(100)).1;
        assert!(message.contains("deeper than"), "{message}");
    }
    assert!(fault(ExpressionForm::Measure, &" ".repeat(1_001)).1.contains("at most"));
    let sum = format!("mean(a){}", " + 1".repeat(200));
    assert!(check(ExpressionForm::Measure, &sum).is_ok());
}

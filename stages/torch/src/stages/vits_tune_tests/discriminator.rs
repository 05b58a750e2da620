//! The origin of the discriminator.

use super::*;

const WITHOUT: (&str, ParameterValue) = ("discriminator", ParameterValue::Flag(false));

fn judge(fields: &Fields) -> BTreeMap<String, Digest> {
    let mut contents = contents(fields);
    contents.retain(|name, _| name.starts_with("discriminator."));
    contents
}

fn begun(
    more: Written,
    artifacts: &[(&str, &Fields)],
    bench: &mut Bench,
) -> Result<(BTreeMap<String, Digest>, String), StageError> {
    let items = clips(bench);
    let ports = tune_on(items, &[&still()[..], more].concat(), artifacts, bench)?;
    let from = log(&ports, bench)["discriminator"].as_str().unwrap().to_owned();
    Ok((judge(&ports["model"]), from))
}

#[test]
fn a_base_without_one_gets_a_fresh_one_and_that_is_told() {
    let mut bench = Bench::default();
    let (bare, whole_base) = (model(&[WITHOUT], &mut bench), model(&[], &mut bench));
    let base = [("base", &bare)];
    let (fresh, from) = begun(&[], &base, &mut bench).unwrap();
    assert_eq!(from, "new");
    assert_eq!(begun(&[], &base, &mut bench).unwrap().0, fresh, "it follows from the seed");
    assert_ne!(begun(&[("seed", whole(7))], &base, &mut bench).unwrap().0, fresh);
    let (own, from) = begun(&[("seed", whole(7))], &[("base", &whole_base)], &mut bench).unwrap();
    assert_eq!(from, "base");
    assert_eq!(own.len(), fresh.len());
    let ports = [("base", &bare), ("judge", &whole_base)];
    assert_eq!(begun(&[], &ports, &mut bench).unwrap(), (own.clone(), "port".to_owned()));
    let new = [("discriminator", text("new")), ("seed", whole(7))];
    let (new, from) = begun(&new, &[("base", &whole_base)], &mut bench).unwrap();
    assert!(new != own && from == "new");
}

#[test]
fn one_that_is_asked_for_and_not_there_is_refused() {
    let mut bench = Bench::default();
    let bare = model(&[WITHOUT], &mut bench);
    let asked = [("discriminator", text("base"))];
    let (message, help) = refusal(begun(&asked, &[("base", &bare)], &mut bench));
    assert_eq!(message, "the model has no discriminator, which training needs");
    assert!(help.contains("on port `judge`"), "{help}");
    let ports = [("base", &bare), ("judge", &bare)];
    assert_eq!(refusal(begun(&[], &ports, &mut bench)).0, message);
}

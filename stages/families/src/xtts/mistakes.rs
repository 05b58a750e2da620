//! Mistakes in the parameters of the stages of XTTS that `check` finds.

use crate::kinds::parameters::{given, known, not_zero, training_mistakes};
use stage_core::{Mistake, ParameterValue, Parameters};
use stage_formats::pattern::is_match;

use super::config::XttsConfig;
use super::extend::TEXT_TABLES;
use super::language::LanguageCode;

/// The parameter `language`, in every kind that has it.
pub fn of_language(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    match known(parameters, unknown, "language", Parameters::text) {
        Some(code) if !LanguageCode::is_code(code) => vec![not_a_code("language", code)],
        _ => Vec::new(),
    }
}

fn not_a_code(parameter: &'static str, code: &str) -> Mistake {
    let message = format!("`{}` is not a language code", shortened(code));
    let help = "a code has letters, digits and hyphens, such as `en` or `pt-br`";
    Mistake::new(parameter, message, help)
}

fn shortened(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", start.escape_debug())
}

/// Both trainings.
pub fn of_training(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let mut all = of_language(parameters, unknown);
    all.extend(training_mistakes(parameters, unknown));
    let seconds = |name: &str| known(parameters, unknown, name, Parameters::seconds);
    if let (Some(least), Some(most)) = (seconds("min_seconds"), seconds("max_seconds"))
        && least > most
    {
        let message =
            format!("`min_seconds` ({least}) is above `max_seconds` ({most}): no clip fits");
        all.push(Mistake::new("min_seconds", message, "set less than `max_seconds`"));
    }
    all
}

pub fn of_finetune(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let mut all = of_training(parameters, unknown);
    let alone = match given(parameters, unknown, "train_first") {
        true => parameters.get("train_first"),
        false => return all,
    };
    let steps = known(parameters, unknown, "steps", Parameters::integer);
    let never = match (alone, steps) {
        (ParameterValue::Share(share), _) if *share >= 1.0 => Some("all steps".to_owned()),
        (ParameterValue::Share(share), Some(steps)) => {
            let count = (share * steps as f64).round();
            (count >= steps as f64).then(|| format!("{count} of {steps} steps"))
        }
        (ParameterValue::Integer(count), Some(steps)) => {
            (*count > 0 && *count >= steps).then(|| format!("{count} of {steps} steps"))
        }
        _ => None,
    };
    if let Some(taken) = never {
        let message = format!("`train_first` takes {taken}: the GPT is never trained");
        all.push(Mistake::new("train_first", message, "lower it, or train for more steps"));
    }
    let is_on = !matches!(alone, ParameterValue::Integer(0) | ParameterValue::Absent)
        && *alone != ParameterValue::Share(0.0);
    let patterns = known(parameters, unknown, "freeze", Parameters::texts).unwrap_or_default();
    let is_frozen = |name: &&str| patterns.iter().any(|pattern| is_match(pattern, name));
    if is_on && TEXT_TABLES.iter().all(is_frozen) {
        let message = "`train_first` trains only the text embedding and its head, but `freeze` \
                       freezes both: these steps would train nothing";
        all.push(Mistake::new("train_first", message, "leave out one of the two"));
    }
    all
}

pub fn of_synthesize(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let mut all = of_language(parameters, unknown);
    all.extend(not_zero(parameters, unknown, "top_p"));
    all
}

/// `xtts.init`.
pub fn of_init(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let mut all = Vec::new();
    let languages = known(parameters, unknown, "languages", Parameters::text).unwrap_or("en");
    let mut seen: Vec<String> = Vec::new();
    for code in languages.split_whitespace() {
        if !LanguageCode::is_code(code) {
            all.push(not_a_code("languages", code));
        } else if seen.iter().any(|own| own.eq_ignore_ascii_case(code)) {
            let message = format!("`{code}` is given twice");
            all.push(Mistake::new("languages", message, "remove the repetition"));
        }
        seen.push(code.to_owned());
    }
    if seen.is_empty() {
        let help = "set a code, or leave out `languages` for those of XTTS v2";
        all.push(Mistake::new("languages", "no language is given", help));
    }
    if unknown.iter().any(|name| ["shape", "width", "heads"].contains(name)) {
        return all;
    }
    let preset = match parameters.text("shape") {
        Ok("published") => XttsConfig::published().gpt,
        _ => XttsConfig::small(1).gpt,
    };
    let width = parameters.integer("width").unwrap_or(preset.width);
    let heads = parameters.integer("heads").unwrap_or(preset.heads);
    if heads > 0 && width % heads != 0 {
        let message = format!("`width` {width} is not divisible by `heads` {heads}");
        let parameter = if parameters.is_set("width") { "width" } else { "heads" };
        all.push(Mistake::new(parameter, message, "set `width` to a multiple of `heads`"));
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ParameterValue::{Integer, Seconds, Share};

    use super::*;

    type Check = fn(&Parameters, &[&str]) -> Vec<Mistake>;

    fn found(check: Check, written: &[(&str, ParameterValue)]) -> Vec<&'static str> {
        let values = written.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let found = check(&Parameters(values.collect()), &[]);
        found.into_iter().map(|mistake| mistake.parameter).collect()
    }

    fn text(text: &str) -> ParameterValue {
        ParameterValue::Text(text.to_owned())
    }

    fn texts(texts: &[&str]) -> ParameterValue {
        ParameterValue::List(texts.iter().map(|one| text(one)).collect())
    }

    #[test]
    fn steps_in_which_nothing_learns_are_a_mistake() {
        let first = |value, freeze: &[&str]| {
            found(of_finetune, &[("train_first", value), ("freeze", texts(freeze))])
        };
        for freeze in [&["gpt.text_embedding.*", "gpt.text_head.*"][..], &["gpt.text_*"], &["*"]] {
            assert_eq!(first(Integer(2), freeze), ["train_first"]);
            assert_eq!(first(Share(0.05), freeze), ["train_first"]);
            assert!(first(Integer(0), freeze).is_empty());
        }
        assert!(first(Integer(2), &["gpt.text_embedding.*", "gpt.text_head.bias"]).is_empty());
    }

    #[test]
    fn a_first_phase_ends_before_the_training() {
        let first = |value| found(of_finetune, &[("train_first", value), ("steps", Integer(4))]);
        for value in [Integer(4), Integer(5), Share(0.9), Share(1.0)] {
            assert_eq!(first(value), ["train_first"]);
        }
        assert!(first(Integer(3)).is_empty() && first(Share(0.5)).is_empty());
        assert!(found(of_finetune, &[("train_first", Integer(4))]).is_empty());
        assert_eq!(found(of_finetune, &[("train_first", Share(1.0))]), ["train_first"]);
    }

    #[test]
    fn trainings_that_no_clip_fits_and_gpus_named_twice_are_mistakes() {
        let between = |least, most| {
            let written = [("min_seconds", Seconds(least)), ("max_seconds", Seconds(most))];
            found(of_training, &written)
        };
        assert_eq!(between(10.0, 1.0), ["min_seconds"]);
        assert!(between(1.0, 1.0).is_empty());
        let device = |name: &&str| ParameterValue::Device(name.parse().unwrap());
        let list = |names: &[&str]| ParameterValue::List(names.iter().map(device).collect());
        let devices = |names: &[&str]| found(of_training, &[("devices", list(names))]);
        assert!(devices(&["cpu", "cuda", "cuda:1"]).is_empty() && devices(&[]).is_empty());
        assert_eq!(devices(&["cuda", "cuda:0"]), ["devices"]);
        assert_eq!(devices(&["cuda:1", "cuda:2", "cuda:1"]), ["devices"]);
    }

    #[test]
    fn what_is_no_language_is_a_mistake() {
        for code in ["", "e t", "[et]", "et]", "\0", "*"] {
            assert_eq!(found(of_language, &[("language", text(code))]), ["language"], "{code:?}");
            assert_eq!(found(of_training, &[("language", text(code))]), ["language"], "{code:?}");
        }
        assert!(found(of_language, &[("language", text("pt-br"))]).is_empty());
        assert!(found(of_language, &[]).is_empty());
        let languages = |codes: &str| found(of_init, &[("languages", text(codes))]);
        assert_eq!(languages("en fi en"), ["languages"]);
        assert_eq!(languages("en [x]"), ["languages"]);
        assert_eq!(languages(" "), ["languages"]);
        assert!(languages("en fi zh-cn").is_empty());
    }

    #[test]
    fn heads_divide_the_width() {
        let width = |written: &[(&str, ParameterValue)]| found(of_init, written);
        assert_eq!(width(&[("width", Integer(33)), ("heads", Integer(2))]), ["width"]);
        assert_eq!(width(&[("heads", Integer(5))]), ["heads"]);
        assert_eq!(width(&[("width", Integer(40)), ("shape", text("published"))]), ["width"]);
        assert!(width(&[("width", Integer(32)), ("heads", Integer(2))]).is_empty());
        assert!(width(&[]).is_empty());
    }

    #[test]
    fn a_nucleus_of_nothing_is_a_mistake() {
        let top = |share| found(of_synthesize, &[("top_p", ParameterValue::Number(share))]);
        assert_eq!(top(0.0), ["top_p"]);
        assert!(top(0.01).is_empty());
    }

    #[test]
    fn moments_that_never_move_and_a_division_by_nothing_are_mistakes() {
        let given = |name, value| found(of_training, &[(name, ParameterValue::Number(value))]);
        for (name, wrong, right) in
            [("beta_1", 1.0, 0.0), ("beta_2", 1.0, 0.999), ("epsilon", 0.0, 1e-12)]
        {
            assert_eq!(given(name, wrong), [name]);
            assert!(given(name, right).is_empty(), "{name}");
        }
    }
}

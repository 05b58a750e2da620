//! Spells numbers as words by a list of rules, separated by `;`.
//!
//! A rule is `BASE WORDS` or `BASE/DIVISOR WORDS`. It applies from its base up to the base of the
//! next rule. The default divisor is the largest power of ten up to the base. In the words:
//!
//! - `<` is the quotient and `>` the remainder, both spelt; `<{a}` and `>{a}` are their forms
//!   before a noun;
//! - `[words]` is left out if the remainder is 0, and `[words|other]` becomes `other`;
//! - `[words~other]` is left out if the remainder is 0, and becomes `other` from 100 on;
//! - `(one|few|many)` is inflected by the quotient, as in Slavic languages;
//! - `'` drops a plural s from the quotient before it.

/// The limit of nested rules, for rules that lead back to themselves.
const DEPTH: usize = 16;

/// The numbers of a language.
#[derive(Clone, Copy, Debug)]
pub struct Spelling<'a> {
    pub rules: &'a str,
    /// Words for numbers before a noun: `NUMBER WORD;…`.
    pub attributes: &'a str,
}

impl Spelling<'_> {
    /// None if no rule spells the number.
    pub fn spell(&self, number: u64) -> Option<String> {
        self.part(self.rules, number, 0)
    }

    /// A number by other rules, in which `<` stands for a cardinal.
    pub fn by_rules(&self, rules: &str, number: u64) -> Option<String> {
        self.part(rules, number, 0)
    }

    /// The form of a number before a noun.
    pub fn before_noun(&self, number: u64) -> Option<String> {
        self.attributive(number, 0)
    }
}

/// The last rule of a list up to a number: its divisor and words.
fn rule(rules: &str, number: u64) -> Option<(u64, &str)> {
    let mut last = None;
    for rule in rules.split(';') {
        let (numbers, words) = rule.trim().split_once(' ')?;
        let (base, divisor) = match numbers.split_once('/') {
            Some((base, divisor)) => (base.parse().ok()?, divisor.parse().ok()?),
            None => {
                let base: u64 = numbers.parse().ok()?;
                (base, 10u64.pow(base.checked_ilog10().unwrap_or(0)))
            }
        };
        if base > number {
            break;
        }
        last = Some((divisor, words));
    }
    last
}

/// A number as a rule splits it.
struct Parts<'a> {
    /// The rules that spell the remainder.
    rules: &'a str,
    quotient: u64,
    remainder: u64,
}

impl Spelling<'_> {
    fn part(&self, rules: &str, number: u64, depth: usize) -> Option<String> {
        let (divisor, words) = rule(rules, number).filter(|_| depth < DEPTH)?;
        let parts = Parts { rules, quotient: number / divisor, remainder: number % divisor };
        self.fill(words, &parts, depth)
    }

    fn fill(&self, words: &str, parts: &Parts, depth: usize) -> Option<String> {
        let Parts { rules, quotient, remainder } = *parts;
        let mut spelt = String::new();
        let mut rest = words;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                '<' | '>' => {
                    let (rules, part) = match character {
                        '<' => (self.rules, quotient),
                        _ => (rules, remainder),
                    };
                    let attribute = rest.strip_prefix("{a}");
                    rest = attribute.unwrap_or(rest);
                    spelt.push_str(&match attribute {
                        Some(_) => self.attributive(part, depth + 1)?,
                        None => self.part(rules, part, depth + 1)?,
                    });
                }
                '\'' => {
                    if spelt.ends_with("ents") || spelt.ends_with("ngts") {
                        spelt.pop();
                    }
                }
                '[' => {
                    let (inner, behind) = rest.split_once(']')?;
                    rest = behind;
                    let chosen = choose(inner, remainder);
                    spelt.push_str(&self.fill(chosen, parts, depth + 1)?);
                }
                '(' => {
                    let (forms, behind) = rest.split_once(')')?;
                    rest = behind;
                    spelt.push_str(plural(forms, quotient)?);
                }
                other => spelt.push(other),
            }
        }
        Some(spelt)
    }

    /// A number before a noun: its last word is from the list of attributes.
    fn attributive(&self, number: u64, depth: usize) -> Option<String> {
        let tail = if number % 100 < 20 { number % 100 } else { number % 10 };
        let exact = self.attributes.split(';').find_map(|entry| {
            let (own, word) = entry.trim().split_once(' ')?;
            (own.parse() == Ok(tail)).then_some(word)
        });
        match exact {
            Some(word) if number == tail => Some(word.to_owned()),
            Some(word) => {
                let spell = |number| self.part(self.rules, number, depth);
                let (whole, last) = (spell(number)?, spell(tail)?);
                // A word that is joined to the previous one may have changed already.
                Some(match whole.strip_suffix(&last) {
                    Some(start) => format!("{start}{word}"),
                    None => whole,
                })
            }
            None => self.part(self.rules, number, depth),
        }
    }
}

fn choose(inner: &str, remainder: u64) -> &str {
    match (inner.split_once('|'), inner.split_once('~')) {
        (Some((words, other)), _) => {
            if remainder > 0 {
                words
            } else {
                other
            }
        }
        (None, _) if remainder == 0 => "",
        (None, Some((_, other))) if remainder >= 100 && !is_round(inner, remainder) => other,
        (None, Some((words, _))) => words,
        (None, None) => inner,
    }
}

/// Tests if Portuguese joins a remainder of whole hundreds like a small one: its `other` is a
/// space.
fn is_round(inner: &str, remainder: u64) -> bool {
    inner.ends_with("~ >") && remainder < 1000 && remainder.is_multiple_of(100)
}

/// The form for one, few (2 to 4) or many.
fn plural(forms: &str, quotient: u64) -> Option<&str> {
    forms.split('|').nth(slavic_form(quotient))
}

/// 0 for one, 1 for few, 2 for many.
pub fn slavic_form(number: u64) -> usize {
    let is_teen = (11..15).contains(&(number % 100));
    match number % 10 {
        1 if !is_teen => 0,
        2..=4 if !is_teen => 1,
        _ => 2,
    }
}

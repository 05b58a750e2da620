//! Parameters for the spelling of texts, shared by several stages.

use stage_core::{Parameters, StageError};

use super::case::Letters;
use super::normalize::{LetterCase, UnicodeForm};
use super::number::Language;
use crate::plain::unknown_choice;

pub(crate) fn form(parameters: &Parameters) -> Result<UnicodeForm, StageError> {
    match parameters.text("form")? {
        "nfc" => Ok(UnicodeForm::Nfc),
        "nfd" => Ok(UnicodeForm::Nfd),
        "nfkc" => Ok(UnicodeForm::Nfkc),
        other => Err(unknown_choice("form", other)),
    }
}

pub(crate) fn case(parameters: &Parameters) -> Result<LetterCase, StageError> {
    match parameters.text("case")? {
        "keep" => Ok(LetterCase::Keep),
        "lower" => Ok(LetterCase::Lower),
        "upper" => Ok(LetterCase::Upper),
        other => Err(unknown_choice("case", other)),
    }
}

/// The rules for letters: of the language in `language`, or else of the numbers.
pub(crate) fn letters(parameters: &Parameters) -> Result<Letters, StageError> {
    if parameters.is_set("language") {
        Ok(Letters::of(parameters.text("language")?))
    } else {
        Ok(Letters::of(parameters.text("numbers")?))
    }
}

/// The language of spelled-out numbers, or None.
pub(crate) fn numbers(parameters: &Parameters) -> Result<Option<Language>, StageError> {
    match parameters.text("numbers")? {
        "keep" => Ok(None),
        code => Language::of(code).map(Some).ok_or_else(|| unknown_choice("numbers", code)),
    }
}

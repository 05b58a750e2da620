//! The screen of a terminal emulator as a page, for a browser to take a picture of.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

/// The sixteen colours of a terminal, then its own for text and ground.
pub struct Palette {
    colours: [&'static str; 16],
    text: &'static str,
    ground: &'static str,
    around: &'static str,
}

/// Of the widely used schemes One Light and One Dark.
pub const LIGHT: Palette = Palette {
    colours: [
        "#383a42", "#ca1243", "#3b8f3a", "#a06600", "#3f6fd9", "#a626a4", "#0b7fa5", "#a0a1a7",
        "#696c77", "#e45649", "#50a14f", "#c18401", "#4078f2", "#c678dd", "#0184bc", "#fafafa",
    ],
    text: "#30323a",
    ground: "#fbfbfa",
    around: "#e6e6e3",
};
pub const DARK: Palette = Palette {
    colours: [
        "#282c34", "#e06c75", "#8fbf73", "#d9b26b", "#61afef", "#c678dd", "#62b6c4", "#abb2bf",
        "#5c6370", "#e9838b", "#a5d28a", "#e8c680", "#7cbef5", "#d596e6", "#7ccbd8", "#ffffff",
    ],
    text: "#c8cdd6",
    ground: "#1e2127",
    around: "#14161a",
};

impl Palette {
    /// The rows down to the last non-empty one, in a plain window.
    pub fn page(&self, screen: &Screen) -> String {
        let (rows, columns) = screen.size();
        let shown: Vec<String> = screen.rows(0, columns.get()).collect();
        let used = shown.iter().rposition(|row| !row.trim().is_empty()).map_or(0, |last| last + 1);
        let mut text = String::new();
        for row in 0..rows.get().min(used as u16) {
            for column in 0..columns.get() {
                screen.cell(row, column).into_iter().for_each(|cell| self.cell(cell, &mut text));
            }
            text.push('\n');
        }
        let Palette { text: colour, ground, around, .. } = self;
        format!(
            "<!doctype html><meta charset=utf-8><style>\
             body {{ margin: 0; padding: 20px; background: {around}; width: max-content }}\
             pre {{ margin: 0; padding: 16px 18px; border-radius: 8px; color: {colour};\
             background: {ground}; font: 14px/1.45 'DejaVu Sans Mono', monospace;\
             width: {columns}ch }}</style><pre>{text}</pre>"
        )
    }

    fn cell(&self, cell: &Cell, text: &mut String) {
        if cell.is_wide_continuation() {
            return;
        }
        let colour = match cell.fgcolor() {
            Color::Idx(number @ 0..16) => self.colours[usize::from(number)],
            _ => self.text,
        };
        let weight = if cell.bold() { ";font-weight:bold" } else { "" };
        let faint = if cell.dim() { ";opacity:.62" } else { "" };
        let letter = match cell.contents() {
            "" => " ",
            "<" => "&lt;",
            "&" => "&amp;",
            letter => letter,
        };
        let _ = write!(text, "<span style='color:{colour}{weight}{faint}'>{letter}</span>");
    }
}

//! A table as text: columns as wide as their widest cell, words to the left, numbers to the right.

use std::fmt::Write as _;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of `N` cells under their headings; the one way in which commands print tables.
#[derive(Clone, Debug)]
pub struct TextTable<const N: usize> {
    columns: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> TextTable<N> {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: [(&'static str, Align); N]) -> TextTable<N> {
        TextTable { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// The table with its headings, a line a row, each after two spaces and without spaces at its end; nothing where there are no rows.
    #[must_use]
    pub fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let headings = self.columns.map(|(heading, _)| heading.to_owned());
        let mut widths = [0; N];
        for row in std::iter::once(&headings).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), (_, align)) in row.iter().zip(widths).zip(self.columns) {
                // A text takes every cell.
                let _ = match align {
                    Align::Left => write!(line, "  {cell:<width$}"),
                    Align::Right => write!(line, "  {cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_their_headings_and_lines_end_with_their_last_cell() {
        let mut table = TextTable::new([("table", Align::Left), ("rows", Align::Right), ("note", Align::Left)]);
        assert_eq!(table.text(), "");
        table.push(["pageview_events".into(), "12".into(), String::new()]);
        table.push(["é".into(), "1,234".into(), "late".into()]);
        let expected = "  table             rows  note\n  pageview_events     12\n  é                1,234  late\n";
        assert_eq!(table.text(), expected);
    }
}

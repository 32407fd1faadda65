//! Tables and small charts in plain text.

use std::fmt::Write;

/// Writes a table: the first column to the left, the others to the right, two spaces between.
pub(crate) fn write(out: &mut String, rows: &[Vec<String>]) {
    write_indented(out, "", rows);
}

/// The same, each line after an indent.
pub(crate) fn write_indented(out: &mut String, indent: &str, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = indent.to_owned();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            if column == 0 {
                let _ = write!(line, "{cell:<width$}");
            } else {
                let _ = write!(line, "  {cell:>width$}");
            }
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// A row of a table from anything that can be shown.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// A point of a chart.
pub(crate) struct Mark {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) sign: char,
}

const WIDTH: usize = 64;
const HEIGHT: usize = 9;

/// Writes a chart of points, with a horizontal line at `limit` and an arrow under `arrow`.
pub(crate) fn chart(out: &mut String, title: &str, marks: &[Mark], limit: Option<f64>, arrow: Option<f64>) {
    let finite = |values: Vec<f64>| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, if high > low { high } else { low + 1.0 })
    };
    let (left, right) = finite(marks.iter().map(|mark| mark.x).collect());
    let (low, high) = finite(marks.iter().map(|mark| mark.y).chain(limit).collect());
    if !left.is_finite() || !low.is_finite() {
        return;
    }
    let column = |x: f64| ((x - left) / (right - left) * (WIDTH - 1) as f64).round() as usize;
    let line = |y: f64| HEIGHT - 1 - ((y - low) / (high - low) * (HEIGHT - 1) as f64).round() as usize;
    let mut rows = vec![vec![' '; WIDTH]; HEIGHT];
    if let Some(limit) = limit {
        rows[line(limit)].fill('┄');
    }
    for mark in marks {
        rows[line(mark.y)][column(mark.x)] = mark.sign;
    }
    let _ = writeln!(out, "{title}");
    for (index, row) in rows.iter().enumerate() {
        let y = high - (high - low) * index as f64 / (HEIGHT - 1) as f64;
        let label = if index % 4 == 0 { crate::units::number(y) } else { String::new() };
        let _ = writeln!(out, "{label:>10} ┤{}", row.iter().collect::<String>().trim_end());
    }
    let _ = writeln!(out, "{:>10} └{}", "", "─".repeat(WIDTH));
    let mut below = vec![' '; WIDTH];
    if let Some(at) = arrow.filter(|at| (left..=right).contains(at)) {
        below[column(at)] = '▲';
        let _ = writeln!(out, "{:>12}{}", "", below.iter().collect::<String>().trim_end());
    }
    let (from, to) = (crate::units::number(left), crate::units::number(right));
    let gap = WIDTH.saturating_sub(from.len() + to.len());
    let _ = writeln!(out, "{:>12}{from}{}{to}", "", " ".repeat(gap));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut out = String::new();
        write(&mut out, &[row(["name", "x"]), row(["a", "12.5 µs"]), row(["longer", "-"])]);
        assert_eq!(out, "name          x\na       12.5 µs\nlonger        -\n");
    }

    #[test]
    fn a_chart_holds_its_points() {
        let marks =
            [(0.0, 1.0, 'a'), (1.0, 3.0, 'b'), (2.0, 2.0, 'c')].map(|(x, y, sign)| Mark { x, y, sign });
        let mut out = String::new();
        chart(&mut out, "title", &marks, Some(2.5), Some(1.0));
        for sign in ["a", "b", "c", "┄", "▲", "title"] {
            assert!(out.contains(sign), "{out}");
        }
        let mut nothing = String::new();
        chart(&mut nothing, "title", &[], None, None);
        assert!(nothing.is_empty());
        let mut flat = String::new();
        chart(&mut flat, "flat", &[Mark { x: 1.0, y: 1.0, sign: 'o' }], None, None);
        assert!(flat.contains('o'));
    }
}

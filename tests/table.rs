//! The reference table of queueing theory as data.

/// The table, as it was handed over; `data/README.md` says where it comes from.
pub const QUEUEING: &str = include_str!("data/queueing_reference.csv");

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Number of the line in the file, from 2.
    pub number: usize,
    /// The queue, such as `M/M/1`.
    pub model: String,
    /// Its parameters, such as `lambda=0.5;mu=1`.
    pub params: String,
    /// What is stated of it, such as `Wq`.
    pub metric: String,
    /// The exact value.
    pub value: f64,
}

impl Line {
    /// The number after `name=` in the parameters.
    pub fn find(&self, name: &str) -> Option<f64> {
        number_after(&self.params, name)
    }

    /// The number after `name=` in the parameters.
    ///
    /// # Panics
    /// There is none.
    pub fn param(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_else(|| panic!("line {}: no number {name} in {}", self.number, self.params))
    }
}

/// The number after `name=`, where the name begins a word.
pub fn number_after(text: &str, name: &str) -> Option<f64> {
    let start = format!("{name}=");
    let found = text.match_indices(&start).find(|(at, _)| {
        text[..*at].chars().next_back().is_none_or(|before| matches!(before, ';' | ',' | ' ' | '('))
    })?;
    let rest = &text[found.0 + start.len()..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// All lines of the table.
///
/// # Panics
/// The table is not as it was handed over.
pub fn queueing() -> Vec<Line> {
    let parse = |(index, text): (usize, &str)| {
        let fields = fields(text);
        let [model, params, metric, value, _] = &fields[..] else {
            panic!("line {}: {} fields", index + 1, fields.len());
        };
        Line {
            number: index + 1,
            model: model.clone(),
            params: params.clone(),
            metric: metric.clone(),
            value: value.parse().unwrap_or_else(|_| panic!("line {}: value {value}", index + 1)),
        }
    };
    QUEUEING.lines().enumerate().skip(1).map(parse).collect()
}

/// The fields of a line; quotes keep commas together.
pub(crate) fn fields(text: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match (c, fields.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => fields.push(String::new()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_whole() {
        let lines = queueing();
        assert_eq!(lines.len(), 380);
        assert_eq!((lines[0].model.as_str(), lines[0].value), ("M/M/1", 1.0));
        let bulk = lines.iter().find(|line| line.model == "M/M^[1,b]/1 bulk service").unwrap();
        assert_eq!((bulk.param("lambda"), bulk.param("b")), (3.0, 4.0));
        let gpu = lines.iter().find(|line| line.model.starts_with("M/D^[all]")).unwrap();
        assert_eq!((gpu.param("alpha"), gpu.param("tau0")), (1.0, 2.0));
    }
}

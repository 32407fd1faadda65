//! The published cases and the incidents as data, and the table of what the simulator makes of them.
//!
//! Each line of the two files has one test, which computes, asserts, and then calls [`show`]: this renders
//! the line of `CASES.md` and compares it with the committed one. The table is therefore written by the
//! tests and proved current by every run of them. To write it, set `FOREBAY_UPDATE=1`: every test then
//! puts its own line in. Tests run side by side, in one process and in several, so a line is put in under
//! a lock, and the file is replaced whole.
//!
//! One test that simulates everything and writes the table was the alternative: it would take as long as
//! all of them together, and one wrong case would hide the others.

use crate::table::fields;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The published cases, as they were handed over; `data/README.md` says where they come from.
pub const PUBLISHED: &str = include_str!("data/published_cases.csv");

/// The incidents, as they were handed over.
pub const INCIDENTS: &str = include_str!("data/incidents.csv");

/// Most cases that may be unmet: as many as are, so that another one is noticed.
pub const MOST_UNMET: usize = 4;

/// Set to `1`, it makes the tests write their lines.
const UPDATE: &str = "FOREBAY_UPDATE";

/// How a published case is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A rule or a number that must come out.
    Exact,
    /// A measured number, within its tolerance.
    Calibrated,
    /// Which of two is larger.
    Ordering,
    /// An assumption that is an input.
    Given,
}

/// One published case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name, such as `W1`.
    pub id: String,
    /// What it is about.
    pub area: String,
    /// What is given.
    pub given: String,
    /// What should come out.
    pub expected: String,
    /// How it is held.
    pub kind: Kind,
    /// How far off it may be; `-` for not at all.
    pub tolerance: String,
}

/// One incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its name, such as `N01`.
    pub id: String,
    /// The public thread it was reported in.
    pub source: String,
    /// What is given.
    pub setting: String,
    /// What went wrong.
    pub wrong: String,
    /// What would be right.
    pub right: String,
}

/// Whether the simulator does what a case says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Met,
    /// It does not, and why.
    Unmet(String),
    /// The case is an assumption, used as an input.
    Given,
}

/// What the simulator makes of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What came out, with its interval; of an assumption, where it is used.
    pub simulated: String,
    /// Whether that is what the case says.
    pub verdict: Verdict,
}

impl Shown {
    /// A case that is met.
    pub fn met(simulated: impl Into<String>) -> Self {
        Self { simulated: simulated.into(), verdict: Verdict::Met }
    }

    /// A case that is not met, and why.
    pub fn unmet(simulated: impl Into<String>, why: impl Into<String>) -> Self {
        Self { simulated: simulated.into(), verdict: Verdict::Unmet(why.into()) }
    }

    /// An assumption, and where it is used.
    pub fn given(used: impl Into<String>) -> Self {
        Self { simulated: used.into(), verdict: Verdict::Given }
    }
}

/// All published cases, in the order of their file.
///
/// # Panics
/// The file is not as it was handed over.
pub fn published() -> Vec<Case> {
    lines(PUBLISHED)
        .map(|[id, area, given, expected, kind, tolerance]| Case {
            kind: match kind.as_str() {
                "exact" => Kind::Exact,
                "calibrated" => Kind::Calibrated,
                "ordering" => Kind::Ordering,
                "given" => Kind::Given,
                other => panic!("{id}: kind {other}"),
            },
            id,
            area,
            given,
            expected,
            tolerance,
        })
        .collect()
}

/// All incidents, in the order of their file.
///
/// # Panics
/// The file is not as it was handed over.
pub fn incidents() -> Vec<Incident> {
    let incident =
        |[id, source, setting, wrong, right]: [String; 5]| Incident { id, source, setting, wrong, right };
    lines(INCIDENTS).map(incident).collect()
}

fn lines<const N: usize>(text: &str) -> impl Iterator<Item = [String; N]> {
    text.lines().enumerate().skip(1).map(|(index, line)| {
        let fields = fields(line);
        let count = fields.len();
        fields.try_into().unwrap_or_else(|_| panic!("line {}: {count} fields", index + 1))
    })
}

/// Compares what came out of a published case with its line of `CASES.md`, or writes the line.
///
/// # Panics
/// There is no such case, its line is another, or it cannot be written.
pub fn show(id: &str, shown: &Shown) {
    let case = published().into_iter().find(|case| case.id == id).expect("the id of a published case");
    let wrong = if case.kind == Kind::Given { Verdict::Met } else { Verdict::Given };
    assert_ne!(shown.verdict, wrong, "{id}: what is given, and nothing else, has the verdict so");
    Sheet::committed().show(id, &line_of_case(&case, shown));
}

/// Compares what came out of both variants of an incident with its line of `CASES.md`, or writes the line.
///
/// # Panics
/// There is no such incident, its line is another, or it cannot be written.
pub fn show_incident(id: &str, wrong: &Shown, right: &Shown) {
    let incident = incidents().into_iter().find(|i| i.id == id).expect("the id of an incident");
    Sheet::committed().show(id, &line_of_incident(&incident, wrong, right));
}

/// What is wrong with `CASES.md` as a whole: lines that are missing or strange, or more unmet cases than
/// may be. Nothing while the tests write it.
///
/// # Errors
/// All of it, a line each.
pub fn check_table() -> Result<(), String> {
    if updating() { Ok(()) } else { Sheet::committed().check() }
}

fn updating() -> bool {
    std::env::var(UPDATE).is_ok_and(|value| value == "1")
}

fn line_of_case(case: &Case, shown: &Shown) -> String {
    let expected = match case.tolerance.as_str() {
        "-" => case.expected.clone(),
        tolerance => format!("{} ({tolerance})", case.expected),
    };
    let cells = [&case.id, &case.given, &expected, &shown.simulated, &said(&shown.verdict)];
    row(&cells.map(String::as_str))
}

fn line_of_incident(incident: &Incident, wrong: &Shown, right: &Shown) -> String {
    let verdict = match (&wrong.verdict, &right.verdict) {
        (Verdict::Met, Verdict::Met) => said(&Verdict::Met),
        (wrong, Verdict::Met) => format!("{} (wrong)", said(wrong)),
        (Verdict::Met, right) => format!("{} (right)", said(right)),
        (wrong, right) => format!("{} (wrong); {} (right)", said(wrong), said(right)),
    };
    let setting = format!("{} ({})", incident.setting, incident.source);
    row(&[
        &incident.id,
        &setting,
        &incident.wrong,
        &wrong.simulated,
        &incident.right,
        &right.simulated,
        &verdict,
    ])
}

/// What an unmet verdict begins with.
const UNMET: &str = "**unmet**";

fn said(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Met => "met".to_owned(),
        Verdict::Unmet(why) => format!("{UNMET}: {}", escaped(why)),
        Verdict::Given => "given".to_owned(),
    }
}

/// A row of a Markdown table. The last cell is taken as it is, for it is ours.
fn row(cells: &[&str]) -> String {
    let mut row = String::from("|");
    for (index, cell) in cells.iter().enumerate() {
        let cell = if index + 1 == cells.len() { (*cell).to_owned() } else { escaped(cell) };
        let _ = write!(row, " {cell} |");
    }
    row
}

/// A text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '[' | ']' | '<' | '\\' => out.extend(['\\', c]),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The id of a row, if it is one of a case.
fn id_of(row: &str) -> Option<&str> {
    let id = row.strip_prefix("| ")?.split(" |").next()?;
    let is_id = id.chars().next().is_some_and(|c| c.is_ascii_uppercase())
        && id.len() > 1
        && id.chars().skip(1).all(|c| c.is_ascii_digit());
    is_id.then_some(id)
}

/// A file that holds the table.
#[derive(Clone, Debug)]
struct Sheet {
    path: PathBuf,
    /// A file that is there and is never replaced: who writes the table locks it.
    lock: PathBuf,
}

impl Sheet {
    fn committed() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { path: folder.join("CASES.md"), lock: folder.join("data/published_cases.csv") }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap_or_default()
    }

    fn show(&self, id: &str, line: &str) {
        if updating() {
            return self.put(id, line).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        }
        let text = self.text();
        let found = text.lines().find(|line| id_of(line) == Some(id)).unwrap_or("no line");
        assert_eq!(
            found,
            line,
            "{id}: the line of {} is another; if this one is right, run the test with {UPDATE}=1",
            self.path.display()
        );
    }

    /// Puts a line in, whoever else is at it.
    fn put(&self, id: &str, line: &str) -> std::io::Result<()> {
        let lock = File::open(&self.lock)?;
        lock.lock()?;
        let text = self.text();
        let mut rows: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| Some((id_of(line)?, line))).collect();
        rows.insert(id, line);
        let temporary = self.path.with_extension("md.part");
        std::fs::write(&temporary, render(&rows))?;
        std::fs::rename(&temporary, &self.path)
        // The lock goes with the file.
    }

    fn check(&self) -> Result<(), String> {
        let text = self.text();
        let mut wrong = Vec::new();
        let mut rows: BTreeMap<&str, &str> = BTreeMap::new();
        for line in text.lines() {
            if let Some(id) = id_of(line)
                && rows.insert(id, line).is_some()
            {
                wrong.push(format!("{id} has two lines"));
            }
        }
        let known = ids();
        wrong.extend(
            known.iter().filter(|id| !rows.contains_key(id.as_str())).map(|id| format!("{id} has no line")),
        );
        let strange = rows.keys().filter(|id| !known.iter().any(|known| known == *id));
        wrong.extend(strange.map(|id| format!("{id} is neither a published case nor an incident")));
        let unmet = rows.values().filter(|row| row.contains(UNMET)).count();
        if unmet > MOST_UNMET {
            wrong.push(format!("{unmet} cases are unmet, at most {MOST_UNMET} may be"));
        }
        if wrong.is_empty() && text != render(&rows) {
            wrong
                .push(format!("text around the lines is not what the tests write; run them with {UPDATE}=1"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

/// All ids, in the order of the files.
fn ids() -> Vec<String> {
    let cases = published().into_iter().map(|case| case.id);
    cases.chain(incidents().into_iter().map(|incident| incident.id)).collect()
}

/// The whole file.
fn render(rows: &BTreeMap<&str, &str>) -> String {
    let count = |is: fn(&str) -> bool| rows.values().filter(|row| is(row)).count();
    let unmet = count(|row| row.contains(UNMET));
    let given = count(|row| row.ends_with("| given |"));
    let mut out = format!(
        "# Published cases and incidents\n\n\
         What field reports say, and what the simulator makes of it: {} lines, of which {} are met, {unmet} \
         unmet, and {given} given as inputs. Each line is written and proved current by the test of its \
         name in `tests/cases/`; brackets hold 95 % confidence intervals over replications. To write it \
         anew: `FOREBAY_UPDATE=1 cargo nextest run -p forebay-tests cases`.\n",
        rows.len(),
        rows.len() - unmet - given,
    );
    let mut table = |title: &str, head: &[&str], ids: Vec<String>| {
        let _ = writeln!(out, "\n## {title}\n\n{}\n|{}", row(head), " --- |".repeat(head.len()));
        for line in ids.iter().filter_map(|id| rows.get(id.as_str())) {
            let _ = writeln!(out, "{line}");
        }
    };
    table(
        "Published cases",
        &["id", "case", "expected", "simulated", "verdict"],
        published().into_iter().map(|case| case.id).collect(),
    );
    table(
        "Incidents",
        &["id", "setting", "wrong, expected", "simulated", "right, expected", "simulated", "verdict"],
        incidents().into_iter().map(|incident| incident.id).collect(),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_read_whole() {
        let cases = published();
        assert_eq!(cases.len(), PUBLISHED.lines().count() - 1);
        assert_eq!(
            (cases[0].id.as_str(), cases[0].kind, cases[0].tolerance.as_str()),
            ("W1", Kind::Exact, "1e-12")
        );
        assert_eq!(cases.iter().filter(|case| case.kind == Kind::Given).count(), 3);
        let incidents = incidents();
        assert_eq!((incidents.len(), incidents[0].source.as_str()), (15, "BerriAI/litellm#18730"));
        let mut ids = ids();
        assert!(ids.iter().all(|id| id_of(&format!("| {id} | x |")) == Some(id)));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), cases.len() + incidents.len(), "an id stands twice");
    }

    #[test]
    fn cells_show_what_was_meant() {
        assert_eq!(row(&["W7", "a | b*c\nd", "met"]), "| W7 | a \\| b\\*c d | met |");
        assert_eq!(id_of("| N01 | x |"), Some("N01"));
        assert_eq!([id_of("| id | x |"), id_of("| --- | --- |"), id_of("W1"), id_of("| W | x |")], [None; 4]);
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> (Self, Sheet) {
            let folder = std::env::temp_dir().join(format!("forebay-cases-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let sheet = Sheet { path: folder.join("CASES.md"), lock: folder.join("lock") };
            std::fs::write(&sheet.lock, "").unwrap();
            (Self(folder), sheet)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lines_put_in_side_by_side_are_all_there_and_in_order() {
        let (_scratch, sheet) = Scratch::new("side-by-side");
        let ids = ids();
        std::thread::scope(|scope| {
            for part in ids.chunks(20).rev() {
                scope.spawn(|| {
                    part.iter().rev().for_each(|id| sheet.put(id, &row(&[id, "x", "met"])).unwrap());
                });
            }
        });
        assert_eq!(sheet.check(), Ok(()));
        let text = sheet.text();
        let found: Vec<&str> = text.lines().filter_map(id_of).collect();
        assert_eq!(found, ids);
        sheet.show("W3", "| W3 | x | met |");
    }

    #[test]
    fn a_table_that_is_not_whole_is_refused() {
        let (_scratch, sheet) = Scratch::new("not-whole");
        let ids = ids();
        for id in ids.iter().skip(1) {
            sheet.put(id, &row(&[id, "x", "met"])).unwrap();
        }
        assert_eq!(sheet.check(), Err("W1 has no line".to_owned()));
        sheet.put("W1", "| W1 | y | met |").unwrap();
        assert_eq!(sheet.check(), Ok(()));
        let whole = sheet.text();
        let after = |text: String| {
            std::fs::write(&sheet.path, text).unwrap();
            sheet.check().unwrap_err()
        };
        assert_eq!(after(format!("{whole}| W1 | z | met |\n")), "W1 has two lines");
        assert!(after(format!("{whole}| Z9 | z | met |\n")).contains("Z9 is neither"));
        assert!(after(format!("{whole}\nA remark.\n")).contains("not what the tests write"));
        let unmet = |n: usize| {
            let rows: Vec<String> = ids
                .iter()
                .enumerate()
                .map(|(i, id)| {
                    row(&[id, "x", &said(&if i < n { Verdict::Unmet("w".into()) } else { Verdict::Met })])
                })
                .collect();
            render(&rows.iter().map(|row| (id_of(row).unwrap(), row.as_str())).collect())
        };
        assert!(after(unmet(MOST_UNMET + 1)).contains("5 cases are unmet"));
        std::fs::write(&sheet.path, unmet(MOST_UNMET)).unwrap();
        assert_eq!(sheet.check(), Ok(()));
    }

    #[test]
    fn another_line_fails_the_test() {
        let (_scratch, sheet) = Scratch::new("another");
        sheet.put("W1", "| W1 | x | met |").unwrap();
        let shown = std::panic::catch_unwind(|| sheet.show("W1", "| W1 | y | met |"));
        assert!(shown.is_err() || updating());
    }

    #[test]
    fn verdicts_are_said_with_their_reasons() {
        let incident = &incidents()[0];
        let line = |wrong: &Shown, right: &Shown| line_of_incident(incident, wrong, right);
        let (met, unmet) = (Shown::met("5 pass"), Shown::unmet("2 pass", "one too many"));
        assert!(line(&met, &met).ends_with(" 5 pass | met |"));
        assert!(line(&met, &unmet).ends_with(" 2 pass | **unmet**: one too many (right) |"));
        let given = line_of_case(&published()[0], &Shown::given("in the shop"));
        assert!(given.ends_with("| in the shop | given |"));
    }
}

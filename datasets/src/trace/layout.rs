//! Which column means what: the layouts that are recognised by their header, and the column map that
//! overrides them.

use forebay_model::trace::{Columns, TimeUnit};

use super::problem::{Fault, MAX_COLUMNS, Problem};
use super::rows::Selection;

/// A layout that is recognised when its three required columns are all there.
struct Layout {
    name: &'static str,
    time: (&'static str, TimeUnit),
    tokens_in: &'static str,
    tokens_out: &'static str,
    class: Option<&'static str>,
    user: Option<&'static str>,
    session: Option<&'static str>,
}

const LAYOUTS: [Layout; 5] = [
    Layout {
        name: "forebay",
        time: ("at_s", TimeUnit::S),
        tokens_in: "tokens_in",
        tokens_out: "tokens_out",
        class: Some("class"),
        user: Some("user"),
        session: Some("session"),
    },
    Layout {
        name: "Azure",
        time: ("TIMESTAMP", TimeUnit::Datetime),
        tokens_in: "ContextTokens",
        tokens_out: "GeneratedTokens",
        class: None,
        user: None,
        session: None,
    },
    Layout {
        name: "Mooncake",
        time: ("timestamp", TimeUnit::Ms),
        tokens_in: "input_length",
        tokens_out: "output_length",
        class: None,
        user: None,
        session: None,
    },
    Layout {
        name: "request log",
        time: ("arrival_s", TimeUnit::S),
        tokens_in: "tokens_in",
        tokens_out: "tokens_out",
        class: Some("class"),
        user: None,
        session: None,
    },
    Layout {
        name: "vLLM run",
        time: ("arrival_time", TimeUnit::S),
        tokens_in: "input_toks",
        tokens_out: "output_toks",
        class: None,
        user: None,
        session: None,
    },
];

impl Layout {
    fn required(&self) -> [&'static str; 3] {
        [self.time.0, self.tokens_in, self.tokens_out]
    }

    fn found_in(&self, header: &[String]) -> usize {
        self.required().iter().filter(|name| header.iter().any(|found| found == *name)).count()
    }
}

const TIME: &str = "the time of arrival";
const TOKENS_IN: &str = "the prompt's tokens";
const TOKENS_OUT: &str = "the answer's tokens";
const CLASS: &str = "the class";
const USER: &str = "the user";
const SESSION: &str = "the session";

/// The columns to read; all of them are in the header.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) time: String,
    pub(super) unit: TimeUnit,
    pub(super) tokens_in: String,
    pub(super) tokens_out: String,
    pub(super) class: Option<String>,
    pub(super) user: Option<String>,
    pub(super) session: Option<String>,
    pub(super) sort: bool,
}

impl Selection for Plan {
    fn names(&self) -> Vec<&str> {
        self.roles().into_iter().map(|(name, _)| name).collect()
    }
}

impl Plan {
    /// What to read from a file with this header.
    pub(super) fn of(header: &[String], columns: &Columns) -> Result<Self, Fault> {
        let layout = LAYOUTS.iter().find(|layout| layout.found_in(header) == 3);
        let required = |given: Option<&String>, known: fn(&Layout) -> &'static str, role| {
            let name = given.cloned().or_else(|| layout.map(|layout| known(layout).to_owned()));
            present(header, &name.ok_or_else(|| unrecognised(header, columns, role))?, role)
        };
        let optional = |given: Option<&String>, known: fn(&Layout) -> Option<&'static str>, role| {
            if let Some(name) = given {
                return present(header, name, role).map(Some);
            }
            let name = layout.and_then(known).filter(|name| header.iter().any(|found| found == name));
            Ok(name.map(str::to_owned))
        };
        let time = required(columns.time.as_ref(), |layout| layout.time.0, TIME)?;
        let known_unit = layout.filter(|layout| layout.time.0 == time).map(|layout| layout.time.1);
        let unit = columns.time_unit.or(known_unit).ok_or_else(|| Problem::NoUnit(time.clone()))?;
        let plan = Self {
            time,
            unit,
            tokens_in: required(columns.tokens_in.as_ref(), |layout| layout.tokens_in, TOKENS_IN)?,
            tokens_out: required(columns.tokens_out.as_ref(), |layout| layout.tokens_out, TOKENS_OUT)?,
            class: optional(columns.class.as_ref(), |layout| layout.class, CLASS)?,
            user: optional(columns.user.as_ref(), |layout| layout.user, USER)?,
            session: optional(columns.session.as_ref(), |layout| layout.session, SESSION)?,
            sort: columns.sort,
        };
        plan.check_distinct()?;
        Ok(plan)
    }

    fn roles(&self) -> Vec<(&str, &'static str)> {
        let required = [(&self.time, TIME), (&self.tokens_in, TOKENS_IN), (&self.tokens_out, TOKENS_OUT)];
        let optional = [(&self.class, CLASS), (&self.user, USER), (&self.session, SESSION)];
        let optional = optional.into_iter().filter_map(|(name, role)| Some((name.as_ref()?, role)));
        required.into_iter().chain(optional).map(|(name, role)| (name.as_str(), role)).collect()
    }

    fn check_distinct(&self) -> Result<(), Fault> {
        let roles = self.roles();
        for (index, (name, role)) in roles.iter().enumerate() {
            if let Some((_, earlier)) = roles[..index].iter().find(|(other, _)| other == name) {
                return Err(Fault::in_column(name, Problem::SharedColumn(earlier, role)));
            }
        }
        Ok(())
    }
}

/// Refuses a header that no table should have: none, too many, nameless or equal columns.
pub(super) fn check_header(header: &[String]) -> Result<(), Problem> {
    if header.len() > MAX_COLUMNS {
        return Err(Problem::TooManyColumns(header.len()));
    }
    if let Some(index) = header.iter().position(String::is_empty) {
        return Err(Problem::NamelessColumn(index + 1));
    }
    let mut sorted: Vec<&String> = header.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Problem::DuplicateColumn(pair[0].clone())),
        None => Ok(()),
    }
}

pub(crate) fn present(header: &[String], wanted: &str, role: &'static str) -> Result<String, Fault> {
    if header.iter().any(|name| name == wanted) {
        return Ok(wanted.to_owned());
    }
    let nearest = nearest(header, wanted);
    Err(Problem::NoColumn { wanted: wanted.to_owned(), role, nearest, header: listed(header) }.into())
}

/// The error for a column that nothing names. A header that comes close to a known layout, with no column
/// map beside it, is told which column it lacks; otherwise a column map is asked for. The rest of a layout
/// is not taken on trust: a column `timestamp` alone does not say that its unit is Mooncake's.
fn unrecognised(header: &[String], columns: &Columns, role: &'static str) -> Fault {
    let closest = LAYOUTS.iter().rev().max_by_key(|layout| layout.found_in(header));
    let unmapped = columns.time.is_none() && columns.tokens_in.is_none() && columns.tokens_out.is_none();
    if let Some(layout) = closest.filter(|layout| unmapped && layout.found_in(header) > 0) {
        let roles = [TIME, TOKENS_IN, TOKENS_OUT];
        let mut lacking = layout.required().into_iter().zip(roles);
        if let Some(fault) = lacking.find_map(|(name, role)| present(header, name, role).err()) {
            return fault;
        }
    }
    let layouts = LAYOUTS.iter().map(|layout| format!("{}: {}", layout.name, layout.required().join(", ")));
    let known = layouts.collect::<Vec<_>>().join("; ");
    Problem::Unrecognised { role, header: listed(header), known }.into()
}

/// The name most like the wanted one, if any is like it at all.
fn nearest(header: &[String], wanted: &str) -> Option<String> {
    let wanted = wanted.to_lowercase();
    let likeness = |name: &String| strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &wanted);
    let (name, likeness) =
        header.iter().map(|name| (name, likeness(name))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (likeness >= 0.5).then(|| shortened(name))
}

/// The columns for a message: the first ones, if there are many.
pub(crate) fn listed(header: &[String]) -> String {
    const SHOWN: usize = 12;
    let list = header.iter().take(SHOWN).map(|name| shortened(name)).collect::<Vec<_>>().join(", ");
    match header.len().saturating_sub(SHOWN) {
        0 => list,
        more => format!("{list} and {more} more"),
    }
}

/// Text from a file, made safe and short for a message.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    let cut: String = text.chars().take(SHOWN).collect();
    let mark = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{mark}", cut.escape_debug())
}

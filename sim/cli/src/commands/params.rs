//! `forebay params`

use crate::arguments::{Format, ParamsArguments};
use crate::failure::Failure;
use crate::table;
use crate::terminal::{complain, print};
use anyhow::Context;
use forebay_model::Scenario;
use forebay_model::document::{Parameter, ParameterKind, parameters, schema};
use forebay_workbench::output::{Folder, Manifest, json, write_result};
use serde_json::Value;

pub(crate) fn params(arguments: &ParamsArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    if let Some(out) = &common.out {
        Folder::check(out, common.force)?;
    }
    let opened = common.open(arguments.simulated.settings())?;
    let value =
        serde_json::to_value(&opened.loaded.scenario).context("the scenario cannot be looked into")?;
    let under = arguments.under.as_str();
    let in_policy = format!("policy.{under}");
    let choice = opened.loaded.variants.parameter();
    let listed: Vec<Parameter> = choice
        .into_iter()
        .chain(parameters(&schema::<Scenario>(), &value))
        .filter(|p| p.path.starts_with(under) || p.path.starts_with(&in_policy))
        .collect();
    if listed.is_empty() {
        return Err(Failure::Input(format!("the scenario has no parameter under `{under}`")));
    }
    match common.format {
        Format::Json => print(&json(&listed))?,
        Format::Text => print(&text(&listed))?,
    }
    if let Some(out) = &common.out {
        let manifest = Manifest::unsimulated("params", &opened.loaded);
        let folder = write_result(out, common.force, &opened.loaded, &manifest, &listed)
            .map_err(Failure::unwritten)?;
        if !common.quiet {
            complain(&format!("written: {}", folder.display()));
        }
    }
    Ok(())
}

fn text(listed: &[Parameter]) -> String {
    let mut rows = vec![table::row(["path", "value", "default", "unit", "range"])];
    for parameter in listed {
        rows.push(vec![
            parameter.path.clone(),
            shown(parameter.value.as_ref()),
            shown(parameter.default.as_ref()),
            parameter.unit.clone().unwrap_or_default(),
            range(parameter),
        ]);
    }
    let mut head = String::new();
    table::write(&mut head, &rows);
    // The meaning is long: it stands below its parameter.
    let mut out = String::new();
    for (index, line) in head.lines().enumerate() {
        out.push_str(line);
        out.push('\n');
        if let Some(parameter) = index.checked_sub(1).and_then(|index| listed.get(index)) {
            for line in parameter.description.lines().filter(|line| !line.trim().is_empty()) {
                out.push_str("    ");
                out.push_str(line.trim());
                out.push('\n');
            }
        }
    }
    out
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => {
            let text = value.to_string();
            if text.len() > 24 { "{…}".to_owned() } else { text }
        }
    }
}

fn range(parameter: &Parameter) -> String {
    match &parameter.kind {
        ParameterKind::Switch => "true or false".to_owned(),
        ParameterKind::Choice(choices) => choices.join(" | "),
        ParameterKind::Whole | ParameterKind::Number => {
            let end = |bound: Option<f64>, open: bool| match bound {
                Some(bound) if open => format!("{bound} (not itself)"),
                Some(bound) => bound.to_string(),
                None => "…".to_owned(),
            };
            let whole = if parameter.kind == ParameterKind::Whole { ", whole" } else { "" };
            let low = end(parameter.minimum, parameter.minimum_open);
            let high = end(parameter.maximum, parameter.maximum_open);
            format!("{low} to {high}{whole}")
        }
    }
}

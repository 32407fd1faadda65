//! Prefill and decode of one batch at a time: time against prompt length and batch size.
//!
//! ```text
//! decode, s per token  = base + per_sequence * B + per_resident_token * B * (prompt + tokens_out / 2)
//! prefill, s per batch = max(floor, per_token * T) + beyond * max(0, T - knee),   T = B * prompt
//! ```
//!
//! The prefill form is a roofline: a short prompt takes as long as reading the weights, a longer one as
//! long as its arithmetic, and beyond the knee (some thousand tokens) each token costs more. Rejected by
//! comparison on Splitwise's table, held-out points among them, so that the form itself is not held-out
//! clean, while its coefficients are: a line, a parabola, and terms in T^1.5 or in the squared prompt,
//! all of which miss the middle of the range by 15 % or more.
//!
//! The `batching` engine has a form of its own, `c0 + per_prefill_token * max(0, T - hidden) +
//! per_prefill_context * B * prompt^2 / 2`, with the decode's base for `c0`. It is fitted beside, for scenarios
//! that name the calibration, and is judged apart: it has no knee and is further off.
//!
//! Where it bends is one number for all lines of a table; the intervals of the coefficients hold for it.
//!
//! Points (prompt, batch) are sorted; the first, third, … is fitted, the second, fourth, … judges with all
//! its repeats. Rows that contradict themselves (a batch that did not fit and ran in parts takes several
//! times as long as its parts add up to) are not fitted; as judges they count like all others.

use forebay_model::llm::batching::IterationCost;

use super::robust::{Estimate, Regression, median, regress, significant};

/// Significant digits of the engine's coefficients.
const COST_DIGITS: usize = 4;
/// Fewest points of a line: the first half must hold the four numbers of the prefill.
const POINTS_MIN: usize = 6;
/// Longer than this times the sum of its parts a row contradicts itself.
const CONTRADICTS: f64 = 1.25;
/// Where the prefill may bend, tokens.
const KNEES: [f64; 6] = [512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0];

/// Tokens that may ride along with the weights for nothing in the engine's form.
const HIDDEN: [u32; 5] = [0, 64, 128, 256, 512];

/// One measured batch.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseRow {
    /// Model.
    pub model: String,
    /// Hardware.
    pub hardware: String,
    /// Ways of tensor parallelism.
    pub parallel: u32,
    /// Tokens of each prompt.
    pub prompt: f64,
    /// Sequences in the batch.
    pub batch: f64,
    /// Tokens of each answer.
    pub tokens_out: f64,
    /// Time of the whole batch's prefill, s.
    pub prefill_s: f64,
    /// Time per token of an answer, s.
    pub per_token_s: f64,
    /// From start to end, s; absent if not recorded.
    pub total_s: Option<f64>,
}

impl PhaseRow {
    fn contradicts_itself(&self) -> bool {
        let parts = self.prefill_s + (self.tokens_out - 1.0) * self.per_token_s;
        self.total_s.is_some_and(|total| total > CONTRADICTS * parts)
    }
}

/// Coefficients of one line.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseForms {
    /// Time per token without sequences, s.
    pub decode_base_s: Estimate,
    /// Added per sequence of the batch, s.
    pub per_sequence_s: Estimate,
    /// Added per token that the batch holds, s.
    pub per_resident_token_s: Estimate,
    /// Least time of a prefill, s.
    pub floor_s: Estimate,
    /// Per token of the batch's prompts, s.
    pub per_prefill_token_s: Estimate,
    /// Added per token beyond the knee, s.
    pub beyond_knee_s: Estimate,
    /// Where the prefill bends, tokens.
    pub knee_tokens: f64,
}

impl PhaseForms {
    /// Time per token, s.
    pub fn decode_s(&self, prompt: f64, batch: f64, tokens_out: f64) -> f64 {
        self.decode_base_s.value
            + self.per_sequence_s.value * batch
            + self.per_resident_token_s.value * batch * (prompt + tokens_out / 2.0)
    }

    /// Time of a prefill, s.
    pub fn prefill_s(&self, prompt: f64, batch: f64) -> f64 {
        let tokens = prompt * batch;
        self.floor_s.value.max(self.per_prefill_token_s.value * tokens)
            + self.beyond_knee_s.value * (tokens - self.knee_tokens).max(0.0)
    }
}

/// A fitted line.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseFit {
    /// A row of the line, for its names.
    pub of: PhaseRow,
    /// The coefficients.
    pub forms: PhaseForms,
    /// Points fitted, and points that judged.
    pub points: [usize; 2],
    /// Rows that were not fitted because they contradict themselves.
    pub contradictions: usize,
    /// Absolute errors of decode, percent: on the fitted points, then on the others.
    pub decode: [Vec<f64>; 2],
    /// The same of prefill.
    pub prefill: [Vec<f64>; 2],
    /// The cost of an iteration of the `batching` engine, its prefill fitted in the engine's form.
    pub cost: IterationCost,
    /// Errors of the prefill in that form.
    pub prefill_of_engine: [Vec<f64>; 2],
    /// Most tokens that a batch held.
    pub most_tokens: f64,
    /// Most tokens of one prefill.
    pub most_prefill: f64,
    /// Smallest and largest prompt, batch and answer measured, tokens and sequences.
    pub prompt: [f64; 2],
    /// See `prompt`.
    pub batch: [f64; 2],
    /// See `prompt`.
    pub tokens_out: [f64; 2],
}

/// A point: rows that share prompt and batch, each time the median of its rows.
#[derive(Clone, Copy, Debug)]
struct Point {
    prompt: f64,
    batch: f64,
    tokens_out: f64,
    prefill_s: f64,
    per_token_s: f64,
}

/// Fits every line with at least six points, in the order in which they first appear. Where the prefill
/// bends is one number for the whole table, chosen on the fitted points.
pub fn fit_phases(rows: &[PhaseRow]) -> Vec<PhaseFit> {
    let mut lines: Vec<Vec<&PhaseRow>> = Vec::new();
    for row in rows {
        let same =
            |a: &PhaseRow| a.model == row.model && a.hardware == row.hardware && a.parallel == row.parallel;
        match lines.iter_mut().find(|line| same(line[0])) {
            Some(line) => line.push(row),
            None => lines.push(vec![row]),
        }
    }
    let lines: Vec<Line> = lines.iter().filter_map(|line| Line::new(line)).collect();
    let loss = |knee: f64| {
        let of = |line: &Line| Some(prefill(&line.fitted, knee)?.loss);
        lines.iter().map(|line| of(line).unwrap_or(f64::INFINITY)).sum::<f64>()
    };
    let best = KNEES.iter().copied().map(|knee| (loss(knee), knee)).min_by(|a, b| a.0.total_cmp(&b.0));
    let knee = best.map_or(KNEES[0], |(_, knee)| knee);
    lines.iter().filter_map(|line| line.fit(knee)).collect()
}

struct Line<'a> {
    rows: &'a [&'a PhaseRow],
    fitted: Vec<Point>,
    others: Vec<Point>,
    contradictions: usize,
}

impl<'a> Line<'a> {
    fn new(rows: &'a [&'a PhaseRow]) -> Option<Self> {
        let mut keys: Vec<(f64, f64)> = rows.iter().map(|row| (row.prompt, row.batch)).collect();
        keys.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        keys.dedup();
        if keys.len() < POINTS_MIN {
            return None;
        }
        let at = |key: &(f64, f64), sound: bool| {
            let of = rows.iter().filter(|row| (row.prompt, row.batch) == *key);
            point(&of.copied().filter(|row| !(sound && row.contradicts_itself())).collect::<Vec<_>>())
        };
        let fitted = keys.iter().step_by(2).filter_map(|key| at(key, true)).collect();
        let others = keys.iter().skip(1).step_by(2).filter_map(|key| at(key, false)).collect();
        let fitted_keys: Vec<_> = keys.iter().copied().step_by(2).collect();
        let contradictions = rows
            .iter()
            .filter(|row| row.contradicts_itself() && fitted_keys.contains(&(row.prompt, row.batch)))
            .count();
        Some(Self { rows, fitted, others, contradictions })
    }

    fn fit(&self, knee: f64) -> Option<PhaseFit> {
        let decode = decode(&self.fitted)?;
        let prefill = prefill(&self.fitted, knee)?;
        let [decode_base_s, per_sequence_s, per_resident_token_s] = [0, 1, 2].map(|i| decode.coefficients[i]);
        let [floor_s, per_prefill_token_s, beyond_knee_s] =
            [0, 1, 2].map(|i| prefill.regression.coefficients[i]);
        let forms = PhaseForms {
            decode_base_s,
            per_sequence_s,
            per_resident_token_s,
            floor_s,
            per_prefill_token_s,
            beyond_knee_s,
            knee_tokens: knee,
        };
        let off = |fitted: f64, measured: f64| 100.0 * (fitted / measured - 1.0).abs();
        let decode_errors = |points: &[Point]| {
            let error = |p: &Point| off(forms.decode_s(p.prompt, p.batch, p.tokens_out), p.per_token_s);
            points.iter().map(error).collect()
        };
        let prefill_errors = |points: &[Point]| {
            points.iter().map(|p| off(forms.prefill_s(p.prompt, p.batch), p.prefill_s)).collect()
        };
        let cost = engine_cost(&self.fitted, &forms)?;
        let engine_errors = |points: &[Point]| {
            points.iter().map(|p| off(engine_prefill_s(&cost, p), p.prefill_s)).collect::<Vec<f64>>()
        };
        let prefill_of_engine = [engine_errors(&self.fitted), engine_errors(&self.others)];
        // What did not fit at once was not measured at once.
        let sound = || self.rows.iter().filter(|row| !row.contradicts_itself());
        let most = |of: fn(&PhaseRow) -> f64| sound().map(|row| of(row)).fold(0.0, f64::max);
        let range = |of: fn(&PhaseRow) -> f64| {
            let values = || sound().map(|row| of(row));
            [values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max)]
        };
        Some(PhaseFit {
            of: self.rows[0].clone(),
            points: [self.fitted.len(), self.others.len()],
            contradictions: self.contradictions,
            decode: [decode_errors(&self.fitted), decode_errors(&self.others)],
            prefill: [prefill_errors(&self.fitted), prefill_errors(&self.others)],
            cost,
            prefill_of_engine,
            most_tokens: most(|row| row.batch * (row.prompt + row.tokens_out)),
            most_prefill: most(|row| row.batch * row.prompt),
            prompt: range(|row| row.prompt),
            batch: range(|row| row.batch),
            tokens_out: range(|row| row.tokens_out),
            forms,
        })
    }
}

fn point(rows: &[&PhaseRow]) -> Option<Point> {
    let first = rows.first()?;
    let of = |field: fn(&PhaseRow) -> f64| median(rows.iter().map(|row| field(row)).collect());
    Some(Point {
        prompt: first.prompt,
        batch: first.batch,
        tokens_out: of(|row| row.tokens_out),
        prefill_s: of(|row| row.prefill_s),
        per_token_s: of(|row| row.per_token_s),
    })
}

fn decode(points: &[Point]) -> Option<Regression> {
    let basis: Vec<Vec<f64>> =
        points.iter().map(|p| vec![1.0, p.batch, p.batch * (p.prompt + p.tokens_out / 2.0)]).collect();
    let values: Vec<f64> = points.iter().map(|point| point.per_token_s).collect();
    regress(&basis, &values, &values)
}

struct Prefill {
    regression: Regression,
    loss: f64,
}

/// Which points lie on the floor is found by trying every number of the shortest.
fn prefill(points: &[Point], knee: f64) -> Option<Prefill> {
    let mut sorted = points.to_vec();
    let tokens = |p: &Point| p.prompt * p.batch;
    sorted.sort_by(|a, b| tokens(a).total_cmp(&tokens(b)));
    let values: Vec<f64> = sorted.iter().map(|point| point.prefill_s).collect();
    let line = |p: &Point| vec![0.0, tokens(p), (tokens(p) - knee).max(0.0)];
    (1..sorted.len())
        .filter_map(|on_floor| {
            let row = |(i, p): (usize, &Point)| if i < on_floor { vec![1.0, 0.0, 0.0] } else { line(p) };
            let basis: Vec<Vec<f64>> = sorted.iter().enumerate().map(row).collect();
            let regression = regress(&basis, &values, &values)?;
            let [floor, per_token, beyond] = [0, 1, 2].map(|i| regression.coefficients[i].value);
            let at = |p: &Point| floor.max(per_token * tokens(p)) + beyond * (tokens(p) - knee).max(0.0);
            // An outlier counts for a factor of e at most.
            let loss = sorted.iter().map(|p| libm::log(at(p) / p.prefill_s).abs().min(1.0)).sum();
            Some(Prefill { regression, loss })
        })
        .min_by(|a, b| a.loss.total_cmp(&b.loss))
}

/// Time of a prefill in the engine's form, s.
fn engine_prefill_s(cost: &IterationCost, point: &Point) -> f64 {
    let tokens = point.prompt * point.batch;
    cost.c0_s
        + cost.per_prefill_token_s * (tokens - f64::from(cost.hidden_tokens)).max(0.0)
        + cost.per_prefill_context_s * point.batch * point.prompt * point.prompt / 2.0
}

/// The engine's cost with the decode's coefficients; what a prefill adds to an empty iteration is fitted.
fn engine_cost(points: &[Point], forms: &PhaseForms) -> Option<IterationCost> {
    let c0_s = significant(forms.decode_base_s.value, COST_DIGITS);
    let scales: Vec<f64> = points.iter().map(|point| point.prefill_s).collect();
    let values: Vec<f64> = points.iter().map(|point| point.prefill_s - c0_s).collect();
    let tried = HIDDEN.iter().filter_map(|&hidden_tokens| {
        let row = |p: &Point| {
            let tokens = (p.prompt * p.batch - f64::from(hidden_tokens)).max(0.0);
            vec![tokens, p.batch * p.prompt * p.prompt / 2.0]
        };
        let fit = regress(&points.iter().map(row).collect::<Vec<_>>(), &values, &scales)?;
        let [token, context] = [0, 1].map(|i| significant(fit.coefficients[i].value, COST_DIGITS));
        let cost = IterationCost {
            c0_s,
            per_prefill_token_s: token,
            per_prefill_context_s: context,
            per_decode_sequence_s: significant(forms.per_sequence_s.value, COST_DIGITS),
            per_resident_token_s: significant(forms.per_resident_token_s.value, COST_DIGITS),
            per_resident_token_mixed_s: 0.0,
            hidden_tokens,
        };
        let off = |p: &Point| libm::log(engine_prefill_s(&cost, p) / p.prefill_s).abs().min(1.0);
        Some((points.iter().map(off).sum::<f64>(), cost))
    });
    tried.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cost)| cost)
}

/// Median over all held-out points of some lines, percent: decode, then prefill.
pub fn overall<'a>(fits: impl IntoIterator<Item = &'a PhaseFit> + Clone) -> [f64; 2] {
    let decode = fits.clone().into_iter().flat_map(|fit| fit.decode[1].iter().copied()).collect();
    let prefill = fits.into_iter().flat_map(|fit| fit.prefill[1].iter().copied()).collect();
    [median(decode), median(prefill)]
}

#[cfg(test)]
mod tests {
    use super::super::coverage::{about_95_in_100, noise};
    use super::super::tables::phase_rows;
    use super::*;
    use forebay_engine::Stream;

    fn table() -> Vec<PhaseRow> {
        phase_rows(include_str!("../../measured/splitwise/perf_model.csv")).unwrap()
    }

    #[test]
    fn splitwise_is_met() {
        let rows = table();
        assert_eq!(rows.len(), 1260);
        let fits = fit_phases(&rows);
        let [decode, prefill] = overall(&fits);
        let judged: usize = fits.iter().map(|fit| fit.points[1]).sum();
        println!(
            "decode {decode:.2} %, prefill {prefill:.2} % over {judged} points, knee {}",
            fits[0].forms.knee_tokens
        );
        for fit in &fits {
            let of = |errors: &[Vec<f64>; 2]| median(errors[1].clone());
            println!(
                "{} {} x{}: {:.2} {:.2} engine {:.2}",
                fit.of.model,
                fit.of.hardware,
                fit.of.parallel,
                of(&fit.decode),
                of(&fit.prefill),
                of(&fit.prefill_of_engine)
            );
        }
        assert_eq!((fits.len(), judged), (12, 72));
        assert!(decode <= 5.0 && prefill <= 10.0, "decode {decode} %, prefill {prefill} %");
        // The batch that did not fit on two GPUs: 64 sequences of 512 tokens, in three of the lines.
        let contradictions: Vec<usize> =
            fits.iter().map(|fit| fit.contradictions).filter(|count| *count > 0).collect();
        assert_eq!(contradictions, [5, 5, 5]);
    }

    fn made_up(trial: u64, parallel: u32) -> Vec<PhaseRow> {
        let mut stream = Stream::new(13, trial, "phases", u64::from(parallel));
        let prompts = [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0].map(|prompt| (prompt, 1.0));
        let batches = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(|batch| (512.0, batch));
        let mut noisy = |value: f64| value * (1.0 + 0.02 * noise(&mut stream));
        prompts
            .into_iter()
            .chain(batches)
            .map(|(prompt, batch)| {
                let tokens: f64 = prompt * batch;
                PhaseRow {
                    model: "m".to_owned(),
                    hardware: "h".to_owned(),
                    parallel,
                    prompt,
                    batch,
                    tokens_out: 128.0,
                    prefill_s: noisy((1.4e-4 * tokens).max(0.05) + 6e-5 * (tokens - 2048.0).max(0.0)),
                    per_token_s: noisy(0.04 + 2e-4 * batch + 1e-7 * batch * (prompt + 64.0)),
                    total_s: None,
                }
            })
            .collect()
    }

    /// A coefficient.
    type Of = fn(&PhaseForms) -> Estimate;

    /// Tables of four lines, as measured ones have several: together they tell where the prefill bends.
    #[test]
    fn intervals_hold_the_truth_95_times_in_100() {
        let table = |trial| (1..=4).flat_map(|line| made_up(trial, line)).collect::<Vec<_>>();
        let fits: Vec<PhaseFit> = (0..200).map(|trial| fit_phases(&table(trial)).remove(0)).collect();
        let truths: [(Of, f64); 4] = [
            (|forms| forms.decode_base_s, 0.04),
            (|forms| forms.per_prefill_token_s, 1.4e-4),
            (|forms| forms.floor_s, 0.05),
            (|forms| forms.beyond_knee_s, 6e-5),
        ];
        for (of, truth) in truths {
            about_95_in_100(200, |trial| of(&fits[trial as usize].forms).holds(truth));
        }
    }

    #[test]
    fn short_lines_are_left_out() {
        assert!(fit_phases(&made_up(0, 1)[..5]).is_empty());
        assert!(fit_phases(&[]).is_empty());
    }
}

//! The period of rows, and where rows are missing.

use super::clock::seconds;
use super::report::{At, Gaps};

/// A gap is longer than so many periods.
const PERIODS: f64 = 3.0;

/// Collects the times between the rows of each source.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Time since the source's row before, and where the row stands.
    steps: Vec<(u64, At)>,
}

impl Steps {
    pub(super) fn add(&mut self, step_ns: u64, at: At) {
        self.steps.push((step_ns, at));
    }

    /// The median step, s, and what is longer than three of it.
    pub(super) fn judge(mut self) -> (Option<f64>, Option<Gaps>) {
        let Some(middle) = self.steps.len().checked_sub(1).map(|last| last / 2) else { return (None, None) };
        let period_ns = self.steps.select_nth_unstable(middle).1.0;
        let limit = PERIODS * period_ns as f64;
        let mut gaps: Option<Gaps> = None;
        let mut longest = 0;
        self.steps.sort_unstable_by_key(|(_, at)| *at);
        for &(step, at) in self.steps.iter().filter(|(step, _)| *step as f64 > limit) {
            let gap = gaps.get_or_insert(Gaps {
                count: 0,
                total_s: 0.0,
                longest_s: 0.0,
                longest_before: String::new(),
            });
            gap.count += 1;
            gap.total_s += seconds(step);
            if step > longest {
                longest = step;
                gap.longest_s = seconds(step);
                gap.longest_before = at.to_string();
            }
        }
        (Some(seconds(period_ns)), gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_longer_than_three_periods() {
        let mut steps = Steps::default();
        for (line, step) in [1, 1, 2, 1, 3, 10, 1, 4].into_iter().enumerate() {
            steps.add(step * 1_000_000_000, At::Line(line + 2));
        }
        let (period, gaps) = steps.judge();
        assert_eq!(period, Some(1.0));
        let gaps = gaps.unwrap();
        assert_eq!((gaps.count, gaps.total_s, gaps.longest_s), (2, 14.0, 10.0));
        assert_eq!(gaps.longest_before, "line 7");
        assert_eq!(Steps::default().judge(), (None, None));
    }
}

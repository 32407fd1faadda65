//! What runs on a device at any moment, from a log of calls and batches.

/// Kinds of load: tokens, documents, calls.
pub(super) const KINDS: usize = 3;

/// A call or a batch: what it holds, and from when to when. Tokens grow evenly between the two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Start, s.
    pub from_s: f64,
    /// End, s.
    pub to_s: f64,
    /// Tokens held at the start: the prompt.
    pub tokens_from: f64,
    /// Tokens held just before the end: prompt and answer.
    pub tokens_to: f64,
    /// Documents.
    pub documents: f64,
    /// 1 for a call that holds something of its own; 0 for a batch that holds only documents.
    pub calls: f64,
}

/// The load from one change to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    from_s: f64,
    level: [f64; KINDS],
    /// Tokens per second.
    slope: f64,
}

impl Piece {
    fn at(&self, t_s: f64) -> [f64; KINDS] {
        let [tokens, documents, calls] = self.level;
        [(tokens + self.slope * (t_s - self.from_s)).max(0.0), documents, calls]
    }
}

/// The load over all time, as straight pieces.
pub(super) struct Load {
    pieces: Vec<Piece>,
    most: [f64; KINDS],
}

impl Load {
    pub(super) fn new(works: &[Work]) -> Self {
        let mut changes: Vec<(f64, [f64; KINDS], f64)> = Vec::with_capacity(2 * works.len());
        for work in works.iter().filter(|work| work.to_s > work.from_s) {
            let slope = (work.tokens_to - work.tokens_from) / (work.to_s - work.from_s);
            changes.push((work.from_s, [work.tokens_from, work.documents, work.calls], slope));
            changes.push((work.to_s, [-work.tokens_to, -work.documents, -work.calls], -slope));
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut pieces = vec![Piece { from_s: f64::NEG_INFINITY, level: [0.0; KINDS], slope: 0.0 }];
        let mut holders = 0.0;
        for (at_s, change, slope) in changes {
            let last = pieces[pieces.len() - 1];
            // Before the first change there is nothing that could have grown.
            let mut level = if last.slope == 0.0 { last.level } else { last.at(at_s) };
            level.iter_mut().zip(change).for_each(|(level, change)| *level += change);
            holders += if change[0] + change[1] + change[2] > 0.0 { 1.0 } else { -1.0 };
            let idle = holders == 0.0;
            // Sums of many terms drift by rounding; an idle device holds nothing.
            let level = if idle { [0.0; KINDS] } else { level };
            let piece = Piece { from_s: at_s, level, slope: if idle { 0.0 } else { last.slope + slope } };
            if last.from_s == at_s {
                pieces.pop();
            }
            pieces.push(piece);
        }
        let mut load = Self { pieces, most: [0.0; KINDS] };
        let ends: Vec<[f64; KINDS]> = load.ends().map(|(_, load)| load).collect();
        for kind in 0..KINDS {
            load.most[kind] = ends.iter().map(|end| end[kind]).fold(0.0, f64::max);
        }
        load
    }

    /// Both ends of every piece but the first and the last, in time: where the load can be largest.
    fn ends(&self) -> impl Iterator<Item = (f64, [f64; KINDS])> + '_ {
        self.pieces.windows(2).skip(1).flat_map(|two| {
            let to_s = two[1].from_s;
            [(two[0].from_s, two[0].level), (to_s, two[0].at(to_s))]
        })
    }

    /// The largest of each kind.
    pub(super) fn most(&self) -> [f64; KINDS] {
        self.most
    }

    /// The load at rising moments.
    pub(super) fn at(&self, times: impl Iterator<Item = f64>) -> Vec<[f64; KINDS]> {
        let mut place = 0;
        times
            .map(|t_s| {
                while place + 1 < self.pieces.len() && self.pieces[place + 1].from_s <= t_s {
                    place += 1;
                }
                let piece = &self.pieces[place];
                if piece.slope == 0.0 { piece.level } else { piece.at(t_s) }
            })
            .collect()
    }

    /// At rising moments the load at which most memory was held, as `weights` count it, since the last
    /// release before.
    pub(super) fn peaks(
        &self,
        times: impl Iterator<Item = f64>,
        releases: &[f64],
        weights: [f64; KINDS],
    ) -> Vec<[f64; KINDS]> {
        let times: Vec<f64> = times.collect();
        let present = self.at(times.iter().copied());
        let weigh = |load: &[f64; KINDS]| load.iter().zip(weights).map(|(a, b)| a * b).sum::<f64>();
        let mut ends = self.ends().peekable();
        let mut releases = releases.iter().peekable();
        let mut peak = [0.0; KINDS];
        times
            .iter()
            .zip(present)
            .map(|(&t_s, present)| {
                let mut released_s = None;
                while let Some(&&release_s) = releases.peek().filter(|release_s| ***release_s <= t_s) {
                    released_s = Some(release_s);
                    releases.next();
                }
                if released_s.is_some() {
                    peak = [0.0; KINDS];
                }
                while let Some((end_s, load)) = ends.next_if(|(end_s, _)| *end_s <= t_s) {
                    let before = released_s.is_some_and(|released_s| end_s < released_s);
                    if !before && weigh(&load) > weigh(&peak) {
                        peak = load;
                    }
                }
                if weigh(&present) > weigh(&peak) {
                    peak = present;
                }
                peak
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works() -> [Work; 2] {
        [
            Work { from_s: 1.0, to_s: 3.0, tokens_from: 10.0, tokens_to: 30.0, documents: 0.0, calls: 1.0 },
            Work { from_s: 2.0, to_s: 4.0, documents: 5.0, ..Work::default() },
        ]
    }

    #[test]
    fn loads_add_up_and_grow() {
        let load = Load::new(&works());
        let at = load.at([0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 4.0].into_iter());
        let tokens: Vec<f64> = at.iter().map(|load| load[0]).collect();
        let documents: Vec<f64> = at.iter().map(|load| load[1]).collect();
        assert_eq!(tokens, [0.0, 10.0, 20.0, 25.0, 0.0, 0.0, 0.0]);
        assert_eq!(documents, [0.0, 0.0, 5.0, 5.0, 5.0, 5.0, 0.0]);
        assert_eq!(load.most(), [30.0, 5.0, 1.0]);
    }

    #[test]
    fn peaks_stay_until_they_are_released() {
        let load = Load::new(&works());
        let peaks = load.peaks([0.5, 2.0, 3.2, 3.8, 5.0].into_iter(), &[3.6], [1.0, 1.0, 0.0]);
        let weight: Vec<f64> = peaks.iter().map(|load| load[0] + load[1]).collect();
        assert_eq!(weight, [0.0, 25.0, 35.0, 5.0, 5.0]);
    }
}

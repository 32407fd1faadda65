//! How far each business class may fall, and the red line: some questions (medical, legal) are better
//! not answered than answered poorly (published case P1).

use crate::admission::Refusal;
use crate::{Level, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far one business class may fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Floor {
    /// The lowest level at which the class is answered.
    pub min_level: Level,
    /// When the ladder stands lower: `true` answers "unavailable", `false` answers at `min_level`.
    pub red_line: bool,
    /// Of several model providers only the main one may answer: when it cannot, the answer is
    /// "unavailable".
    pub main_provider_only: bool,
}

impl Default for Floor {
    fn default() -> Self {
        Self { min_level: Level::L4, red_line: false, main_provider_only: false }
    }
}

impl Floor {
    /// Whether no answer is better than a poor one.
    pub(crate) fn is_red_line(self) -> bool {
        self.red_line || self.main_provider_only
    }
}

/// How far each business class may fall; all the way unless stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Floors {
    /// Class S0, the most important.
    pub s0: Floor,
    /// Class S1.
    pub s1: Floor,
    /// Class S2.
    pub s2: Floor,
    /// Class S3.
    pub s3: Floor,
    /// Class S4.
    pub s4: Floor,
}

impl Floors {
    /// The floor of a class, 0 (S0) to 4 (S4); anything else counts as S4.
    #[inline]
    pub fn of(&self, class: u8) -> Floor {
        match class {
            0 => self.s0,
            1 => self.s1,
            2 => self.s2,
            3 => self.s3,
            _ => self.s4,
        }
    }

    /// The level at which a class is answered when the ladder stands at `level` because of `why`.
    #[inline]
    pub(crate) fn settle(&self, class: u8, level: Level, why: Reason) -> Result<(Level, Reason), Refusal> {
        let floor = self.of(class);
        if level <= floor.min_level {
            return Ok((level, why));
        }
        if floor.red_line {
            return Err(Self::compared(Reason::ClassUnavailable, level, floor));
        }
        let why = if floor.min_level == Level::L1 { Reason::Normal } else { Reason::ClassMinLevel };
        Ok((floor.min_level, why))
    }

    /// The comparison behind a floor's decision, for the explanation.
    pub(crate) fn compared(why: Reason, level: Level, floor: Floor) -> Refusal {
        Refusal::new(why, (level.index() + 1) as f64, (floor.min_level.index() + 1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_stops_at_its_floor_or_at_its_red_line() {
        let floors = Floors {
            s0: Floor { min_level: Level::L1, red_line: true, ..Floor::default() },
            s1: Floor { min_level: Level::L2, ..Floor::default() },
            ..Floors::default()
        };
        let settle = |class, level| floors.settle(class, level, Reason::L3Vram);
        assert_eq!(settle(0, Level::L1), Ok((Level::L1, Reason::L3Vram)));
        assert_eq!(settle(0, Level::L2).unwrap_err().why, Reason::ClassUnavailable);
        assert_eq!(settle(1, Level::L2), Ok((Level::L2, Reason::L3Vram)));
        assert_eq!(settle(1, Level::L4), Ok((Level::L2, Reason::ClassMinLevel)));
        assert_eq!(settle(9, Level::L4), Ok((Level::L4, Reason::L3Vram)));
    }
}

//! What a driver tells the governor of the world around it: state that the governor shares with other
//! nodes or takes from elsewhere, and that may be lost.

use serde::{Deserialize, Serialize};

/// Something around the governor was lost, or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Notice {
    /// The shared store of the limiters does not answer in time.
    StoreLost,
    /// The shared store answers again.
    StoreBack,
    /// All nodes of the limiter are down.
    NodesDown,
    /// Nodes of the limiter are up again.
    NodesUp,
    /// The remote rule source delivered an empty rule set.
    RulesWiped,
    /// The remote rule source delivers rules again.
    RulesBack,
    /// No forecast can be had.
    ForecastLost,
    /// Forecasts can be had again.
    ForecastBack,
}

/// What is lost at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a loss of its own")]
pub(crate) struct Lost {
    pub(crate) store: bool,
    pub(crate) nodes: bool,
    pub(crate) rules: bool,
    pub(crate) forecast: bool,
}

impl Lost {
    pub(crate) fn hear(&mut self, notice: Notice) {
        match notice {
            Notice::StoreLost => self.store = true,
            Notice::StoreBack => self.store = false,
            Notice::NodesDown => self.nodes = true,
            Notice::NodesUp => self.nodes = false,
            Notice::RulesWiped => self.rules = true,
            Notice::RulesBack => self.rules = false,
            Notice::ForecastLost => self.forecast = true,
            Notice::ForecastBack => self.forecast = false,
        }
    }
}

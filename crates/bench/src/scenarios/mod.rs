//! The scenarios, each a subcommand: a story that runs for minutes on both servers, one after the other, and what it
//! does to speed and size.

pub mod analytics;
pub mod churn;
pub mod clock;
pub mod graveyard;
pub mod hot;
pub mod large;
pub mod queue;

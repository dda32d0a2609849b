//! `linerate explain`.

use clap::Args;

use super::Color;

/// `linerate explain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExplainArgs {
    /// The rule, as reports name it; without one, all of them
    #[arg(value_name = "RULE")]
    pub rule: Option<String>,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}

//! nccl-tests in a run: how they are started, and how they ended.

use serde::{Deserialize, Serialize};

use super::NodeName;

/// How nccl-tests are started by a run that asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclSettings {
    /// The program and its arguments; [`NcclSettings::PLACEHOLDERS`] in them are replaced.
    pub command: Vec<String>,
    /// What starts it on all nodes together, such as mpirun with its arguments. Where it is empty, each
    /// node starts the program by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launcher: Vec<String>,
    /// What has not ended after so many seconds is ended.
    pub timeout_s: u32,
}

impl NcclSettings {
    /// What in an argument stands for something else: the names of the nodes, joined by commas; how many
    /// they are; the GPUs of each, of that with the fewest; the GPUs of all.
    pub const PLACEHOLDERS: [&str; 4] = ["{hosts}", "{nodes}", "{gpus}", "{ranks}"];

    /// The launcher and the program with all arguments, for these nodes with so many GPUs each.
    pub fn arguments(&self, nodes: &[NodeName], gpus: u32) -> Vec<String> {
        let names: Vec<&str> = nodes.iter().map(|node| node.0.as_str()).collect();
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let values = [
            names.join(","),
            count.to_string(),
            gpus.to_string(),
            count.saturating_mul(gpus).to_string(),
        ];
        let fill = |argument: &String| {
            let places = Self::PLACEHOLDERS.iter().zip(&values);
            places.fold(argument.clone(), |text, (place, value)| {
                text.replace(place, value)
            })
        };
        self.launcher
            .iter()
            .chain(&self.command)
            .map(fill)
            .collect()
    }
}

/// What came of nccl-tests that were to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclTestEnd {
    /// How they ended.
    pub how: NcclTestExit,
    /// The last that they wrote which is neither NCCL's nor a result: what went wrong is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<String>,
    /// Lines of NCCL that were not kept, because they were too long or too many.
    #[serde(default)]
    pub left_out: u64,
}

impl NcclTestEnd {
    /// They could not be run to their end.
    pub fn failed(why: impl Into<String>) -> Self {
        Self {
            how: NcclTestExit::Failed { why: why.into() },
            last: Vec::new(),
            left_out: 0,
        }
    }
}

/// How nccl-tests ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum NcclTestExit {
    /// By themselves.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// They were not started, or were ended.
    Failed {
        /// Why, for the operator.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_take_their_places_and_make_no_arguments_of_their_own() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let settings = NcclSettings {
            command: words(&["all_reduce_perf", "-g", "{gpus}"]),
            launcher: words(&[
                "mpirun",
                "-np",
                "{ranks}",
                "--host={hosts}",
                "-N",
                "{nodes}",
            ]),
            timeout_s: 60,
        };
        let nodes = ["node01", "node02"].map(NodeName::from);
        assert_eq!(
            settings.arguments(&nodes, 8),
            [
                "mpirun",
                "-np",
                "16",
                "--host=node01,node02",
                "-N",
                "2",
                "all_reduce_perf",
                "-g",
                "8"
            ]
        );
    }
}

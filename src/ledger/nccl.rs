//! nccl-tests of a run: what they were, what they wrote, how they ended.

use std::collections::BTreeMap;

use crate::model::{NcclTestEnd, NcclTestExit, NodeName};

/// What is kept of all of them, in bytes: a record may hold anything.
const MAX_KEPT: usize = 256 << 20;

/// nccl-tests, on one node by itself or on several by a launcher.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NcclTest {
    /// The nodes they are to run on.
    pub nodes: Vec<NodeName>,
    /// The program and its arguments; empty where it was not started.
    pub command: Vec<String>,
    /// What they wrote that bears on GPUDirect RDMA or is a result, line by line.
    pub text: String,
    /// How they ended; `None` while they run, or where the record was cut off.
    pub end: Option<NcclTestEnd>,
}

impl NcclTest {
    /// Whether they ran to their end, and well: then they are not run again.
    pub fn is_over(&self) -> bool {
        let well = NcclTestExit::Exited { code: 0 };
        self.end.as_ref().is_some_and(|end| end.how == well)
    }
}

/// Those of a run, by the node that ran them; `None` stands for the launcher.
#[derive(Debug, Clone, Default)]
pub(super) struct NcclTests {
    pub(super) tests: BTreeMap<Option<NodeName>, NcclTest>,
    kept: usize,
}

impl NcclTests {
    pub(super) fn start(&mut self, on: &Option<NodeName>, nodes: &[NodeName], command: &[String]) {
        let test = NcclTest {
            nodes: nodes.to_vec(),
            command: command.to_vec(),
            ..NcclTest::default()
        };
        let before = self.tests.insert(on.clone(), test);
        self.kept -= before.map_or(0, |before| before.text.len());
    }

    pub(super) fn say(&mut self, on: &Option<NodeName>, lines: &[String]) {
        let Some(test) = self.tests.get_mut(on) else {
            return;
        };
        for line in lines {
            if self.kept + line.len() < MAX_KEPT {
                self.kept += line.len() + 1;
                test.text.push_str(line);
                test.text.push('\n');
            }
        }
    }

    pub(super) fn end(&mut self, on: &Option<NodeName>, end: &NcclTestEnd) {
        let test = self.tests.entry(on.clone()).or_default();
        if test.nodes.is_empty() {
            test.nodes.extend(on.clone());
        }
        test.end = Some(end.clone());
    }

    /// Of a run that goes on: what did not end well is run again.
    pub(super) fn resume(&mut self) {
        self.tests.retain(|_, test| test.is_over());
        self.kept = self.tests.values().map(|test| test.text.len()).sum();
    }
}

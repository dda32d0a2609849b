//! What is to be said of a check for one subject.

use crate::model::{Direction, Evidence, Fact, NicId, NodeName, Rail, Weight};

/// Whom it is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Who {
    pub(super) node: Option<NodeName>,
    pub(super) rail: Option<Rail>,
    pub(super) words: String,
}

impl Who {
    pub(super) fn cluster() -> Self {
        Self {
            node: None,
            rail: None,
            words: "the cluster".to_owned(),
        }
    }

    pub(super) fn node(node: &NodeName) -> Self {
        Self {
            node: Some(node.clone()),
            rail: None,
            words: node.to_string(),
        }
    }

    /// A rail of a node, where no NIC can be named.
    pub(super) fn place(node: &NodeName, rail: Rail) -> Self {
        Self {
            node: Some(node.clone()),
            rail: Some(rail),
            words: format!("{rail} of {node}"),
        }
    }

    pub(super) fn nic(nic: &NicId, rail: Rail) -> Self {
        Self {
            node: Some(nic.node.clone()),
            rail: Some(rail),
            words: nic.to_string(),
        }
    }

    /// The same, or one direction of it.
    pub(super) fn towards(mut self, direction: Option<Direction>) -> Self {
        if let Some(direction) = direction {
            self.words = format!("{} {direction}", self.words);
        }
        self
    }

    /// A rail of the whole cluster.
    pub(super) fn rail(rail: Rail) -> Self {
        Self {
            node: None,
            rail: Some(rail),
            words: rail.to_string(),
        }
    }
}

/// Whether a demand holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Is {
    Holds,
    Fails,
    /// It cannot be judged, because of this.
    Unknown(String),
}

/// What is to be said of one subject.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    pub(super) who: Who,
    pub(super) is: Is,
    pub(super) saw: Option<String>,
    /// What is demanded, where that is more than the check says.
    pub(super) expected: Option<String>,
    pub(super) evidence: Vec<Evidence>,
    /// Where it weighs less than its check.
    pub(super) weight: Option<Weight>,
}

impl Told {
    pub(super) fn unknown(who: Who, why: impl Into<String>) -> Self {
        Self {
            who,
            is: Is::Unknown(why.into()),
            saw: None,
            expected: None,
            evidence: Vec::new(),
            weight: None,
        }
    }

    /// What was seen, and whether that will do.
    pub(super) fn seen(who: Who, holds: bool, saw: impl Into<String>) -> Self {
        Self {
            is: if holds { Is::Holds } else { Is::Fails },
            saw: Some(saw.into()),
            ..Self::unknown(who, "")
        }
    }

    /// What a fact says; one that is unknown is not judged.
    pub(super) fn fact<T>(
        who: Who,
        fact: &Fact<T>,
        holds: impl FnOnce(&T) -> bool,
        say: impl FnOnce(&T) -> String,
    ) -> Self {
        match fact {
            Fact::Known { value, from } => {
                Self::seen(who, holds(value), say(value)).from(from.as_str())
            }
            Fact::Unknown { why } => Self::unknown(who, why.as_str()),
        }
    }

    /// Where it was seen. What holds needs no evidence: there is a lot of it.
    pub(super) fn from(self, from: impl Into<String>) -> Self {
        let saw = self.saw.clone();
        match saw {
            Some(saw) => self.evidence(saw, from),
            None => self,
        }
    }

    pub(super) fn evidence(mut self, saw: impl Into<String>, from: impl Into<String>) -> Self {
        if self.is != Is::Holds {
            self.evidence.push(Evidence {
                saw: saw.into(),
                from: from.into(),
            });
        }
        self
    }

    pub(super) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    pub(super) fn holds(&self) -> bool {
        self.is == Is::Holds
    }
}

/// Names in a row, the first few and how many more there are.
pub(super) fn listed<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 4;
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    let more = all.len().saturating_sub(SHOWN);
    let shown = all[..all.len() - more].join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

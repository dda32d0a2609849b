//! What a rule is, apart from any finding: the text of `linerate explain`.

use crate::model::Rule;

/// A rule in general.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Which.
    pub rule: Rule,
    /// What it means, and what it costs.
    pub means: &'static str,
    /// How it is detected: files, calls, measurements; and when it cannot be told.
    pub detected: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// The text on a rule.
pub fn about(rule: Rule) -> &'static About {
    let all = super::everything();
    match all.into_iter().find(|about| about.rule == rule) {
        Some(about) => about,
        None => unreachable!("the tests hold that every rule has its text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_text_once() {
        let mut described: Vec<Rule> = crate::judge::rules::everything()
            .iter()
            .map(|about| about.rule)
            .collect();
        described.sort();
        assert_eq!(described, Rule::ALL);
        for rule in Rule::ALL {
            let About {
                means,
                detected,
                remedy,
                ..
            } = about(*rule);
            for text in [means, detected, remedy] {
                assert!(text.ends_with('.') && text.len() > 20, "{rule}: {text}");
            }
            assert_eq!(rule.name().parse(), Ok(*rule));
        }
    }
}

//! What a rule means, how it is detected, and what to do: for someone who read its name in a report.

use std::io::{self, Write};

use super::findings::paragraph;
use super::text::Style;
use crate::judge::{About, about};
use crate::model::Rule;

/// Writes the text on one rule.
///
/// # Errors
/// Those of `out`.
pub fn explain(rule: Rule, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let About {
        means,
        detected,
        remedy,
        ..
    } = about(rule);
    writeln!(out, "{}", style.paint("1", rule.name()))?;
    paragraph(out, style, "  ", "  ", means)?;
    paragraph(out, style, "  How it is detected: ", "    ", detected)?;
    paragraph(out, style, "  What to do: ", "    ", remedy)
}

/// Writes a line for each rule: its name and the beginning of what it means.
///
/// # Errors
/// Those of `out`.
pub fn rules(style: Style, out: &mut dyn Write) -> io::Result<()> {
    let width = Rule::ALL
        .iter()
        .map(|rule| rule.name().len())
        .max()
        .unwrap_or(0);
    let indent = " ".repeat(width + 2);
    for rule in Rule::ALL {
        let first = about(*rule).means.split(". ").next().unwrap_or_default();
        let label = format!("{:<width$}  ", rule.name());
        paragraph(
            out,
            style,
            &label,
            &indent,
            &format!("{}.", first.trim_end_matches('.')),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style {
        color: false,
        width: 100,
    };

    #[test]
    fn a_rule_is_explained_in_three_parts() {
        let mut out = Vec::new();
        explain(Rule::PcieLink, STYLE, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn the_readme_names_every_rule() {
        let readme = include_str!("../../README.md");
        for rule in Rule::ALL {
            assert!(readme.contains(&format!("`{rule}`")), "{rule}");
        }
    }

    #[test]
    fn every_rule_has_a_line_that_fits() {
        let mut out = Vec::new();
        rules(STYLE, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for rule in Rule::ALL {
            assert!(text.contains(rule.name()), "{rule}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }
}

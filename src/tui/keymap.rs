//! The keys: one table that is looked up, shown as help, and offered as commands.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In every pane.
    Everywhere,
    /// In the grid.
    Grid,
    /// Wherever a NIC is selected: the grid, the pairs, the node, CPU cost.
    Nodes,
    /// In the findings, and where one is open.
    Findings,
    /// In a replay.
    Replay,
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Do {
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// One NIC to the left.
    Left,
    /// One NIC to the right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first line.
    First,
    /// To the last line.
    Last,
    /// Into what is selected.
    Open,
    /// Out again.
    Back,
    /// The grid.
    Grid,
    /// The pairs.
    Pairs,
    /// The node.
    Node,
    /// CPU cost.
    Cpu,
    /// The rail before.
    RailBefore,
    /// The rail after.
    RailAfter,
    /// The findings.
    Findings,
    /// The run.
    Run,
    /// The next pane.
    NextPane,
    /// The pane before.
    PreviousPane,
    /// Only what has these words.
    Filter,
    /// Another order.
    Sort,
    /// One character for each NIC, or back.
    Fold,
    /// What NICs carry now, or what was measured.
    Traffic,
    /// Probe the selected NIC once more.
    Probe,
    /// Begin no round, or go on.
    Pause,
    /// Probe the selected node no more.
    Exclude,
    /// Write a report.
    Export,
    /// Put the finding on the clipboard.
    Copy,
    /// What the finding's rule means.
    Explain,
    /// A recorded run faster.
    Faster,
    /// A recorded run slower.
    Slower,
    /// This table.
    Help,
    /// A command by its name.
    Command,
    /// Give the terminal back for a while.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Leave.
    Quit,
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Where it holds.
    pub place: Place,
    /// The keys, each of which does it.
    pub keys: &'static [&'static str],
    /// The name as a command.
    pub name: &'static str,
    /// What it does, for the help.
    pub help: &'static str,
    /// What it does.
    pub does: Do,
}

const fn key(
    place: Place,
    keys: &'static [&'static str],
    name: &'static str,
    help: &'static str,
    does: Do,
) -> Binding {
    Binding {
        place,
        keys,
        name,
        help,
        does,
    }
}

/// Every key.
pub fn table() -> &'static [Binding] {
    use Place::{Everywhere, Findings, Grid, Nodes, Replay};
    const {
        &[
            key(
                Everywhere,
                &["1"],
                "grid",
                "the grid of nodes and NICs",
                Do::Grid,
            ),
            key(
                Everywhere,
                &["2"],
                "pairs",
                "the pairs of a rail: who sends to whom",
                Do::Pairs,
            ),
            key(
                Everywhere,
                &["3", "n"],
                "node",
                "the selected node: PCIe, NICs, limits",
                Do::Node,
            ),
            key(
                Everywhere,
                &["4"],
                "cpu",
                "what driving each NIC takes of processors",
                Do::Cpu,
            ),
            key(
                Everywhere,
                &["5"],
                "findings",
                "the findings, the worst first",
                Do::Findings,
            ),
            key(
                Everywhere,
                &["6"],
                "run",
                "the run: progress, coverage, log",
                Do::Run,
            ),
            key(Everywhere, &["tab"], "next", "the next pane", Do::NextPane),
            key(
                Everywhere,
                &["backtab"],
                "previous",
                "the pane before",
                Do::PreviousPane,
            ),
            key(Everywhere, &["up", "k"], "up", "a line up", Do::Up),
            key(Everywhere, &["down", "j"], "down", "a line down", Do::Down),
            key(
                Everywhere,
                &["pageup", "ctrl-b", "ctrl-u"],
                "page-up",
                "a page up",
                Do::PageUp,
            ),
            key(
                Everywhere,
                &["pagedown", "ctrl-f", "ctrl-d"],
                "page-down",
                "a page down",
                Do::PageDown,
            ),
            key(
                Everywhere,
                &["home", "g"],
                "first",
                "to the first line",
                Do::First,
            ),
            key(
                Everywhere,
                &["end", "G"],
                "last",
                "to the last line",
                Do::Last,
            ),
            key(
                Everywhere,
                &["enter"],
                "open",
                "into what is selected",
                Do::Open,
            ),
            key(
                Everywhere,
                &["esc", "backspace"],
                "back",
                "out again; clears the filter",
                Do::Back,
            ),
            key(
                Everywhere,
                &["/"],
                "filter",
                "only what has these words",
                Do::Filter,
            ),
            key(
                Nodes,
                &["left", "h"],
                "left",
                "a NIC, receiver or node to the left",
                Do::Left,
            ),
            key(
                Nodes,
                &["right", "l"],
                "right",
                "a NIC, receiver or node to the right",
                Do::Right,
            ),
            key(
                Nodes,
                &["["],
                "rail-before",
                "the rail before",
                Do::RailBefore,
            ),
            key(Nodes, &["]"], "rail-after", "the rail after", Do::RailAfter),
            key(
                Nodes,
                &["s"],
                "sort",
                "order: worst first, by name, by leaf group",
                Do::Sort,
            ),
            key(
                Grid,
                &["f"],
                "fold",
                "one character for each NIC, or back",
                Do::Fold,
            ),
            key(
                Grid,
                &["t"],
                "traffic",
                "what each NIC carries now, or what was measured",
                Do::Traffic,
            ),
            key(
                Nodes,
                &["r"],
                "probe",
                "probe the selected NIC or pair once more",
                Do::Probe,
            ),
            key(
                Nodes,
                &["x"],
                "exclude",
                "probe the selected node no more",
                Do::Exclude,
            ),
            key(
                Findings,
                &["w"],
                "explain",
                "what the rule means",
                Do::Explain,
            ),
            key(
                Findings,
                &["y", "c"],
                "copy",
                "the finding to the clipboard",
                Do::Copy,
            ),
            key(
                Replay,
                &["+", "="],
                "faster",
                "replay twice as fast",
                Do::Faster,
            ),
            key(Replay, &["-"], "slower", "replay half as fast", Do::Slower),
            key(
                Everywhere,
                &["p", "space"],
                "pause",
                "begin no further round, or go on",
                Do::Pause,
            ),
            key(Everywhere, &["e"], "export", "write a report", Do::Export),
            key(
                Everywhere,
                &[":"],
                "command",
                "a command by its name",
                Do::Command,
            ),
            key(Everywhere, &["?", "f1"], "help", "this help", Do::Help),
            key(
                Everywhere,
                &["ctrl-z"],
                "suspend",
                "give the terminal back for a while",
                Do::Suspend,
            ),
            key(
                Everywhere,
                &["ctrl-l"],
                "redraw",
                "draw everything anew",
                Do::Redraw,
            ),
            key(
                Everywhere,
                &["q", "ctrl-c"],
                "quit",
                "leave; asks while the run goes on",
                Do::Quit,
            ),
        ]
    }
}

/// What a key does in these places.
pub(super) fn look_up(event: &KeyEvent, places: &[Place]) -> Option<Do> {
    let holds = |binding: &&Binding| {
        let here = binding.place == Place::Everywhere || places.contains(&binding.place);
        here && binding.keys.iter().any(|key| is(event, key))
    };
    table().iter().find(holds).map(|binding| binding.does)
}

/// Commands that begin with what was typed, an exact one alone.
pub(super) fn commands(typed: &str) -> Vec<&'static Binding> {
    let exact = table().iter().find(|binding| binding.name == typed);
    let begins = |binding: &&Binding| binding.name.starts_with(typed);
    match exact {
        Some(binding) => vec![binding],
        None => table().iter().filter(begins).collect(),
    }
}

fn is(event: &KeyEvent, word: &str) -> bool {
    let Some(key) = parse(word) else { return false };
    // Terminals differ in whether they report shift beside an upper-case letter.
    let without_shift = event.modifiers.difference(KeyModifiers::SHIFT);
    (event.code, without_shift) == (key.code, key.modifiers)
}

/// A key from its word in the table.
pub(super) fn parse(word: &str) -> Option<KeyEvent> {
    let (word, modifiers) = match word.strip_prefix("ctrl-") {
        Some(word) => (word, KeyModifiers::CONTROL),
        None => (word, KeyModifiers::NONE),
    };
    let code = match word {
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "backtab" => KeyCode::BackTab,
        "backspace" => KeyCode::Backspace,
        "space" => KeyCode::Char(' '),
        "f1" => KeyCode::F(1),
        _ => {
            let mut letters = word.chars();
            let first = letters.next()?;
            letters.next().is_none().then_some(KeyCode::Char(first))?
        }
    };
    Some(KeyEvent::new(code, modifiers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_one_and_does_one_thing() {
        let mut seen: Vec<(Place, KeyEvent, &str)> = Vec::new();
        for binding in table() {
            for word in binding.keys {
                let key = parse(word).unwrap_or_else(|| panic!("{word}"));
                let clash = seen.iter().find(|(place, known, _)| {
                    let meet = *place == binding.place
                        || [*place, binding.place].contains(&Place::Everywhere);
                    meet && *known == key
                });
                assert!(clash.is_none(), "{word} is {clash:?} and {}", binding.name);
                seen.push((binding.place, key, binding.name));
            }
        }
    }

    #[test]
    fn commands_are_found_by_their_beginning() {
        assert_eq!(commands("pau")[0].does, Do::Pause);
        assert_eq!(commands("run").len(), 1);
        assert!(commands("pa").len() > 1);
        assert!(commands("nothing").is_empty());
    }

    /// `cargo test readme` says what to put there when this fails.
    #[test]
    fn the_readme_has_the_table() {
        let readme = include_str!("../../README.md");
        let row = |binding: &Binding| {
            let keys: Vec<String> = binding.keys.iter().map(|key| format!("`{key}`")).collect();
            format!("| {} | {} |", keys.join(" "), binding.help)
        };
        let rows: Vec<String> = table().iter().map(row).collect();
        assert!(readme.contains(&rows.join("\n")), "{}", rows.join("\n"));
    }
}

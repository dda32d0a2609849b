//! The heat map: of few nodes a table of numbers, of many a map for each rail, whose cells are filled as
//! far as their NICs are.

use std::fmt::Write;

use askama::Template;

use super::nics::{Level, Nic, Nics, Way, way_word};
use crate::model::{Gbps, Rail};

/// Up to so many nodes have their numbers in the cells.
const MOST_NUMBERS: usize = 32;

/// Cells of a line of a map.
const LINE: usize = 64;

/// NICs that are named below a map.
const MOST_NAMED: usize = 10;

/// The height of one direction's bar and of a whole cell, and the width of a full bar and of a cell, in
/// units of the drawing.
const BAR: f64 = 5.0;
const CELL: f64 = 13.0;
const FULL: f64 = 9.0;
const STEP: f64 = 10.0;

/// The section of the heat map.
#[derive(Template)]
#[template(path = "heat.html")]
pub(super) struct Heat<'a> {
    nics: &'a Nics<'a>,
}

impl<'a> Heat<'a> {
    pub(super) fn of(nics: &'a Nics<'a>) -> Self {
        Self { nics }
    }

    fn is_table(&self) -> bool {
        self.nics.nodes.len() <= MOST_NUMBERS
    }

    /// Whether a map has one line: then it needs the whole width.
    fn is_one_line(&self) -> bool {
        self.nics.nodes.len() <= LINE
    }

    fn rows(&self) -> impl Iterator<Item = &[Nic<'a>]> {
        self.nics.all.chunks(self.nics.rails.len().max(1))
    }

    fn rails(&self) -> impl Iterator<Item = OfRail<'_, 'a>> {
        let rails = self.nics.rails.iter().enumerate();
        rails.map(|(place, rail)| OfRail {
            nics: self.nics,
            place,
            rail: *rail,
        })
    }

    /// The class, the share and the rate of a direction.
    fn cell(&self, way: &Option<Way>) -> (&'static str, String, String) {
        match way {
            Some(way) => (
                class(self.nics.level(way.share)),
                format!("{:.2}", way.share),
                way.rate.to_string(),
            ),
            None => ("none", "–".to_owned(), "not measured".to_owned()),
        }
    }
}

/// The class of the style sheet that has the colour of a level.
pub(super) fn class(level: Level) -> &'static str {
    match level {
        Level::Full => "full",
        Level::Low => "low",
        Level::Half => "half",
    }
}

/// The NICs of one rail.
struct OfRail<'n, 'a> {
    nics: &'n Nics<'a>,
    place: usize,
    rail: Rail,
}

impl<'n, 'a> OfRail<'n, 'a> {
    fn all(&self) -> impl Iterator<Item = &'n Nic<'a>> {
        let (nics, place) = (self.nics, self.place);
        (0..nics.nodes.len()).filter_map(move |node| nics.at(node, place))
    }

    /// What is expected on the rail, in words.
    fn expected(&self) -> String {
        let ways = self.all().flat_map(|nic| nic.ways.into_iter().flatten());
        let rates: Vec<f64> = ways.filter_map(|way| Some(way.expected?.0)).collect();
        let least = rates.iter().copied().min_by(f64::total_cmp).map(Gbps);
        let most = rates.iter().copied().max_by(f64::total_cmp).map(Gbps);
        match (least, most) {
            (Some(least), Some(most)) if least == most => format!("expected {most}"),
            (Some(least), Some(most)) => format!("expected {least} to {most}"),
            _ => "expected rate unknown".to_owned(),
        }
    }

    /// What is not at line rate, in words: low directions, then those without a rate.
    fn summary(&self) -> Vec<(&'static str, String)> {
        let (mut low, mut none, mut full) = (Vec::new(), Vec::new(), 0);
        for nic in self.all() {
            for (way, seen) in nic.ways.iter().enumerate() {
                let who = || format!("{} {}", nic.node, way_word(way));
                match seen {
                    None => none.push((-1.0, who())),
                    Some(seen) if self.nics.level(seen.share) == Level::Full => full += 1,
                    Some(seen) => low.push((seen.share, who())),
                }
            }
        }
        low.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut words = vec![("full", format!("{full} NIC directions at line rate"))];
        for (class, heading, all) in [("low", "low", low), ("none", "not measured", none)] {
            if !all.is_empty() {
                words.push((class, format!("{} {heading}: {}", all.len(), named(&all))));
            }
        }
        words
    }

    /// What a reader that sees no map is told.
    fn in_words(&self) -> String {
        let words = self.summary().into_iter().map(|(_, words)| words);
        let words: Vec<String> = words.collect();
        format!("{}: {}.", self.rail, words.join("; "))
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_, 'n, 'a>> {
        let lines = (0..self.nics.nodes.len()).step_by(LINE);
        lines.map(|from| Line { of: self, from })
    }
}

fn named(all: &[(f64, String)]) -> String {
    let name = |(share, who): &(f64, String)| match *share {
        share if share < 0.0 => who.clone(),
        share => format!("{who} {share:.2}"),
    };
    let names: Vec<String> = all.iter().take(MOST_NAMED).map(name).collect();
    match all.len().saturating_sub(MOST_NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// One line of a map.
struct Line<'l, 'n, 'a> {
    of: &'l OfRail<'n, 'a>,
    from: usize,
}

impl Line<'_, '_, '_> {
    fn first(&self) -> &str {
        &self.of.nics.nodes[self.from].0
    }

    fn nodes(&self) -> usize {
        LINE.min(self.of.nics.nodes.len() - self.from)
    }

    /// Width of the drawing: that of a whole line, unless there is only one.
    fn width(&self) -> usize {
        LINE.min(self.of.nics.nodes.len()) * STEP as usize
    }

    /// One path for each colour.
    fn paths(&self) -> Vec<(&'static str, String)> {
        let mut paths: Vec<(&str, String)> = ["track", "full", "low", "half", "none", "ring"]
            .map(|class| (class, String::new()))
            .into();
        for cell in 0..self.nodes() {
            let Some(nic) = self.of.nics.at(self.from + cell, self.of.place) else {
                continue;
            };
            for (way, seen) in nic.ways.iter().enumerate() {
                let x = cell as f64 * STEP + 0.5;
                let y = 0.5 + way as f64 * (BAR + 1.0);
                self.bar(&mut paths, (x, y), seen.as_ref());
            }
            let is_low = |way: &Way| self.of.nics.level(way.share) != Level::Full;
            if let Some((_, ring)) = paths.last_mut()
                && nic.ways.iter().flatten().any(is_low)
            {
                // Writing to a string does not fail.
                let _ = write!(ring, "M{} 0h{STEP}v12h-{STEP}z", cell * STEP as usize);
            }
        }
        paths.retain(|(_, path)| !path.is_empty());
        paths
    }

    /// A bar as long as the share; an outline with a stroke through it where there is none.
    fn bar(&self, paths: &mut [(&str, String)], (x, y): (f64, f64), seen: Option<&Way>) {
        let mut draw = |class: &str, width: f64| {
            let path = paths.iter_mut().find(|(known, _)| *known == class);
            if let Some((_, path)) = path {
                // Writing to a string does not fail.
                let _ = write!(path, "M{x} {y}h{width:.1}v{BAR}h-{width:.1}z");
                if class == "none" {
                    let _ = write!(path, "l{FULL} {BAR}");
                }
            }
        };
        let Some(seen) = seen else {
            return draw("none", FULL);
        };
        let level = self.of.nics.level(seen.share);
        if level != Level::Full {
            draw("track", FULL);
        }
        draw(class(level), FULL * seen.share.clamp(0.04, 1.0));
    }
}

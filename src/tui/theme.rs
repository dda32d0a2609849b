//! How things look: colours that people with every kind of sight tell apart, for every terminal, and
//! never the only sign of something.

use ratatui::style::{Color, Modifier, Style};

/// How many colours the terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// 24 bits.
    True,
    /// The 256 of xterm.
    Indexed,
    /// The 16 of ANSI.
    Ansi,
    /// None: bold, underlined, reversed.
    None,
}

/// What the terminal's background is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Dark, as most are.
    Dark,
    /// Light.
    Light,
}

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// At line rate.
    Good,
    /// At half bandwidth.
    Half,
    /// Clearly below what is expected.
    Degraded,
    /// Not there, or carries nothing.
    Dead,
    /// Not told yet, or cannot be.
    Doubt,
    /// In work now.
    Busy,
    /// Beside what matters.
    Dim,
    /// Headings.
    Title,
}

/// The looks of one terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Its colours.
    pub depth: Depth,
    /// Its background.
    pub ground: Ground,
    /// Whether it shows more than ASCII.
    pub unicode: bool,
}

impl Theme {
    /// Judges by the environment (`NO_COLOR`, `COLORTERM`, `TERM`, `COLORFGBG`, the locale).
    pub fn of(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            depth: depth(environment),
            ground: ground(environment),
            unicode: unicode(environment),
        }
    }

    /// The style of a role.
    pub(super) fn style(&self, role: Role) -> Style {
        let style = Style::new();
        let style = match self.depth {
            Depth::True => style.fg(self.full(role)),
            Depth::Indexed => style.fg(Color::Indexed(self.indexed(role))),
            Depth::Ansi => style.fg(self.ansi(role)),
            Depth::None => style,
        };
        match role {
            Role::Half | Role::Dead => style.add_modifier(Modifier::BOLD),
            Role::Title => style.add_modifier(Modifier::BOLD),
            Role::Dim if self.depth != Depth::True => style.add_modifier(Modifier::DIM),
            _ => style,
        }
    }

    /// A share of what is expected, in tenths from 0 to 9: the lower, the more it stands out from the
    /// background. Hues after viridis, which differ in lightness for every eye.
    pub(super) fn shade(&self, tenths: usize) -> Style {
        const FULL: [(u8, u8, u8); 10] = [
            (68, 1, 84),
            (72, 40, 120),
            (62, 74, 137),
            (49, 104, 142),
            (38, 130, 142),
            (31, 158, 137),
            (53, 183, 121),
            (110, 206, 88),
            (181, 222, 43),
            (253, 231, 37),
        ];
        const INDEXED: [u8; 10] = [53, 54, 60, 24, 30, 36, 72, 113, 148, 220];
        let tenths = tenths.min(9);
        // Half of what is expected stands out as much as nothing does.
        let low = ((9 - tenths) * 2).min(9);
        let step = match self.ground {
            Ground::Dark => low,
            Ground::Light => 9 - low,
        };
        let (black, white) = (Color::Indexed(16), Color::Indexed(231));
        let text = if step < 5 { white } else { black };
        match self.depth {
            Depth::True => {
                let (r, g, b) = FULL[step];
                Style::new().bg(Color::Rgb(r, g, b)).fg(text)
            }
            Depth::Indexed => Style::new().bg(Color::Indexed(INDEXED[step])).fg(text),
            Depth::Ansi | Depth::None => match tenths {
                0..=6 => self.style(Role::Half),
                7 => self.style(Role::Degraded),
                _ => self.style(Role::Good),
            },
        }
    }

    /// The line that the cursor is on.
    pub(super) fn selected(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// After Okabe and Ito: hues that differ for people with every kind of colour vision.
    fn full(&self, role: Role) -> Color {
        let dark = self.ground == Ground::Dark;
        let (r, g, b) = match (role, dark) {
            (Role::Good, true) => (0, 190, 145),
            (Role::Good, false) => (0, 120, 88),
            (Role::Half, true) => (255, 110, 20),
            (Role::Half, false) => (190, 70, 0),
            (Role::Degraded, true) => (240, 180, 40),
            (Role::Degraded, false) => (150, 100, 0),
            (Role::Dead, true) => (225, 140, 190),
            (Role::Dead, false) => (160, 60, 120),
            (Role::Doubt, true) => (240, 228, 66),
            (Role::Doubt, false) => (115, 105, 0),
            (Role::Busy, true) => (86, 180, 233),
            (Role::Busy, false) => (0, 100, 170),
            (Role::Dim, true) => (140, 140, 140),
            (Role::Dim, false) => (105, 105, 105),
            (Role::Title, true) => (86, 180, 233),
            (Role::Title, false) => (0, 90, 150),
        };
        Color::Rgb(r, g, b)
    }

    /// The nearest of the 6 x 6 x 6 cube and the greys of xterm.
    fn indexed(&self, role: Role) -> u8 {
        let dark = self.ground == Ground::Dark;
        match (role, dark) {
            (Role::Good, true) => 36,
            (Role::Good, false) => 29,
            (Role::Half, true) => 202,
            (Role::Half, false) => 130,
            (Role::Degraded, true) => 214,
            (Role::Degraded, false) => 94,
            (Role::Dead, true) => 176,
            (Role::Dead, false) => 126,
            (Role::Doubt, true) => 227,
            (Role::Doubt, false) => 58,
            (Role::Busy | Role::Title, true) => 74,
            (Role::Busy | Role::Title, false) => 25,
            (Role::Dim, true) => 245,
            (Role::Dim, false) => 241,
        }
    }

    /// Those of the sixteen that can be read on the ground by xterm's palette: its dark blue is lost on
    /// black, its cyan and yellow are on white.
    fn ansi(&self, role: Role) -> Color {
        let dark = self.ground == Ground::Dark;
        match (role, dark) {
            (Role::Good, true) => Color::Cyan,
            (Role::Half, true) => Color::LightRed,
            (Role::Degraded | Role::Doubt, true) => Color::Yellow,
            (Role::Dead, true) => Color::LightMagenta,
            (Role::Busy | Role::Title, true) => Color::LightBlue,
            (Role::Half, false) => Color::Red,
            (Role::Degraded | Role::Doubt, false) => Color::Reset,
            (Role::Dead, false) => Color::Magenta,
            (Role::Good | Role::Busy | Role::Title, false) => Color::Blue,
            (Role::Dim, _) => Color::Reset,
        }
    }
}

/// A variable that is set and not empty.
fn set(environment: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    environment(name).filter(|value| !value.is_empty())
}

fn depth(environment: &dyn Fn(&str) -> Option<String>) -> Depth {
    let term = set(environment, "TERM").unwrap_or_default();
    let color = set(environment, "COLORTERM").unwrap_or_default();
    match color.as_str() {
        _ if set(environment, "NO_COLOR").is_some() => Depth::None,
        _ if term.is_empty() || term == "dumb" || term.starts_with("vt") => Depth::None,
        "truecolor" | "24bit" => Depth::True,
        _ if term.contains("direct") => Depth::True,
        _ if term.contains("256") => Depth::Indexed,
        _ => Depth::Ansi,
    }
}

/// rxvt and others say it, foreground first: 7 and 15 are whites.
fn ground(environment: &dyn Fn(&str) -> Option<String>) -> Ground {
    let colors = set(environment, "COLORFGBG").unwrap_or_default();
    match colors.rsplit(';').next() {
        Some("7" | "15") => Ground::Light,
        _ => Ground::Dark,
    }
}

/// The first of these that is set decides (POSIX, Locale).
fn unicode(environment: &dyn Fn(&str) -> Option<String>) -> bool {
    let mut names = ["LC_ALL", "LC_CTYPE", "LANG"].iter();
    let locale = names.find_map(|name| set(environment, name));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The colours of xterm as others have them: its 16, the cube, the greys.
    fn rgb(color: Color) -> Option<(u8, u8, u8)> {
        const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        Some(match color {
            Color::Rgb(r, g, b) => (r, g, b),
            Color::Red => (205, 0, 0),
            Color::Yellow => (205, 205, 0),
            Color::Blue => (0, 0, 238),
            Color::Magenta => (205, 0, 205),
            Color::Cyan => (0, 205, 205),
            Color::LightRed => (255, 0, 0),
            Color::LightBlue => (92, 92, 255),
            Color::LightMagenta => (255, 0, 255),
            Color::Indexed(n @ 16..=231) => {
                let level = |of: u8| LEVELS[usize::from((n - 16) / of % 6)];
                (level(36), level(6), level(1))
            }
            Color::Indexed(n @ 232..) => [8 + (n - 232) * 10; 3].into(),
            _ => return None,
        })
    }

    /// The contrast of two colours (WCAG 2.2): about 4.5 and more can be read.
    fn contrast(a: (u8, u8, u8), b: (u8, u8, u8)) -> f64 {
        let light = |c: u8| match f64::from(c) / 255.0 {
            c if c <= 0.04045 => c / 12.92,
            c => ((c + 0.055) / 1.055).powf(2.4),
        };
        let light = |(r, g, b)| 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b) + 0.05;
        light(a).max(light(b)) / light(a).min(light(b))
    }

    #[test]
    fn every_role_can_be_read_on_both_grounds() {
        use Role::{Busy, Dead, Degraded, Dim, Doubt, Good, Half, Title};
        for (ground, back) in [(Ground::Dark, (0, 0, 0)), (Ground::Light, (255, 255, 255))] {
            for depth in [Depth::True, Depth::Indexed, Depth::Ansi] {
                let unicode = true;
                let theme = Theme {
                    depth,
                    ground,
                    unicode,
                };
                for role in [Good, Half, Degraded, Dead, Doubt, Busy, Dim, Title] {
                    let text = theme.style(role).fg.unwrap();
                    if text == Color::Reset {
                        continue;
                    }
                    let contrast = contrast(rgb(text).unwrap(), back);
                    assert!(
                        contrast >= 4.4,
                        "{role:?} {depth:?} {ground:?}: {contrast:.1}"
                    );
                }
                for tenths in 0..10 {
                    let shade = theme.shade(tenths);
                    let (Some(text), Some(back)) = (shade.fg, shade.bg) else {
                        continue;
                    };
                    let contrast = contrast(rgb(text).unwrap(), rgb(back).unwrap());
                    assert!(
                        contrast >= 3.0,
                        "{tenths} {depth:?} {ground:?}: {contrast:.1}"
                    );
                }
            }
        }
    }

    fn of(variables: &[(&str, &str)]) -> Theme {
        Theme::of(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_says_what_the_terminal_can() {
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(of(&[xterm]).depth, Depth::Indexed);
        assert_eq!(of(&[xterm, ("COLORTERM", "truecolor")]).depth, Depth::True);
        assert_eq!(of(&[("TERM", "linux")]).depth, Depth::Ansi);
        for none in [("TERM", "dumb"), ("TERM", "")] {
            assert_eq!(of(&[none]).depth, Depth::None);
        }
        let asked = [xterm, ("COLORTERM", "truecolor"), ("NO_COLOR", "1")];
        assert_eq!(of(&asked).depth, Depth::None);
        assert_eq!(of(&[xterm, ("NO_COLOR", "")]).depth, Depth::Indexed);
    }

    #[test]
    fn the_background_and_the_locale_are_told() {
        assert_eq!(of(&[("COLORFGBG", "0;15")]).ground, Ground::Light);
        assert_eq!(of(&[("COLORFGBG", "15;default;0")]).ground, Ground::Dark);
        assert!(of(&[("LANG", "C.UTF-8")]).unicode);
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]).unicode);
        assert!(!of(&[]).unicode);
    }
}

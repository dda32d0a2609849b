//! A screen as SVG, and several of them one after another.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

/// Width and height of a character.
const SIZE: (f64, f64) = (8.4, 18.0);

/// Background and text of a dark terminal.
const GROUND: &str = "#14171c";
const TEXT: &str = "#d5d9e0";

/// One screen as the contents of a group.
pub fn frame(screen: &Screen) -> String {
    let (lines, columns) = screen.size();
    let (lines, columns) = (lines.get(), columns.get());
    let mut out = String::new();
    for line in 0..lines {
        let mut column = 0;
        while column < columns {
            let first = screen.cell(line, column).unwrap();
            let from = column;
            let mut text = String::new();
            while let Some(cell) = screen
                .cell(line, column)
                .filter(|cell| look(cell) == look(first))
            {
                text.push_str(if cell.has_contents() {
                    cell.contents()
                } else {
                    " "
                });
                column += 1;
            }
            run(&mut out, (line, from, column - from), first, &text);
        }
    }
    out
}

/// Foreground, background, and whether it is bold.
fn look(cell: &Cell) -> (String, String, bool) {
    let (text, ground) = (colour(cell.fgcolor(), TEXT), colour(cell.bgcolor(), GROUND));
    match cell.inverse() {
        true => (ground, text, cell.bold()),
        false => (text, ground, cell.bold()),
    }
}

fn colour(colour: Color, default: &str) -> String {
    match colour {
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        _ => default.to_owned(),
    }
}

/// Characters of one look, in one line.
fn run(out: &mut String, (line, column, count): (u16, u16, u16), cell: &Cell, text: &str) {
    let (fill, ground, bold) = look(cell);
    let (x, y) = (f64::from(column) * SIZE.0, f64::from(line) * SIZE.1);
    let width = f64::from(count) * SIZE.0;
    if ground != GROUND {
        let height = SIZE.1;
        write!(
            out,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}" fill="{ground}"/>"#
        )
        .unwrap();
    }
    let text = text.trim_end();
    if text.is_empty() {
        return;
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let weight = if bold { r#" font-weight="bold""# } else { "" };
    let width = text.chars().count() as f64 * SIZE.0;
    let y = y + SIZE.1 * 0.75;
    // The length keeps columns below each other whatever the font is.
    let length = if text.contains('&') {
        String::new()
    } else {
        format!(r#" textLength="{width:.1}""#)
    };
    let fill = if fill == TEXT {
        String::new()
    } else {
        format!(r#" fill="{fill}""#)
    };
    writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}"{length}{fill}{weight}>{text}</text>"#
    )
    .unwrap();
}

/// Frames, each for so many seconds, over and over.
pub fn picture(frames: &[(String, f64)], (columns, lines): (u16, u16)) -> String {
    let (width, height) = (f64::from(columns) * SIZE.0, f64::from(lines) * SIZE.1);
    let whole: f64 = frames.iter().map(|(_, seconds)| seconds).sum();
    let mut out = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -12 {:.0} {:.0}" role="img" aria-label="linerate's dashboard over a simulated cluster">
<rect x="-12" y="-12" width="{:.0}" height="{:.0}" rx="8" fill="{GROUND}"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" fill="{TEXT}" xml:space="preserve">
"##,
        width + 24.0,
        height + 24.0,
        width + 24.0,
        height + 24.0
    );
    let mut begun = 0.0;
    for (number, (frame, seconds)) in frames.iter().enumerate() {
        let (from, to) = (begun / whole, (begun + seconds) / whole);
        begun += seconds;
        // What plays no animation shows the fourth: the grid when all is measured.
        let still = number == 3;
        let opacity = if still { 1 } else { 0 };
        let (values, times) = match number {
            0 => ("1;0".to_owned(), format!("0;{to:.4}")),
            n if n + 1 == frames.len() => ("0;1".to_owned(), format!("0;{from:.4}")),
            _ => ("0;1;0".to_owned(), format!("0;{from:.4};{to:.4}")),
        };
        write!(
            out,
            r#"<g opacity="{opacity}"><animate attributeName="opacity" calcMode="discrete" values="{values}" keyTimes="{times}" dur="{whole:.1}s" repeatCount="indefinite"/>
{frame}</g>
"#
        )
        .unwrap();
    }
    out + "</g>\n</svg>\n"
}

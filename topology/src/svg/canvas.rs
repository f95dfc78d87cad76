//! Writes SVG elements. Text is escaped here and nowhere else.

use std::fmt::Write;

use crate::label;

/// A rectangle, pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Rect {
    pub(super) fn middle(&self) -> i32 {
        self.x + self.width / 2
    }

    pub(super) fn bottom(&self) -> i32 {
        self.y + self.height
    }

    pub(super) fn right(&self) -> i32 {
        self.x + self.width
    }
}

/// Where a text hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
}

/// An SVG document that grows.
pub(super) struct Canvas {
    text: String,
    width: i32,
    height: i32,
}

impl Canvas {
    pub(super) fn new(width: i32, height: i32) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"GPU topology\">\n"
        );
        Self { text, width, height }
    }

    pub(super) fn style(&mut self, css: &str) {
        let _ = writeln!(self.text, "<style>{css}</style>");
    }

    pub(super) fn background(&mut self) {
        let (width, height) = (self.width, self.height);
        self.rect("back", Rect { x: 0, y: 0, width, height }, 0);
    }

    /// Opens a group; `tip` is what a browser shows for it.
    pub(super) fn open(&mut self, tip: &str) {
        let _ = writeln!(self.text, "<g><title>{}</title>", escape(tip));
    }

    pub(super) fn close(&mut self) {
        self.text.push_str("</g>\n");
    }

    pub(super) fn rect(&mut self, class: &str, rect: Rect, round: i32) {
        let Rect { x, y, width, height } = rect;
        let _ = writeln!(
            self.text,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>"
        );
    }

    pub(super) fn line(&mut self, class: &str, from: (i32, i32), to: (i32, i32), thickness: Option<f32>) {
        let style = thickness.map(|width| format!(" stroke-width=\"{width:.1}\"")).unwrap_or_default();
        let _ = writeln!(
            self.text,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{style}/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A cubic curve.
    pub(super) fn curve(&mut self, class: &str, points: [(i32, i32); 4], thickness: f32) {
        let [(x0, y0), (x1, y1), (x2, y2), (x3, y3)] = points;
        let _ = writeln!(
            self.text,
            "<path class=\"{class}\" d=\"M{x0} {y0}C{x1} {y1} {x2} {y2} {x3} {y3}\" \
             stroke-width=\"{thickness:.1}\"/>"
        );
    }

    pub(super) fn text(&mut self, class: &str, at: (i32, i32), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ =
            writeln!(self.text, "<text{class} x=\"{}\" y=\"{}\"{anchor}>{}</text>", at.0, at.1, escape(text));
    }

    /// A number or few words on a line.
    pub(super) fn pill(&mut self, bad: bool, at: (i32, i32), text: &str) {
        let width = text_width(text, 10) + 10;
        let rect = Rect { x: at.0 - width / 2, y: at.1 - 8, width, height: 16 };
        self.rect(if bad { "pill-bad" } else { "pill" }, rect, 8);
        self.text(if bad { "bad" } else { "" }, (at.0, at.1 + 4), Anchor::Middle, text);
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Roughly how wide a text is, pixels.
pub(super) fn text_width(text: &str, font_size: i32) -> i32 {
    let characters = i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 1000);
    characters.saturating_mul(font_size * 6) / 10
}

/// The text, cut to a width.
pub(super) fn fit(text: &str, font_size: i32, width: i32) -> String {
    if text_width(text, font_size) <= width {
        return text.to_owned();
    }
    let room = usize::try_from(width * 10 / (font_size * 6)).unwrap_or(0).saturating_sub(1);
    let cut: String = text.chars().take(room).collect();
    format!("{}…", cut.trim_end())
}

/// Markup and characters that XML does not allow, made harmless.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(label::visible_character(other)),
        }
    }
    escaped
}

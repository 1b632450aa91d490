//! A document: who, to whom, what, how much.

use krilla::metadata::Metadata;
use parley::Alignment;

use crate::canvas::{Canvas, INNER, Rgb, Style};
use crate::fonts::Fonts;
use crate::structure::Role;

const BLACK: Rgb = [0; 3];
/// Of the rules of a table.
const LIGHT: Rgb = [200; 3];
const TITLE: Style = Style { size: 20.0, is_bold: true, color: BLACK };
const NAME: Style = Style { size: 12.0, is_bold: true, color: BLACK };
const BODY: Style = Style { size: 10.0, is_bold: false, color: BLACK };
const STRONG: Style = Style { size: 10.0, is_bold: true, color: BLACK };
const MUTED: Style = Style { size: 9.0, is_bold: false, color: [90; 3] };

/// Widths in points.
const FACT_NAMES: f32 = 110.0;
const AMOUNTS: f32 = 150.0;
const TOTALS: f32 = 300.0;
const GAP: f32 = 12.0;
/// The most room of the logo, in points: width and height.
const LOGO: (f32, f32) = (180.0, 48.0);

/// The content of a document, in the language of its reader.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// The code of the language.
    pub language: &'static str,
    pub title: String,
    /// The color of the title and of the rules below the titles of columns, which can be read on white.
    pub accent: Option<[u8; 3]>,
    /// Above everything, such as that no money moves.
    pub notice: Option<String>,
    /// The merchant's logo.
    pub logo: Option<Picture>,
    /// The name of the merchant, and the lines below it.
    pub seller: Vec<String>,
    /// Names and values, such as the number and the days.
    pub facts: Vec<(String, String)>,
    pub description: Option<String>,
    /// The titles of the columns of [`Self::lines`].
    pub columns: [String; 2],
    pub lines: Vec<Line>,
    pub totals: Vec<Total>,
    /// Below everything.
    pub footer: Vec<String>,
}

/// A picture, and its alternative text.
#[derive(Clone, Debug)]
pub struct Picture {
    pub png: Vec<u8>,
    pub text: String,
}

/// A line item.
#[derive(Clone, Debug)]
pub struct Line {
    pub description: String,
    /// Such as `2 × $5.00`.
    pub detail: String,
    pub amount: String,
}

/// A total or a part of it.
#[derive(Clone, Debug)]
pub struct Total {
    pub name: String,
    pub amount: String,
    pub is_bold: bool,
}

/// The document could not be written, such as for a damaged font or picture.
#[derive(Debug, thiserror::Error)]
#[error("the document cannot be written: {0:?}")]
pub struct Unreadable(krilla::error::KrillaError);

impl Sheet {
    /// The PDF. Equal content and fonts give equal bytes.
    ///
    /// # Errors
    /// If a font or the logo is damaged.
    pub fn pdf(&self, fonts: &Fonts) -> Result<Vec<u8>, Unreadable> {
        let mut canvas = Canvas::new(fonts);
        self.head(&mut canvas);
        self.table(&mut canvas);
        self.sums(&mut canvas);
        canvas.y += 3.0 * GAP;
        for text in &self.footer {
            let paragraph = canvas.paragraph(text, MUTED, INNER, Alignment::Start);
            canvas.row(Role::Paragraph, vec![(0.0, paragraph)]);
        }
        let metadata = Metadata::new().title(self.title.clone()).language(self.language.to_owned());
        let metadata = metadata.authors(self.seller.first().cloned().into_iter().collect());
        canvas.finish(&self.title, metadata).map_err(Unreadable)
    }

    fn head(&self, canvas: &mut Canvas<'_>) {
        if let Some(notice) = &self.notice {
            let paragraph = canvas.paragraph(notice, STRONG, INNER, Alignment::Center);
            canvas.row(Role::Paragraph, vec![(0.0, paragraph)]);
            canvas.y += GAP;
        }
        if let Some(logo) = &self.logo {
            canvas.picture(&logo.png, &logo.text, LOGO);
            canvas.y += GAP;
        }
        let style = Style { color: self.accent.unwrap_or(TITLE.color), ..TITLE };
        let title = canvas.paragraph(&self.title, style, INNER, Alignment::Start);
        canvas.row(Role::Title, vec![(0.0, title)]);
        canvas.y += GAP;
        for (number, text) in self.seller.iter().enumerate() {
            let style = if number == 0 { NAME } else { MUTED };
            let paragraph = canvas.paragraph(text, style, INNER, Alignment::Start);
            canvas.row(Role::Paragraph, vec![(0.0, paragraph)]);
        }
        canvas.y += 2.0 * GAP;
        canvas.begin_table();
        for (name, value) in &self.facts {
            let name = canvas.paragraph(name, MUTED, FACT_NAMES, Alignment::Start);
            let value = canvas.paragraph(value, BODY, INNER - FACT_NAMES - GAP, Alignment::Start);
            canvas.row(Role::Row, vec![(0.0, name), (FACT_NAMES + GAP, value)]);
        }
        canvas.y += GAP;
        if let Some(description) = &self.description {
            let paragraph = canvas.paragraph(description, BODY, INNER, Alignment::Start);
            canvas.row(Role::Paragraph, vec![(0.0, paragraph)]);
            canvas.y += GAP;
        }
    }

    fn table(&self, canvas: &mut Canvas<'_>) {
        if self.lines.is_empty() {
            return;
        }
        canvas.begin_table();
        self.table_head(canvas, Role::Head);
        let width = INNER - AMOUNTS - GAP;
        for line in &self.lines {
            let description = canvas.paragraph(&line.description, BODY, width, Alignment::Start);
            let detail = canvas.paragraph(&line.detail, MUTED, width, Alignment::Start);
            let amount = canvas.paragraph(&line.amount, BODY, AMOUNTS, Alignment::End);
            if canvas.reserve(description.height().max(amount.height()) + detail.height() + GAP) {
                self.table_head(canvas, Role::Artifact);
            }
            canvas.row(Role::Row, vec![(0.0, description), (INNER - AMOUNTS, amount)]);
            canvas.row(Role::Continued, vec![(0.0, detail)]);
            canvas.y += GAP / 3.0;
            canvas.rule(0.5, LIGHT);
            canvas.y += GAP / 3.0;
        }
    }

    /// Repeated on each page.
    fn table_head(&self, canvas: &mut Canvas<'_>, role: Role) {
        let [description, amount] = &self.columns;
        let description = canvas.paragraph(description, MUTED, INNER - AMOUNTS - GAP, Alignment::Start);
        let amount = canvas.paragraph(amount, MUTED, AMOUNTS, Alignment::End);
        canvas.row(role, vec![(0.0, description), (INNER - AMOUNTS, amount)]);
        canvas.y += GAP / 3.0;
        canvas.rule(1.0, self.accent.unwrap_or(LIGHT));
        canvas.y += GAP / 2.0;
    }

    fn sums(&self, canvas: &mut Canvas<'_>) {
        canvas.y += GAP / 2.0;
        canvas.begin_table();
        for total in &self.totals {
            let style = if total.is_bold { STRONG } else { BODY };
            let name = canvas.paragraph(&total.name, style, TOTALS - AMOUNTS - GAP, Alignment::Start);
            let amount = canvas.paragraph(&total.amount, style, AMOUNTS, Alignment::End);
            canvas.row(Role::Row, vec![(INNER - TOTALS, name), (INNER - AMOUNTS, amount)]);
            canvas.y += GAP / 4.0;
        }
    }
}

//! Pages of texts, pictures and rules, and their PDF.

use std::borrow::Cow;
use std::collections::HashMap;

use krilla::color::rgb;
use krilla::configure::{Accessibility, ConfigurationBuilder};
use krilla::destination::XyzDestination;
use krilla::error::{KrillaError, KrillaResult};
use krilla::geom::{PathBuilder, Point, Rect, Size, Transform};
use krilla::image::Image;
use krilla::metadata::Metadata;
use krilla::num::NormalizedF32;
use krilla::outline::{Outline, OutlineNode};
use krilla::page::PageSettings;
use krilla::paint::Fill;
use krilla::surface::Surface;
use krilla::tagging::{Artifact, ArtifactType, BBox, ContentTag};
use krilla::text::{Font, GlyphId, KrillaGlyph};
use krilla::{Document, SerializeSettings};
use parley::style::{FontFamily, FontWeight, LineHeight, StyleProperty};
use parley::{Alignment, AlignmentOptions, FontContext, Layout, LayoutContext};

use crate::fonts::Fonts;
use crate::structure::{Role, Structure};

/// A4, and its margin, in points.
const WIDTH: f32 = 595.28;
const HEIGHT: f32 = 841.89;
pub(crate) const MARGIN: f32 = 56.7;
/// The width between the margins.
pub(crate) const INNER: f32 = WIDTH - 2.0 * MARGIN;
/// Below it are only the page numbers.
const BOTTOM: f32 = HEIGHT - MARGIN - 14.0;

/// Red, green and blue.
pub(crate) type Rgb = [u8; 3];

/// A font size in points, a weight and a color.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(crate) size: f32,
    pub(crate) is_bold: bool,
    pub(crate) color: Rgb,
}

/// A text, broken into lines.
pub(crate) struct Paragraph {
    text: String,
    layout: Layout<Rgb>,
}

impl Paragraph {
    pub(crate) fn height(&self) -> f32 {
        self.layout.height()
    }
}

enum Item {
    Text { paragraph: Box<Paragraph>, x: f32, y: f32, is_artifact: bool },
    Picture { image: Image, size: Size, y: f32 },
    Rule { y: f32, height: f32, color: Rgb },
}

/// Places texts and pictures on pages from top to bottom.
pub(crate) struct Canvas<'a> {
    fonts: &'a Fonts,
    context: FontContext,
    layouts: LayoutContext<Rgb>,
    pages: Vec<Vec<Item>>,
    structure: Structure,
    /// Where the next row begins, from the top of the page.
    pub(crate) y: f32,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(fonts: &'a Fonts) -> Self {
        let pages = vec![Vec::new()];
        let (context, layouts, structure) = (fonts.context(), LayoutContext::new(), Structure::default());
        Self { fonts, context, layouts, pages, structure, y: MARGIN }
    }

    pub(crate) fn paragraph(&mut self, text: &str, style: Style, width: f32, alignment: Alignment) -> Paragraph {
        let mut builder = self.layouts.ranged_builder(&mut self.context, text, 1.0, false);
        builder.push_default(StyleProperty::Brush(style.color));
        builder.push_default(StyleProperty::FontFamily(FontFamily::List(Cow::Borrowed(self.fonts.families(text)))));
        builder.push_default(StyleProperty::FontSize(style.size));
        builder.push_default(StyleProperty::LineHeight(LineHeight::FontSizeRelative(1.4)));
        if style.is_bold {
            builder.push_default(StyleProperty::FontWeight(FontWeight::BOLD));
        }
        builder.push_default(StyleProperty::OverflowWrap(parley::style::OverflowWrap::Anywhere));
        let mut layout = builder.build(text);
        layout.break_all_lines(Some(width));
        layout.align(alignment, AlignmentOptions::default());
        Paragraph { text: text.to_owned(), layout }
    }

    /// Begins a page unless this much space is left.
    pub(crate) fn reserve(&mut self, height: f32) -> bool {
        if self.y + height <= BOTTOM {
            return false;
        }
        self.pages.push(Vec::new());
        self.y = MARGIN;
        true
    }

    /// Begins the table of the rows that follow.
    pub(crate) fn begin_table(&mut self) {
        self.structure.begin_table();
    }

    /// Places paragraphs side by side, each at its distance from the left margin, and moves below the highest.
    pub(crate) fn row(&mut self, role: Role, paragraphs: Vec<(f32, Paragraph)>) {
        let height = paragraphs.iter().map(|(_, paragraph)| paragraph.height()).fold(0.0, f32::max);
        self.reserve(height);
        self.structure.add(role, paragraphs.len());
        for (x, paragraph) in paragraphs {
            let (paragraph, is_artifact) = (Box::new(paragraph), role == Role::Artifact);
            self.push(Item::Text { paragraph, x: MARGIN + x, y: self.y, is_artifact });
        }
        self.y += height;
    }

    /// Places a PNG with its text at the left margin, with at most this width and height and not enlarged, and moves below it.
    /// One that cannot be read is left out.
    pub(crate) fn picture(&mut self, png: &[u8], text: &str, (width, height): (f32, f32)) {
        let Ok(image) = Image::from_png(png.to_vec().into(), false) else { return };
        let (own_width, own_height) = (image.size().0 as f32, image.size().1 as f32);
        let scale = (width / own_width).min(height / own_height).min(1.0);
        let Some(size) = Size::from_wh(own_width * scale, own_height * scale) else { return };
        self.reserve(size.height());
        let place = Rect::from_xywh(MARGIN, self.y, size.width(), size.height()).expect("a rectangle");
        self.structure.add_figure(text, BBox::new(self.pages.len() - 1, place));
        self.push(Item::Picture { image, size, y: self.y });
        self.y += size.height();
    }

    /// Draws a line across the page.
    pub(crate) fn rule(&mut self, height: f32, color: Rgb) {
        self.push(Item::Rule { y: self.y, height, color });
    }

    fn push(&mut self, item: Item) {
        self.pages.last_mut().expect("there is always a page").push(item);
    }

    /// Adds page numbers if there are several, and writes the PDF with this title. Equal content gives equal bytes.
    pub(crate) fn finish(mut self, title: &str, metadata: Metadata) -> KrillaResult<Vec<u8>> {
        let count = self.pages.len();
        let style = Style { size: 8.0, is_bold: false, color: [110; 3] };
        for page in 0..count {
            if count > 1 {
                // Without spaces, which some readers drop between single characters.
                let paragraph = self.paragraph(&format!("{}/{count}", page + 1), style, INNER, Alignment::End);
                let (paragraph, y) = (Box::new(paragraph), HEIGHT - MARGIN);
                self.pages[page].push(Item::Text { paragraph, x: MARGIN, y, is_artifact: true });
            }
        }
        let accessible = ConfigurationBuilder::new().with_accessibility_validator(Accessibility::UA1).finish();
        let configuration = accessible.expect("one standard does not contradict itself");
        let settings = SerializeSettings { configuration, ..SerializeSettings::default() };
        match self.write(settings, title, metadata.clone()) {
            // What is not entirely accessible, such as a character that no font has, is written without the claim to be.
            Err(KrillaError::Validation(_)) => self.write(SerializeSettings::default(), title, metadata),
            written => written,
        }
    }

    fn write(&self, settings: SerializeSettings, title: &str, metadata: Metadata) -> KrillaResult<Vec<u8>> {
        let mut document = Document::new_with(settings);
        document.set_metadata(metadata);
        let mut outline = Outline::new();
        let top = XyzDestination::new(0, Point::from_xy(MARGIN, MARGIN));
        outline.push_child(OutlineNode::new(title.to_owned(), top));
        document.set_outline(outline);
        // Texts and pictures are drawn in the order in which the structure numbers them.
        let (mut fonts, mut identifiers) = (HashMap::new(), Vec::new());
        let size = PageSettings::from_wh(WIDTH, HEIGHT).expect("a size");
        for items in &self.pages {
            let mut page = document.start_page_with(size.clone());
            let mut surface = page.surface();
            for item in items {
                match item {
                    Item::Text { paragraph, x, y, is_artifact: true } => {
                        surface.start_tagged(artifact(ArtifactType::PaginationOther));
                        draw(&mut surface, &mut fonts, paragraph, *x, *y);
                    }
                    Item::Text { paragraph, x, y, is_artifact: false } => {
                        identifiers.push(surface.start_tagged(ContentTag::Other));
                        draw(&mut surface, &mut fonts, paragraph, *x, *y);
                    }
                    Item::Picture { image, size, y } => {
                        identifiers.push(surface.start_tagged(ContentTag::Other));
                        surface.push_transform(&Transform::from_translate(MARGIN, *y));
                        surface.draw_image(image.clone(), *size);
                        surface.pop();
                    }
                    Item::Rule { y, height, color } => {
                        surface.start_tagged(artifact(ArtifactType::Layout));
                        let mut path = PathBuilder::new();
                        path.push_rect(Rect::from_xywh(MARGIN, *y, INNER, *height).expect("a rectangle"));
                        surface.set_fill(Some(fill(*color)));
                        surface.draw_path(&path.finish().expect("a path"));
                    }
                }
                surface.end_tagged();
            }
            surface.finish();
            page.finish();
        }
        document.set_tag_tree(self.structure.tree(title, &identifiers));
        document.finish()
    }
}

fn artifact(kind: ArtifactType) -> ContentTag<'static> {
    ContentTag::Artifact(Artifact::with_kind(kind))
}

fn fill([red, green, blue]: Rgb) -> Fill {
    Fill { paint: rgb::Color::new(red, green, blue).into(), opacity: NormalizedF32::ONE, rule: Default::default() }
}

fn draw(surface: &mut Surface<'_>, fonts: &mut HashMap<(u64, u32), Font>, paragraph: &Paragraph, x: f32, y: f32) {
    for line in paragraph.layout.lines() {
        let (mut at, baseline) = (x + line.metrics().offset, y + line.metrics().baseline);
        for run in line.runs() {
            let font = run.font().clone();
            let size = run.font_size();
            let (data, id) = font.data.into_raw_parts();
            let Some(font) = font_of(fonts, (id, font.index), data) else { continue };
            let start = at;
            let mut glyphs = Vec::<KrillaGlyph>::new();
            let mut color = Rgb::default();
            for cluster in run.visual_clusters() {
                if cluster.is_ligature_continuation() {
                    if let Some(glyph) = glyphs.last_mut() {
                        glyph.text_range.end = cluster.text_range().end;
                    }
                    continue;
                }
                color = cluster.style().brush;
                for glyph in cluster.glyphs() {
                    glyphs.push(KrillaGlyph::new(
                        GlyphId::new(glyph.id),
                        glyph.advance / size,
                        glyph.x / size,
                        glyph.y / size,
                        0.0,
                        cluster.text_range(),
                        None,
                    ));
                    at += glyph.advance;
                }
            }
            surface.set_fill(Some(fill(color)));
            surface.draw_glyphs(Point::from_xy(start, baseline), &glyphs, font, &paragraph.text, size, false);
        }
    }
}

fn font_of(
    fonts: &mut HashMap<(u64, u32), Font>,
    key: (u64, u32),
    data: std::sync::Arc<dyn AsRef<[u8]> + Send + Sync>,
) -> Option<Font> {
    if let Some(font) = fonts.get(&key) {
        return Some(font.clone());
    }
    let font = Font::new(data.into(), key.1)?;
    fonts.insert(key, font.clone());
    Some(font)
}

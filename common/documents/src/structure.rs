//! What the texts and pictures of a document are, in the order in which they are read, for programs that speak them (PDF/UA).

use std::num::NonZeroU16;

use krilla::tagging::{BBox, Identifier, Node, TableHeaderScope, Tag, TagGroup, TagTree};

/// What the texts of a row are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The title of the document.
    Title,
    Paragraph,
    /// The titles of the columns of the table that was begun last.
    Head,
    /// A row of that table. Its first cell is its title.
    Row,
    /// More of the first cells of the row before.
    Continued,
    /// Not part of the content, such as a page number.
    Artifact,
}

/// The texts and pictures by their numbers, in the order in which they are placed.
enum Block {
    Title(usize),
    Paragraph(usize),
    /// A picture, its alternative text, and its place.
    Figure(usize, String, BBox),
    Table(Vec<Row>),
}

struct Row {
    is_head: bool,
    cells: Vec<Vec<usize>>,
}

#[derive(Default)]
pub(crate) struct Structure {
    blocks: Vec<Block>,
    /// How many there are, with the pictures.
    texts: usize,
}

impl Structure {
    pub(crate) fn begin_table(&mut self) {
        self.blocks.push(Block::Table(Vec::new()));
    }

    /// Adds a picture, with its alternative text.
    pub(crate) fn add_figure(&mut self, text: &str, place: BBox) {
        self.blocks.push(Block::Figure(self.texts, text.to_owned(), place));
        self.texts += 1;
    }

    /// Adds the texts of a row.
    pub(crate) fn add(&mut self, role: Role, count: usize) {
        if role == Role::Artifact {
            return;
        }
        let texts = self.texts..self.texts + count;
        self.texts += count;
        match (role, self.blocks.last_mut()) {
            (Role::Title, _) => self.blocks.extend(texts.map(Block::Title)),
            (Role::Head | Role::Row, Some(Block::Table(rows))) => {
                rows.push(Row { is_head: role == Role::Head, cells: texts.map(|text| vec![text]).collect() });
            }
            (Role::Continued, Some(Block::Table(rows))) => {
                let cells = rows.last_mut().into_iter().flat_map(|row| &mut row.cells);
                cells.zip(texts).for_each(|(cell, text)| cell.push(text));
            }
            (Role::Paragraph | Role::Head | Role::Row | Role::Continued | Role::Artifact, _) => {
                self.blocks.extend(texts.map(Block::Paragraph));
            }
        }
    }

    /// The tree of the PDF, given its identifiers of the texts and pictures.
    pub(crate) fn tree(&self, title: &str, identifiers: &[Identifier]) -> TagTree {
        let text = |number: &usize| Node::from(identifiers[*number]);
        let mut tree = TagTree::new();
        for block in &self.blocks {
            tree.push(match block {
                Block::Title(number) => {
                    let heading = Tag::Hn(NonZeroU16::MIN, Some(title.to_owned()));
                    TagGroup::with_children(heading, vec![text(number)])
                }
                Block::Paragraph(number) => TagGroup::with_children(Tag::P, vec![text(number)]),
                Block::Figure(number, alternative, place) => {
                    let figure = Tag::Figure(Some(alternative.clone())).with_bbox(Some(*place));
                    TagGroup::with_children(figure, vec![text(number)])
                }
                Block::Table(rows) => {
                    TagGroup::with_children(Tag::Table, rows.iter().map(|row| row.group(text).into()).collect())
                }
            });
        }
        tree
    }
}

impl Row {
    fn group(&self, text: impl Fn(&usize) -> Node) -> TagGroup {
        let cells = self.cells.iter().enumerate().map(|(column, texts)| {
            let children = texts.iter().map(&text).collect();
            Node::from(match (self.is_head, column) {
                (true, _) => TagGroup::with_children(Tag::TH(TableHeaderScope::Column), children),
                (false, 0) => TagGroup::with_children(Tag::TH(TableHeaderScope::Row), children),
                (false, _) => TagGroup::with_children(Tag::TD, children),
            })
        });
        TagGroup::with_children(Tag::TR, cells.collect())
    }
}

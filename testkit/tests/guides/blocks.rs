//! The blocks of code of a page, and what each is for. The word after the language says it, so that every reader of the page's
//! source sees it; where the page is shown, only the first word counts, which colours the code.

use anyhow::{Context, Result, bail, ensure};

/// What is done with a block.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    /// `run`: it is executed.
    Run,
    /// `expect`: what the block before it prints.
    Expect,
    /// `not run: WHY`
    NotRun,
}

/// A block of code.
#[derive(Debug)]
pub(crate) struct Block {
    /// Of its first line of code, as an editor counts.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// The blocks of a page, in their order.
pub(crate) fn blocks(page: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            if let Some(block) = &mut open {
                block.text.push_str(line);
                block.text.push('\n');
            }
            continue;
        };
        ensure!(line.starts_with("```"), "line {}: a block begins at the margin", index + 1);
        match open.take() {
            Some(block) => blocks.push(block),
            None => {
                let (language, kind) = read(info).with_context(|| format!("line {}: {info:?}", index + 1))?;
                open = Some(Block { line: index + 2, language, kind, text: String::new() });
            }
        }
    }
    ensure!(open.is_none(), "the last block has no end");
    follow(&blocks)?;
    Ok(blocks)
}

fn read(info: &str) -> Result<(String, Kind)> {
    let (language, mark) = info.split_once(' ').context("no word says whether it is run")?;
    let kind = match (language, mark) {
        ("sh" | "python" | "js", "run") => Kind::Run,
        ("json" | "text", "expect") => Kind::Expect,
        (_, "run" | "expect") => bail!("{language} cannot be run or expected"),
        _ => match mark.strip_prefix("not run: ") {
            Some(why) if why.len() > 5 => Kind::NotRun,
            _ => bail!("it is neither run, expect nor not run: WHY"),
        },
    };
    Ok((language.to_owned(), kind))
}

/// What is expected follows what prints it.
fn follow(blocks: &[Block]) -> Result<()> {
    for (index, block) in blocks.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| &blocks[index].kind);
        ensure!(
            block.kind != Kind::Expect || before == Some(&Kind::Run),
            "line {}: the block before it is not run, so nothing can be expected of it",
            block.line
        );
    }
    Ok(())
}

#[test]
fn blocks_are_read_with_their_marks() -> Result<()> {
    let page = "a\n```sh run\nls\n# x\n```\n```text expect\n…\n```\n```js run\n```\n```sh not run: it installs\n```\n";
    let blocks = blocks(page)?;
    let kinds: Vec<_> = blocks.iter().map(|block| &block.kind).collect();
    assert_eq!(kinds, [&Kind::Run, &Kind::Expect, &Kind::Run, &Kind::NotRun]);
    assert_eq!((blocks[0].line, blocks[0].text.as_str()), (3, "ls\n# x\n"));
    Ok(())
}

#[test]
fn a_block_without_a_mark_is_refused() {
    for page in [
        "```sh\nls\n```",
        "```\n```",
        "```sh runs\n```",
        "```rust run\n```",
        "```sh not run: \n```",
        "```json expect\n```",
        "```sh not run: it installs\n```\n```text expect\n```",
        "- a\n  ```sh run\n  ```",
        "```sh run\nls\n",
    ] {
        assert!(blocks(page).is_err(), "{page}");
    }
}

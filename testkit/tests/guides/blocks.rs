//! The code blocks of a page. The word after the language says whether a block is run; Markdown renderers ignore it.

use anyhow::{Context, Result, bail, ensure};

/// How a block is tested.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    /// `run`: it is executed.
    Run,
    /// `expect`: the output of the block before it.
    Expect,
    /// `not run: WHY`
    NotRun,
}

#[derive(Debug)]
pub(crate) struct Block {
    /// The line number of its first line of code, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// The blocks of a page, in order.
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
        ensure!(line.starts_with("```"), "line {}: a block must not be indented", index + 1);
        match open.take() {
            Some(block) => blocks.push(block),
            None => {
                let (language, kind) = read(info).with_context(|| format!("line {}: {info:?}", index + 1))?;
                open = Some(Block { line: index + 2, language, kind, text: String::new() });
            }
        }
    }
    ensure!(open.is_none(), "the last block is not closed");
    check_order(&blocks)?;
    Ok(blocks)
}

fn read(info: &str) -> Result<(String, Kind)> {
    let (language, mark) = info.split_once(' ').context("no mark after the language")?;
    let kind = match (language, mark) {
        ("sh" | "python" | "js", "run") => Kind::Run,
        ("json" | "text", "expect") => Kind::Expect,
        (_, "run" | "expect") => bail!("{language} cannot be run or expected"),
        _ => match mark.strip_prefix("not run: ") {
            Some(why) if why.len() > 5 => Kind::NotRun,
            _ => bail!("the mark is neither run, expect nor not run: WHY"),
        },
    };
    Ok((language.to_owned(), kind))
}

/// Each `expect` block must follow a `run` block.
fn check_order(blocks: &[Block]) -> Result<()> {
    for (index, block) in blocks.iter().enumerate() {
        let previous = index.checked_sub(1).map(|index| &blocks[index].kind);
        ensure!(
            block.kind != Kind::Expect || previous == Some(&Kind::Run),
            "line {}: expected output must follow a block that is run",
            block.line
        );
    }
    Ok(())
}

#[test]
fn blocks_are_parsed_with_their_marks() -> Result<()> {
    let page = "a\n```sh run\nls\n# x\n```\n```text expect\n…\n```\n```js run\n```\n```sh not run: it installs\n```\n";
    let blocks = blocks(page)?;
    let kinds: Vec<_> = blocks.iter().map(|block| &block.kind).collect();
    assert_eq!(kinds, [&Kind::Run, &Kind::Expect, &Kind::Run, &Kind::NotRun]);
    assert_eq!((blocks[0].line, blocks[0].text.as_str()), (3, "ls\n# x\n"));
    Ok(())
}

#[test]
fn blocks_without_a_valid_mark_are_errors() {
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

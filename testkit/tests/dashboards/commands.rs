//! `ctl` accepts every command in the documents.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};
use testkit::Cluster;

use crate::{files::root, runbooks::runbooks};

/// The documents, besides the runbooks, with commands for operators.
const DOCUMENTS: [&str; 2] = ["docs/operations.md", "docs/ctl.md"];

/// Runs each command with `--help` appended: ctl refuses unknown commands and options.
pub(crate) async fn every_documented_command_exists(cluster: &Cluster) -> Result<()> {
    let mut pages: Vec<String> = runbooks()?.into_values().collect();
    for document in DOCUMENTS {
        pages.push(fs::read_to_string(root().join(document))?);
    }
    let commands: BTreeSet<_> = pages.iter().flat_map(|page| [in_blocks(page), in_sentences(page)].concat()).collect();
    assert!(commands.len() > 60, "only {} commands", commands.len());
    for words in &commands {
        let arguments: Vec<_> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let output = cluster.ctl_output(&arguments).await.context("ctl")?;
        assert_eq!(output.code, 0, "ctl {}: {}", words.join(" "), output.stderr);
    }
    Ok(())
}

/// The commands in shell blocks, complete.
fn in_blocks(page: &str) -> Vec<Vec<String>> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(|block| {
        block
            .replace("\\\n", " ")
            .lines()
            .map(|line| line.trim().trim_start_matches("./dev ").to_owned())
            .collect::<Vec<_>>()
    });
    lines.filter_map(|line| line.strip_prefix("ctl ").map(words)).collect()
}

/// The commands in sentences: only their names, since arguments are often omitted there.
fn in_sentences(page: &str) -> Vec<Vec<String>> {
    let quoted = page.split("`ctl ").skip(1).filter_map(|rest| rest.split('`').next());
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let names =
        quoted.map(|command| command.split_whitespace().take_while(is_name).map(str::to_owned).collect::<Vec<_>>());
    names.filter(|words| !words.is_empty() && !["help", "why"].contains(&words[0].as_str())).collect()
}

/// The words of a shell line, without comment and redirection. Elided ids (`pay_…`) become valid ones.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('#' | '<' | '>' | '|', None) => break,
            (c, None) if c.is_whitespace() => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words.iter().map(|word| word.replace('…', "00000000000000000000000000")).collect()
}

#[test]
fn commands_are_split_as_a_shell_splits_them() {
    let page = "See `ctl doctor`, `ctl keys list --not-moved` or `ctl why pay_…`.\n```sh\n./dev ctl accounts list   # all\n\
                ctl operations hold op_… --reason 'it is # late' \\\n  --for 1h < in.json\npsql\n```\n";
    let id = format!("op_{}", "0".repeat(26));
    let expected =
        [vec!["accounts", "list"], vec!["operations", "hold", &id, "--reason", "it is # late", "--for", "1h"]];
    assert_eq!(in_blocks(page), expected);
    assert_eq!(in_sentences(page), [vec!["doctor"], vec!["keys", "list"]]);
}

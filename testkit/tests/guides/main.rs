//! The guides do what they say: every block of them is executed, in order, against a sandbox that runs, and prints what they show.
//!
//! `GUIDE=payments cargo test -p testkit --test guides` runs one page alone.

mod blocks;
mod page;
mod shapes;
mod worked;

use std::{collections::BTreeSet, env, fs, io::Write, process::Command};

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use testkit::sandbox::Running;

use blocks::{Block, Kind, blocks};
use page::{Libraries, Page, root};

/// Every page, and how many of its blocks are run at least.
const PAGES: [(&str, usize); 8] = [
    ("README.md", 1),
    ("docs/guide/quick-start.md", 8),
    ("docs/guide/concepts.md", 6),
    ("docs/guide/payments.md", 22),
    ("docs/guide/cards.md", 7),
    ("docs/guide/billing.md", 18),
    ("docs/guide/webhooks.md", 13),
    ("docs/guide/going-live.md", 8),
];

fn read(page: &str) -> Result<Vec<Block>> {
    let text = fs::read_to_string(root().join(page)).with_context(|| page.to_owned())?;
    blocks(&text).with_context(|| page.to_owned())
}

#[test]
fn every_block_is_run_or_says_why_not() -> Result<()> {
    let mut guides = BTreeSet::new();
    for entry in fs::read_dir(root().join("docs/guide"))? {
        guides.insert(format!("docs/guide/{}", entry?.file_name().to_string_lossy()));
    }
    for (page, at_least) in PAGES {
        let run = read(page)?.iter().filter(|block| block.kind == Kind::Run).count();
        ensure!(run >= at_least, "{page}: only {run} blocks are run");
        guides.remove(page);
    }
    ensure!(guides.is_empty(), "pages that nobody runs: {guides:?}");
    Ok(())
}

/// Whatever asks the API gives up after the time that docs/api.md names, and after no other.
#[test]
fn every_example_waits_as_long_as_the_api_asks() -> Result<()> {
    let read = |path: &str| fs::read_to_string(root().join(path)).with_context(|| path.to_owned());
    let asked = read("docs/api.md")?;
    let (_, asked) = asked.split_once("**Wait ").context("no time limit in docs/api.md")?;
    let seconds: u32 = asked.split(' ').next().unwrap_or_default().parse()?;
    ensure!(seconds >= 30, "the API itself waits 25 s");
    for (path, gives_up) in [
        ("examples/client.py", format!("timeout={seconds})")),
        ("examples/client.mjs", format!("timeout({seconds}_000)")),
        ("examples/signing/sign.py", format!("timeout={seconds})")),
        ("examples/signing/sign.mjs", format!("timeout({seconds}_000)")),
        ("examples/elements/server.mjs", format!("timeout({seconds}_000)")),
        ("examples/sandbox.sh", format!("--max-time {seconds} ")),
    ] {
        let text = read(path)?;
        ensure!(text.contains(&gives_up), "{path} does not say {gives_up}");
        ensure!(
            text.matches("timeout(").count() + text.matches("timeout=").count() <= 1,
            "{path} has another time limit"
        );
        ensure!(text.contains("docs/api.md, Time limits of a client."), "{path} does not say where the reason is");
    }
    Ok(())
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Past the capture of the test harness: nobody may take it for a test that has passed.
fn skipped(lacks: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "SKIPPED: the guides were not run, because this machine has no {lacks}")?)
}

#[tokio::test]
async fn every_guide_does_what_it_says() -> Result<()> {
    if let Some(lacks) = ["bash", "curl", "python3", "node"].into_iter().find(|program| !has(program)) {
        return skipped(lacks);
    }
    let Some(libraries) = Libraries::ready().await? else { return skipped("venv or npm") };
    let wanted = env::var("GUIDE").unwrap_or_default();
    let sandbox = Running::start()?;
    let mut pages = Vec::new();
    for (name, _) in PAGES.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        pages.push((name, read(name)?));
    }
    ensure!(!pages.is_empty(), "there is no page like GUIDE={wanted}");
    let runs = pages.iter().map(|(name, blocks)| {
        let page = Page::new(name, blocks, &sandbox, libraries);
        async { page?.run().await }
    });
    let wrong: Vec<_> = join_all(runs).await.into_iter().filter_map(Result::err).collect();
    let told: String = wrong.iter().map(|error| format!("\n{error:#}\n")).collect();
    ensure!(wrong.is_empty(), "{told}");
    sandbox.stop().await
}

//! Runs every code block of the guides, in order, against a running sandbox, and compares the output with the guide.
//!
//! `GUIDE=payments cargo test -p testkit --test guides` runs a single page.

mod blocks;
mod page;
mod shapes;
mod worked;

use std::{collections::BTreeSet, env, fs, io::Write, process::Command};

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use testkit::sandbox::Running;
use testkit::stripe::Stripe;

use blocks::{Block, Kind, blocks};
use page::{Libraries, Page, root};

/// Every page, with the minimum number of blocks to run.
const PAGES: [(&str, usize); 9] = [
    ("README.md", 1),
    ("docs/guide/quick-start.md", 8),
    ("docs/guide/concepts.md", 6),
    ("docs/guide/payments.md", 22),
    ("docs/guide/cards.md", 7),
    ("docs/guide/billing.md", 18),
    ("docs/guide/webhooks.md", 13),
    ("docs/guide/going-live.md", 8),
    ("docs/guide/stripe.md", 4),
];

fn read(page: &str) -> Result<Vec<Block>> {
    let text = fs::read_to_string(root().join(page)).with_context(|| page.to_owned())?;
    blocks(&text).with_context(|| page.to_owned())
}

#[test]
fn every_block_is_run_or_gives_a_reason_why_not() -> Result<()> {
    let mut guides = BTreeSet::new();
    for entry in fs::read_dir(root().join("docs/guide"))? {
        guides.insert(format!("docs/guide/{}", entry?.file_name().to_string_lossy()));
    }
    for (page, minimum) in PAGES {
        let run = read(page)?.iter().filter(|block| block.kind == Kind::Run).count();
        ensure!(run >= minimum, "{page}: only {run} blocks are run");
        guides.remove(page);
    }
    ensure!(guides.is_empty(), "pages that are not in PAGES: {guides:?}");
    Ok(())
}

/// Every example uses the client time limit that docs/api.md recommends.
#[test]
fn every_example_has_the_documented_time_limit() -> Result<()> {
    let read = |path: &str| fs::read_to_string(root().join(path)).with_context(|| path.to_owned());
    let reference = read("docs/api.md")?;
    let (_, limit) = reference.split_once("**Wait ").context("no time limit in docs/api.md")?;
    let seconds: u32 = limit.split(' ').next().unwrap_or_default().parse()?;
    ensure!(seconds >= 30, "the limit must exceed the 25 s that the API itself waits");
    for (path, setting) in [
        ("examples/client.py", format!("timeout={seconds})")),
        ("examples/client.mjs", format!("timeout({seconds}_000)")),
        ("examples/signing/sign.py", format!("timeout={seconds})")),
        ("examples/signing/sign.mjs", format!("timeout({seconds}_000)")),
        ("examples/elements/server.mjs", format!("timeout({seconds}_000)")),
        ("examples/sandbox.sh", format!("--max-time {seconds} ")),
    ] {
        let text = read(path)?;
        ensure!(text.contains(&setting), "{path} has no {setting}");
        ensure!(
            text.matches("timeout(").count() + text.matches("timeout=").count() <= 1,
            "{path} has another time limit"
        );
        ensure!(text.contains("docs/api.md, Time limits of a client."), "{path} does not refer to docs/api.md");
    }
    Ok(())
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Writes to stderr directly, because the test harness hides the output of a passing test.
fn skipped(missing: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "SKIPPED: the guides were not run, because this machine has no {missing}")?)
}

#[tokio::test]
async fn every_guide_works_as_written() -> Result<()> {
    if let Some(missing) = ["bash", "curl", "python3", "node"].into_iter().find(|program| !has(program)) {
        return skipped(missing);
    }
    let Some(libraries) = Libraries::install_once().await? else { return skipped("venv or npm") };
    let filter = env::var("GUIDE").unwrap_or_default();
    let stripe = Stripe::start()?;
    let sandbox = Running::start_with(&[("STRIPE_URL", stripe.url())])?;
    let keys = stripe.account();
    let environment = [
        ("STRIPE_URL", stripe.url()),
        ("STRIPE_SECRET_KEY", &keys.secret_key),
        ("STRIPE_PUBLISHABLE_KEY", &keys.publishable_key),
        ("STRIPE_WEBHOOK_SECRET", &keys.webhook_secret),
    ];
    let mut pages = Vec::new();
    for (name, _) in PAGES.into_iter().filter(|(name, _)| name.contains(&filter)) {
        pages.push((name, read(name)?));
    }
    ensure!(!pages.is_empty(), "no page matches GUIDE={filter}");
    let runs = pages.iter().map(|(name, blocks)| {
        let page = Page::new(name, blocks, &sandbox, libraries);
        async { page?.run(&environment).await }
    });
    let errors: Vec<_> = join_all(runs).await.into_iter().filter_map(Result::err).collect();
    let report: String = errors.iter().map(|error| format!("\n{error:#}\n")).collect();
    ensure!(errors.is_empty(), "{report}");
    sandbox.stop().await
}

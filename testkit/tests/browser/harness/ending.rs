//! No browser outlives its test, however the test ends.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use testkit::browser::{Device, Site, browse, eventually};

#[tokio::test]
async fn a_browser_and_its_profile_end_with_the_test() -> Result<()> {
    for succeeds in [true, false] {
        let mut left = None;
        let told = browse(Device::Desktop, async |browser| {
            left = Some((browser.pid(), browser.profile().to_path_buf()));
            browser.tab().await?.open(&Site::start()?.page("/", "").origin()).await?;
            if succeeds { Ok(()) } else { bail!("the test fails") }
        })
        .await;
        assert_eq!(told.is_ok(), succeeds, "{told:?}");
        let (pid, profile) = left.context("it ran")?;
        assert!(!runs(pid));
        assert!(!profile.exists(), "{}", profile.display());
    }
    Ok(())
}

/// Holds a browser for [`a_killed_test_leaves_no_browser_behind`], which runs it as a process of its own.
#[tokio::test]
#[ignore = "waits to be killed"]
async fn holds_a_browser() -> Result<()> {
    browse(Device::Desktop, async |browser| {
        browser.tab().await?;
        println!("\nholding {} {}", browser.pid(), browser.profile().display());
        std::future::pending().await
    })
    .await
}

#[tokio::test]
async fn a_killed_test_leaves_no_browser_behind() -> Result<()> {
    let mut parent = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "harness::ending::holds_a_browser", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let lines = BufReader::new(parent.stdout.take().context("no output")?).lines();
    let held = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("holding ")?.to_owned()));
    let held = held.context("it did not start")?;
    parent.kill()?;
    parent.wait()?;
    let (pid, profile) = held.split_once(' ').context("two words")?;
    let pid = pid.parse()?;
    eventually(async || Ok((!runs(pid) && !Path::new(profile).exists()).then_some(()))).await
}

fn runs(pid: u32) -> bool {
    let signalled = Command::new("kill").args(["-0", &pid.to_string()]).stderr(Stdio::null()).status();
    signalled.is_ok_and(|status| status.success())
}

//! No browser outlives its test, even if the test is killed.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use testkit::{
    browser::{Device, Site, browse},
    eventually,
};

#[tokio::test]
async fn the_browser_and_its_profile_are_removed_after_the_test() -> Result<()> {
    for succeeds in [true, false] {
        let mut started = None;
        let result = browse(Device::Desktop, async |browser| {
            started = Some((browser.pid(), browser.profile().to_path_buf()));
            browser.tab().await?.open(&Site::start()?.page("/", "").origin()).await?;
            if succeeds { Ok(()) } else { bail!("the test fails") }
        })
        .await;
        assert_eq!(result.is_ok(), succeeds, "{result:?}");
        let (pid, profile) = started.context("the browser was started")?;
        assert!(!is_running(pid));
        assert!(!profile.exists(), "{}", profile.display());
    }
    Ok(())
}

/// The child process of [`the_browser_stops_when_its_test_is_killed`]: starts a browser and waits.
#[tokio::test]
#[ignore = "the child process of another test"]
async fn holds_a_browser() -> Result<()> {
    browse(Device::Desktop, async |browser| {
        browser.tab().await?;
        println!("\nbrowser {} {}", browser.pid(), browser.profile().display());
        std::future::pending().await
    })
    .await
}

#[tokio::test]
async fn the_browser_stops_when_its_test_is_killed() -> Result<()> {
    let mut parent = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "harness_tests::shutdown::holds_a_browser", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let lines = BufReader::new(parent.stdout.take().context("no stdout")?).lines();
    let browser = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("browser ")?.to_owned()));
    let browser = browser.context("the child exited early")?;
    parent.kill()?;
    parent.wait()?;
    let (pid, profile) = browser.split_once(' ').context("two words")?;
    let pid = pid.parse()?;
    eventually("the end of the browser", async || Ok((!is_running(pid) && !Path::new(profile).exists()).then_some(())))
        .await
}

fn is_running(pid: u32) -> bool {
    let signalled = Command::new("kill").args(["-0", &pid.to_string()]).stderr(Stdio::null()).status();
    signalled.is_ok_and(|status| status.success())
}

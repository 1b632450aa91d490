//! A private Prometheus for the tests of dashboards and alerts, and the configuration that any Prometheus uses here.

use std::{
    fs::{self, OpenOptions},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use reqwest::Url;
use serde_json::Value;
use tokio::time::{self, Instant};

use crate::{
    Client,
    child::{Child, Signal},
    polling::pause,
    ports, tools,
};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A Prometheus configuration: the `job` and `host:port` of each process, and the file of rules.
#[must_use]
pub fn configuration(every_seconds: u32, targets: &[(String, String)], rules: &Path) -> String {
    let rules = Value::from(rules.display().to_string());
    let runbooks = Value::from(format!("file://{}", tools::project_root().join("docs/runbooks").display()));
    let mut text = format!(
        "global: {{scrape_interval: {every_seconds}s, scrape_timeout: {every_seconds}s, evaluation_interval: {every_seconds}s, \
         external_labels: {{runbooks: {runbooks}}}}}\n\
         rule_files: [{rules}]\nscrape_configs:\n"
    );
    for (job, target) in targets {
        text +=
            &format!("  - {{job_name: {job}, static_configs: [{{targets: [{}]}}]}}\n", Value::from(target.as_str()));
    }
    text
}

/// A running Prometheus, killed when dropped and when the process that started it dies.
#[derive(Debug)]
pub struct Prometheus {
    client: Client,
    _child: Child,
}

impl Prometheus {
    /// Starts one with its files in `directory` and waits until it is ready.
    ///
    /// # Errors
    /// When Prometheus is not installed or not ready within a minute.
    pub async fn start(directory: &Path, configuration: &str) -> Result<Self> {
        let tool = tools::prometheus_programs()?;
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        fs::write(directory.join("prometheus.yml"), configuration)?;
        let log = directory.join("prometheus.log");
        let output =
            OpenOptions::new().create(true).append(true).open(&log).context("cannot write the log of Prometheus")?;
        let address = format!("127.0.0.1:{}", ports::free()?);
        let mut command = tool.program("prometheus");
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"]);
        command.arg(format!("--web.listen-address={address}")).current_dir(directory).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let mut child = Child::spawn(&mut command, Signal::SIGKILL)?;
        let client = Client::new(&format!("http://{address}"))?;
        let began = Instant::now();
        let ready = time::timeout(START_TIMEOUT, async {
            while !client.get("/-/ready").await.is_ok_and(|response| response.status == 200) {
                if let Some(status) = child.exit_status()? {
                    bail!("it exited ({status}): {}", fs::read_to_string(&log).unwrap_or_default());
                }
                pause(began).await;
            }
            Ok(())
        });
        ready.await.context("Prometheus is not ready")??;
        Ok(Self { client, _child: child })
    }

    /// The result of an instant query: a list of `{metric, value}`.
    ///
    /// # Errors
    /// When the query is rejected, with the reason.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let mut url = Url::parse("http://prometheus/api/v1/query")?;
        url.query_pairs_mut().append_pair("query", expression);
        let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
        let data = self.get(&path).await.with_context(|| expression.to_owned())?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// All loaded rules, as its API returns them.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn rules(&self) -> Result<Vec<Value>> {
        let groups = self.get("/api/v1/rules").await?;
        let groups = groups["groups"].as_array().context("the response has no groups")?;
        Ok(groups.iter().filter_map(|group| group["rules"].as_array()).flatten().cloned().collect())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let response = self.client.get(path).await?;
        ensure!(response.body["status"] == "success", "{}: {}", response.status, response.body);
        Ok(response.body["data"].clone())
    }
}

/// Runs `promtool` in `directory` and returns its output.
///
/// # Errors
/// When it is not installed or reports a problem, with its output.
pub fn promtool(directory: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = tools::prometheus_programs()?.program("promtool");
    // The tests of rules make much garbage: to collect it as often as by default, on several threads, costs a quarter more.
    let output =
        command.envs([("GOGC", "400"), ("GOMAXPROCS", "1")]).args(arguments).current_dir(directory).output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "promtool {}: {text}", arguments.join(" "));
    Ok(text)
}

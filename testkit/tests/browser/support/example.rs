//! The example shops, started as a merchant starts them.

use std::{io::Write, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{Shop, cluster};

/// A running shop server. It is killed at the end of the test.
pub(crate) struct Example {
    pub(crate) url: String,
    _child: Child,
}

impl Example {
    /// Starts the examples for this shop; those that this machine cannot run are skipped.
    pub(crate) async fn all(shop: &Shop) -> Result<Vec<(&'static str, Self)>> {
        let mut running = Vec::new();
        for (name, program, file) in [("elements", "node", "elements/server.mjs"), ("shop", "python3", "shop/shop.py")]
        {
            if let Some(example) = Self::start(shop, program, file).await? {
                running.push((name, example));
            }
        }
        let origins: Vec<_> =
            running.iter().flat_map(|(_, example)| ["--origin", example.url.trim_end_matches('/')]).collect();
        if !origins.is_empty() {
            shop.set(&origins).await?;
        }
        Ok(running)
    }

    async fn start(shop: &Shop, program: &str, file: &str) -> Result<Option<Self>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let (api, account) = (cluster().await?.api_url(0), &shop.account);
        let mut command = Command::new(program);
        command.arg(folder.join(file)).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command.env("PORT", "0").env("PUBLISHABLE_KEY", &account.publishable_key);
        command.env("API_URL", &api).env("SECRET_KEY", &account.secret_key);
        command.env("url", &api).env("key", &account.secret_key).env("PYTHONPATH", &folder);
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("WEBHOOK_SECRET", "whsec_AAAA");
        let Ok(mut child) = command.spawn() else {
            writeln!(std::io::stderr(), "SKIPPED: examples/{file} was not run, because this machine has no {program}")?;
            return Ok(None);
        };
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let line = timeout(Duration::from_secs(60), lines.next_line()).await??.context("the server exited")?;
        let url = line.strip_prefix("listening on ").with_context(|| line.clone())?.to_owned();
        Ok(Some(Self { url, _child: child }))
    }
}

//! Settings from files and public URLs, as the deployments configure them.

use anyhow::Result;
use testkit::{Client, Cluster, ProcessKind, TempDir};

use crate::support::{Merchant, created};

#[tokio::test]
async fn empty_setting_files_are_ignored() -> Result<()> {
    let folder = TempDir::new()?;
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n")?;
    let mut builder = Cluster::builder().api(1).worker(1).gateway(1);
    for name in ["GATEWAY_SMTP_URL", "GATEWAY_OLD_CARD_KEYS", "OLD_ENCRYPTION_KEYS", "OLD_KEY_PEPPERS"] {
        builder = builder.env(&format!("{name}_FILE"), &empty.display().to_string());
    }
    // A non-empty GATEWAY_SMTP_URL would be rejected, because the test gateway writes mail to a directory.
    let cluster = builder.start().await?;
    created(&Merchant::new(&cluster).await?.pay(100).await?);
    Ok(())
}

/// Paths with every kind of response: pages, scripts, documents and errors of the api (false) and the gateway (true).
const PATHS: [(bool, &str); 6] = [
    (false, "/v1/payments"),
    (false, "/pay/l/nothing"),
    (false, "/elements/v1.js"),
    (false, "/nothing"),
    (true, "/services/field.js"),
    (true, "/apis/nothing.php"),
];

#[tokio::test]
async fn https_public_urls_enable_hsts() -> Result<()> {
    let builder = Cluster::builder().api(1).gateway(1);
    let https = builder.env("PUBLIC_URL", "https://pay.example").env("GATEWAY_PUBLIC_URL", "https://cards.example");
    let (https, plain) = (https.start().await?, Cluster::builder().api(1).gateway(1).start().await?);
    for (of_gateway, path) in PATHS {
        for (cluster, expected) in [(&https, Some("max-age=31536000")), (&plain, None)] {
            let url = if of_gateway { cluster.gateway_url(0) } else { cluster.api_url(0) };
            let response = Client::new(&url)?.get(path).await?;
            assert_eq!(response.header("strict-transport-security"), expected, "{path}");
            let opener = response.header("cross-origin-opener-policy");
            assert_eq!(opener, expected.map(|_| "same-origin"), "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn live_accounts_need_an_https_public_url() -> Result<()> {
    const HTTP_URL: &str = "http://pay.example";
    let mut cluster = Cluster::builder().env("PUBLIC_URL", HTTP_URL).api(1).start().await?;
    let live = ["accounts", "create", "--name", "Live", "--mode", "live", "--provider", "mock"];
    let output = cluster.ctl_output(&live).await?;
    assert!(output.code == 1 && output.stderr.contains("PUBLIC_URL must begin with https://"), "{output:?}");
    cluster.account().await?;
    cluster.add(ProcessKind::Api).await?;

    cluster.set_env("PUBLIC_URL", "https://pay.example");
    cluster.ctl(&live).await?;
    cluster.add(ProcessKind::Api).await?;
    cluster.set_env("PUBLIC_URL", HTTP_URL);
    let error = cluster.add(ProcessKind::Api).await.map(drop).expect_err("it does not start");
    assert!(format!("{error:#}").contains("it exited (exit status: 1)"), "{error:#}");
    let log = cluster.processes().last().expect("it was added").log();
    assert!(log.contains("PUBLIC_URL: must begin with https://"), "{log}");
    Ok(())
}

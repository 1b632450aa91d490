//! Settings from files and public URLs, as the deployments configure them.

use anyhow::Result;
use testkit::{Client, Cluster, ProcessKind, TempDir};

use crate::support::{Merchant, cluster, created};

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
    let (https, plain) = (https.start().await?, cluster().await?);
    for (of_gateway, path) in PATHS {
        for (cluster, expected) in [(&https, Some("max-age=31536000")), (plain, None)] {
            let url = if of_gateway { cluster.gateway_url(0) } else { cluster.api_url(0) };
            let response = Client::new(&url)?.get(path).await?;
            assert_eq!(response.header("strict-transport-security"), expected, "{path}");
            let opener = response.header("cross-origin-opener-policy");
            assert_eq!(opener, expected.map(|_| "same-origin"), "{path}");
        }
    }
    Ok(())
}

/// An operator's spelling of an origin, and what a browser sends for such a page.
#[tokio::test]
async fn origins_are_stored_as_browsers_send_them_or_refused() -> Result<()> {
    let cluster = cluster().await?;
    let account = cluster.account().await?;
    let create = ["account", "create", "--username", "origins"];
    cluster.run_gateway(&create).await?;
    for (entered, sent) in [
        ("https://Shop.Example", "https://shop.example"),
        ("https://shop.example:443", "https://shop.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("https://m\u{fc}ller.example:8443", "https://xn--mller-kva.example:8443"),
        ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
    ] {
        cluster.ctl(&["accounts", "set", &account.id, "--origin", entered]).await?;
        let browser = Client::new(&cluster.api_url(0))?.bearer(&account.publishable_key)?.header("origin", sent)?;
        created(&browser.post("/v1/checkout_sessions", serde_json::json!({})).await?);
        let set = ["account", "set", "--username", "origins", "--origin", entered];
        let settings = cluster.run_gateway(&set).await?;
        assert!(settings.to_string().contains(&format!("{sent:?}")), "{settings}");
    }
    for (entered, named) in [
        ("https://shop.example/", "https://shop.example"),
        ("https://Shop.example/pay?a=1", "https://shop.example"),
        ("https://user@shop.example", "https://shop.example"),
        ("https://a:b:c", "https://shop.example"),
        ("https://*.shop.example", "https://shop.example"),
        ("null", "https://shop.example"),
        ("shop.example", "https://shop.example"),
        ("ftp://shop.example", "https://shop.example"),
    ] {
        let output = cluster.ctl_output(&["accounts", "set", &account.id, "--origin", entered]).await?;
        assert!(output.code != 0 && output.stderr.contains(named), "{entered}: {output:?}");
        let set = ["account", "set", "--username", "origins", "--origin", entered];
        let refused = cluster.run_gateway(&set).await.expect_err(entered).to_string();
        assert!(refused.contains(named), "{entered}: {refused}");
    }
    Ok(())
}

#[tokio::test]
async fn live_accounts_need_an_https_public_url() -> Result<()> {
    const HTTP_URL: &str = "http://pay.example";
    let mut cluster = Cluster::builder().env("PUBLIC_URL", HTTP_URL).api(1).start().await?;
    let live = ["accounts", "create", "--name", "Live", "--mode", "live", "--provider", "mock", "--allow-mock"];
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

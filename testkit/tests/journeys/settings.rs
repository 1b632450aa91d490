//! What processes are told by files, as the deployments here do it.

use anyhow::Result;
use testkit::{Client, Cluster, Kind, TempDir};

use crate::support::{Merchant, created};

#[tokio::test]
async fn a_file_that_is_empty_is_no_setting() -> Result<()> {
    let folder = TempDir::new()?;
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n")?;
    let mut builder = Cluster::builder().api(1).worker(1).gateway(1);
    for name in ["GATEWAY_SMTP_URL", "GATEWAY_OLD_CARD_KEYS", "OLD_ENCRYPTION_KEYS", "OLD_KEY_PEPPERS"] {
        builder = builder.env(&format!("{name}_FILE"), &empty.display().to_string());
    }
    // Beside a folder for letters an address to send them to would be refused.
    let cluster = builder.start().await?;
    created(&Merchant::new(&cluster).await?.pay(100).await?);
    Ok(())
}

/// Answers of every kind: pages, scripts, documents, refusals, of the api and of the gateway.
const PLACES: [(bool, &str); 6] = [
    (false, "/v1/payments"),
    (false, "/pay/l/nothing"),
    (false, "/elements/v1.js"),
    (false, "/nothing"),
    (true, "/services/field.js"),
    (true, "/apis/nothing.php"),
];

#[tokio::test]
async fn where_the_outside_comes_by_tls_browsers_are_told_to_come_by_nothing_else() -> Result<()> {
    let builder = Cluster::builder().api(1).gateway(1);
    let named = builder.env("PUBLIC_URL", "https://pay.example").env("GATEWAY_PUBLIC_URL", "https://cards.example");
    let (named, plain) = (named.start().await?, Cluster::builder().api(1).gateway(1).start().await?);
    for (of_gateway, path) in PLACES {
        for (cluster, expected) in [(&named, Some("max-age=31536000")), (&plain, None)] {
            let url = if of_gateway { cluster.gateway_url(0) } else { cluster.api_url(0) };
            let answer = Client::new(&url)?.get(path).await?;
            assert_eq!(answer.header("strict-transport-security"), expected, "{path}");
            let opener = answer.header("cross-origin-opener-policy");
            assert_eq!(opener, expected.map(|_| "same-origin"), "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_live_account_needs_an_address_by_tls() -> Result<()> {
    const UNSAFE: &str = "http://pay.example";
    let mut cluster = Cluster::builder().env("PUBLIC_URL", UNSAFE).api(1).start().await?;
    let live = ["accounts", "create", "--name", "Live", "--mode", "live", "--provider", "mock"];
    let ended = cluster.ctl_to_its_end(&live).await?;
    assert!(ended.code == 1 && ended.complaint.contains("PUBLIC_URL must begin with https://"), "{ended:?}");
    cluster.account().await?;
    cluster.add(Kind::Api).await?;

    cluster.set_env("PUBLIC_URL", "https://pay.example");
    cluster.ctl(&live).await?;
    cluster.add(Kind::Api).await?;
    cluster.set_env("PUBLIC_URL", UNSAFE);
    let refused = cluster.add(Kind::Api).await.map(drop).expect_err("it does not start");
    assert!(format!("{refused:#}").contains("it ended (exit status: 1)"), "{refused:#}");
    let said = cluster.processes().last().expect("it was added").log();
    assert!(said.contains("PUBLIC_URL: must begin with https://"), "{said}");
    Ok(())
}

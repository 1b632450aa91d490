//! `ctl accounts connect` checks the account's configuration at the gateway and rejects one that cannot work.

use std::ops::Deref;

use anyhow::Result;
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use testkit::{Account, Cluster, GatewayAccount};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::cluster;

/// An account to connect, in a cluster that is shared or a test's own.
struct Setup<C> {
    cluster: C,
    account: Account,
}

impl Setup<Box<Cluster>> {
    async fn in_own_cluster() -> Result<Self> {
        Self::new(Box::new(Cluster::builder().gateway(1).start().await?)).await
    }
}

impl<C: Deref<Target = Cluster>> Setup<C> {
    async fn new(cluster: C) -> Result<Self> {
        let account = cluster.account_with(&["--mode", "test", "--provider", "card_gateway"]).await?;
        Ok(Self { cluster, account })
    }

    async fn connect(&self, gateway_account: &GatewayAccount, options: &[&str]) -> Result<()> {
        self.cluster.connect(&self.account, gateway_account, options).await
    }

    /// Asserts that connecting fails and changes nothing. Returns the error message.
    async fn connect_error(&self, gateway_account: &GatewayAccount, options: &[&str]) -> Result<String> {
        let before = self.connections().await?.len();
        let error = self.connect(gateway_account, options).await.expect_err("connecting must fail");
        assert_eq!(self.connections().await?.len(), before);
        let error = format!("{error:#}");
        assert!(!error.contains(&gateway_account.api_key) && !error.contains(&gateway_account.secret_key), "{error}");
        Ok(error)
    }

    /// The `checked` flag of each time the account was connected, latest first.
    async fn connections(&self) -> Result<Vec<Value>> {
        let audit = self.cluster.ctl(&["audit", "list", "--account", &self.account.id]).await?;
        let records = audit["audit"].as_array().into_iter().flatten();
        let connected = records.filter(|record| record["action"] == "accounts.connect");
        Ok(connected.map(|record| record["detail"]["checked"].clone()).collect())
    }
}

#[tokio::test]
async fn accounts_with_a_convenience_fee_are_rejected() -> Result<()> {
    let setup = Setup::new(cluster().await?).await?;
    for fee in [["--convenience-fee-percent", "250"], ["--convenience-fee-fixed", "0.50"]] {
        let gateway_account = setup.cluster.gateway_account("dear", &fee).await?;
        let error = setup.connect_error(&gateway_account, &[]).await?;
        for word in ["dear", "convenience fee", "gateway account set --username dear"] {
            assert!(error.contains(word), "{error}");
        }
        assert!(
            setup.connect_error(&gateway_account, &["--unchecked"]).await?.contains("convenience fee"),
            "--unchecked does not override a check that failed"
        );
    }
    let none = ["--convenience-fee-percent", "0", "--convenience-fee-fixed", "0.00"];
    let gateway_account = setup.cluster.gateway_account("dear", &none).await?;
    setup.connect(&gateway_account, &[]).await?;
    assert_eq!(setup.connections().await?, [true]);
    Ok(())
}

#[tokio::test]
async fn unknown_credentials_and_currencies_are_rejected_by_name() -> Result<()> {
    let setup = Setup::new(cluster().await?).await?;
    let gateway_account = setup.cluster.gateway_account("shop-by-name", &["--currency", "USD"]).await?;
    let unknown = GatewayAccount { username: "nobody".to_owned(), ..gateway_account.clone() };
    let error = setup.connect_error(&unknown, &[]).await?;
    assert!(error.contains("username") && error.contains("nobody") && error.contains("01"), "{error}");
    let wrong = GatewayAccount { api_key: "gwk_wrong".to_owned(), ..gateway_account.clone() };
    let error = setup.connect_error(&wrong, &[]).await?;
    assert!(error.contains("api_key") && error.contains("09"), "{error}");
    let error = setup.connect_error(&gateway_account, &["--currency", "EUR"]).await?;
    assert!(error.contains("--currency EUR"), "{error}");
    setup.connect(&gateway_account, &["--currency", "USD"]).await
}

#[tokio::test]
async fn an_unreachable_gateway_is_an_error_without_unchecked() -> Result<()> {
    let mut setup = Setup::in_own_cluster().await?;
    let gateway_account = setup.cluster.gateway_account("shop", &[]).await?;
    let closed = TcpListener::bind("127.0.0.1:0").await?;
    let unreachable = format!("http://{}", closed.local_addr()?);
    drop(closed);
    setup.cluster.set_env("CARD_GATEWAY_URL", &unreachable);
    let error = setup.connect_error(&gateway_account, &[]).await?;
    assert!(error.contains("CARD_GATEWAY_URL") && error.contains("--unchecked"), "{error}");
    setup.connect(&gateway_account, &["--unchecked"]).await?;

    // An older release of the gateway lacks the script, and CARD_GATEWAY_URL may be unset on this machine: both connect
    // unchecked.
    let old_gateway = TcpListener::bind("127.0.0.1:0").await?;
    setup.cluster.set_env("CARD_GATEWAY_URL", &format!("http://{}", old_gateway.local_addr()?));
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        while let Ok((mut stream, _)) = old_gateway.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    });
    setup.connect(&gateway_account, &[]).await?;
    setup.cluster.set_env("CARD_GATEWAY_URL", "");
    setup.connect(&gateway_account, &[]).await?;
    assert_eq!(setup.connections().await?, [false, false, false]);
    Ok(())
}

#[tokio::test]
async fn no_two_accounts_share_a_gateway_account_even_after_its_keys_were_rotated() -> Result<()> {
    let setup = Setup::in_own_cluster().await?;
    let gateway_account = setup.cluster.gateway_account("shop", &[]).await?;
    setup.connect(&gateway_account, &[]).await?;
    let rotate = ["account", "rotate-keys", "--username", "shop"];
    let rotated: GatewayAccount = serde_json::from_value(setup.cluster.run_gateway(&rotate).await?)?;
    let other = setup.cluster.account_with(&["--mode", "test", "--provider", "card_gateway"]).await?;
    // As the previous version has connected it.
    let mut db = PgConnection::connect(setup.cluster.database_url()).await?;
    sqlx::query("UPDATE provider_accounts SET gateway_account = NULL").execute(&mut db).await?;
    let padded = GatewayAccount { username: " shop ".to_owned(), ..rotated.clone() };
    for keys in [&rotated, &padded] {
        let refused = setup.cluster.connect(&other, keys, &[]).await.expect_err("a second connection");
        assert!(format!("{refused:#}").contains("another account is connected"), "{refused:#}");
    }
    setup.connect(&rotated, &[]).await?;
    assert!(!setup.cluster.ctl_output(&["doctor"]).await?.stdout.contains("share the gateway account"));

    // Two that the previous version has connected.
    sqlx::query("DROP INDEX provider_accounts_gateway_account").execute(&mut db).await?;
    let rotated: GatewayAccount = serde_json::from_value(setup.cluster.run_gateway(&rotate).await?)?;
    setup.cluster.connect(&other, &rotated, &[]).await?;
    let report = setup.cluster.ctl_output(&["doctor"]).await?;
    let expected = format!("{}, {} share the gateway account shop", setup.account.id, other.id);
    assert!(report.code == 2 && report.stdout.contains(&expected), "{report:?}");
    Ok(())
}

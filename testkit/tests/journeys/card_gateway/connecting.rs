//! `ctl accounts connect` asks the gateway what is set for the account, and refuses one that cannot work.

use anyhow::Result;
use serde_json::Value;
use testkit::{Account, Cluster, GatewayAccount};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

struct Desk {
    cluster: Cluster,
    account: Account,
}

impl Desk {
    async fn new() -> Result<Self> {
        let cluster = Cluster::builder().gateway(1).start().await?;
        let account = cluster.account_with(&["--mode", "test", "--provider", "card_gateway"]).await?;
        Ok(Self { cluster, account })
    }

    async fn connect(&self, known: &GatewayAccount, options: &[&str]) -> Result<()> {
        self.cluster.connect(&self.account, known, options).await
    }

    /// What was complained about. Nothing was changed.
    async fn refused(&self, known: &GatewayAccount, options: &[&str]) -> Result<String> {
        let before = self.connections().await?.len();
        let complaint = self.connect(known, options).await.expect_err("it is refused");
        assert_eq!(self.connections().await?.len(), before);
        let complaint = format!("{complaint:#}");
        assert!(!complaint.contains(&known.api_key) && !complaint.contains(&known.secret_key), "{complaint}");
        Ok(complaint)
    }

    /// Whether the account was checked, each time that it was connected, latest first.
    async fn connections(&self) -> Result<Vec<Value>> {
        let audit = self.cluster.ctl(&["audit", "list", "--account", &self.account.id]).await?;
        let records = audit["audit"].as_array().into_iter().flatten();
        let connected = records.filter(|record| record["action"] == "accounts.connect");
        Ok(connected.map(|record| record["detail"]["checked"].clone()).collect())
    }
}

#[tokio::test]
async fn an_account_with_a_convenience_fee_is_refused_until_it_has_none() -> Result<()> {
    let desk = Desk::new().await?;
    for fee in [["--convenience-fee-percent", "250"], ["--convenience-fee-fixed", "0.50"]] {
        let known = desk.cluster.gateway_account("dear", &fee).await?;
        let complaint = desk.refused(&known, &[]).await?;
        for word in ["dear", "convenience fee", "gateway account set --username dear"] {
            assert!(complaint.contains(word), "{complaint}");
        }
        assert!(desk.refused(&known, &["--unchecked"]).await?.contains("convenience fee"), "the gateway has told");
    }
    let none = ["--convenience-fee-percent", "0", "--convenience-fee-fixed", "0.00"];
    let known = desk.cluster.gateway_account("dear", &none).await?;
    desk.connect(&known, &[]).await?;
    assert_eq!(desk.connections().await?, [true]);
    Ok(())
}

#[tokio::test]
async fn credentials_and_currencies_that_the_gateway_does_not_know_are_refused_by_name() -> Result<()> {
    let desk = Desk::new().await?;
    let known = desk.cluster.gateway_account("shop", &["--currency", "USD"]).await?;
    let nobody = GatewayAccount { username: "nobody".to_owned(), ..known.clone() };
    let complaint = desk.refused(&nobody, &[]).await?;
    assert!(complaint.contains("username") && complaint.contains("nobody") && complaint.contains("01"), "{complaint}");
    let wrong = GatewayAccount { api_key: "gwk_wrong".to_owned(), ..known.clone() };
    let complaint = desk.refused(&wrong, &[]).await?;
    assert!(complaint.contains("api_key") && complaint.contains("09"), "{complaint}");
    let complaint = desk.refused(&known, &["--currency", "EUR"]).await?;
    assert!(complaint.contains("--currency EUR"), "{complaint}");
    desk.connect(&known, &["--currency", "USD"]).await
}

#[tokio::test]
async fn a_gateway_that_cannot_be_asked_is_an_error_unless_that_is_accepted() -> Result<()> {
    let mut desk = Desk::new().await?;
    let known = desk.cluster.gateway_account("shop", &[]).await?;
    let closed = TcpListener::bind("127.0.0.1:0").await?;
    let nobody = format!("http://{}", closed.local_addr()?);
    drop(closed);
    desk.cluster.set_env("CARD_GATEWAY_URL", &nobody);
    let complaint = desk.refused(&known, &[]).await?;
    assert!(complaint.contains("CARD_GATEWAY_URL") && complaint.contains("--unchecked"), "{complaint}");
    desk.connect(&known, &["--unchecked"]).await?;

    // A former release of the gateway has no such script, and this machine may not be told where it is.
    let former = TcpListener::bind("127.0.0.1:0").await?;
    desk.cluster.set_env("CARD_GATEWAY_URL", &format!("http://{}", former.local_addr()?));
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        while let Ok((mut caller, _)) = former.accept().await {
            let _ = caller.read(&mut [0; 4096]).await;
            let _ = caller.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    });
    desk.connect(&known, &[]).await?;
    desk.cluster.set_env("CARD_GATEWAY_URL", "");
    desk.connect(&known, &[]).await?;
    assert_eq!(desk.connections().await?, [false, false, false]);
    Ok(())
}

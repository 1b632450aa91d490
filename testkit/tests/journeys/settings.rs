//! What processes are told by files, as the deployments here do it.

use anyhow::Result;
use testkit::{Cluster, TempDir};

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

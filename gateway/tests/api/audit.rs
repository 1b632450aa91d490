//! What operators do to the gateway is written down with what they did, and stays.

use serde_json::Value;
use sqlx::{Connection, PgConnection};
use testkit::Cluster;

async fn recorded(cluster: &Cluster, options: &[&str]) -> Vec<Value> {
    let listed = cluster.run_gateway(&[&["audit", "list"], options].concat()).await.expect("a list");
    listed["audit"].as_array().expect("records").clone()
}

#[tokio::test]
async fn every_change_is_recorded_with_who_made_it_and_no_key() {
    let cluster = Cluster::builder().gateway(1).start().await.expect("a cluster");
    let gateway = async |arguments: &[&str]| cluster.run_gateway(&[&["--as", "Ada"], arguments].concat()).await;
    let account = |command| ["account", command, "--username", "shop"];
    let made = gateway(&account("create")).await.expect("an account");
    gateway(&[&account("set")[..], &["--sale-limit", "5.00"]].concat()).await.expect("a limit");
    let rotated = gateway(&account("rotate-keys")).await.expect("new keys");
    gateway(&["reencrypt"]).await.expect("nothing to do");
    // What came to nothing is not recorded.
    gateway(&account("create")).await.expect_err("the name is taken");
    gateway(&["account", "rotate-keys", "--username", "nobody"]).await.expect_err("nobody");
    gateway(&["account", "list"]).await.expect("a list");
    cluster.run_gateway(&["--as", " ", "account", "rotate-keys", "--username", "shop"]).await.expect_err("nameless");

    let all = recorded(&cluster, &[]).await;
    let actions: Vec<&str> = all.iter().rev().filter_map(|row| row["action"].as_str()).collect();
    assert_eq!(actions, ["account.create", "account.set", "account.rotate_keys", "reencrypt", "reencrypt"]);
    assert!(all.iter().all(|row| row["actor"] == "Ada" && row["at"].is_string()), "{all:?}");
    let of_shop = recorded(&cluster, &["--username", "shop"]).await;
    assert_eq!(of_shop.len(), 3);
    assert_eq!(of_shop[1]["detail"]["sale_limit"], 5.0);
    assert_eq!(
        (recorded(&cluster, &["--limit", "1"]).await.len(), recorded(&cluster, &["--username", "x"]).await.len()),
        (1, 0)
    );
    let mut db = PgConnection::connect(cluster.database_url()).await.expect("a connection");
    let older =
        "INSERT INTO gateway.audit_log (at, actor, action) SELECT now() - interval '1 hour', 'Bob', 'tried.' || n
                 FROM generate_series(1, 3) AS n";
    sqlx::query(older).execute(&mut db).await.expect("older records");
    let first = cluster.run_gateway(&["audit", "list", "--after", "0", "--limit", "2"]).await.expect("a list");
    assert_eq!((&first["audit"][0]["action"], &first["more"]), (&"tried.1".into(), &true.into()), "{first}");
    let last = first["audit"][1]["id"].to_string();
    let rest = cluster.run_gateway(&["audit", "list", "--after", &last]).await.expect("a list");
    assert_eq!((&rest["audit"][0]["action"], &rest["more"]), (&"tried.3".into(), &false.into()), "{rest}");

    let text = Value::from(all).to_string();
    for keys in [&made, &rotated] {
        for secret in ["api_key", "secret_key"] {
            assert!(!text.contains(keys[secret].as_str().expect("a key")), "{secret} is in the log");
        }
    }

    for change in
        ["UPDATE gateway.audit_log SET actor = 'Eve'", "DELETE FROM gateway.audit_log", "TRUNCATE gateway.audit_log"]
    {
        let refused = sqlx::query(change).execute(&mut db).await.expect_err(change);
        assert!(refused.to_string().contains("only added to"), "{refused}");
    }
}

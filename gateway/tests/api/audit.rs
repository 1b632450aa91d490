//! Operators' changes at the gateway are recorded in an append-only log.

use serde_json::Value;
use sqlx::{Connection, PgConnection};
use testkit::Cluster;

async fn recorded(cluster: &Cluster, options: &[&str]) -> Vec<Value> {
    let listed = cluster.run_gateway(&[&["audit", "list"], options].concat()).await.expect("a list");
    listed["audit"].as_array().expect("records").clone()
}

#[tokio::test]
async fn every_change_is_recorded_with_its_actor_and_no_key() {
    let cluster = Cluster::builder().gateway(1).start().await.expect("a cluster");
    let gateway = async |arguments: &[&str]| cluster.run_gateway(&[&["--as", "Ada"], arguments].concat()).await;
    let account = |command| ["account", command, "--username", "shop"];
    let made = gateway(&account("create")).await.expect("an account");
    gateway(&[&account("set")[..], &["--sale-limit", "5.00"]].concat()).await.expect("a limit");
    let rotated = gateway(&account("rotate-keys")).await.expect("new keys");
    gateway(&["reencrypt"]).await.expect("nothing to do");
    // Failed commands are not recorded.
    gateway(&account("create")).await.expect_err("the name is taken");
    gateway(&["account", "rotate-keys", "--username", "unknown"]).await.expect_err("unknown account");
    gateway(&["account", "list"]).await.expect("a list");
    cluster.run_gateway(&["--as", " ", "account", "rotate-keys", "--username", "shop"]).await.expect_err("no actor");

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
    let text = Value::from(all).to_string();
    for keys in [&made, &rotated] {
        for secret in ["api_key", "secret_key"] {
            assert!(!text.contains(keys[secret].as_str().expect("a key")), "{secret} is in the log");
        }
    }

    let mut db = PgConnection::connect(cluster.database_url()).await.expect("a connection");
    for change in
        ["UPDATE gateway.audit_log SET actor = 'Eve'", "DELETE FROM gateway.audit_log", "TRUNCATE gateway.audit_log"]
    {
        let refused = sqlx::query(change).execute(&mut db).await.expect_err(change);
        assert!(refused.to_string().contains("only added to"), "{refused}");
    }
}

#[tokio::test]
async fn copies_of_the_audit_log_skip_no_record() {
    let cluster = Cluster::builder().gateway(1).start().await.expect("a cluster");
    let mut db = PgConnection::connect(cluster.database_url()).await.expect("a connection");
    let mut write = async |ago: &str, action: &str| {
        let record = "INSERT INTO gateway.audit_log (at, actor, action, username) VALUES (now() - $1::interval, 'Bob', $2, 'shop')";
        sqlx::query(record).bind(ago).bind(action).execute(&mut db).await.expect("a record");
    };
    for action in ["tried.1", "tried.2", "tried.3"] {
        write("1 hour", action).await;
    }
    // The first of two concurrent records has the later time; the copy is made a minute after the second one's time.
    write("10 seconds", "tried.4").await;
    write("2 minutes", "tried.5").await;

    let actions = |listed: &Value| -> Vec<String> {
        let rows = listed["audit"].as_array().expect("records").iter();
        rows.filter_map(|row| row["action"].as_str()).map(str::to_owned).collect()
    };
    let copy = async |options: &[&str]| {
        let arguments = [&["audit", "list", "--after"], options].concat();
        cluster.run_gateway(&arguments).await.expect("a list")
    };
    let first = copy(&["0", "--limit", "2"]).await;
    assert_eq!((actions(&first), &first["more"]), (vec!["tried.1".to_owned(), "tried.2".to_owned()], &true.into()));
    let last = first["audit"][1]["id"].to_string();
    for of in [&[][..], &["--username", "shop"]] {
        let rest = copy(&[&[last.as_str()], of].concat()).await;
        assert_eq!((actions(&rest), &rest["more"]), (vec!["tried.3".to_owned()], &false.into()), "{rest}");
    }
}
